//! Bytes that the store writes to disk per put, by the kernel's count, without the log: fills a
//! store in random order, then overwrites random keys, and compacts now and then if asked to.
//! Checkpoints come as in a server, but not by the time that a start would take: after 128 MiB or
//! 400,000 entries of log, 64 MiB or 75,000 while there are deltas, or 96 MiB of changed pages.
//!
//! `bytes_per_put DIR KEYS PUTS [KEY_BYTES] [VALUE_BYTES] [COMPACT_EVERY] [DIRECT_MIB]`

#![expect(
    clippy::disallowed_methods,
    reason = "measures in place of the server's shell"
)]

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use storage::mvcc::{
    Applied, CheckpointDone, End, KEY_BYTES_DIRECT, KeyRange, Options, Store, Want,
};
use storage::vfs::os::OsVfs;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const LOG_BYTES_TO_CHECKPOINT: u64 = 128 << 20;
const ENTRIES_TO_CHECKPOINT: u64 = 400_000;
const LOG_BYTES_WITH_DELTAS: u64 = 64 << 20;
const ENTRIES_WITH_DELTAS: u64 = 75_000;
const DIRTY_BYTES_TO_CHECKPOINT: u64 = 96 << 20;
/// Bytes of changed pages at which puts wait for the checkpoint.
const DIRTY_BYTES_MAX: u64 = 160 << 20;
/// Bytes of a log record beside key and value.
const RECORD_BYTES: u64 = 40;
/// Puts between two publishes.
const BATCH: u64 = 16;
/// Coprime to the number of keys: the first puts meet each key once.
const STEP: u64 = 618_033_989;
const READS: u64 = 20_000;
const RANGES: u64 = 2_000;
const RANGE_KEYS: u32 = 100;

struct Load {
    store: Store,
    running: Option<JoinHandle<storage::Result<CheckpointDone>>>,
    index: u64,
    log: u64,
    /// The last entry before the newest checkpoint.
    saved: u64,
    checkpoints: u64,
    key_bytes: usize,
    value: Vec<u8>,
}

impl Load {
    fn key(&self, number: u64) -> String {
        let digits = self.key_bytes - "/registry/".len();
        format!("/registry/{number:0>digits$}")
    }

    fn put(&mut self, number: u64) -> Outcome<()> {
        let key = self.key(number);
        self.index += 1;
        let applied = Applied {
            index: self.index,
            term: 1,
        };
        self.store
            .write(applied)
            .put(key.as_bytes(), &self.value, 0)?;
        self.log += RECORD_BYTES + (key.len() + self.value.len()) as u64;
        if self.index.is_multiple_of(BATCH) {
            if let Some(job) = self.store.spill()? {
                job.run()?;
            }
            self.store.publish();
            self.checkpoint()?;
        }
        Ok(())
    }

    fn checkpoint(&mut self) -> Outcome<()> {
        let must_wait = self.store.stats().dirty_bytes >= DIRTY_BYTES_MAX;
        let is_over = |running: &mut JoinHandle<_>| must_wait || running.is_finished();
        if let Some(running) = self.running.take_if(is_over) {
            let done = running.join().map_err(|_| "the checkpoint panicked")??;
            self.store.finish_checkpoint(done);
            self.store.publish();
            self.store.take_retired();
        }
        let stats = self.store.stats();
        let (log_max, entries_max) = if stats.has_deltas {
            (LOG_BYTES_WITH_DELTAS, ENTRIES_WITH_DELTAS)
        } else {
            (LOG_BYTES_TO_CHECKPOINT, ENTRIES_TO_CHECKPOINT)
        };
        let is_due = self.log >= log_max
            || self.index - self.saved >= entries_max
            || stats.dirty_bytes >= DIRTY_BYTES_TO_CHECKPOINT;
        if self.running.is_none()
            && is_due
            && let Some(job) = self.store.begin_checkpoint()
        {
            self.log = 0;
            self.saved = self.index;
            self.checkpoints += 1;
            self.running = Some(thread::spawn(move || job.run()));
        }
        Ok(())
    }

    fn compact(&mut self) -> Outcome<()> {
        let revision = self.store.root().revision();
        self.index += 1;
        let applied = Applied {
            index: self.index,
            term: 1,
        };
        self.store.write(applied).compact(revision)?;
        while !self.store.compact_step(256)?.done {
            if let Some(job) = self.store.spill()? {
                job.run()?;
            }
            self.store.publish();
            self.checkpoint()?;
        }
        Ok(())
    }
}

