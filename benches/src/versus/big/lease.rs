//! Many leases: what they cost, how many are kept alive, and a crowd that expires in one second.

#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb::{LeaseGrantRequest, LeaseKeepAliveRequest, PutRequest, RangeRequest};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_local};
use tokio_stream::wrappers::ReceiverStream;

use super::aim::{at_least_of_etcd, at_most_by_millions};
use super::load::{Load, Shape, Verb, connect, local};
use super::subject::{MIB, Subject};
use super::table::Figures;
use super::{CLIENTS, Plan, Result, Side};
use crate::versus::loads::VALUE_BYTES;
use crate::workload::{KEY_BYTES, Keys};

const GRANTING_CLIENTS: usize = 500;
const CLIENTS_PER_CONN: usize = 10;
/// TTL in seconds of leases that do not expire during the measurement.
const LONG_TTL: i64 = 3600;
const KEEPING_CLIENTS: usize = 100;
const KEEPING: Duration = Duration::from_secs(8);
/// The leases are so many times the crowd.
const CROWD_PART: u64 = 10;
/// The aim for the crowd, by millions of leases beside it.
const REVOKED_SECONDS: [(u64, f64); 1] = [(1, 5.0)];
/// How long the expiry of the crowd is watched; etcd revokes 1,000 leases per second.
const PATIENCE: Duration = Duration::from_secs(60);
const PATIENCE_WITH_ETCD: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);
/// Prefix of the crowd's keys, separate from those of other loads.
const CROWD: &[u8] = b"/crowd/";
/// Number of keys for the puts in the background.
const PUT_KEYS: u64 = 10_000;

pub(super) fn measure(subject: &Subject, plan: &Plan, figures: &mut Figures<'_>) -> Result<()> {
    let url = subject.url();
    let (leases, crowd) = (plan.keys, plan.keys / CROWD_PART);
    subject.block_on(local(async {
        let before = subject.usage()?;
        let took = grant(&url, 1..leases + 1, |_| LONG_TTL, false).await?;
        let after = subject.usage()?;
        figures.number("lease: grants/s", leases as f64 / took.as_secs_f64(), 0);
        let cpu = (after.cpu - before.cpu).as_secs_f64() * 1e6 / leases as f64;
        figures.number("lease: CPU us/grant", cpu, 1);
        figures.number(
            "lease: anonymous MiB",
            after.anonymous_bytes as f64 / MIB,
            0,
        );
        let kept = keep_alive(&url, leases).await?;
        let busy = subject.usage()?;
        figures.aim("lease: keep-alives/s", kept, 0, at_least_of_etcd(1.0));
        let cpu = (busy.cpu - after.cpu).as_secs_f64() * 1e6 / (kept * KEEPING.as_secs_f64());
        figures.number("lease: CPU us/keep-alive", cpu, 1);
        // 2.5 times the time that this many grants took, because each now also has a put.
        let ahead = took.as_secs_f64() * crowd as f64 / leases as f64 * 2.5 + 5.0;
        let end = Instant::now() + Duration::from_secs_f64(ahead);
        let ttl = move |now: Instant| (end - now).as_secs_f64().ceil() as i64;
        grant(&url, leases + 1..leases + crowd + 1, ttl, true).await?;
        if Instant::now() > end {
            return Err("granting the crowd took longer than it lives".into());
        }
        watch_the_end(subject, &url, crowd, end, figures).await
    }))
}

