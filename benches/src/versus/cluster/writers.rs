//! Clients that write continuously and record when each write was acknowledged.

#![expect(
    clippy::disallowed_methods,
    reason = "measures: it reads the clock and keeps a thread"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb::PutRequest;
use parking_lot::Mutex;
use tokio::time::{interval_at, sleep, timeout};

/// One acknowledged put.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ack {
    pub(super) at: Instant,
    pub(super) took: Duration,
}

/// How clients write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    /// Time between the starts of two puts of a client; longer if a put takes longer.
    pub(super) every: Duration,
    /// The timeout of a put.
    pub(super) patience: Duration,
    pub(super) value_bytes: usize,
}

/// Delay after a put that failed at once.
const PAUSE: Duration = Duration::from_millis(2);
/// Number of keys of each client, used in turn.
const KEYS: u64 = 1000;

pub(super) struct Writers {
    acks: Arc<Mutex<Vec<Ack>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Writers {
    /// Starts one client for each of `urls`, which may name a server several times.
    pub(super) fn start(urls: Vec<String>, schedule: Schedule) -> super::Result<Writers> {
        let acks: Arc<Mutex<Vec<Ack>>> = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let (noted, stopped) = (Arc::clone(&acks), Arc::clone(&stop));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = std::thread::spawn(move || {
            runtime.block_on(async {
                let (count, began) = (urls.len() as u32, tokio::time::Instant::now());
                let mut clients = tokio::task::JoinSet::new();
                for (number, url) in urls.into_iter().enumerate() {
                    let (acks, stop) = (Arc::clone(&noted), Arc::clone(&stopped));
                    // The starts are spread over the interval, so that puts do not come in bursts.
                    let first = began + schedule.every * number as u32 / count;
                    clients.spawn(write(number, url, schedule, first, acks, stop));
                }
                while clients.join_next().await.is_some() {}
            });
        });
        Ok(Writers {
            acks,
            stop,
            thread: Some(thread),
        })
    }

    /// The acknowledged puts in order.
    pub(super) fn acks(&self) -> Vec<Ack> {
        self.acks.lock().clone()
    }

    /// The longest time without an acknowledged put after `since`.
    pub(super) fn longest_gap(&self, since: Instant) -> Duration {
        let acks = self.acks.lock();
        let first = acks.partition_point(|ack| ack.at < since).saturating_sub(1);
        let pairs = acks[first..].windows(2);
        let gaps = pairs.map(|pair| pair[1].at.saturating_duration_since(pair[0].at));
        gaps.max().unwrap_or_default()
    }

    /// True if a put was acknowledged after `since`.
    pub(super) fn wrote_since(&self, since: Instant) -> bool {
        self.acks.lock().last().is_some_and(|ack| ack.at > since)
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It panics only if a task does, which was reported.
            let _ = thread.join();
        }
    }
}

async fn write(
    number: usize,
    url: String,
    schedule: Schedule,
    first: tokio::time::Instant,
    acks: Arc<Mutex<Vec<Ack>>>,
    stop: Arc<AtomicBool>,
) {
    let mut turns = interval_at(first, schedule.every);
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let (mut client, mut turn) = (None, 0);
    while !stop.load(Ordering::Relaxed) {
        turns.tick().await;
        turn += 1;
        let began = Instant::now();
        let put = async {
            let kv = match client.take() {
                Some(client) => client,
                None => Client::connect(url.clone()).await.ok()?,
            };
            let request = PutRequest {
                key: format!("writer-{number}-{}", turn % KEYS).into(),
                value: vec![b'v'; schedule.value_bytes].into(),
                ..PutRequest::default()
            };
            kv.kv().put(request).await.ok()?;
            Some(kv)
        };
        match timeout(schedule.patience, put).await {
            Ok(Some(good)) => {
                client = Some(good);
                let at = Instant::now();
                let took = at - began;
                acks.lock().push(Ack { at, took });
            }
            // The next attempt uses a new connection, whatever happened to the old one.
            Ok(None) => sleep(PAUSE).await,
            Err(_) => {}
        }
    }
}
