//! A histogram of durations, in the form of Prometheus.

use std::fmt::Write as _;
use std::time::Duration;

/// Upper bounds of the buckets, in seconds, which are those of Kubernetes.
const BOUNDS: [f64; 13] = [
    0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0,
];

/// How many durations there were of each length.
#[derive(Debug, Clone, Default)]
pub(crate) struct Histogram {
    /// One for each bound, and one for what is above all of them.
    buckets: [u64; BOUNDS.len() + 1],
    seconds: f64,
}

impl Histogram {
    pub(crate) fn add(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        self.buckets[BOUNDS.partition_point(|bound| *bound < seconds)] += 1;
        self.seconds += seconds;
    }

    /// Number of durations.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Writes the samples of a metric with these labels, without braces.
    pub(crate) fn write(&self, out: &mut String, name: &str, labels: &str) {
        let mut sum = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            sum += count;
            let bound = BOUNDS.get(at).map_or("+Inf".to_owned(), f64::to_string);
            line(
                out,
                format_args!("{name}_bucket{{{labels},le=\"{bound}\"}} {sum}"),
            );
        }
        line(out, format_args!("{name}_sum{{{labels}}} {}", self.seconds));
        line(out, format_args!("{name}_count{{{labels}}} {sum}"));
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into a string cannot fail.
    let _ = writeln!(out, "{text}");
}