/// Puts in the background while all of the crowd's leases expire within a second.
async fn watch_the_end(
    subject: &Subject,
    url: &str,
    crowd: u64,
    end: Instant,
    figures: &mut Figures<'_>,
) -> Result<()> {
    let client = connect(url, 1).await?.remove(0);
    let shape = Shape {
        verb: Verb::Put,
        clients: CLIENTS,
        keys: 0..PUT_KEYS,
        key_bytes: KEY_BYTES,
        value_bytes: VALUE_BYTES,
        rate: None,
    };
    let mut load = Load::start(url, shape).await?;
    tokio::time::sleep_until(end.into()).await;
    let (mut quiet, _) = load.take().await?;
    figures.number("lease: put p99 before they end, ms", quiet.ms(0.99), 1);
    let patience = match subject.side {
        Side::Etcd => PATIENCE_WITH_ETCD,
        _ => PATIENCE,
    };
    let mut left = left_of(&client).await?;
    while left > 0 && end.elapsed() < patience {
        tokio::time::sleep(POLL).await;
        left = left_of(&client).await?;
    }
    let (mut taken, over) = load.take().await?;
    let seconds = end.elapsed().as_secs_f64();
    // Counted from the first expiry; the last is one second later.
    let (until, told) = match left {
        0 => (seconds, format!("{seconds:.1}")),
        left => {
            let part = left as f64 * 100.0 / crowd as f64;
            let told = format!("{part:.0} % left after {seconds:.0}");
            (f64::INFINITY, told)
        }
    };
    let name = "lease: seconds until the crowd is revoked";
    let aim = at_most_by_millions(crowd * CROWD_PART, &REVOKED_SECONDS);
    figures.told(name, until, told, aim);
    figures.number(
        "lease: puts/s meanwhile",
        taken.count() as f64 / over.as_secs_f64(),
        0,
    );
    let p99 = taken.ms(0.99);
    figures.aim("lease: put p99 meanwhile, ms", p99, 1, "puts are served");
    figures.number("lease: longest put meanwhile, ms", taken.ms(1.0), 1);
    Ok(())
}

async fn left_of(client: &Client) -> Result<i64> {
    let request = RangeRequest {
        key: CROWD.to_vec().into(),
        range_end: b"/crowd0".to_vec().into(),
        count_only: true,
        serializable: true,
        ..RangeRequest::default()
    };
    Ok(client.kv().range(request).await?.into_inner().count)
}

/// Grants leases with these IDs, each with a key attached if `has_key`; returns the time it took.
async fn grant(
    url: &str,
    ids: std::ops::Range<u64>,
    ttl: impl Fn(Instant) -> i64 + Copy + 'static,
    has_key: bool,
) -> Result<Duration> {
    let conns = connect(url, GRANTING_CLIENTS / CLIENTS_PER_CONN).await?;
    let next = Rc::new(RefCell::new(ids));
    let began = Instant::now();
    let tasks: Vec<JoinHandle<Result<()>>> = (0..GRANTING_CLIENTS)
        .map(|number| {
            let client = conns[number % conns.len()].clone();
            let next = next.clone();
            spawn_local(async move {
                loop {
                    let Some(id) = next.borrow_mut().next() else {
                        return Ok(());
                    };
                    let id = id as i64;
                    let request = LeaseGrantRequest {
                        ttl: ttl(Instant::now()),
                        id,
                    };
                    client.lease().lease_grant(request).await?;
                    if has_key {
                        client.kv().put(attached(id)).await?;
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(began.elapsed())
}

fn attached(lease: i64) -> PutRequest {
    let mut key = CROWD.to_vec();
    key.extend_from_slice(&lease.to_be_bytes());
    PutRequest {
        key: key.into(),
        value: vec![b'l'; VALUE_BYTES].into(),
        lease,
        ..PutRequest::default()
    }
}

/// Renewals per second, with clients that each send the next when the last is answered.
async fn keep_alive(url: &str, leases: u64) -> Result<f64> {
    let conns = connect(url, KEEPING_CLIENTS / CLIENTS_PER_CONN).await?;
    let count = Rc::new(RefCell::new(0_u64));
    let tasks: Vec<JoinHandle<Result<()>>> = (0..KEEPING_CLIENTS)
        .map(|number| {
            let client = conns[number % conns.len()].clone();
            let count = count.clone();
            spawn_local(async move {
                let mut random = Keys::new(number as u64, leases);
                let (requests, messages) = mpsc::channel(1);
                let next = |random: &mut Keys| LeaseKeepAliveRequest {
                    id: random.next_number() as i64 + 1,
                };
                requests.send(next(&mut random)).await?;
                let answers = client
                    .lease()
                    .lease_keep_alive(ReceiverStream::new(messages))
                    .await?;
                let mut answers = answers.into_inner();
                while answers.message().await?.is_some() {
                    *count.borrow_mut() += 1;
                    requests.send(next(&mut random)).await?;
                }
                Ok(())
            })
        })
        .collect();
    tokio::time::sleep(KEEPING).await;
    tasks.iter().for_each(JoinHandle::abort);
    let kept = *count.borrow();
    Ok(kept as f64 / KEEPING.as_secs_f64())
}
