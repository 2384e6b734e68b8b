//! The size of the data file: after a large deletion, and under a load that overwrites keys.

#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::time::{Duration, Instant};

use super::aim::{at_most, at_most_of_etcd};
use super::load::{Load, Shape, Verb, connect, delete, fill, local};
use super::subject::{MIB, Subject, compact, revision};
use super::table::Figures;
use super::{CLIENTS, Options, Plan, Result, Side};
use crate::workload::KEY_BYTES;

/// A million values are 1 GB.
const VALUE_BYTES: usize = 1024;
const POLL: Duration = Duration::from_millis(250);
/// How long the file size is watched; etcd's never shrinks by itself.
const PATIENCE: Duration = Duration::from_secs(90);
const PATIENCE_WITH_ETCD: Duration = Duration::from_secs(5);
/// Puts per second: the same on both sides, so that both have the same history to compact.
const OVERWRITES_PER_SECOND: u64 = 5000;
/// Between two compactions at the current revision.
const COMPACT_EVERY: Duration = Duration::from_secs(5);

fn live_bytes(keys: u64) -> f64 {
    (keys * (KEY_BYTES + VALUE_BYTES) as u64) as f64
}

pub(super) fn measure_return(
    subject: &Subject,
    plan: &Plan,
    figures: &mut Figures<'_>,
) -> Result<()> {
    let url = subject.url();
    let live = live_bytes(plan.keys / 10);
    figures.number("return: live MiB", live / MIB, 0);
    subject.block_on(local(async {
        fill(&url, 0..plan.keys, VALUE_BYTES).await?;
        let client = connect(&url, 1).await?.remove(0);
        delete(&client, 0..plan.keys - plan.keys / 10).await?;
        compact(&client, revision(&client).await?, false).await?;
        let before = subject.file_bytes();
        figures.number("return: file MiB after deletion", before / MIB, 0);
        let patience = match subject.side {
            Side::Etcd => PATIENCE_WITH_ETCD,
            _ => PATIENCE,
        };
        let began = Instant::now();
        while subject.file_bytes() >= 2.0 * live && began.elapsed() < patience {
            tokio::time::sleep(POLL).await;
        }
        let seconds = began.elapsed().as_secs_f64();
        let after = subject.file_bytes();
        let (until, told) = if after < 2.0 * live {
            (seconds, format!("{seconds:.1}"))
        } else {
            (f64::INFINITY, format!("not in {seconds:.0}"))
        };
        let name = "return: seconds until file < 2 × live";
        figures.told(name, until, told, at_most(60.0));
        figures.number("return: file MiB then", after / MIB, 0);
        Ok(())
    }))
}

pub(super) fn measure_overwrite(
    subject: &Subject,
    options: &Options,
    figures: &mut Figures<'_>,
) -> Result<()> {
    let plan = &options.big;
    let url = subject.url();
    let keys = (plan.keys / 10).max(1);
    let live = live_bytes(keys);
    subject.block_on(local(async {
        fill(&url, 0..keys, VALUE_BYTES).await?;
        let client = connect(&url, 1).await?.remove(0);
        let before = subject.usage()?;
        let shape = Shape {
            verb: Verb::Put,
            clients: CLIENTS,
            keys: 0..keys,
            key_bytes: KEY_BYTES,
            value_bytes: VALUE_BYTES,
            rate: plan.rate.or(Some(OVERWRITES_PER_SECOND)),
        };
        let mut load = Load::start(&url, shape).await?;
        let (began, all) = (
            Instant::now(),
            Duration::from_secs_f64(options.minutes * 60.0),
        );
        let (mut largest, mut compacted) = (0.0_f64, Instant::now());
        while began.elapsed() < all {
            tokio::time::sleep(POLL).await;
            largest = largest.max(subject.file_bytes());
            if compacted.elapsed() >= COMPACT_EVERY {
                compacted = Instant::now();
                compact(&client, revision(&client).await?, false).await?;
                let file = subject.file_bytes();
                eprintln!(
                    "{:5.0} s  {:.2} × live",
                    began.elapsed().as_secs_f64(),
                    file / live
                );
            }
        }
        let (mut taken, over) = load.take().await?;
        let after = subject.usage()?;
        let puts = taken.count() as f64;
        let written = (after.disk_write_bytes - before.disk_write_bytes) as f64 / puts;
        figures.number("overwrite: puts/s", puts / over.as_secs_f64(), 0);
        figures.number("overwrite: put p99 ms", taken.ms(0.99), 1);
        figures.number("overwrite: longest put ms", taken.ms(1.0), 1);
        figures.number(
            "overwrite: CPU us/put",
            (after.cpu - before.cpu).as_secs_f64() * 1e6 / puts,
            1,
        );
        figures.number("overwrite: live MiB", live / MIB, 0);
        let ratio = largest / live;
        figures.aim("overwrite: largest file : live", ratio, 2, at_most(3.0));
        figures.aim("overwrite: disk B/put", written, 0, at_most_of_etcd(1.0));
        Ok(())
    }))
}
