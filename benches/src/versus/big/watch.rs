//! Many watchers on one server: the delay of events, and whether it grows for the others when some
//! clients do not read.

#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{PutRequest, WatchCreateRequest, WatchRequest, WatchResponse};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_local};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;

use super::aim::{at_least_of_etcd, at_most};
use super::load::{Latencies, local};
use super::subject::{MIB, Subject};
use super::table::Figures;
use super::{Plan, Result};
use crate::versus::loads::VALUE_BYTES;
use crate::workload::{Keys, key};

const STREAMS_PER_CONN: u64 = 10;
const WATCHERS_PER_STREAM: u64 = 10;
/// Number of watchers of a key, each on a different connection.
const WATCHERS_PER_KEY: u64 = 10;
/// One in this many connections does not read.
const STUCK_PART: u64 = 10;
/// The HTTP/2 window of a client that does not read: small, so that it is stuck soon.
const WINDOW_BYTES: u32 = 65_535;
/// Puts per second during the measurement, far below the limit of either side.
const RATE: u64 = 500;
/// Time until the clients that do not read are stuck for good.
const WARM: Duration = Duration::from_secs(8);
const MEASURED: Duration = Duration::from_secs(15);
const CLIENTS_AT_FULL_SPEED: usize = 20;

pub(super) fn measure(subject: &mut Subject, plan: &Plan, figures: &mut Figures<'_>) -> Result<()> {
    let all_read = run(subject, plan, 0, figures, "all read")?;
    subject.start_afresh()?;
    let stuck = run(subject, plan, STUCK_PART, figures, "1 of 10 stuck")?;
    let (name, ratio) = ("watch: p99 with stuck ones : without", stuck / all_read);
    figures.aim(name, ratio, 2, at_most(2.0));
    Ok(())
}

/// The 99th percentile of the delay in milliseconds, for clients that read.
fn run(
    subject: &Subject,
    plan: &Plan,
    stuck_part: u64,
    figures: &mut Figures<'_>,
    name: &str,
) -> Result<f64> {
    let url = subject.url();
    let keys = (plan.watchers / WATCHERS_PER_KEY).max(1);
    subject.block_on(local(async {
        let board = Rc::new(Board::default());
        let streams = plan.watchers / WATCHERS_PER_STREAM;
        let mut held = Vec::new();
        let mut conn = None;
        for stream in 0..streams {
            let number = stream / STREAMS_PER_CONN;
            let client = match &conn {
                Some(client) if stream % STREAMS_PER_CONN != 0 => client,
                _ => conn.insert(narrow(&url).await?),
            };
            let first = stream * WATCHERS_PER_STREAM;
            let watched = open(
                client,
                (first..first + WATCHERS_PER_STREAM).map(|w| w % keys),
            )
            .await?;
            if stuck_part > 0 && number.is_multiple_of(stuck_part) {
                held.push(watched);
            } else {
                spawn_local(read(watched, board.clone()));
            }
        }
        let putting = Client::connect(url.as_str()).await?;
        paced(&putting, keys, WARM, &board).await?;
        board.latencies.take();
        let before = subject.usage()?;
        paced(&putting, keys, MEASURED, &board).await?;
        let mut taken = board.latencies.take();
        let after = subject.usage()?;
        let p99 = taken.ms(0.99);
        let cpu = (after.cpu - before.cpu).as_secs_f64() * 1e6 / taken.count() as f64;
        figures.number(format!("watch: {name}, delivery p50 ms"), taken.ms(0.5), 2);
        figures.number(format!("watch: {name}, delivery p99 ms"), p99, 2);
        figures.number(format!("watch: {name}, CPU us/event"), cpu, 2);

        let seen = board.events.get();
        let began = Instant::now();
        let tasks: Vec<_> = (0..CLIENTS_AT_FULL_SPEED)
            .map(|seed| {
                spawn_local(full_speed(
                    putting.clone(),
                    keys,
                    seed as u64,
                    board.clone(),
                ))
            })
            .collect();
        tokio::time::sleep(MEASURED).await;
        let events = (board.events.get() - seen) as f64 / began.elapsed().as_secs_f64();
        tasks.iter().for_each(JoinHandle::abort);
        let aim = at_least_of_etcd(1.0);
        figures.aim(format!("watch: {name}, events/s"), events, 0, aim);
        let end = subject.usage()?;
        let anonymous = end.anonymous_bytes as f64 / MIB;
        figures.aim(
            format!("watch: {name}, anonymous MiB"),
            anonymous,
            0,
            "bounded",
        );
        drop(held);
        Ok(p99)
    }))
}

