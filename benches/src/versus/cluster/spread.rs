//! How long puts took in a span of time.

use std::time::{Duration, Instant};

use super::writers::Ack;

/// The milliseconds of the puts acknowledged in that time.
pub(super) fn took_between(acks: &[Ack], from: Instant, to: Instant) -> Vec<f64> {
    let between = acks.iter().filter(|ack| ack.at >= from && ack.at < to);
    between.map(|ack| ack.took.as_secs_f64() * 1e3).collect()
}

/// Milliseconds of puts.
pub(super) struct Spread {
    pub(super) count: usize,
    pub(super) span: Duration,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

impl Spread {
    pub(super) fn of(mut took: Vec<f64>, span: Duration) -> Spread {
        took.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let place = (took.len() as f64 * part) as usize;
            took.get(place).or(took.last()).copied().unwrap_or(f64::NAN)
        };
        Spread {
            count: took.len(),
            span,
            p50: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        }
    }

    pub(super) fn per_second(&self) -> f64 {
        self.count as f64 / self.span.as_secs_f64()
    }

    /// A row of the table of `--only snapshot`.
    pub(super) fn print(&self, side: &str, what: &str, rise: &str) {
        println!(
            "| {side} | {what} | {} | {:.1} | {:.2} | {:.2} | {:.2} | {rise} |",
            self.count,
            self.span.as_secs_f64(),
            self.p50,
            self.p99,
            self.max
        );
    }
}
