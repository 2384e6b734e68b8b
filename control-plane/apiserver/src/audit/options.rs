//! What a command line says about the audit log, with Kubernetes' rules and error texts.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;

use super::Log;
use super::file::{Output, Writer};
use super::metrics::Metrics;
use super::policy::Policy;
use super::rotation::{Keep, Rotated};
use super::sink::{Batching, Form, Mode, Sink, Target};
use super::webhook::Sender;

/// The only version of events.
const VERSION: &str = "audit.k8s.io/v1";
const MODES: [&str; 3] = ["batch", "blocking", "blocking-strict"];
const FORMATS: [&str; 2] = ["legacy", "json"];
const MEGABYTE: u64 = 1 << 20;

/// All flags about the audit log.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Without a policy nothing is recorded.
    pub policy_file: Option<PathBuf>,
    /// The log file, if there is one.
    pub log: Option<LogOptions>,
    /// The webhook, if there is one.
    pub webhook: Option<WebhookOptions>,
}

/// The flags `--audit-log-*`.
#[derive(Debug, Clone)]
pub struct LogOptions {
    /// `-` for the standard output.
    pub path: PathBuf,
    /// `json` or `legacy`.
    pub format: String,
    /// After how many days old files are removed; 0 for never.
    pub max_age: i64,
    /// How many old files are kept; 0 for all.
    pub max_backups: i64,
    /// The size in megabytes at which a new file begins; 0 for never.
    pub max_size: i64,
    /// Whether old files are compressed.
    pub compress: bool,
    /// How events are handed over.
    pub handling: Handling,
}

/// The flags `--audit-webhook-*`.
#[derive(Debug, Clone)]
pub struct WebhookOptions {
    /// A kubeconfig.
    pub config_file: PathBuf,
    /// The pause between the first two attempts.
    pub initial_backoff: Duration,
    /// How events are handed over.
    pub handling: Handling,
}

/// What files and webhooks have in common.
#[derive(Debug, Clone)]
pub struct Handling {
    /// The version of events.
    pub version: String,
    /// `batch`, `blocking` or `blocking-strict`.
    pub mode: String,
    /// Upper bound of events in the queue.
    pub buffer_size: i64,
    /// Upper bound of events in a batch.
    pub max_batch_size: i64,
    /// How long the first event of a batch waits for others.
    pub max_batch_wait: Duration,
    /// Whether there is an upper bound of batches a second.
    pub throttle: bool,
    /// That bound.
    pub throttle_qps: f64,
    /// How many batches may follow each other without a pause.
    pub throttle_burst: i64,
    /// Whether there is an upper bound of the size of events.
    pub truncate: bool,
    /// Upper bound of the bytes of a batch.
    pub max_batch_bytes: i64,
    /// That bound, in bytes.
    pub max_event_bytes: i64,
}

impl Options {
    /// Checks the values. The error names all that are wrong.
    pub fn validate(&self) -> Result<(), String> {
        let mut errors = Vec::new();
        if let Some(log) = &self.log {
            log.validate(&mut errors);
        }
        if let Some(webhook) = &self.webhook {
            webhook.handling.validate("webhook", &mut errors);
        }
        match errors.as_slice() {
            [] => Ok(()),
            [only] => Err(only.clone()),
            all => Err(format!("[{}]", all.join(", "))),
        }
    }

    /// Opens the log inside a tokio runtime; `None` if nothing is recorded.
    pub fn open(&self) -> Result<Option<Arc<Log>>, String> {
        let policy = match &self.policy_file {
            Some(path) => Some(read_policy(path)?),
            None => None,
        };
        let metrics = Arc::<Metrics>::default();
        let mut sinks = Vec::new();
        // The file is made even if there is nothing to write into it.
        if let Some(log) = &self.log {
            sinks.push(log.sink(&metrics)?);
        }
        let Some(policy) = policy else {
            if self.log.is_some() || self.webhook.is_some() {
                tracing::warn!("no audit policy file is given: no audit events are recorded");
            }
            return Ok(None);
        };
        if let Some(webhook) = &self.webhook {
            sinks.push(webhook.sink(&metrics)?);
        }
        if sinks.is_empty() {
            return Ok(None);
        }
        Ok(Some(Arc::new(Log {
            policy,
            sinks,
            metrics,
            detached: Mutex::new(JoinSet::new()),
        })))
    }
}

impl LogOptions {
    fn validate(&self, errors: &mut Vec<String>) {
        self.handling.validate("log", errors);
        if !FORMATS.contains(&self.format.as_str()) {
            let (format, known) = (&self.format, FORMATS.join(","));
            errors.push(format!(
                "invalid audit log format {format}, allowed formats are {known:?}"
            ));
        }
        for (flag, value) in [
            ("maxage", self.max_age),
            ("maxbackup", self.max_backups),
            ("maxsize", self.max_size),
        ] {
            if value < 0 {
                errors.push(format!(
                    "--audit-log-{flag} {value} can't be a negative number"
                ));
            }
        }
    }