/// State that all readers share.
struct Board {
    start: Instant,
    latencies: RefCell<Latencies>,
    events: Cell<u64>,
}

impl Default for Board {
    fn default() -> Board {
        Board {
            start: Instant::now(),
            latencies: RefCell::default(),
            events: Cell::default(),
        }
    }
}

impl Board {
    /// A value that contains the time it was sent.
    fn value(&self) -> bytes::Bytes {
        let mut value = vec![b'w'; VALUE_BYTES];
        let nanos = self.start.elapsed().as_nanos() as u64;
        value[..8].copy_from_slice(&nanos.to_be_bytes());
        value.into()
    }

    fn note(&self, response: &WatchResponse) {
        let now = self.start.elapsed();
        for event in &response.events {
            let value = event.kv.as_ref().map_or(&[][..], |kv| &kv.value);
            if let Some(sent) = value.first_chunk::<8>() {
                let sent = Duration::from_nanos(u64::from_be_bytes(*sent));
                self.latencies.borrow_mut().add(now.saturating_sub(sent));
            }
            self.events.set(self.events.get() + 1);
        }
    }
}

async fn narrow(url: &str) -> Result<Client> {
    let endpoint = Endpoint::from_shared(url.to_owned())?
        .tcp_nodelay(true)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES);
    Ok(Client::new(endpoint.connect().await?))
}

struct Watched {
    responses: Streaming<WatchResponse>,
    _requests: mpsc::Sender<WatchRequest>,
}

/// A stream with a watcher on each of the keys; returns when all are created.
async fn open(client: &Client, numbers: impl Iterator<Item = u64>) -> Result<Watched> {
    let (requests, messages) = mpsc::channel(WATCHERS_PER_STREAM as usize);
    let mut count = 0;
    for number in numbers {
        let create = WatchCreateRequest {
            key: key(number).to_vec().into(),
            ..WatchCreateRequest::default()
        };
        requests
            .send(WatchRequest {
                request_union: Some(RequestUnion::CreateRequest(create)),
            })
            .await?;
        count += 1;
    }
    let mut responses = client
        .watch()
        .watch(ReceiverStream::new(messages))
        .await?
        .into_inner();
    while count > 0 {
        let Some(response) = responses.message().await? else {
            return Err("a watch ended".into());
        };
        count -= usize::from(response.created);
    }
    Ok(Watched {
        responses,
        _requests: requests,
    })
}

async fn read(mut watched: Watched, board: Rc<Board>) {
    // The stream ends with the run.
    while let Ok(Some(response)) = watched.responses.message().await {
        board.note(&response);
    }
}

/// Puts at a fixed rate, one per request.
async fn paced(client: &Client, keys: u64, over: Duration, board: &Rc<Board>) -> Result<()> {
    let mut random = Keys::new(over.as_nanos() as u64, keys);
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / RATE as u32);
    let began = Instant::now();
    while began.elapsed() < over {
        ticks.tick().await;
        let (mut kv, number, board) = (client.kv(), random.next_number(), board.clone());
        spawn_local(async move {
            let _ = kv.put(put(number, &board)).await;
        });
    }
    Ok(())
}

async fn full_speed(client: Client, keys: u64, seed: u64, board: Rc<Board>) {
    let mut random = Keys::new(seed, keys);
    let mut kv = client.kv();
    while kv.put(put(random.next_number(), &board)).await.is_ok() {}
}

fn put(number: u64, board: &Board) -> PutRequest {
    PutRequest {
        key: key(number).to_vec().into(),
        value: board.value(),
        ..PutRequest::default()
    }
}
