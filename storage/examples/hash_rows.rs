//! What it costs to read the rows of a hash of the data: fills a store in random order, then
//! overwrites random keys and compacts, round after round, and prints the processor time of each
//! round's two parts: what was superseded is gathered, and history is read. Rows that a compaction
//! dropped are removed after every second round.
//!
//! `hash_rows DIR KEYS CHANGES [VALUE_BYTES]`

use std::error::Error;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use storage::mvcc::{Applied, Change, Options, Revision, Store};
use storage::vfs::os::OsVfs;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const ROUNDS: u64 = 4;
/// Puts between two publishes.
const BATCH: u64 = 256;
const DIRTY_BYTES_TO_CHECKPOINT: u64 = 96 << 20;
/// Coprime to the number of keys: the first puts meet each key once.
const STEP: u64 = 618_033_989;

struct Load {
    store: Store,
    index: u64,
    value: Vec<u8>,
}

impl Load {
    fn next(&mut self) -> Applied {
        self.index += 1;
        Applied {
            index: self.index,
            term: 1,
        }
    }

    fn put(&mut self, number: u64) -> Outcome<()> {
        let (applied, key) = (self.next(), format!("/registry/{number:0>22}"));
        let mut write = self.store.write(applied);
        write.put(key.as_bytes(), &self.value, 0)?;
        drop(write);
        if self.index.is_multiple_of(BATCH) {
            self.rest()?;
        }
        Ok(())
    }

    /// What a server does between entries.
    fn rest(&mut self) -> Outcome<()> {
        if let Some(job) = self.store.spill()? {
            job.run()?;
        }
        self.store.publish();
        if self.store.stats().dirty_bytes >= DIRTY_BYTES_TO_CHECKPOINT
            && let Some(job) = self.store.begin_checkpoint()
        {
            self.store.finish_checkpoint(job.run()?);
            self.store.publish();
        }
        Ok(())
    }

    fn compact(&mut self, removes: bool) -> Outcome<()> {
        let (applied, revision) = (self.next(), self.store.root().revision());
        self.store.write(applied).compact(revision)?;
        while removes && !self.store.compact_step(256)?.done {
            self.rest()?;
        }
        Ok(())
    }

    /// The rows hashed, and the processor time of the two parts.
    fn hash(&self) -> Outcome<(u64, Duration, Duration)> {
        let go_on = &mut || ControlFlow::Continue(());
        let root = self.store.root();
        let begun = cpu_time();
        let rows = root.hash_rows_at_compaction(root.revision(), go_on)?;
        let rows = rows.ok_or("broken off")?;
        let gathered = cpu_time();
        let (mut count, mut sum) = (0, 0);
        let mut take = |change: Change<'_>| {
            count += 1;
            if let Change::Put { item, .. } = change {
                sum = crc32c::crc32c_append(sum, item.value);
            }
        };
        let _ = rows.visit(Revision::default(), &mut take, go_on)?;
        black_box(sum);
        Ok((count, gathered - begun, cpu_time() - gathered))
    }
}

/// Processor time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Splitmix64: any number becomes a random one.
fn mixed(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let dir = args.next().ok_or("no directory")?;
    let mut number = |usual: u64| args.next().map_or(Ok(usual), |arg| arg.parse());
    let (keys, changes, value_bytes) = (number(1_000_000)?, number(200_000)?, number(256)?);
    let store = Store::open(Arc::new(OsVfs), Path::new(&dir), Options::default())?;
    let mut load = Load {
        store,
        index: 0,
        value: vec![b'v'; value_bytes as usize],
    };
    for i in 0..keys {
        load.put(i * STEP % keys)?;
    }
    load.compact(true)?;
    println!("rows      gathering_ms  reading_ms  us_per_row");
    for round in 0..ROUNDS {
        for i in 0..changes {
            load.put(mixed(round * changes + i) % keys)?;
        }
        let (rows, gathering, reading) = load.hash()?;
        let both = (gathering + reading).as_secs_f64();
        println!(
            "{rows:<9} {:<13} {:<11} {:.2}",
            gathering.as_millis(),
            reading.as_millis(),
            both * 1e6 / rows as f64
        );
        load.compact(round % 2 == 1)?;
    }
    Ok(())
}
