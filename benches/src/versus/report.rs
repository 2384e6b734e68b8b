//! The record of a run: medians per load and side, as a table, and as JSON with every single run.

#![expect(clippy::disallowed_methods, reason = "writes the record's files")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::Result;
use super::loads::Load;
use super::options::{Options, Programs, Side};
use super::side::Run;
use crate::plots;

pub(super) struct Record {
    about: Value,
    loads: Vec<(Load, BTreeMap<Side, Vec<Run>>)>,
}

/// One column: its title, its value, and whether a higher value is better.
struct Column {
    title: &'static str,
    value: fn(&Run) -> Option<f64>,
    digits: usize,
    more_is_better: bool,
}

/// The ratio rows: for each column, how many times better the first side is than the second.
const RATIOS: [(&str, Side, Side); 4] = [
    ("stele : etcd", Side::Stele, Side::Etcd),
    ("stele-tls : etcd-tls", Side::SteleTls, Side::EtcdTls),
    ("stele : stele-tls", Side::Stele, Side::SteleTls),
    ("stele : sealed", Side::Stele, Side::Sealed),
];

const MIB: f64 = 1024.0 * 1024.0;

const COLUMNS: [Column; 7] = [
    Column {
        title: "per second",
        value: |run| run.per_second,
        digits: 0,
        more_is_better: true,
    },
    Column {
        title: "p50 ms",
        value: |run| Some(run.p50_ms),
        digits: 2,
        more_is_better: false,
    },
    Column {
        title: "p99 ms",
        value: |run| Some(run.p99_ms),
        digits: 2,
        more_is_better: false,
    },
    Column {
        title: "CPU us/op",
        value: |run| Some(run.cpu_us_per_op()),
        digits: 2,
        more_is_better: false,
    },
    Column {
        title: "peak MiB",
        value: |run| Some(run.resident_peak_bytes / MIB),
        digits: 0,
        more_is_better: false,
    },
    Column {
        title: "anon MiB",
        value: |run| Some(run.anonymous_bytes / MIB),
        digits: 0,
        more_is_better: false,
    },
    Column {
        title: "disk B/put",
        value: |run| run.disk_bytes_per_put,
        digits: 0,
        more_is_better: false,
    },
];

impl Record {
    pub(super) fn new(options: &Options, programs: &Programs) -> Record {
        let cpus = std::thread::available_parallelism().map_or(0, |cpus| cpus.get());
        let proc = |name: &str| {
            let text = fs::read_to_string(Path::new("/proc").join(name));
            text.unwrap_or_default().trim().to_owned()
        };
        let about = json!({
            "cpus": cpus,
            "kernel": proc("sys/kernel/osrelease"),
            "load_average_before": proc("loadavg"),
            "rounds": options.rounds_or(3),
            "stele_flags": options.stele_flags,
            "floor_threads": options.floor_threads,
            "versions": versions(options, programs),
        });
        Record {
            about,
            loads: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, load: &Load, side: Side, run: Run) {
        if self
            .loads
            .last()
            .is_none_or(|(last, _)| last.name != load.name)
        {
            self.loads.push((load.clone(), BTreeMap::new()));
        }
        if let Some((_, sides)) = self.loads.last_mut() {
            sides.entry(side).or_default().push(run);
        }
    }

    /// Writes `record.md` and `record.json` into `folder`.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("record.md"), self.markdown())?;
        let json = serde_json::to_string_pretty(&self.json())?;
        fs::write(folder.join("record.json"), json)?;
        Ok(())
    }

    pub(super) fn markdown(&self) -> String {
        let mut out = String::from("| load | side |");
        for column in &COLUMNS {
            let _ = write!(out, " {} |", column.title);
        }
        out.push_str("\n|---|---|");
        out.push_str(&"--:|".repeat(COLUMNS.len()));
        out.push('\n');
        for (load, sides) in &self.loads {
            for (&side, runs) in sides {
                let cells = COLUMNS.iter().map(|column| {
                    let number = median(runs, column.value);
                    number.map_or("–".into(), |number| format!("{number:.*}", column.digits))
                });
                push_row(&mut out, load.name, side.name(), cells);
            }
            for (name, better, worse) in RATIOS {
                if let (Some(worse), Some(better)) = (sides.get(&worse), sides.get(&better)) {
                    let cells = COLUMNS.iter().map(|column| ratio(column, worse, better));
                    push_row(&mut out, load.name, name, cells);
                }
            }
        }
        out.push_str("\nMedians. A row of two sides says how many times better the first is; below 1, worse.\n");
        out
    }

