//! The two checksums at hand, on what is summed: the head of a record, records, a sector of the log,
//! a page.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

const SIZES: [usize; 5] = [28, 300, 508, 1000, 4096];

fn checksum(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("checksum");
    group.measurement_time(Duration::from_secs(1));
    group.warm_up_time(Duration::from_millis(300));
    for size in SIZES {
        let bytes: Vec<u8> = (0..size).map(|place| (place * 31) as u8).collect();
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_with_input(BenchmarkId::new("crc32c", size), &bytes, |b, bytes| {
            b.iter(|| crc32c::crc32c(black_box(bytes)));
        });
        group.bench_with_input(BenchmarkId::new("crc32fast", size), &bytes, |b, bytes| {
            b.iter(|| crc32fast::hash(black_box(bytes)));
        });
    }
    group.finish();
}

criterion_group!(benches, checksum);
criterion_main!(benches);
