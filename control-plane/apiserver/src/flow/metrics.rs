//! What flow control tells of itself: metrics under Kubernetes' names, and a table of the levels.

use std::fmt::Write as _;

use super::FlowControl;
use super::machine::{Counts, Machine};

type Count = fn(&Counts) -> u64;
/// A metric of each schema: its name, its type, and the value.
type OfSchema = (&'static str, &'static str, Count);

const PREFIX: &str = "apiserver_flowcontrol_";
const OF_SCHEMAS: [OfSchema; 4] = [
    ("current_inqueue_requests", "gauge", |counts| {
        counts.in_queue
    }),
    ("current_executing_requests", "gauge", |counts| {
        counts.executing
    }),
    ("current_executing_seats", "gauge", |counts| {
        counts.executing_seats
    }),
    ("dispatched_requests_total", "counter", |counts| {
        counts.dispatched
    }),
];
/// Why requests did not run, and how many.
const REASONS: [(&str, Count); 4] = [
    ("queue-full", |counts| counts.refused_for_queue),
    ("concurrency-limit", |counts| counts.refused_for_concurrency),
    ("time-out", |counts| counts.timed_out),
    ("cancelled", |counts| counts.cancelled),
];
const COLUMNS: [&str; 10] = [
    "PriorityLevelName",
    "ActiveQueues",
    "IsIdle",
    "IsQuiescing",
    "WaitingRequests",
    "ExecutingRequests",
    "DispatchedRequests",
    "RejectedRequests",
    "TimedoutRequests",
    "CancelledRequests",
];

impl FlowControl {
    /// All metrics as text.
    pub(crate) fn metrics(&self) -> String {
        self.with(|machine, _| metrics(machine))
    }

    /// A row for each level.
    pub(crate) fn dump_levels(&self) -> String {
        self.with(|machine, _| dump_levels(machine))
    }
}

fn metrics<W>(machine: &Machine<W>) -> String {
    let mut out = String::new();
    for (name, kind, value) in OF_SCHEMAS {
        line(&mut out, format_args!("# TYPE {PREFIX}{name} {kind}"));
        for (labels, counts) in schemas(machine) {
            let value = value(counts);
            line(&mut out, format_args!("{PREFIX}{name}{{{labels}}} {value}"));
        }
    }
    let name = "rejected_requests_total";
    line(&mut out, format_args!("# TYPE {PREFIX}{name} counter"));
    for (labels, counts) in schemas(machine) {
        for (reason, value) in REASONS {
            let value = value(counts);
            if value > 0 {
                let labels = format_args!("{labels},reason=\"{reason}\"");
                line(&mut out, format_args!("{PREFIX}{name}{{{labels}}} {value}"));
            }
        }
    }
    let name = "request_wait_duration_seconds";
    line(&mut out, format_args!("# TYPE {PREFIX}{name} histogram"));
    for (labels, counts) in schemas(machine) {
        for (execute, waits) in [true, false].into_iter().zip(&counts.waits) {
            if waits.count() > 0 {
                let labels = format!("execute=\"{execute}\",{labels}");
                waits.write(&mut out, &format!("{PREFIX}{name}"), &labels);
            }
        }
    }
    limits(&mut out, machine);
    out
}

/// The limits of the levels.
fn limits<W>(out: &mut String, machine: &Machine<W>) {
    for (name, at) in [("nominal", 0), ("lower", 1), ("upper", 2)] {
        let name = format!("{PREFIX}{name}_limit_seats");
        line(out, format_args!("# TYPE {name} gauge"));
        for (level, state) in machine.levels() {
            let seats = [state.nominal(), state.floor(), state.ceiling()][at];
            line(
                out,
                format_args!("{name}{{priority_level=\"{level}\"}} {seats}"),
            );
        }
    }
}

/// The counts of all schemas, with their labels. Names of objects need no quoting.
fn schemas<W>(machine: &Machine<W>) -> impl Iterator<Item = (String, &Counts)> {
    machine.levels().flat_map(|(level, state)| {
        state.counts().map(move |(schema, counts)| {
            let labels = format!("flow_schema=\"{schema}\",priority_level=\"{level}\"");
            (labels, counts)
        })
    })
}

fn dump_levels<W>(machine: &Machine<W>) -> String {
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    for (name, level) in machine.levels() {
        let sum = |value: Count| {
            let counts = level.counts().map(|(_, counts)| value(counts));
            counts.sum::<u64>().to_string()
        };
        rows.push([
            name.to_string(),
            level.active_queues().to_string(),
            level.is_idle().to_string(),
            level.retired.to_string(),
            level.waiting().to_string(),
            level.executing().to_string(),
            sum(|counts| counts.dispatched),
            sum(|counts| counts.refused_for_queue + counts.refused_for_concurrency),
            sum(|counts| counts.timed_out),
            sum(|counts| counts.cancelled),
        ]);
    }
    aligned(&rows)
}

/// Rows with commas between their columns, which begin at the same place in all rows.
fn aligned(rows: &[[String; COLUMNS.len()]]) -> String {
    let mut out = String::new();
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            if at + 1 == row.len() {
                line(&mut out, format_args!("{cell}"));
            } else {
                let widths = rows.iter().map(|row| row[at].len());
                let width = widths.max().unwrap_or_default() + 2;
                // Writing into a string cannot fail.
                let _ = write!(out, "{:width$}", format!("{cell},"));
            }
        }
    }
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing into a string cannot fail.
    let _ = writeln!(out, "{text}");
}
