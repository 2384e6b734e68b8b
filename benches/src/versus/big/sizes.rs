//! What a put costs, how much memory the server holds and how long it takes to start, as the store
//! grows. `cargo plots` draws the record.

#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::time::{Duration, Instant};

use serde_json::json;
use testkit::Usage;

use super::bystander::Bystander;
use super::load::{Latencies, Load, Shape, Verb, fill_long, local};
use super::restart::{after_kill, ms};
use super::subject::{MIB, Subject};
use super::table::Figures;
use super::{Options, Result};
use crate::versus::loads::VALUE_BYTES;
use crate::workload::KEY_BYTES;

/// Enough for full load.
const CLIENTS: usize = 200;
/// Time for the background work of the fill to finish.
const SETTLE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(250);
/// The time of a start depends on how far the next checkpoint is when the server is killed.
const KILLS: usize = 7;
const OVERWRITING_MIN: Duration = Duration::from_secs(10);

/// Overwrites random keys of a fresh store of each size, as often as it has keys or for `--minutes`,
/// whichever is less, then restarts the server once and kills it [`KILLS`] times.
pub(super) fn measure(
    subject: &mut Subject,
    options: &Options,
    figures: &mut Figures<'_>,
) -> Result<()> {
    for &keys in &options.big.sizes {
        subject.start_afresh()?;
        measure_one(subject, options, figures, keys)?;
        subject.check_alive()?;
    }
    Ok(())
}

fn measure_one(
    subject: &mut Subject,
    options: &Options,
    figures: &mut Figures<'_>,
    keys: u64,
) -> Result<()> {
    let key_bytes = options.big.key_bytes;
    let shape = Shape {
        verb: Verb::Put,
        clients: CLIENTS,
        keys: 0..keys,
        key_bytes,
        value_bytes: VALUE_BYTES,
        rate: None,
    };
    let store = store(keys, key_bytes);
    let mut number = |what: &str, value: f64, digits| {
        figures.number(format!("{store}: {what}"), value, digits);
    };

    let (url, began) = (subject.url(), Instant::now());
    let filling = fill_long(&url, 0..keys, key_bytes, VALUE_BYTES);
    subject.block_on(local(filling))?;
    number("fill s", began.elapsed().as_secs_f64(), 1);
    let over = Duration::from_secs_f64(options.minutes * 60.0);
    let done = overwrite(subject, shape.clone(), over)?;
    let (before, after, mut taken) = (done.before, done.after, done.taken);

    let puts = taken.count() as f64;
    let per_second = puts / done.took.as_secs_f64();
    let written = (after.disk_write_bytes - before.disk_write_bytes) as f64 / puts;
    let cpu = (after.cpu - before.cpu).as_secs_f64() * 1e6 / puts;
    let (p99, anonymous) = (taken.ms(0.99), done.anonymous_bytes as f64 / MIB);
    number("puts/s", per_second, 0);
    number("CPU us/put", cpu, 1);
    number("disk B/put", written, 0);
    number("put p99 ms", p99, 1);
    number("longest put ms", taken.ms(1.0), 0);
    number("longest sync of a bystander ms", done.longest_sync, 0);
    number("most anonymous MiB", anonymous, 0);
    number("file MiB", subject.file_bytes() / MIB, 0);

    subject.stop();
    let clean = ms(subject.restart()?);
    number("read after clean stop ms", clean, 0);
    let mut kills = Vec::new();
    for _ in 0..KILLS {
        kills.push(ms(after_kill(subject, shape.clone())?));
    }
    kills.sort_by(f64::total_cmp);
    let (killed, longest) = (kills[KILLS / 2], kills[KILLS - 1]);
    number("read after kill -9 under load ms", killed, 0);
    number("the longest such ms", longest, 0);

    // The plots compare stores by their number of keys alone.
    if key_bytes == KEY_BYTES {
        figures.at_size(
            keys,
            json!({
                "per_second": per_second,
                "cpu_us_per_op": cpu,
                "disk_bytes_per_put": written,
                "p99_ms": p99,
                "anonymous_mib": anonymous,
                "clean_restart_ms": clean,
                "killed_restart_ms": killed,
            }),
        );
    }
    Ok(())
}

/// What the rows call a store.
fn store(keys: u64, key_bytes: usize) -> String {
    match key_bytes {
        KEY_BYTES => format!("{keys} keys"),
        _ => format!("{keys} keys of {key_bytes} B"),
    }
}

/// What the overwrites took, beside the server's usage before and after them.
struct Overwritten {
    before: Usage,
    after: Usage,
    taken: Latencies,
    took: Duration,
    /// The most at any time.
    anonymous_bytes: u64,
    /// The bystander's meanwhile, in milliseconds.
    longest_sync: f64,
}

/// Overwrites random keys, as often as there are keys or for this long, whichever is less.
fn overwrite(subject: &Subject, shape: Shape, over: Duration) -> Result<Overwritten> {
    let (url, keys) = (subject.url(), shape.keys.end);
    let bystander = Bystander::start(subject.scratch())?;
    let done = subject.block_on(local(async {
        tokio::time::sleep(SETTLE).await;
        bystander.take();
        let before = subject.usage()?;
        let mut load = Load::start(&url, shape).await?;
        let (began, mut anonymous_bytes) = (Instant::now(), 0);
        while began.elapsed() < over
            && (began.elapsed() < OVERWRITING_MIN || (load.count() as u64) < keys)
        {
            tokio::time::sleep(POLL).await;
            anonymous_bytes = anonymous_bytes.max(subject.usage()?.anonymous_bytes);
        }
        let (taken, took) = load.take().await?;
        Ok(Overwritten {
            before,
            after: subject.usage()?,
            taken,
            took,
            anonymous_bytes,
            longest_sync: bystander.take(),
        })
    }))?;
    bystander.stop()?;
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_name_the_length_of_keys_that_are_not_as_usual() {
        assert_eq!(store(400_000, KEY_BYTES), "400000 keys");
        assert_eq!(store(400_000, 500), "400000 keys of 500 B");
    }
}
