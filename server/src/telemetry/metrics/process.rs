//! Metrics of this process from the operating system, and placeholders for Go's runtime metrics.
//!
//! Dashboards and etcd's own tests expect the names of Go's runtime metrics; those without an
//! equivalent here are zero.

use std::fs::read_to_string;

use super::text::{Text, Type};

/// Gauges of Go's memory statistics, all zero here.
const GO_MEMORY: &[&str] = &[
    "go_memstats_alloc_bytes",
    "go_memstats_buck_hash_sys_bytes",
    "go_memstats_gc_sys_bytes",
    "go_memstats_heap_alloc_bytes",
    "go_memstats_heap_idle_bytes",
    "go_memstats_heap_inuse_bytes",
    "go_memstats_heap_objects",
    "go_memstats_heap_released_bytes",
    "go_memstats_heap_sys_bytes",
    "go_memstats_last_gc_time_seconds",
    "go_memstats_mcache_inuse_bytes",
    "go_memstats_mcache_sys_bytes",
    "go_memstats_mspan_inuse_bytes",
    "go_memstats_mspan_sys_bytes",
    "go_memstats_next_gc_bytes",
    "go_memstats_other_sys_bytes",
    "go_memstats_stack_inuse_bytes",
    "go_memstats_stack_sys_bytes",
];

const GO_COUNTERS: &[&str] = &[
    "go_memstats_alloc_bytes_total",
    "go_memstats_frees_total",
    "go_memstats_mallocs_total",
];

const STAND_IN: &str = "A stand-in: there is no Go runtime here.";

/// Name, help, and where the value comes from.
type Row = (&'static str, &'static str, fn(&Process) -> f64);

const GAUGES: [Row; 10] = [
    (
        "os_fd_limit",
        "Files this process may have open.",
        |process| process.files_max,
    ),
    ("os_fd_used", "Files this process has open.", |process| {
        process.files
    }),
    (
        "process_max_fds",
        "Files this process may have open.",
        |process| process.files_max,
    ),
    (
        "process_open_fds",
        "Files this process has open.",
        |process| process.files,
    ),
    (
        "process_resident_memory_bytes",
        "Resident memory.",
        |process| process.resident,
    ),
    (
        "process_start_time_seconds",
        "When the process started, in Unix time.",
        |process| process.start,
    ),
    (
        "process_virtual_memory_bytes",
        "Virtual memory.",
        |process| process.virtual_memory,
    ),
    (
        "process_virtual_memory_max_bytes",
        "Virtual memory allowed.",
        |process| process.virtual_max,
    ),
    ("go_threads", "Threads of the process.", |process| {
        process.threads
    }),
    (
        "go_memstats_sys_bytes",
        "Resident memory; there is no Go runtime here.",
        |process| process.resident,
    ),
];

const COUNTERS: [Row; 3] = [
    (
        "process_cpu_seconds_total",
        "User and system time.",
        |process| process.cpu,
    ),
    (
        "process_network_receive_bytes_total",
        "Bytes received in this network namespace.",
        |process| process.received,
    ),
    (
        "process_network_transmit_bytes_total",
        "Bytes sent in this network namespace.",
        |process| process.sent,
    ),
];

pub(super) fn write(text: &mut Text) {
    let process = Process::read();
    let mut gauge = |name, help: &str, value| {
        text.family(name, Type::Gauge, help).sample(&[], value);
    };
    for (name, help, value) in GAUGES {
        gauge(name, help, value(&process));
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    gauge("go_sched_gomaxprocs_threads", "Cores usable.", cores as f64);
    for name in [
        "go_goroutines",
        "go_gc_gogc_percent",
        "go_gc_gomemlimit_bytes",
    ] {
        gauge(name, STAND_IN, 0.0);
    }
    for name in GO_MEMORY {
        gauge(name, STAND_IN, 0.0);
    }
    let mut counter = |name, help: &str, value| {
        text.family(name, Type::Counter, help).sample(&[], value);
    };
    for (name, help, value) in COUNTERS {
        counter(name, help, value(&process));
    }
    for name in GO_COUNTERS {
        counter(name, STAND_IN, 0.0);
    }
    text.family("go_info", Type::Gauge, STAND_IN)
        .sample(&[("version", super::GO_VERSION)], 1.0);
    text.family("go_gc_duration_seconds", Type::Summary, STAND_IN)
        .empty_summary(&[0.0, 0.25, 0.5, 0.75, 1.0]);
}

/// Resident memory of this process, in bytes.
pub(crate) fn resident_bytes() -> u64 {
    Process::read().resident as u64
}

/// Values from /proc; zero if not available.
#[derive(Debug, Default)]
struct Process {
    cpu: f64,
    threads: f64,
    start: f64,
    virtual_memory: f64,
    virtual_max: f64,
    resident: f64,
    files: f64,
    files_max: f64,
    received: f64,
    sent: f64,
}

impl Process {
    fn read() -> Process {
        let mut process = Process::default();
        let file = |path| read_to_string(path).unwrap_or_default();
        let number = |text: Option<&str>| text.and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        // The name in parentheses may contain spaces, so fields are counted after it.
        let stat = file("/proc/self/stat");
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .map_or("", |(_, rest)| rest)
            .split_whitespace()
            .collect();
        let field = |index: usize| number(fields.get(index - 3).copied());
        process.cpu = (field(14) + field(15)) / ticks;
        process.threads = field(20);
        process.virtual_memory = field(23);
        process.resident = field(24) * rustix::param::page_size() as f64;
        let boot = file("/proc/stat");
        let boot = boot.lines().find_map(|line| line.strip_prefix("btime "));
        process.start = number(boot) + field(22) / ticks;
        for line in file("/proc/self/limits").lines() {
            let soft = |rest: &str| match rest.split_whitespace().next() {
                Some("unlimited") => u64::MAX as f64,
                other => number(other),
            };
            if let Some(rest) = line.strip_prefix("Max open files") {
                process.files_max = soft(rest);
            } else if let Some(rest) = line.strip_prefix("Max address space") {
                process.virtual_max = soft(rest);
            }
        }
        // Not counting the descriptor used for this listing.
        process.files = std::fs::read_dir("/proc/self/fd")
            .map_or(0.0, |entries| entries.count().saturating_sub(1) as f64);
        let network = file("/proc/self/net/netstat");
        let mut lines = network
            .lines()
            .filter_map(|line| line.strip_prefix("IpExt: "));
        if let (Some(names), Some(values)) = (lines.next(), lines.next()) {
            for (name, value) in names.split(' ').zip(values.split(' ')) {
                match name {
                    "InOctets" => process.received = number(Some(value)),
                    "OutOctets" => process.sent = number(Some(value)),
                    _ => {}
                }
            }
        }
        process
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_knows_itself() {
        let process = Process::read();
        assert!(
            process.threads >= 1.0 && process.resident > 0.0 && process.files > 2.0,
            "{process:?}"
        );
        assert!(
            process.start > 1e9 && process.files_max > 0.0,
            "{process:?}"
        );
    }
}
