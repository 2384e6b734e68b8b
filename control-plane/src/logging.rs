//! Log lines on standard error: level, target, message, fields.

use std::fmt::Write as _;
use std::io::Write as _;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// Starts to log messages of at least this level.
pub(crate) fn begin(level: LevelFilter) {
    // Fails only if a subscriber is set already; then that one stays.
    let _ = tracing::subscriber::set_global_default(lines(level));
}

fn lines(level: LevelFilter) -> impl Subscriber + Send + Sync {
    // The filter comes last, so that it is asked first: without it libraries make spans for each
    // frame that they read.
    tracing_subscriber::registry().with(Lines).with(level)
}

struct Lines;

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let mut line = Line(format!("{:5} {}:", metadata.level(), metadata.target()));
        event.record(&mut line);
        line.0.push('\n');
        // A failed write to the log must not end the process.
        let _ = std::io::stderr().lock().write_all(line.0.as_bytes());
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_logged_is_not_made() {
        let subscriber = lines(LevelFilter::INFO);
        assert_eq!(subscriber.max_level_hint(), Some(LevelFilter::INFO));
        tracing::subscriber::with_default(subscriber, || {
            assert!(!tracing::info_span!("shown").is_disabled());
            assert!(tracing::trace_span!("a frame").is_disabled());
        });
    }
}
