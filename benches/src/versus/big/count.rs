//! Counts and pages of a large store, with one request at a time on one connection.

#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb::RangeRequest;

use super::aim::{Aim, at_most};
use super::load::{Latencies, connect, delete, fill, local};
use super::subject::{Subject, revision};
use super::table::Figures;
use super::{Plan, Result};
use crate::versus::loads::VALUE_BYTES;
use crate::workload::key;

/// A request is repeated until it reaches this number or this time.
const TIMES_MAX: usize = 300;
const TIME_MAX: Duration = Duration::from_secs(3);
const PAGE: i64 = 500;
const PAGES: u64 = 10;
/// Changes between the older revision and the current one.
const CHANGES: u64 = 20_000;

pub(super) fn measure(subject: &Subject, plan: &Plan, figures: &mut Figures<'_>) -> Result<()> {
    let url = subject.url();
    let idle = subject.usage()?;
    subject.block_on(local(async {
        fill(&url, 0..plan.keys, VALUE_BYTES).await?;
        let client = connect(&url, 1).await?.remove(0);
        let older = revision(&client).await?;
        let changes = CHANGES.min(plan.keys / 2);
        fill(
            &url,
            plan.keys / 2..plan.keys / 2 + changes * 3 / 4,
            VALUE_BYTES,
        )
        .await?;
        delete(&client, 0..changes / 4).await?;

        let one = RangeRequest {
            key: key(plan.keys - 1).to_vec().into(),
            serializable: true,
            ..RangeRequest::default()
        };
        let base = repeat(&client, &one).await?;
        figures.number("count: one key, ms", base, 3);
        let all = RangeRequest {
            key: b"/".as_slice().into(),
            range_end: b"\0".as_slice().into(),
            serializable: true,
            ..RangeRequest::default()
        };
        for (when, at) in [("now", 0), ("20,000 changes ago", older)] {
            let count = RangeRequest {
                count_only: true,
                revision: at,
                ..all.clone()
            };
            let first = RangeRequest {
                limit: 10,
                revision: at,
                ..all.clone()
            };
            let aim: Aim = if at == 0 {
                at_most(1.0).into()
            } else {
                "≤ a scan of the changes".into()
            };
            for (what, request) in [("whole store", &count), ("limit 10", &first)] {
                let ms = repeat(&client, request).await?;
                let name = format!("count: {what} {when}, ms");
                figures.aim(name, ms, 3, aim.clone());
            }
            page(&client, plan, &all, at, when, figures).await?;
        }
        Ok(())
    }))?;
    let cpu = subject.usage()?.cpu - idle.cpu;
    figures.number("count: CPU s in all", cpu.as_secs_f64(), 1);
    Ok(())
}

/// The median latency of a request, in milliseconds.
async fn repeat(client: &Client, request: &RangeRequest) -> Result<f64> {
    let mut taken = Latencies::default();
    let mut kv = client.kv();
    let began = Instant::now();
    while taken.count() < TIMES_MAX && began.elapsed() < TIME_MAX {
        let sent = Instant::now();
        kv.range(request.clone()).await?;
        taken.add(sent.elapsed());
    }
    Ok(taken.ms(0.5))
}

/// Measures the first and the last pages; those between are alike.
async fn page(
    client: &Client,
    plan: &Plan,
    all: &RangeRequest,
    at: i64,
    when: &str,
    figures: &mut Figures<'_>,
) -> Result<()> {
    let last = plan.keys.saturating_sub(PAGES * PAGE as u64);
    // Two medians that should be alike differ by chance: that is not judged.
    for (which, first, aim) in [("first", 0, ""), ("last", last, "≤ the first")] {
        let mut taken = Latencies::default();
        let mut next = key(first).to_vec();
        for _ in 0..PAGES {
            let request = RangeRequest {
                key: next.clone().into(),
                limit: PAGE,
                revision: at,
                ..all.clone()
            };
            let sent = Instant::now();
            let found = client.kv().range(request).await?.into_inner();
            taken.add(sent.elapsed());
            let Some(last) = found.kvs.last() else { break };
            next = last.key.to_vec();
            next.push(0);
        }
        let name = format!("count: {which} 10 pages {when}, ms each");
        figures.aim(name, taken.ms(0.5), 2, aim);
    }
    Ok(())
}
