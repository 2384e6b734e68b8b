//! The load generator: fills, and clients that put continuously while their latencies are taken.

#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, request_op::Request,
};
use tokio::task::{JoinHandle, JoinSet, LocalSet, spawn_local};

use super::super::Result;
use crate::workload::{KEY_BYTES, Keys, key, long_key};

/// Number of clients that share a connection.
const CLIENTS_PER_CONN: usize = 10;
/// Below etcd's limit of operations in a transaction.
const KEYS_PER_TXN: u64 = 100;
const TXNS_AT_ONCE: usize = 8;
const KEYS_PER_DELETE: u64 = 1000;

/// Runs a future and the tasks that it spawns on this thread.
pub(super) async fn local<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    LocalSet::new().run_until(work).await
}

pub(super) async fn connect(url: &str, count: usize) -> Result<Vec<Client>> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(Client::connect(url).await?);
    }
    Ok(clients)
}

/// Puts all `keys`, many per transaction.
pub(super) async fn fill(url: &str, keys: Range<u64>, value_bytes: usize) -> Result<()> {
    fill_long(url, keys, KEY_BYTES, value_bytes).await
}

/// The same with keys of so many bytes.
pub(super) async fn fill_long(
    url: &str,
    keys: Range<u64>,
    key_bytes: usize,
    value_bytes: usize,
) -> Result<()> {
    put_all(url, keys, key_bytes, value_bytes, |_| 0).await
}

/// Puts all `keys`, each attached to this lease; 0 means none.
pub(super) async fn fill_attached(
    url: &str,
    keys: Range<u64>,
    value_bytes: usize,
    lease: impl Fn(u64) -> i64,
) -> Result<()> {
    put_all(url, keys, KEY_BYTES, value_bytes, lease).await
}

/// Deletes `keys`, a limited range per request.
pub(super) async fn delete(client: &Client, keys: Range<u64>) -> Result<()> {
    for first in keys.clone().step_by(KEYS_PER_DELETE as usize) {
        let last = (first + KEYS_PER_DELETE).min(keys.end);
        let request = DeleteRangeRequest {
            key: key(first).to_vec().into(),
            range_end: key(last).to_vec().into(),
            ..DeleteRangeRequest::default()
        };
        client.kv().delete_range(request).await?;
    }
    Ok(())
}

