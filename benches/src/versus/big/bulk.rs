//! A store of large values, as large as the disk allows: restarts, what a compaction takes, and how
//! fast a snapshot is read with nothing cached, beside the file alone, and a new member is fed.

#![expect(
    clippy::disallowed_methods,
    reason = "measures time and reads the server's file"
)]

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use etcd_api::etcdserverpb::SnapshotRequest;
use rustix::fs::{Advice, fadvise};

use super::feed::feed;
use super::load::{Load, Shape, Verb, connect, fill, local};
use super::restart::{after_kill, ms};
use super::subject::{MIB, Subject, compact, revision};
use super::table::Figures;
use super::{CLIENTS, Options, Result};
use crate::workload::KEY_BYTES;

const VALUE_BYTES: usize = 4096;
const SETTLE: Duration = Duration::from_secs(10);
const READ_BYTES: usize = 1 << 20;

pub(super) fn measure(
    subject: &mut Subject,
    options: &Options,
    figures: &mut Figures<'_>,
) -> Result<()> {
    let keys = options.big.keys;
    let (url, began) = (subject.url(), Instant::now());
    subject.block_on(local(fill(&url, 0..keys, VALUE_BYTES)))?;
    figures.number("bulk: fill s", began.elapsed().as_secs_f64(), 0);
    std::thread::sleep(SETTLE);
    figures.number("bulk: file MiB", subject.file_bytes() / MIB, 0);

    let overwrites = Shape {
        verb: Verb::Put,
        clients: CLIENTS,
        keys: 0..keys,
        key_bytes: KEY_BYTES,
        value_bytes: VALUE_BYTES,
        rate: options.big.rate,
    };
    let back = after_kill(subject, overwrites.clone())?;
    figures.number("bulk: read after kill -9 ms", ms(back), 0);
    let url = subject.url();
    subject.block_on(local(async {
        let mut load = Load::start(&url, overwrites).await?;
        tokio::time::sleep(Duration::from_secs_f64(options.minutes * 60.0)).await;
        let (mut taken, over) = load.take().await?;
        drop(load);
        let per_second = taken.count() as f64 / over.as_secs_f64();
        figures.number("bulk: overwrites/s", per_second, 0);
        figures.number("bulk: overwrite p99 ms", taken.ms(0.99), 1);
        let client = connect(&url, 1).await?.remove(0);
        let began = Instant::now();
        compact(&client, revision(&client).await?, true).await?;
        figures.number("bulk: compaction s", began.elapsed().as_secs_f64(), 1);
        Ok(())
    }))?;
    let anonymous = subject.usage()?.anonymous_bytes as f64 / MIB;
    figures.number("bulk: anonymous MiB", anonymous, 0);

    subject.stop();
    let file = subject.file();
    forget(&file)?;
    let (bytes, took) = read(&file)?;
    figures.number("bulk: file MiB/s, read alone", rate(bytes, took), 0);
    forget(&file)?;
    let back = subject.restart()?;
    figures.number("bulk: read after clean stop, cold, ms", ms(back), 0);
    let url = subject.url();
    subject.block_on(local(async {
        let client = connect(&url, 1).await?.remove(0);
        let (mut bytes, began) = (0, Instant::now());
        let mut maintenance = client.maintenance();
        let snapshot = maintenance.snapshot(SnapshotRequest {}).await?;
        let mut snapshot = snapshot.into_inner();
        while let Some(piece) = snapshot.message().await? {
            bytes += piece.blob.len() as u64;
        }
        let took = began.elapsed();
        figures.number("bulk: snapshot MiB", bytes as f64 / MIB, 0);
        figures.number("bulk: snapshot s", took.as_secs_f64(), 1);
        figures.number("bulk: snapshot MiB/s", rate(bytes, took), 0);
        Ok(())
    }))?;

    let fed = feed(subject)?;
    figures.number("bulk: a member fed s", fed.took.as_secs_f64(), 1);
    let anonymous = fed.anonymous_bytes as f64 / MIB;
    figures.number("bulk: its anonymous MiB", anonymous, 0);
    Ok(())
}

/// Takes the file out of the page cache, as far as nobody has it mapped.
fn forget(path: &Path) -> Result<()> {
    let file = File::open(path)?;
    file.sync_all()?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(())
}

/// Reads a file from its beginning to its end; returns its length and the time.
fn read(path: &Path) -> Result<(u64, Duration)> {
    let (mut file, began) = (File::open(path)?, Instant::now());
    let (mut piece, mut bytes) = (vec![0; READ_BYTES], 0);
    loop {
        match file.read(&mut piece)? {
            0 => return Ok((bytes, began.elapsed())),
            read => bytes += read as u64,
        }
    }
}

fn rate(bytes: u64, took: Duration) -> f64 {
    bytes as f64 / MIB / took.as_secs_f64()
}
