//! What a put costs, how much memory the server holds and how long it takes to start, as the store
//! grows. `cargo plots` draws the record.

#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::time::{Duration, Instant};

use serde_json::json;
use testkit::Usage;

use super::aim::{Aim, at_most, at_most_by_millions, at_most_of_etcd};
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

/// Aims by millions of keys. This one is of keys of 32 B: longer ones are longer in the log, too.
const WRITTEN_BYTES: [(u64, f64); 3] = [(1, 900.0), (10, 1200.0), (100, 1800.0)];
const ANONYMOUS_MIB: [(u64, f64); 2] = [(1, 150.0), (10, 300.0)];
/// Aims for stores of any size.
const WRITTEN_OF_ETCD: f64 = 1.2;
const CLEAN_MS: f64 = 200.0;
const KILLED_MS: f64 = 500.0;
const BEYOND_MS: f64 = 50.0;

/// Overwrites random keys of a fresh store of each size, as often as it has keys or for `--minutes`,
/// whichever is less, or with `--sustained` for all of them; then restarts the server once and kills
/// it [`KILLS`] times.
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
    let mut rows = Rows {
        store: store(keys, key_bytes),
        figures,
    };

    let (url, began) = (subject.url(), Instant::now());
    let filling = fill_long(&url, 0..keys, key_bytes, VALUE_BYTES);
    subject.block_on(local(filling))?;
    rows.number("fill s", began.elapsed().as_secs_f64(), 1);
    let until = Until {
        puts: (!options.big.sustained).then_some(keys),
        over: Duration::from_secs_f64(options.minutes * 60.0),
    };
    let done = overwrite(subject, shape.clone(), &until)?;
    let (before, after, mut taken) = (done.before, done.after, done.taken);

    let puts = taken.count() as f64;
    let per_second = puts / done.took.as_secs_f64();
    let written = (after.disk_write_bytes - before.disk_write_bytes) as f64 / puts;
    let cpu = (after.cpu - before.cpu).as_secs_f64() * 1e6 / puts;
    let (p99, longest_put) = (taken.ms(0.99), taken.ms(1.0));
    let beyond = beyond(longest_put, done.longest_sync);
    let anonymous = done.anonymous_bytes as f64 / MIB;
    let most_anonymous = at_most_by_millions(keys, &ANONYMOUS_MIB);
    rows.number("puts/s", per_second, 0);
    rows.number("CPU us/put", cpu, 1);
    rows.aim("disk B/put", written, 0, most_written(keys, key_bytes));
    rows.number("put p99 ms", p99, 1);
    rows.number("longest put ms", longest_put, 0);
    rows.number("longest sync of a bystander ms", done.longest_sync, 0);
    let name = "longest put beyond the bystander's sync ms";
    rows.aim(name, beyond, 0, at_most(BEYOND_MS));
    rows.aim("most anonymous MiB", anonymous, 0, most_anonymous);
    rows.number("file MiB", subject.file_bytes() / MIB, 0);

    subject.stop();
    let clean = ms(subject.restart()?);
    rows.aim("read after clean stop ms", clean, 0, at_most(CLEAN_MS));
    let mut kills = Vec::new();
    for _ in 0..KILLS {
        kills.push(ms(after_kill(subject, shape.clone())?));
    }
    kills.sort_by(f64::total_cmp);
    let (killed, longest) = (kills[KILLS / 2], kills[KILLS - 1]);
    let aim = at_most(KILLED_MS);
    rows.aim("read after kill -9 under load ms", killed, 0, aim);
    rows.aim("the longest such ms", longest, 0, aim);

    // The plots compare stores by their number of keys alone.
    if key_bytes == KEY_BYTES {
        rows.figures.at_size(
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

/// The rows of one store.
struct Rows<'a, 'b> {
    store: String,
    figures: &'a mut Figures<'b>,
}

impl Rows<'_, '_> {
    fn number(&mut self, what: &str, number: f64, digits: usize) {
        self.aim(what, number, digits, "");
    }

    fn aim(&mut self, what: &str, number: f64, digits: usize, aim: impl Into<Aim>) {
        let name = format!("{}: {what}", self.store);
        self.figures.aim(name, number, digits, aim);
    }
}

/// What the rows call a store.
fn store(keys: u64, key_bytes: usize) -> String {
    match key_bytes {
        KEY_BYTES => format!("{keys} keys"),
        _ => format!("{keys} keys of {key_bytes} B"),
    }
}

fn most_written(keys: u64, key_bytes: usize) -> Aim {
    let mut bounds = vec![at_most_of_etcd(WRITTEN_OF_ETCD)];
    if key_bytes == KEY_BYTES {
        bounds.extend(at_most_by_millions(keys, &WRITTEN_BYTES));
    }
    Aim::Bounds(bounds)
}

/// The milliseconds of the longest put that the bystander's longest sync does not explain.
fn beyond(longest_put: f64, longest_sync: f64) -> f64 {
    let beyond = longest_put - longest_sync;
    // `f64::max` would make 0, and so an aim that is met, of a put that was not measured.
    if beyond < 0.0 { 0.0 } else { beyond }
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

/// When the overwrites end: after so many puts, but not before [`OVERWRITING_MIN`], or after this long,
/// whichever comes first.
struct Until {
    /// `None`: time alone ends them.
    puts: Option<u64>,
    over: Duration,
}

impl Until {
    fn has_come(&self, puts: u64, since: Duration) -> bool {
        let enough = self.puts.is_some_and(|enough| puts >= enough);
        since >= self.over || (enough && since >= OVERWRITING_MIN)
    }
}

/// Overwrites random keys.
fn overwrite(subject: &Subject, shape: Shape, until: &Until) -> Result<Overwritten> {
    let url = subject.url();
    let bystander = Bystander::start(subject.scratch())?;
    let done = subject.block_on(local(async {
        tokio::time::sleep(SETTLE).await;
        bystander.take();
        let before = subject.usage()?;
        let mut load = Load::start(&url, shape).await?;
        let (began, mut anonymous_bytes) = (Instant::now(), 0);
        while !until.has_come(load.count() as u64, began.elapsed()) {
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

    #[test]
    fn what_a_put_may_write_goes_by_the_size_for_short_keys_and_by_etcd_for_all() {
        let of_etcd = at_most_of_etcd(1.2);
        for (keys, number) in [(10_000, 900.0), (2_000_000, 1200.0), (100_000_000, 1800.0)] {
            let aim = most_written(keys, KEY_BYTES);
            assert_eq!(aim.bounds(), [of_etcd, at_most(number)]);
        }
        let beyond_the_list = most_written(100_000_001, KEY_BYTES);
        assert_eq!(beyond_the_list.bounds(), [of_etcd]);
        assert_eq!(most_written(400_000, 500).bounds(), [of_etcd]);
    }

    #[test]
    fn overwrites_end_by_their_number_or_by_time() {
        let seconds = Duration::from_secs;
        let (over, puts) = (seconds(60), Some(1000));
        let until = Until { puts, over };
        assert!(!until.has_come(1000, seconds(9)), "a minimum");
        assert!(!until.has_come(999, seconds(59)));
        assert!(until.has_come(1000, seconds(10)));
        assert!(until.has_come(0, over));
        let sustained = Until { puts: None, over };
        assert!(!sustained.has_come(u64::MAX, seconds(59)));
        assert!(sustained.has_come(0, over));
    }

    #[test]
    fn a_put_that_was_faster_than_a_sync_was_not_beyond_it() {
        assert_eq!(beyond(80.0, 30.0), 50.0);
        assert_eq!(beyond(20.0, 30.0), 0.0);
        assert!(beyond(f64::NAN, 30.0).is_nan(), "nothing was measured");
    }
}