/// Puts each of `keys` in its own request, with many clients; returns the time it took.
pub(super) async fn put_each(
    url: &str,
    keys: u64,
    random: bool,
    clients: usize,
) -> Result<Duration> {
    let next = Rc::new(RefCell::new(0..keys));
    let conns = connect(url, clients.div_ceil(CLIENTS_PER_CONN)).await?;
    let value: bytes::Bytes = vec![b'v'; super::super::loads::VALUE_BYTES].into();
    let began = Instant::now();
    let tasks: Vec<JoinHandle<Result<()>>> = (0..clients)
        .map(|number| {
            let (mut kv, next) = (conns[number % conns.len()].kv(), next.clone());
            let value = value.clone();
            spawn_local(async move {
                loop {
                    let Some(number) = next.borrow_mut().next() else {
                        return Ok(());
                    };
                    // Multiplication by an odd factor is a bijection.
                    let number = if random {
                        number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                    } else {
                        number
                    };
                    let request = PutRequest {
                        key: key(number).to_vec().into(),
                        value: value.clone(),
                        ..PutRequest::default()
                    };
                    kv.put(request).await?;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(began.elapsed())
}

/// The latencies of requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Latencies {
    micros: Vec<u32>,
}

impl Latencies {
    pub(super) fn add(&mut self, took: Duration) {
        self.micros.push(took.as_micros() as u32);
    }

    pub(super) fn count(&self) -> usize {
        self.micros.len()
    }

    /// The latency in milliseconds at quantile `part`.
    pub(super) fn ms(&mut self, part: f64) -> f64 {
        self.micros.sort_unstable();
        let last = self.micros.len().saturating_sub(1);
        let at = (self.micros.len() as f64 * part) as usize;
        let found = self.micros.get(at.min(last));
        found.map_or(f64::NAN, |micros| f64::from(*micros) / 1000.0)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    Put,
    /// A put that is answered with what it replaces.
    Replace,
    Get,
}

/// The load of [`Load`].
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) verb: Verb,
    pub(super) clients: usize,
    /// The numbers from which keys are drawn.
    pub(super) keys: Range<u64>,
    pub(super) key_bytes: usize,
    pub(super) value_bytes: usize,
    /// Requests per second, all clients together.
    pub(super) rate: Option<u64>,
}

/// The seed of the next client's keys: each load of a run draws its own. Keys of the load before are
/// still in delta trees. A start that applies puts to those takes half as long as with other keys.
static NEXT_SEED: AtomicU64 = AtomicU64::new(0);

/// Clients that ask until they are dropped.
pub(super) struct Load {
    tasks: Vec<JoinHandle<Result<()>>>,
    taken: Rc<RefCell<Latencies>>,
    since: Instant,
}

impl Load {
    pub(super) async fn start(url: &str, shape: Shape) -> Result<Load> {
        let conns = connect(url, shape.clients.div_ceil(CLIENTS_PER_CONN)).await?;
        let taken = Rc::new(RefCell::new(Latencies::default()));
        let first_seed = NEXT_SEED.fetch_add(shape.clients as u64, Ordering::Relaxed);
        let tasks = (0..shape.clients)
            .map(|number| {
                let kv = &conns[number % conns.len()];
                spawn_local(ask_on(
                    kv.clone(),
                    shape.clone(),
                    first_seed + number as u64,
                    taken.clone(),
                ))
            })
            .collect();
        Ok(Load {
            tasks,
            taken,
            since: Instant::now(),
        })
    }

    /// Requests answered since the last call of [`Load::take`].
    pub(super) fn count(&self) -> usize {
        self.taken.borrow().count()
    }

    /// The latencies since the last call, and their time span; fails if a client failed.
    pub(super) async fn take(&mut self) -> Result<(Latencies, Duration)> {
        if let Some(ended) = self.tasks.iter().position(JoinHandle::is_finished) {
            self.tasks.swap_remove(ended).await??;
            return Err("a client ended".into());
        }
        let now = Instant::now();
        let since = std::mem::replace(&mut self.since, now);
        Ok((std::mem::take(&mut self.taken.borrow_mut()), now - since))
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

async fn ask_on(
    client: Client,
    shape: Shape,
    seed: u64,
    taken: Rc<RefCell<Latencies>>,
) -> Result<()> {
    let mut kv = client.kv();
    let mut random = Keys::new(seed, shape.keys.end - shape.keys.start);
    let value: bytes::Bytes = vec![b'w'; shape.value_bytes].into();
    let every = shape
        .rate
        .map(|rate| Duration::from_secs(1) * shape.clients as u32 / rate.max(1) as u32);
    let mut due = Instant::now();
    loop {
        let mut began = Instant::now();
        if let Some(every) = every {
            // A request delayed by a slow one before it counts from when it was due.
            due += every.mul_f64(0.5 + (random.next_number() % 1000) as f64 / 1000.0);
            tokio::time::sleep_until(due.into()).await;
            began = due;
        }
        let number = shape.keys.start + random.next_number();
        let key = long_key(number, shape.key_bytes).into();
        match shape.verb {
            Verb::Put | Verb::Replace => {
                let value = value.clone();
                let request = PutRequest {
                    key,
                    value,
                    prev_kv: matches!(shape.verb, Verb::Replace),
                    ..PutRequest::default()
                };
                kv.put(request).await?;
            }
            Verb::Get => {
                let request = RangeRequest {
                    key,
                    ..RangeRequest::default()
                };
                kv.range(request).await?;
            }
        }
        taken.borrow_mut().add(began.elapsed());
    }
}

async fn put_all(
    url: &str,
    keys: Range<u64>,
    key_bytes: usize,
    value_bytes: usize,
    lease: impl Fn(u64) -> i64,
) -> Result<()> {
    let clients = connect(url, 2).await?;
    let value: bytes::Bytes = vec![b'v'; value_bytes].into();
    let mut tasks = JoinSet::new();
    for first in keys.clone().step_by(KEYS_PER_TXN as usize) {
        if tasks.len() == TXNS_AT_ONCE
            && let Some(done) = tasks.join_next().await
        {
            done??;
        }
        let last = (first + KEYS_PER_TXN).min(keys.end);
        let success = (first..last).map(|number| RequestOp {
            request: Some(Request::RequestPut(PutRequest {
                key: long_key(number, key_bytes).into(),
                value: value.clone(),
                lease: lease(number),
                ..PutRequest::default()
            })),
        });
        let request = TxnRequest {
            success: success.collect(),
            ..TxnRequest::default()
        };
        let mut kv = clients[tasks.len() % clients.len()].kv();
        tasks.spawn(async move { kv.txn(request).await.map(|_| ()) });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}
