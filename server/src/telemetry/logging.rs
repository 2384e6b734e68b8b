//! The log, in etcd's format: one JSON object per line, or a console line, through `tracing`.
//!
//! Requests never wait for the log: lines go into a bounded queue, and one thread writes them. If
//! the reader of stderr stalls, lines are dropped and counted. [`flush`] waits for a limited time.
//!
//! A field's text is written as a JSON string, unless it comes from [`json`], which passes a list
//! or map.

#![expect(
    clippy::disallowed_methods,
    reason = "logging is part of the shell: clock, thread, files"
)]

use std::fmt::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crossbeam_channel::{Receiver, Sender, bounded};
use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

mod journal;
mod output;
mod rotate;
mod sampler;

#[cfg(test)]
mod tests;

use crate::config::{LogConfig, LogFormat};
use output::Output;
use sampler::Sampler;

/// Lines in the queue. At about 300 bytes each, a full queue takes about 2 MB.
const QUEUE_LINES_MAX: usize = 8192;

/// How long [`flush`] waits for the remaining lines to be written.
const FLUSH_PATIENCE: Duration = Duration::from_secs(2);

/// An event with this target is logged with level "fatal".
pub const FATAL: &str = "fatal";

/// Marks a field's text as JSON. The mark is checked when the line is built, so that a text cannot
/// forge it.
const JSON_MARK: char = '\u{1}';

static WRITER: OnceLock<Writer> = OnceLock::new();
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// A line, and what the systemd journal needs to know about it.
struct Line {
    text: String,
    priority: u8,
    /// Folder of its source file.
    package: String,
}

enum Job {
    Line(Line),
    Flush(Sender<()>),
}

struct Writer(Sender<Job>);

/// Starts logging for the rest of the process; a second call has no effect. The error names the
/// output that cannot be opened.
pub fn init(config: &LogConfig) -> Result<(), String> {
    let outputs = config.outputs.iter();
    let outputs = outputs.map(|output| Output::open(output, config.rotation.as_ref()));
    let outputs = outputs.collect::<Result<Vec<Output>, String>>()?;
    let (sender, receiver) = bounded(QUEUE_LINES_MAX);
    if WRITER.set(Writer(sender)).is_err() {
        return Ok(());
    }
    std::thread::Builder::new()
        .name("log-writer".into())
        .spawn(move || write_lines(&receiver, outputs))
        .map_err(|error| format!("start the log writer: {error}"))?;
    let level = match config.level.as_str() {
        "debug" => Threshold::Level(LevelFilter::DEBUG),
        "info" => Threshold::Level(LevelFilter::INFO),
        "warn" => Threshold::Level(LevelFilter::WARN),
        "error" => Threshold::Level(LevelFilter::ERROR),
        _ => Threshold::Fatal,
    };
    let lines = Lines {
        format: config.format,
        level,
        sampler: Sampler::default(),
    };
    let subscriber = tracing_subscriber::registry().with(lines);
    let _ = tracing::subscriber::set_global_default(subscriber);
    std::panic::set_hook(Box::new(|panic| {
        tracing::error!(target: FATAL, thread = std::thread::current().name(), "panic: {panic}");
        flush();
    }));
    Ok(())
}

/// Waits until all lines logged so far are written, up to a time limit.
pub fn flush() {
    let Some(Writer(sender)) = WRITER.get() else {
        return;
    };
    let (done, written) = bounded(1);
    if sender
        .send_timeout(Job::Flush(done), FLUSH_PATIENCE)
        .is_ok()
    {
        let _ = written.recv_timeout(FLUSH_PATIENCE);
    }
}

/// A field whose value is a list or a map: `urls = %json(&urls)`.
pub fn json(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).unwrap_or_else(|_| "null".into());
    format!("{JSON_MARK}{text}")
}

/// Runs the writing thread: writes each line to every output, and reports dropped lines.
fn write_lines(jobs: &Receiver<Job>, mut outputs: Vec<Output>) {
    let mut told = 0;
    for job in jobs {
        let line = match job {
            Job::Flush(done) => {
                let _ = done.send(());
                continue;
            }
            Job::Line(line) => line,
        };
        for output in &mut outputs {
            // A full disk or a closed pipe must not stop the server.
            let _ = output.write(&line);
        }
        let dropped = DROPPED.load(Ordering::Relaxed);
        if dropped > told && jobs.is_empty() {
            tracing::warn!(lines = dropped - told, "log lines were dropped");
            told = dropped;
        }
    }
}

/// The lowest level that is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Threshold {
    Level(LevelFilter),
    /// Only fatal lines.
    Fatal,
}

/// Converts events to lines.
struct Lines {
    format: LogFormat,
    level: Threshold,
    sampler: Sampler,
}