    fn sink(&self, metrics: &Arc<Metrics>) -> Result<Sink, String> {
        let output = if self.path == Path::new("-") {
            Output::Standard(std::io::stdout())
        } else {
            let bytes_max = (self.max_size > 0).then(|| number(self.max_size) * MEGABYTE);
            let keep = Keep {
                age_days: number(self.max_age),
                files: usize::try_from(self.max_backups).unwrap_or_default(),
                compress: self.compress,
            };
            let file = Rotated::open(&self.path, bytes_max, keep)
                .map_err(|error| format!("--audit-log-path={}: {error}", self.path.display()))?;
            Output::File(Box::new(file))
        };
        let writer = Writer::start(output);
        let writer = writer.map_err(|error| format!("the audit log: {error}"))?;
        let form = if self.format == "legacy" {
            Form::LegacyLine
        } else {
            Form::JsonLine
        };
        Ok(self.handling.sink(form, Target::File(writer), metrics))
    }
}

impl WebhookOptions {
    fn sink(&self, metrics: &Arc<Metrics>) -> Result<Sink, String> {
        let caller = Sender::read(&self.config_file, self.initial_backoff)
            .map_err(|why| format!("initializing audit webhook: {why}"))?;
        let target = Target::Webhook(Box::new(caller));
        Ok(self.handling.sink(Form::JsonItem, target, metrics))
    }
}

impl Handling {
    fn validate(&self, plugin: &str, errors: &mut Vec<String>) {
        errors.extend(self.wrong_mode(plugin));
        let (event, batch) = (self.max_event_bytes, self.max_batch_bytes);
        if event <= 0 {
            errors.push(format!(
                "invalid audit truncate {plugin} max event size {event}, must be a positive number"
            ));
        } else if batch < event {
            errors.push(format!(
                "invalid audit truncate {plugin} max batch size {batch}, must be greater than \
                 max event size ({event})"
            ));
        }
        if self.version != VERSION {
            errors.push(format!(
                "invalid group version, allowed versions are [{VERSION:?}]"
            ));
        }
    }

    /// The first error in the mode and its values.
    fn wrong_mode(&self, plugin: &str) -> Option<String> {
        let (mode, known) = (&self.mode, MODES.join(","));
        if !MODES.contains(&mode.as_str()) {
            return Some(format!(
                "invalid audit {plugin} mode {mode}, allowed modes are {known:?}"
            ));
        }
        if mode != "batch" {
            return None;
        }
        let wrong = |what: &str, value: &dyn std::fmt::Display| {
            Some(format!(
                "invalid audit batch {plugin} {what} {value}, must be a positive number"
            ))
        };
        if self.buffer_size <= 0 {
            return wrong("buffer size", &self.buffer_size);
        }
        if self.max_batch_size <= 0 {
            return wrong("max batch size", &self.max_batch_size);
        }
        if self.throttle && self.throttle_qps <= 0.0 {
            return wrong("throttle QPS", &self.throttle_qps);
        }
        if self.throttle && self.throttle_burst <= 0 {
            return wrong("throttle burst", &self.throttle_burst);
        }
        None
    }

    fn sink(&self, form: Form, target: Target, metrics: &Arc<Metrics>) -> Sink {
        let size = |value: i64| usize::try_from(value).unwrap_or(usize::MAX);
        let mode = match self.mode.as_str() {
            "blocking" => Mode::Blocking,
            "blocking-strict" => Mode::Strict,
            _ => Mode::Batch(Batching {
                queue_events: size(self.buffer_size),
                batch_events: size(self.max_batch_size),
                batch_bytes: if self.truncate {
                    size(self.max_batch_bytes)
                } else {
                    usize::MAX
                },
                wait: self.max_batch_wait,
                throttle: self
                    .throttle
                    .then_some((self.throttle_qps, self.throttle_burst as f64)),
            }),
        };
        let event_bytes = self.truncate.then(|| size(self.max_event_bytes));
        Sink::new(form, event_bytes, mode, target, metrics)
    }
}

fn number(value: i64) -> u64 {
    u64::try_from(value).unwrap_or_default()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the file is the operator's, beside the store"
)]
fn read_policy(path: &Path) -> Result<Policy, String> {
    let place = path.display();
    let text = std::fs::read(path).map_err(|error| {
        format!("loading audit policy file: failed to read file path \"{place}\": {error}")
    })?;
    let text = String::from_utf8_lossy(&text);
    Policy::parse(&text)
        .map_err(|why| format!("loading audit policy file: {why}: from file {place}"))
}
