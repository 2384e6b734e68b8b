//! Time and memory of a start after a crash, without the reading of the log, and of reads after it: fills a store in key
//! order, overwrites random keys with the checkpoints of a server, and then, several times, opens
//! the last checkpoint and applies the puts after it again. The puts go on where an earlier run in
//! the directory left off.
//!
//! `replay DIR KEYS PUTS [LOG_MIB] [ROUNDS] [FINDS]`: checkpoints come after `LOG_MIB` of log; unless `FINDS` is 0, a
//! second thread looks for the keys.

#![expect(
    clippy::disallowed_methods,
    reason = "measures in place of the server's shell"
)]

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use storage::mvcc::{Applied, End, KeyRange, LonePut, Options, Store, Want};
use storage::vfs::os::OsVfs;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const DIRTY_BYTES_TO_CHECKPOINT: u64 = 96 << 20;
const VALUE: [u8; 256] = [b'v'; 256];
/// Bytes of a log record beside key and value.
const RECORD_BYTES: u64 = 40;
/// Puts between two publishes.
const BATCH: u64 = 16;
const READS: u64 = 200_000;
const RANGES: u64 = 10_000;
const RANGE_KEYS: u32 = 100;
/// Bytes of keys and values that a replay applies at once.
const GATHERED_BYTES: usize = 12 << 20;

/// The key of put number `i`: each key once in order, then random ones.
fn key(i: u64, keys: u64) -> String {
    let number = if i < keys { i } else { mixed(i) % keys };
    format!("/registry/{number:022}")
}

/// Splitmix64: any number becomes a random one.
fn mixed(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

fn applied(i: u64) -> Applied {
    Applied {
        index: i + 1,
        term: 1,
    }
}

fn open(dir: &str) -> Outcome<Store> {
    Ok(Store::open(
        Arc::new(OsVfs),
        Path::new(dir),
        Options::default(),
    )?)
}

fn fill(store: &mut Store, keys: u64, puts: u64, log_bytes_max: u64) -> Outcome<()> {
    let mut log = 0;
    for i in store.root().applied().index..keys + puts {
        let key = key(i, keys);
        store.write(applied(i)).put(key.as_bytes(), &VALUE, 0)?;
        log += RECORD_BYTES + (key.len() + VALUE.len()) as u64;
        if !i.is_multiple_of(BATCH) {
            continue;
        }
        if let Some(job) = store.spill()? {
            job.run()?;
        }
        store.publish();
        // In key order a put dirties little: the server makes a checkpoint early then.
        let is_due = log >= log_bytes_max || store.stats().dirty_bytes >= DIRTY_BYTES_TO_CHECKPOINT;
        if is_due && let Some(job) = store.begin_checkpoint() {
            log = 0;
            store.finish_checkpoint(job.run()?);
            store.publish();
            while !store.release_step(usize::MAX) {}
        }
    }
    Ok(())
}

fn put((key, i): (&String, u64)) -> LonePut<'_> {
    LonePut {
        applied: applied(i),
        key: key.as_bytes(),
        value: &VALUE,
        lease: 0,
    }
}

/// A number of `/proc/self/status`, in KiB.
fn status(name: &str) -> Outcome<u64> {
    let text = std::fs::read_to_string("/proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let digits = line.ok_or("no such number")?.split_whitespace().next();
    Ok(digits.ok_or("no number")?.parse()?)
}

/// Processor time of all threads so far.
fn cpu_millis() -> Outcome<u64> {
    const MILLIS_PER_TICK: u64 = 10;
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, rest) = stat.rsplit_once(')').ok_or("no name")?;
    let times = rest.split_whitespace().skip(11).take(2);
    let ticks: Vec<u64> = times.map(str::parse).collect::<Result<_, _>>()?;
    Ok(ticks.iter().sum::<u64>() * MILLIS_PER_TICK)
}

fn replay(dir: &str, keys: u64, puts: u64, finds: bool) -> Outcome<()> {
    let mut store = open(dir)?;
    let from = store.root().applied().index;
    let all: Vec<String> = (from..keys + puts).map(|i| key(i, keys)).collect();
    let (before, mut most) = (status("RssAnon:")?, 0);
    let per_batch = GATHERED_BYTES / (all[0].len() + VALUE.len());
    let batches: Vec<Vec<LonePut<'_>>> = all
        .chunks(per_batch)
        .zip((from..).step_by(per_batch))
        .map(|(keys, first)| keys.iter().zip(first..).map(put).collect())
        .collect();
    let cpu = cpu_millis()?;
    let begun = Instant::now();
    let reader = store.reader();
    let finds = finds && store.looks_for_keys();
    let mut state: Outcome<()> = Ok(());
    thread::scope(|scope| {
        let (give, take) = mpsc::sync_channel(1);
        let batches = &batches;
        scope.spawn(move || {
            for batch in batches {
                let found = finds.then(|| reader.view().find_for(batch)).transpose();
                if give.send((batch, found)).is_err() {
                    return;
                }
            }
        });
        state = take.into_iter().try_for_each(|(batch, found)| {
            let _ = store.put_all(batch, found?)?;
            let _ = store.spill()?;
            most = most.max(status("RssAnon:")?);
            Ok(())
        });
    });
    state?;
    let micros = begun.elapsed().as_micros() as u64;
    println!(
        "{} puts in {} ms, {:.2} us each; {} ms of CPU; {} MiB of memory; dirty {} MiB; live keys {}",
        all.len(),
        micros / 1000,
        micros as f64 / all.len() as f64,
        cpu_millis()? - cpu,
        most.saturating_sub(before) >> 10,
        store.stats().dirty_bytes >> 20,
        store.root().count(KeyRange::ALL, 0)?
    );
    reads(&store, keys)
}

/// Processor time of a read of one key, and of a range of [`RANGE_KEYS`] keys without values.
fn reads(store: &Store, keys: u64) -> Outcome<()> {
    // The first pass brings the pages into memory.
    let mut micros = [0.0; 2];
    for _ in 0..2 {
        let begun = cpu_millis()?;
        for i in 0..READS {
            store
                .root()
                .get(key(keys + i, keys).as_bytes(), 0, |_| ())?;
        }
        let then = cpu_millis()?;
        for i in 0..RANGES {
            let (key, mut left) = (key(keys + i, keys), RANGE_KEYS);
            let range = KeyRange {
                start: key.as_bytes(),
                end: End::Unbounded,
            };
            store.root().range(range, 0, Want::KeysOnly, &mut |_| {
                left -= 1;
                match left {
                    0 => ControlFlow::Break(()),
                    _ => ControlFlow::Continue(()),
                }
            })?;
        }
        let of_ranges = cpu_millis()? - then;
        micros = [(then - begun, READS), (of_ranges, RANGES)]
            .map(|(millis, count)| millis as f64 * 1000.0 / count as f64);
    }
    println!("get {:.2} us, range {:.1} us", micros[0], micros[1]);
    Ok(())
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().ok_or("no directory")?;
    let mut number = |usual: u64| args.next().map_or(Ok(usual), |arg| arg.parse());
    let (keys, puts, log) = (number(3_000_000)?, number(750_000)?, number(128)?);
    let (rounds, finds) = (number(3)?, number(1)?);
    let mut store = open(&dir)?;
    let missing = keys + puts - store.root().applied().index;
    if missing * (RECORD_BYTES + 32 + VALUE.len() as u64) >= log << 20 {
        fill(&mut store, keys, puts, log << 20)?;
    }
    drop(store);
    for _ in 0..rounds {
        replay(&dir, keys, puts, finds > 0)?;
    }
    Ok(())
}
