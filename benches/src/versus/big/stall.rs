//! A client that takes a snapshot and stops reading, while others overwrite and compact.

#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb::SnapshotRequest;

use super::aim::at_most;
use super::load::{Load, Shape, Verb, connect, fill, local};
use super::subject::{MIB, Subject, compact, revision};
use super::table::Figures;
use super::{CLIENTS, Options, Result};
use crate::versus::loads::VALUE_BYTES;
use crate::workload::KEY_BYTES;

const COMPACT_EVERY: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(250);

/// A third of the time in which the file gets its length; one without the reader, one with it. With
/// ten million keys a third has to be some minutes: removal begins when it has three rows for five
/// keys, and until then the file grows, reader or not.
pub(super) fn measure(
    subject: &Subject,
    options: &Options,
    figures: &mut Figures<'_>,
) -> Result<()> {
    let url = subject.url();
    let third = Duration::from_secs_f64(options.minutes * 20.0);
    subject.block_on(local(async {
        fill(&url, 0..options.big.keys, VALUE_BYTES).await?;
        let clients = connect(&url, 2).await?;
        let shape = Shape {
            verb: Verb::Put,
            clients: CLIENTS,
            keys: 0..options.big.keys,
            key_bytes: KEY_BYTES,
            value_bytes: VALUE_BYTES,
            rate: options.big.rate,
        };
        let mut load = Load::start(&url, shape).await?;
        largest(subject, &clients[0], third).await?;
        let without = largest(subject, &clients[0], third).await?;
        load.take().await?;
        let mut stalled = clients[1]
            .maintenance()
            .snapshot(SnapshotRequest {})
            .await?
            .into_inner();
        stalled.message().await?;
        let with = largest(subject, &clients[0], third).await?;
        let (mut taken, over) = load.take().await?;
        drop(stalled);
        figures.number("stall: file MiB without the reader", without / MIB, 0);
        figures.number("stall: with one that reads nothing", with / MIB, 0);
        let grew = with / without;
        let told = format!("{grew:.2} ×");
        figures.told("stall: file grew by", grew, told, at_most(1.2));
        figures.number(
            "stall: puts/s meanwhile",
            taken.count() as f64 / over.as_secs_f64(),
            0,
        );
        figures.number("stall: put p99 ms meanwhile", taken.ms(0.99), 1);
        Ok(())
    }))
}

/// The largest file in this time, with a compaction now and then.
async fn largest(subject: &Subject, client: &Client, over: Duration) -> Result<f64> {
    let (began, mut compacted) = (Instant::now(), Instant::now());
    let mut largest = 0.0_f64;
    while began.elapsed() < over {
        tokio::time::sleep(POLL).await;
        largest = largest.max(subject.file_bytes());
        if compacted.elapsed() >= COMPACT_EVERY {
            compacted = Instant::now();
            compact(client, revision(client).await?, false).await?;
        }
    }
    Ok(largest)
}
