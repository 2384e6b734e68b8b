//! Counters of events, under Kubernetes' names.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use super::policy::Level;

const PREFIX: &str = "apiserver_audit_";

/// A part of the log that may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Plugin {
    Buffered,
    Log,
    Truncate,
    Webhook,
}

impl Plugin {
    const ALL: [Plugin; 4] = [
        Plugin::Buffered,
        Plugin::Log,
        Plugin::Truncate,
        Plugin::Webhook,
    ];

    fn name(self) -> &'static str {
        match self {
            Plugin::Buffered => "buffered",
            Plugin::Log => "log",
            Plugin::Truncate => "truncate",
            Plugin::Webhook => "webhook",
        }
    }
}

/// The counters.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    events: AtomicU64,
    rejected: AtomicU64,
    /// Requests by [`Level`].
    levels: [AtomicU64; 4],
    /// Events by [`Plugin`].
    errors: [AtomicU64; 4],
}

impl Metrics {
    pub(super) fn count_event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count_level(&self, level: Level) {
        self.levels[level as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts events that did not get where they should, and says why in the server's log.
    pub(super) fn fail(&self, plugin: Plugin, why: &str, events: usize) {
        self.errors[plugin as usize].fetch_add(events as u64, Ordering::Relaxed);
        let plugin = plugin.name();
        tracing::error!(plugin, events, why, "audit events failed");
    }

    /// The counters as Prometheus reads them.
    pub(super) fn to_text(&self) -> String {
        let mut text = String::new();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut family = |name: &str, label: &str, values: &[(&str, u64)]| {
            // Writing into a string does not fail.
            let _ = writeln!(text, "# TYPE {PREFIX}{name} counter");
            for (value, count) in values {
                let labels = match label {
                    "" => String::new(),
                    label => format!("{{{label}=\"{value}\"}}"),
                };
                let _ = writeln!(text, "{PREFIX}{name}{labels} {count}");
            }
        };
        let errors = Plugin::ALL.map(|one| (one.name(), read(&self.errors[one as usize])));
        family("error_total", "plugin", &errors);
        family("event_total", "", &[("", read(&self.events))]);
        let levels = Level::ALL.map(|one| (one.name(), read(&self.levels[one as usize])));
        family("level_total", "level", &levels);
        family("requests_rejected_total", "", &[("", read(&self.rejected))]);
        text
    }
}
