//! Prometheus' text format.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::value::Histogram;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Counter,
    Gauge,
    Histogram,
    Summary,
}

/// Families being built; written out sorted by name.
#[derive(Debug, Default)]
pub(super) struct Text(BTreeMap<&'static str, String>);

impl Text {
    /// Opens a family. Samples may be added in several steps.
    pub(super) fn family(&mut self, name: &'static str, kind: Type, help: &str) -> Family<'_> {
        let out = self.0.entry(name).or_insert_with(|| {
            let kind = match kind {
                Type::Counter => "counter",
                Type::Gauge => "gauge",
                Type::Histogram => "histogram",
                Type::Summary => "summary",
            };
            format!("# HELP {name} {help}\n# TYPE {name} {kind}\n")
        });
        Family { name, out }
    }

    pub(super) fn finish(self) -> String {
        self.0.into_values().collect()
    }
}

pub(super) struct Family<'a> {
    name: &'static str,
    out: &'a mut String,
}

impl Family<'_> {
    pub(super) fn sample(&mut self, labels: &[(&str, &str)], value: f64) -> &mut Self {
        self.line("", labels, None, value);
        self
    }

    pub(super) fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        histogram: &Histogram,
    ) -> &mut Self {
        let (buckets, sum) = histogram.read();
        let count = buckets.last().map_or(0, |bucket| bucket.1);
        for (bound, count) in buckets {
            self.line("_bucket", labels, Some(("le", bound)), count as f64);
        }
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, count as f64);
        self
    }

    /// A summary without observations.
    pub(super) fn empty_summary(&mut self, quantiles: &[f64]) {
        for quantile in quantiles {
            self.line("", &[], Some(("quantile", *quantile)), 0.0);
        }
        self.line("_sum", &[], None, 0.0);
        self.line("_count", &[], None, 0.0);
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: &[(&str, &str)],
        last: Option<(&str, f64)>,
        value: f64,
    ) {
        let out = &mut *self.out;
        out.push_str(self.name);
        out.push_str(suffix);
        let mut separator = '{';
        for (name, text) in labels {
            let _ = write!(out, "{separator}{name}=\"");
            escape(out, text);
            out.push('"');
            separator = ',';
        }
        if let Some((name, number)) = last {
            let _ = write!(out, "{separator}{name}=\"");
            float(out, number);
            out.push('"');
            separator = ',';
        }
        if separator == ',' {
            out.push('}');
        }
        out.push(' ');
        float(out, value);
        out.push('\n');
    }
}

fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

/// Formats like Go's `%g` without precision: scripts that grep etcd's metrics expect
/// `2.147483648e+09`.
fn float(out: &mut String, value: f64) {
    if value.is_infinite() {
        out.push_str(if value > 0.0 { "+Inf" } else { "-Inf" });
        return;
    }
    if value.is_nan() {
        out.push_str("NaN");
        return;
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..6).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.abs());
    } else {
        let _ = write!(out, "{value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_like_gos() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (-1.0, "-1"),
            (0.0001, "0.0001"),
            (6.7611e-05, "6.7611e-05"),
            (524288.0, "524288"),
            (1048576.0, "1.048576e+06"),
            (2147483648.0, "2.147483648e+09"),
            (20480.0, "20480"),
            (3.3947648e+07, "3.3947648e+07"),
            (f64::INFINITY, "+Inf"),
        ];
        for (value, text) in cases {
            let mut out = String::new();
            float(&mut out, value);
            assert_eq!(out, text);
        }
    }

    #[test]
    fn labels_are_escaped() {
        let mut text = Text::default();
        text.family("a", Type::Gauge, "Help.")
            .sample(&[("l", "x\"y\\z\n")], 1.0);
        assert_eq!(
            text.finish(),
            "# HELP a Help.\n# TYPE a gauge\na{l=\"x\\\"y\\\\z\\n\"} 1\n"
        );
    }
}
