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
            out.push_str(&go_text::float(number));
            out.push('"');
            separator = ',';
        }
        if separator == ',' {
            out.push('}');
        }
        out.push(' ');
        out.push_str(&go_text::float(value));
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

#[cfg(test)]
mod tests {
    use super::*;

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