    fn json(&self) -> Value {
        let loads = self.loads.iter().map(|(load, sides)| {
            let sides = sides.iter().map(|(side, runs)| {
                let runs: Vec<Value> = runs.iter().map(run_json).collect();
                (side.name().to_owned(), Value::from(runs))
            });
            json!({
                "name": load.name,
                "what": load.what,
                "clients": load.clients,
                "connections": load.conns,
                "operations": load.operations(),
                "unit": load.unit(),
                "prefill": load.prefill,
                "runs": sides.collect::<serde_json::Map<_, _>>(),
            })
        });
        json!({ "about": self.about, "loads": loads.collect::<Vec<_>>() })
    }
}

fn push_row(out: &mut String, load: &str, side: &str, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    let _ = writeln!(out, "| {load} | {side} | {} |", cells.join(" | "));
}

fn ratio(column: &Column, etcd: &[Run], stele: &[Run]) -> String {
    let (Some(etcd), Some(stele)) = (median(etcd, column.value), median(stele, column.value))
    else {
        return "–".into();
    };
    let (better, worse) = if column.more_is_better {
        (stele, etcd)
    } else {
        (etcd, stele)
    };
    if worse > 0.0 {
        format!("**{:.2}**", better / worse)
    } else {
        "–".into()
    }
}

fn median(runs: &[Run], value: fn(&Run) -> Option<f64>) -> Option<f64> {
    plots::median(runs.iter().filter_map(value).collect())
}

fn run_json(run: &Run) -> Value {
    json!({
        "per_second": run.per_second,
        "p50_ms": run.p50_ms,
        "p99_ms": run.p99_ms,
        "cpu_us_per_op": run.cpu_us_per_op(),
        "resident_peak_bytes": run.resident_peak_bytes,
        "anonymous_bytes": run.anonymous_bytes,
        "disk_bytes_per_put": run.disk_bytes_per_put,
    })
}

/// The versions that the servers report.
fn versions(options: &Options, programs: &Programs) -> Value {
    let servers = options.sides.iter().filter(|side| **side != Side::Floor);
    let versions = servers.map(|&side| {
        let output = std::process::Command::new(programs.server(side))
            .arg("--version")
            .output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let text = text.unwrap_or_else(|error| error.to_string());
        (side.name().to_owned(), Value::from(text.trim()))
    });
    Value::Object(versions.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(numbers: &[f64]) -> Vec<Run> {
        let run = |&per_second: &f64| Run {
            per_second: Some(per_second),
            ..Run::default()
        };
        numbers.iter().map(run).collect()
    }

    #[test]
    fn medians_of_odd_and_even_counts() {
        let value: fn(&Run) -> Option<f64> = |run| run.per_second;
        assert_eq!(median(&runs(&[3.0, 1.0, 2.0]), value), Some(2.0));
        assert_eq!(median(&runs(&[4.0, 1.0, 2.0, 3.0]), value), Some(2.5));
        assert_eq!(median(&[], value), None);
    }

    #[test]
    fn a_ratio_above_one_is_good_for_stele_whatever_the_column() {
        let (etcd, stele) = (runs(&[100.0]), runs(&[250.0]));
        assert_eq!(ratio(&COLUMNS[0], &etcd, &stele), "**2.50**");
        let slow = [Run {
            p99_ms: 8.0,
            ..Run::default()
        }];
        let fast = [Run {
            p99_ms: 2.0,
            ..Run::default()
        }];
        assert_eq!(ratio(&COLUMNS[2], &slow, &fast), "**4.00**");
    }
}
