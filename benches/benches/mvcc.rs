//! The multi-version store: puts in batches with a publish after each, point reads, ranges, counts.

#![expect(clippy::unwrap_used, reason = "a bench that fails has nothing to time")]
#![expect(
    clippy::disallowed_methods,
    reason = "times the puts without the checkpoints between them"
)]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use benches::workload::{Checksum, Keys, key, scaled, value};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use storage::encryption::{DataKeys, KeyFile};
use storage::mvcc::{Applied, End, KeyRange, Options, Store, View, Want};
use storage::vfs::os::OsVfs;
use tempfile::TempDir;

/// Keys in the store.
const KEYS: u64 = 200_000;
const BATCH: u64 = 100;
const PAGE: u64 = 500;
/// Not saved in memory at most, as a server would keep it.
const DIRTY_BYTES_MAX: u64 = 64 << 20;

struct Bench {
    store: Store,
    keys: Keys,
    index: u64,
    _dir: TempDir,
}

impl Bench {
    /// A store with all keys in it, in random order as far as the trees can tell.
    fn filled(sealed: bool) -> Bench {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let keys = KeyFile::parse("keys", &format!("1 {}", "5c".repeat(32))).unwrap();
        let keys = sealed.then_some(&keys);
        let data_keys =
            DataKeys::open(Arc::new(OsVfs), &dir.path().join("keys"), keys, true).unwrap();
        let path = dir.path().join("store");
        let store = Store::open(Arc::new(OsVfs), &path, Options { data_keys });
        let mut bench = Bench {
            store: store.unwrap(),
            keys: Keys::new(7, scaled(KEYS)),
            index: 0,
            _dir: dir,
        };
        // A step coprime to the number of keys meets each of them once.
        const STEP: u64 = 1_000_003;
        let count = scaled(KEYS);
        for number in 0..count {
            bench.put(&key(number * STEP % count), number);
            if number.is_multiple_of(BATCH) {
                bench.store.publish();
                bench.checkpoint();
            }
        }
        bench.store.publish();
        bench
    }

    fn put(&mut self, key: &[u8], number: u64) {
        self.index += 1;
        let applied = Applied {
            index: self.index,
            term: 1,
        };
        let mut write = self.store.write(applied);
        write.put(key, &value(number), 0).unwrap();
    }

    fn checkpoint(&mut self) {
        if self.store.stats().dirty_bytes > DIRTY_BYTES_MAX {
            let job = self.store.begin_checkpoint().unwrap();
            let done = job.run().unwrap();
            self.store.finish_checkpoint(done);
        }
    }

    fn view(&self) -> View {
        self.store.reader().view()
    }
}

/// In the clear, and under a key.
const GROUPS: [(&str, bool); 2] = [("mvcc", false), ("mvcc sealed", true)];

fn reads(c: &mut Criterion) {
    for (name, sealed) in GROUPS {
        reads_of(c, name, sealed);
    }
}

fn reads_of(c: &mut Criterion, name: &str, sealed: bool) {
    let mut bench = Bench::filled(sealed);
    let view = bench.view();
    let mut checksum = Checksum::default();
    let all = KeyRange::ALL;
    checksum.add(&view.revision().to_be_bytes());
    checksum.add(&view.count(all, 0).unwrap().to_be_bytes());

    let mut group = c.benchmark_group(name);
    group.bench_function("get", |b| {
        b.iter(|| {
            let key = bench.keys.next_key();
            view.get(&key, 0, |item| item.value.len()).unwrap()
        });
    });
    group.bench_function("count all", |b| b.iter(|| view.count(all, 0).unwrap()));
    group.throughput(Throughput::Elements(PAGE));
    for (name, want) in [("keys", Want::KeysOnly), ("values", Want::Values)] {
        group.bench_function(format!("range of {PAGE}, {name}"), |b| {
            b.iter(|| {
                let start = bench.keys.next_key();
                let range = KeyRange {
                    start: &start,
                    end: End::Unbounded,
                };
                let (mut left, mut bytes) = (PAGE, 0);
                view.range(range, 0, want, &mut |item| {
                    bytes += item.key.len() + item.value.len();
                    left -= 1;
                    match left {
                        0 => ControlFlow::Break(()),
                        _ => ControlFlow::Continue(()),
                    }
                })
                .unwrap();
                bytes
            });
        });
    }
    group.finish();
    eprintln!("mvcc: checksum {:016x}", checksum.number());
}

fn puts(c: &mut Criterion) {
    for (name, sealed) in GROUPS {
        puts_of(c, name, sealed);
    }
}

fn puts_of(c: &mut Criterion, name: &str, sealed: bool) {
    let mut bench = Bench::filled(sealed);
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(BATCH));
    group.bench_function(format!("put {BATCH}, publish"), |b| {
        b.iter_custom(|iterations| {
            let mut total = Duration::ZERO;
            for _ in 0..iterations {
                let start = Instant::now();
                for number in 0..BATCH {
                    let key = bench.keys.next_key();
                    bench.put(&key, number);
                }
                bench.store.publish();
                total += start.elapsed();
                bench.checkpoint();
            }
            total
        });
    });
    group.finish();
}

criterion_group!(benches, reads, puts);
criterion_main!(benches);
