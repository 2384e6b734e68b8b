//! Counters, gauges and histograms for many threads; an update costs one or two relaxed atomic
//! additions.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn inc(&self) {
        self.add(1);
    }

    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicI64);

impl Gauge {
    pub(crate) fn set(&self, value: i64) {
        self.0.store(value, Relaxed);
    }

    pub(crate) fn add(&self, difference: i64) {
        self.0.fetch_add(difference, Relaxed);
    }

    /// Adds one until the returned value is dropped.
    pub(crate) fn hold(&self) -> InProgress<'_> {
        self.add(1);
        InProgress(self)
    }

    pub(crate) fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

/// See [`Gauge::hold`].
#[derive(Debug)]
pub(crate) struct InProgress<'a>(&'a Gauge);

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

/// Bucket bounds that double: the first bound and the number of bounds, in the histogram's unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buckets {
    pub first: f64,
    pub count: usize,
}

/// The unit of a histogram's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
    One,
}

impl Unit {
    /// Factor from the unit to the stored integers: nanoseconds, or plain counts.
    fn scale(self) -> f64 {
        match self {
            Unit::Seconds => 1e9,
            Unit::Milliseconds => 1e6,
            Unit::One => 1.0,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Histogram {
    unit: Unit,
    /// Upper bounds, scaled, ascending. The last bucket has no bound.
    bounds: Box<[u64]>,
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

impl Histogram {
    pub(crate) fn new(unit: Unit, buckets: Buckets) -> Histogram {
        let bounds = (0..buckets.count).map(|i| buckets.first * (1u64 << i) as f64);
        Histogram::with_bounds(unit, bounds)
    }

    pub(crate) fn with_bounds(unit: Unit, bounds: impl IntoIterator<Item = f64>) -> Histogram {
        let bounds: Box<[u64]> = bounds
            .into_iter()
            .map(|bound| (bound * unit.scale()).round() as u64)
            .collect();
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram {
            unit,
            bounds,
            buckets,
            sum: AtomicU64::new(0),
        }
    }

    pub(crate) fn is_used(&self) -> bool {
        self.buckets.iter().any(|bucket| bucket.load(Relaxed) > 0)
    }

    pub(crate) fn observe(&self, duration: Duration) {
        debug_assert_ne!(self.unit, Unit::One);
        self.record(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Observes `count` events of the same duration.
    pub(crate) fn observe_each(&self, duration: Duration, count: u64) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.record_each(nanos, count);
    }

    /// For histograms of plain counts.
    pub(crate) fn observe_count(&self, count: u64) {
        debug_assert_eq!(self.unit, Unit::One);
        self.record(count);
    }

    fn record(&self, value: u64) {
        self.record_each(value, 1);
    }

    fn record_each(&self, value: u64, count: u64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[bucket].fetch_add(count, Relaxed);
        self.sum.fetch_add(value.saturating_mul(count), Relaxed);
    }

    /// Cumulative counts by upper bound (the last is infinite), and the sum.
    pub(crate) fn read(&self) -> (Vec<(f64, u64)>, f64) {
        let scale = self.unit.scale();
        let bounds = self
            .bounds
            .iter()
            .map(|bound| *bound as f64 / scale)
            .chain([f64::INFINITY]);
        let mut total = 0;
        let counts = self.buckets.iter().map(|bucket| {
            total += bucket.load(Relaxed);
            total
        });
        (
            bounds.zip(counts).collect(),
            self.sum.load(Relaxed) as f64 / scale,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observations_land_in_the_first_bucket_that_holds_them() {
        let histogram = Histogram::new(
            Unit::Seconds,
            Buckets {
                first: 0.001,
                count: 3,
            },
        );
        for micros in [500, 1_000, 1_001, 4_000, 9_000] {
            histogram.observe(Duration::from_micros(micros));
        }
        let (buckets, sum) = histogram.read();
        assert_eq!(
            buckets,
            [(0.001, 2), (0.002, 3), (0.004, 4), (f64::INFINITY, 5)]
        );
        assert!((sum - 0.015501).abs() < 1e-12);
    }
}
