//! The write-ahead log on a real disk: what one put, or a batch of them, waits for.

#![expect(clippy::unwrap_used, reason = "a bench that fails has nothing to time")]

use std::path::Path;
use std::sync::Arc;

use benches::workload::value;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use storage::encryption::{DataKeys, KeyFile};
use storage::vfs::os::OsVfs;
use storage::wal::{Options, Wal};

const KIND: u8 = 1;
/// Records kept, at least: the log must not outgrow the disk while it is measured.
const KEPT: u64 = 100_000;

struct Log {
    wal: Wal,
    index: u64,
    kept_from: u64,
    payload: Vec<u8>,
}

impl Log {
    fn open(dir: &Path, sealed: bool) -> Log {
        let vfs = Arc::new(OsVfs);
        let keys = KeyFile::parse("keys", &format!("1 {}", "5c".repeat(32))).unwrap();
        let keys = sealed.then_some(&keys);
        let options = Options {
            data_keys: DataKeys::open(vfs.clone(), &dir.join("keys"), keys, true).unwrap(),
            ..Options::default()
        };
        let (wal, _) = Wal::open(vfs, &dir.join("log"), options, &mut |_| Ok(())).unwrap();
        Log {
            wal,
            index: 0,
            kept_from: 0,
            payload: [value(1).as_slice(), &[0; 48]].concat(),
        }
    }

    fn append(&mut self, records: u64, sync: bool) {
        for _ in 0..records {
            self.index += 1;
            self.wal.append(KIND, self.index, &[&self.payload]);
        }
        self.wal.write().unwrap();
        if let Some(job) = self.wal.prepare_next() {
            job.run().unwrap();
        }
        if sync {
            self.wal.sync().unwrap();
        }
        if self.index - self.kept_from > 2 * KEPT {
            self.kept_from = self.index - KEPT;
            self.wal.drop_before(self.kept_from).unwrap();
            if let Some(job) = self.wal.finish_drop() {
                job.run(|| ()).unwrap();
            }
        }
    }
}

fn append(c: &mut Criterion) {
    for (name, sealed) in [("wal", false), ("wal sealed", true)] {
        append_to(c, name, sealed);
    }
}

fn append_to(c: &mut Criterion, name: &str, sealed: bool) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut log = Log::open(dir.path(), sealed);
    let mut group = c.benchmark_group(name);
    for records in [1, 100, 1000] {
        group.throughput(Throughput::Elements(records));
        group.bench_function(format!("append {records}, write, sync"), |b| {
            b.iter(|| log.append(records, true));
        });
    }
    group.throughput(Throughput::Elements(100));
    group.bench_function("append 100, write", |b| b.iter(|| log.append(100, false)));
    group.finish();
}

criterion_group!(benches, append);
criterion_main!(benches);
