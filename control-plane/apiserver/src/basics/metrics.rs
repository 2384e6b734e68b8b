//! Counters and histograms of this process by their labels, as Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use go_text::float;
use parking_lot::Mutex;

/// Upper bound of the series of a family. Clients choose some labels; further ones are not counted.
const SERIES_MAX: usize = 10_000;

/// Upper bound of a label's value, in bytes. No name that an object may have is longer; what a
/// client makes up is cut.
const LABEL_BYTES_MAX: usize = 256;

/// Bounds that double from a millisecond, in seconds.
pub(crate) const FROM_MILLISECOND: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096,
    8.192, 16.384,
];

/// A metric with all its series.
pub(crate) struct Family {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    kind: Kind,
    series: Mutex<BTreeMap<Vec<String>, Series>>,
}

enum Kind {
    Counter,
    Gauge,
    /// The upper bounds of its buckets.
    Histogram(&'static [f64]),
}

/// The values of one combination of labels.
#[derive(Default)]
struct Series {
    count: u64,
    /// The sum of a histogram, or the value of a gauge.
    value: f64,
    buckets: Vec<u64>,
}

impl Family {
    pub(crate) const fn counter(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Family {
        Family::new(name, help, labels, Kind::Counter)
    }

    pub(crate) const fn gauge(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
    ) -> Family {
        Family::new(name, help, labels, Kind::Gauge)
    }

    pub(crate) const fn histogram(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        bounds: &'static [f64],
    ) -> Family {
        Family::new(name, help, labels, Kind::Histogram(bounds))
    }

    const fn new(
        name: &'static str,
        help: &'static str,
        labels: &'static [&'static str],
        kind: Kind,
    ) -> Family {
        Family {
            name,
            help,
            labels,
            kind,
            series: Mutex::new(BTreeMap::new()),
        }
    }

    /// Counts one. There are as many labels as names of them.
    pub(crate) fn count(&self, labels: &[&str]) {
        self.change(labels, |series| series.count += 1);
    }

    /// Sets a gauge.
    pub(crate) fn set(&self, labels: &[&str], value: f64) {
        self.change(labels, |series| series.value = value);
    }

    /// Sets a gauge, and drops those with other labels.
    pub(crate) fn set_alone(&self, labels: &[&str], value: f64) {
        self.series.lock().clear();
        self.set(labels, value);
    }

    /// Adds a value to a histogram.
    pub(crate) fn observe(&self, labels: &[&str], value: f64) {
        let Kind::Histogram(bounds) = self.kind else {
            return;
        };
        self.change(labels, |series| {
            series.buckets.resize(bounds.len(), 0);
            series.count += 1;
            series.value += value;
            if let Some(bucket) = series
                .buckets
                .get_mut(bounds.partition_point(|bound| *bound < value))
            {
                *bucket += 1;
            }
        });
    }

    /// Adds a duration to a histogram.
    pub(crate) fn took(&self, labels: &[&str], duration: Duration) {
        self.observe(labels, duration.as_secs_f64());
    }

    fn change(&self, labels: &[&str], change: impl FnOnce(&mut Series)) {
        debug_assert_eq!(labels.len(), self.labels.len(), "{}", self.name);
        let cut = |label: &&str| label[..label.floor_char_boundary(LABEL_BYTES_MAX)].to_owned();
        let key: Vec<String> = labels.iter().map(cut).collect();
        let mut all = self.series.lock();
        if all.len() < SERIES_MAX || all.contains_key(&key) {
            change(all.entry(key).or_default());
        }
    }

    /// Writes the family unless nothing was counted.
    pub(crate) fn write(&self, out: &mut String) {
        let all = self.series.lock();
        if all.is_empty() {
            return;
        }
        let Family { name, help, .. } = self;
        let kind = match self.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        line(out, format_args!("# HELP {name} {help}"));
        line(out, format_args!("# TYPE {name} {kind}"));
        for (labels, series) in all.iter() {
            let pairs = self.labels.iter().zip(labels);
            let pairs: Vec<String> = pairs
                .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
                .collect();
            let pairs = pairs.join(",");
            let braces = match pairs.as_str() {
                "" => String::new(),
                pairs => format!("{{{pairs}}}"),
            };
            match self.kind {
                Kind::Counter => line(out, format_args!("{name}{braces} {}", series.count)),
                Kind::Gauge => line(out, format_args!("{name}{braces} {}", float(series.value))),
                Kind::Histogram(bounds) => {
                    let comma = if pairs.is_empty() { "" } else { "," };
                    let mut sum = 0;
                    for (bound, count) in bounds.iter().zip(&series.buckets) {
                        sum += count;
                        let bound = float(*bound);
                        line(
                            out,
                            format_args!("{name}_bucket{{{pairs}{comma}le=\"{bound}\"}} {sum}"),
                        );
                    }
                    let count = series.count;
                    line(
                        out,
                        format_args!("{name}_bucket{{{pairs}{comma}le=\"+Inf\"}} {count}"),
                    );
                    let value = float(series.value);
                    line(out, format_args!("{name}_sum{braces} {value}"));
                    line(out, format_args!("{name}_count{braces} {count}"));
                }
            }
        }
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into a string cannot fail.
    let _ = writeln!(out, "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_that_a_client_makes_up_is_cut() {
        static COUNTER: Family = Family::counter("cut_total", "Counts.", &["a"]);
        for end in ["x", "y"] {
            COUNTER.count(&[&format!("{}{end}", "ä".repeat(30_000))]);
        }
        let mut text = String::new();
        COUNTER.write(&mut text);
        let line = format!("cut_total{{a=\"{}\"}} 2\n", "ä".repeat(LABEL_BYTES_MAX / 2));
        assert!(text.ends_with(&line), "{text}");
    }

    #[test]
    fn families_are_written_as_prometheus_reads_them() {
        static COUNTER: Family = Family::counter("c_total", "[ALPHA] Counts.", &["a", "b"]);
        static GAUGE: Family = Family::gauge("g", "Is.", &[]);
        static HISTOGRAM: Family = Family::histogram("h", "Takes.", &["a"], &[5e-6, 0.25, 1.0]);
        let written = || {
            let mut text = String::new();
            for one in [&COUNTER, &GAUGE, &HISTOGRAM] {
                one.write(&mut text);
            }
            text
        };
        assert_eq!(written(), "");
        COUNTER.count(&["x", "say \"hi\""]);
        COUNTER.count(&["x", "say \"hi\""]);
        GAUGE.set(&[], 1.5);
        for value in [1e-6, 0.25, 0.3, 7.0] {
            HISTOGRAM.observe(&["x"], value);
        }
        let expected = "# HELP c_total [ALPHA] Counts.\n# TYPE c_total counter\n\
            c_total{a=\"x\",b=\"say \\\"hi\\\"\"} 2\n# HELP g Is.\n# TYPE g gauge\ng 1.5\n\
            # HELP h Takes.\n# TYPE h histogram\nh_bucket{a=\"x\",le=\"5e-06\"} 1\n\
            h_bucket{a=\"x\",le=\"0.25\"} 2\nh_bucket{a=\"x\",le=\"1\"} 3\n\
            h_bucket{a=\"x\",le=\"+Inf\"} 4\nh_sum{a=\"x\"} 7.550001\nh_count{a=\"x\"} 4\n";
        assert_eq!(written(), expected);
    }
}