impl<S: Subscriber> Layer<S> for Lines {
    fn register_callsite(
        &self,
        metadata: &'static Metadata<'static>,
    ) -> tracing::subscriber::Interest {
        if wanted(metadata, self.level) {
            tracing::subscriber::Interest::always()
        } else {
            tracing::subscriber::Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        wanted(metadata, self.level)
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(Writer(sender)) = WRITER.get() else {
            return;
        };
        let now = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        if !self.sampler.admit(event.metadata(), now.as_secs()) {
            return;
        }
        let metadata = event.metadata();
        let line = Line {
            text: line(event, self.format, now),
            priority: journal::priority(level_name(metadata)),
            package: package(metadata.file().unwrap_or_default()),
        };
        if sender.try_send(Job::Line(line)).is_err() {
            DROPPED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Libraries log only warnings and errors.
fn wanted(metadata: &Metadata<'_>, level: Threshold) -> bool {
    let own = ["server", "stele", "storage", "raft", FATAL];
    let library = !own.contains(&metadata.target().split("::").next().unwrap_or_default());
    let reached = match level {
        Threshold::Level(level) => *metadata.level() <= level,
        Threshold::Fatal => metadata.target() == FATAL,
    };
    metadata.is_event() && reached && (!library || *metadata.level() <= Level::WARN)
}

fn level_name(metadata: &Metadata<'_>) -> &'static str {
    match *metadata.level() {
        Level::ERROR if metadata.target() == FATAL => "fatal",
        Level::ERROR => "error",
        Level::WARN => "warn",
        Level::INFO => "info",
        _ => "debug",
    }
}

/// The folder of a source file, for the journal's field PACKAGE.
fn package(file: &str) -> String {
    let mut folders = file.rsplit('/').skip(1);
    folders.next().unwrap_or(".").to_owned()
}

fn line(event: &Event<'_>, format: LogFormat, now: Duration) -> String {
    let metadata = event.metadata();
    let level = level_name(metadata);
    let mut fields = Fields::default();
    event.record(&mut fields);
    let mut line = String::with_capacity(256);
    let time = timestamp(now);
    let caller = Caller(
        metadata.file().unwrap_or("unknown"),
        metadata.line().unwrap_or(0),
    );
    match format {
        LogFormat::Json => {
            let _ = write!(
                line,
                "{{\"level\":\"{level}\",\"ts\":\"{time}\",\"caller\":\"{caller}\",\"msg\":"
            );
            quote(&mut line, &fields.message);
            line.push_str(&fields.rest);
            line.push_str("}\n");
        }
        LogFormat::Console => {
            let _ = write!(
                line,
                "{time}\t{level}\t{caller}\t{}",
                fields.message.replace('\n', " ")
            );
            if let Some(rest) = fields.rest.strip_prefix(',') {
                let _ = write!(line, "\t{{{rest}}}");
            }
            line.push('\n');
        }
    }
    line
}

/// The last two parts of the path, and the line: short, and enough to find the place.
struct Caller(&'static str, u32);

impl fmt::Display for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = self
            .0
            .rmatch_indices('/')
            .nth(1)
            .map_or(0, |(at, _)| at + 1);
        write!(f, "{}:{}", &self.0[start..], self.1)
    }
}

/// `,"name":value` for each field except the message.
#[derive(Default)]
struct Fields {
    message: String,
    rest: String,
}

impl Fields {
    fn name(&mut self, field: &Field) {
        self.rest.push(',');
        quote(&mut self.rest, field.name());
        self.rest.push(':');
    }

    fn raw(&mut self, field: &Field, value: impl fmt::Display) {
        self.name(field);
        let _ = write!(self.rest, "{value}");
    }
}

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.raw(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.raw(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.raw(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        if value.is_finite() {
            self.raw(field, value)
        } else {
            self.raw(field, "null")
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message.push_str(value);
            return;
        }
        self.name(field);
        match value.strip_prefix(JSON_MARK) {
            Some(json) if serde_json::from_str::<serde::de::IgnoredAny>(json).is_ok() => {
                self.rest.push_str(json);
            }
            _ => quote(&mut self.rest, value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

fn quote(out: &mut String, text: &str) {
    match serde_json::to_string(text) {
        Ok(quoted) => out.push_str(&quoted),
        Err(_) => out.push_str("\"\""),
    }
}

/// `2026-11-21T01:20:00.121503Z`, from the time since 1970.
pub fn timestamp(now: Duration) -> String {
    let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let time = jiff::Timestamp::new(seconds, now.subsec_nanos() as i32);
    format!("{:.6}", time.unwrap_or(jiff::Timestamp::MAX))
}