/// Splitmix64: any number becomes a random one.
fn mixed(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

/// Mean time of a read of one key.
fn get_micros(load: &Load, keys: u64) -> Outcome<f64> {
    let mut nanos = 0;
    // The first pass brings the pages into memory.
    for _ in 0..2 {
        let begun = Instant::now();
        for i in 0..READS {
            let key = load.key(mixed(i) % keys);
            load.store.root().get(key.as_bytes(), 0, |_| ())?;
        }
        nanos = begun.elapsed().as_nanos() as u64;
    }
    Ok((nanos / READS) as f64 / 1000.0)
}

/// Mean time of a range of [`RANGE_KEYS`] keys without values.
fn range_micros(load: &Load, keys: u64) -> Outcome<f64> {
    let begun = Instant::now();
    for i in 0..RANGES {
        let (key, mut left) = (load.key(mixed(i) % keys), RANGE_KEYS);
        let range = KeyRange {
            start: key.as_bytes(),
            end: End::Unbounded,
        };
        load.store
            .root()
            .range(range, 0, Want::KeysOnly, &mut |_| {
                left -= 1;
                match left {
                    0 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            })?;
    }
    let nanos = begun.elapsed().as_nanos() as u64;
    Ok((nanos / RANGES) as f64 / 1000.0)
}

/// Processor time of all threads so far.
fn cpu_micros() -> Outcome<u64> {
    const MICROS_PER_TICK: u64 = 10_000;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, rest) = stat.rsplit_once(')').ok_or("no name")?;
    let times = rest.split_whitespace().skip(11).take(2);
    let ticks: Vec<u64> = times.map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<u64>() * MICROS_PER_TICK)
}

/// A number of `/proc/self/FILE`.
fn number_of(file: &str, name: &str) -> Outcome<u64> {
    let text = std::fs::read_to_string(Path::new("/proc/self").join(file))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let digits = line.ok_or("no such number")?.split_whitespace().next();
    Ok(digits.ok_or("no number")?.parse()?)
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().ok_or("no directory")?;
    let mut number = |usual: u64| args.next().map_or(Ok(usual), |arg| arg.parse());
    let (keys, puts) = (number(1_000_000)?, number(1_000_000)?);
    let (key_bytes, value_bytes, compact_every) = (number(32)?, number(256)?, number(u64::MAX)?);
    let direct_bytes = number(KEY_BYTES_DIRECT >> 20)? << 20;
    let mut store = Store::open(Arc::new(OsVfs), Path::new(&dir), Options::default())?;
    store.set_key_bytes_direct(direct_bytes);
    let mut load = Load {
        store,
        running: None,
        index: 0,
        log: 0,
        saved: 0,
        checkpoints: 0,
        key_bytes: key_bytes as usize,
        value: vec![b'v'; value_bytes as usize],
    };
    println!("puts  bytes/put  cpu_us/put  checkpoints  anonymous_MB  file_MB  get_us  range_us");
    let part = (puts / 4).max(1);
    for (from, to) in [(0, keys)]
        .into_iter()
        .chain((0..4).map(|i| (keys + i * part, keys + (i + 1) * part)))
    {
        let (written, cpu) = (number_of("io", "write_bytes:")?, cpu_micros()?);
        load.checkpoints = 0;
        for i in from..to {
            load.put(if i < keys {
                i * STEP % keys
            } else {
                mixed(i) % keys
            })?;
            if i >= keys && i.is_multiple_of(compact_every) {
                load.compact()?;
            }
        }
        let written = number_of("io", "write_bytes:")? - written;
        let cpu = cpu_micros()? - cpu;
        let (get, range) = (get_micros(&load, keys)?, range_micros(&load, keys)?);
        println!(
            "{to:>9}  {}  {:.2}  {}  {}  {}  {:.2}  {:.2}",
            written / (to - from),
            cpu as f64 / (to - from) as f64,
            load.checkpoints,
            number_of("status", "RssAnon:")? >> 10,
            load.store.stats().file_bytes >> 20,
            get,
            range,
        );
    }
    println!("live keys {}", load.store.root().count(KeyRange::ALL, 0)?);
    if let Some(running) = load.running.take() {
        load.store
            .finish_checkpoint(running.join().map_err(|_| "the checkpoint panicked")??);
    }
    Ok(())
}
