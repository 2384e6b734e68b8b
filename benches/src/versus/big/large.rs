//! One request that deletes the whole store, as a range or as the keys of a lease, while other clients
//! put, into what is deleted and beside it: what they wait, and the memory that it takes.

#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb::{
    DeleteRangeRequest, LeaseGrantRequest, LeaseRevokeRequest, RangeRequest,
};

use super::bystander::Bystander;
use super::load::{Load, Shape, Verb, connect, fill_attached, local};
use super::subject::{MIB, Subject};
use super::table::Figures;
use super::{Plan, Result};
use crate::versus::loads::VALUE_BYTES;
use crate::workload::{KEY_BYTES, key};

/// Few enough that the machine has time for the deletion.
const CLIENTS: usize = 10;
const PUTS_PER_SECOND: u64 = 500;
/// Half of the keys that they put are among the deleted ones.
const PUT_KEYS: u64 = 1000;
const SETTLE: Duration = Duration::from_secs(5);
const UNDISTURBED: Duration = Duration::from_secs(10);
const LEASE: i64 = 7;
/// Longer than the measurement.
const LEASE_SECONDS: i64 = 36_000;
const POLL: Duration = Duration::from_millis(20);
const SCRAPE: Duration = Duration::from_millis(500);

/// What deletes the keys.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Range,
    /// The end of the lease that they are attached to.
    Lease,
    /// The same, but every other key is attached to none, and stays.
    LeaseBetween,
}

pub(super) fn measure(
    subject: &mut Subject,
    plan: &Plan,
    figures: &mut Figures<'_>,
    way: Way,
) -> Result<()> {
    let part = match way {
        Way::Range => "large",
        Way::Lease => "attached",
        Way::LeaseBetween => "between",
    };
    let name = |figure: &str| format!("{part}: {figure}");
    let stay = match way {
        Way::LeaseBetween => plan.keys / 2,
        Way::Range | Way::Lease => 0,
    };
    let url = subject.url();
    let bystander = Bystander::start(subject.scratch())?;
    subject.block_on(local(async {
        let client = connect(&url, 1).await?.remove(0);
        let lease = fill(&client, &url, plan.keys, way).await?;
        tokio::time::sleep(SETTLE).await;
        let shape = Shape {
            verb: Verb::Put,
            clients: CLIENTS,
            keys: plan.keys - PUT_KEYS / 2..plan.keys + PUT_KEYS / 2,
            key_bytes: KEY_BYTES,
            value_bytes: VALUE_BYTES,
            rate: Some(PUTS_PER_SECOND),
        };
        let mut load = Load::start(&url, shape).await?;
        tokio::time::sleep(UNDISTURBED).await;
        let (mut calm, _) = load.take().await?;
        figures.number(name("longest put before ms"), calm.ms(1.0), 0);
        bystander.take();

        let (began, mut anonymous) = (Instant::now(), 0);
        let mut deletion = std::pin::pin!(delete_all(&client, plan.keys, lease));
        let answered = loop {
            tokio::select! {
                deleted = &mut deletion => break deleted,
                () = tokio::time::sleep(POLL) => {
                    anonymous = anonymous.max(subject.usage()?.anonymous_bytes);
                }
            }
        };
        // A deletion that takes longer than a request may is done nevertheless.
        if let Err(error) = answered {
            eprintln!("the deletion: {error}");
        }
        while count(&client, plan.keys).await? > (stay + PUT_KEYS) as i64 {
            tokio::time::sleep(POLL).await;
            anonymous = anonymous.max(subject.usage()?.anonymous_bytes);
        }
        let took = began.elapsed();
        // What waited behind it counts, too, and what was left to do.
        let (mut last, mut since, mut written) = (0, Instant::now(), began.elapsed());
        while since.elapsed() < SETTLE {
            tokio::time::sleep(SCRAPE).await;
            anonymous = anonymous.max(subject.usage()?.anonymous_bytes);
            let steps = subject.steps_of_deletions().await?;
            if steps > last {
                (last, since, written) = (steps, Instant::now(), began.elapsed());
            }
        }
        let (mut taken, _) = load.take().await?;
        let deleted = (plan.keys - stay) as f64;
        figures.number(name("keys deleted by one request"), deleted, 0);
        figures.number(name("took s"), took.as_secs_f64(), 1);
        figures.number(name("written after s"), written.as_secs_f64(), 1);
        figures.number(name("most anonymous MiB"), anonymous as f64 / MIB, 0);
        figures.number(name("put p99 ms meanwhile"), taken.ms(0.99), 0);
        figures.number(name("longest put ms meanwhile"), taken.ms(1.0), 0);
        figures.number(name("longest sync of a bystander ms"), bystander.take(), 0);
        Ok(())
    }))?;
    bystander.stop()
}

/// Puts all keys; returns the lease that they are attached to, or 0.
async fn fill(client: &Client, url: &str, keys: u64, way: Way) -> Result<i64> {
    let mut lease = 0;
    if way != Way::Range {
        let (id, ttl) = (LEASE, LEASE_SECONDS);
        let request = LeaseGrantRequest { id, ttl };
        lease = client.lease().lease_grant(request).await?.into_inner().id;
    }
    let is_other = |key: u64| way == Way::LeaseBetween && !key.is_multiple_of(2);
    let lease_of = |key| if is_other(key) { 0 } else { lease };
    fill_attached(url, 0..keys, VALUE_BYTES, lease_of).await?;
    Ok(lease)
}

async fn delete_all(client: &Client, keys: u64, lease: i64) -> Result<()> {
    if lease != 0 {
        let request = LeaseRevokeRequest { id: lease };
        client.lease().lease_revoke(request).await?;
        return Ok(());
    }
    let request = DeleteRangeRequest {
        key: key(0).to_vec().into(),
        range_end: key(keys).to_vec().into(),
        ..DeleteRangeRequest::default()
    };
    client.kv().delete_range(request).await?;
    Ok(())
}

async fn count(client: &Client, keys: u64) -> Result<i64> {
    let request = RangeRequest {
        key: key(0).to_vec().into(),
        range_end: key(keys).to_vec().into(),
        count_only: true,
        ..RangeRequest::default()
    };
    Ok(client.kv().range(request).await?.into_inner().count)
}
