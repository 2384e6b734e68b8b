//! Log lines on standard error: level, target, message, fields.

use std::fmt::Write as _;
use std::io::Write as _;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// Starts to log messages of at least this level.
pub(crate) fn begin(level: Level) {
    let subscriber = tracing_subscriber::registry().with(Lines(level));
    // Fails only if a subscriber is set already; then that one stays.
    let _ = tracing::subscriber::set_global_default(subscriber);
}

struct Lines(Level);

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        if *metadata.level() > self.0 {
            return;
        }
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
