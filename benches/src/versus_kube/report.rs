//! The table: one row per figure, both sides, and the ratio.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use testkit::Usage;

use super::side::{Side, Started};

const MIB: f64 = 1024.0 * 1024.0;

/// Lower is better in every row.
#[derive(Default)]
pub(super) struct Report {
    rows: Vec<(String, BTreeMap<Side, f64>)>,
    up: Option<(f64, f64, f64)>,
}

impl Report {
    pub(super) fn start(&mut self, side: Side, started: &Started) {
        self.add("ready, ms".into(), side, milliseconds(started.ready));
        self.add(
            "CPU till 3 s after, ms".into(),
            side,
            milliseconds(started.usage.cpu),
        );
        self.add("resident, idle, MiB".into(), side, memory(&started.usage));
    }

    /// Adds the times of single calls or events, and the CPU time of the server for all of them.
    pub(super) fn load(&mut self, side: Side, title: &str, mut took: Vec<Duration>, cpu: Duration) {
        took.sort_unstable();
        let count = took.len().max(1);
        let at = |percent: usize| {
            let index = (count * percent / 100).min(count - 1);
            took.get(index).copied().map_or(f64::NAN, milliseconds)
        };
        self.add(format!("{title}, p50 ms"), side, at(50));
        self.add(format!("{title}, p99 ms"), side, at(99));
        let each = cpu.as_secs_f64() * 1e6 / count as f64;
        self.add(format!("{title}, CPU us each"), side, each);
    }

    /// Adds calls of many clients, of which all took this long.
    pub(super) fn at_once(
        &mut self,
        side: Side,
        title: &str,
        count: usize,
        took: Duration,
        cpu: Duration,
    ) {
        let each = |all: Duration| all.as_secs_f64() * 1e6 / count.max(1) as f64;
        self.add(format!("{title}, us each"), side, each(took));
        self.add(format!("{title}, CPU us each"), side, each(cpu));
    }

    pub(super) fn end(&mut self, side: Side, usage: &Usage) {
        self.add("resident, after all, MiB".into(), side, memory(usage));
        let peak = usage.resident_peak_bytes as f64 / MIB;
        self.add("resident, peak, MiB".into(), side, peak);
    }

    pub(super) fn filled(&mut self, side: Side, pods: usize, usage: &Usage) {
        self.add(
            format!("resident with {pods} pods, MiB"),
            side,
            memory(usage),
        );
    }

    pub(super) fn up(&mut self, started: &Started) {
        self.up = Some((
            milliseconds(started.ready),
            milliseconds(started.usage.cpu),
            memory(&started.usage),
        ));
    }

    fn add(&mut self, title: String, side: Side, value: f64) {
        eprintln!("{side:?}: {title}: {value:.2}");
        match self.rows.iter_mut().find(|(known, _)| *known == title) {
            Some((_, values)) => drop(values.insert(side, value)),
            None => self.rows.push((title, BTreeMap::from([(side, value)]))),
        }
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn memory(usage: &Usage) -> f64 {
    usage.resident_bytes as f64 / MIB
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "| less is better | kube-apiserver | stele-kube | times |"
        )?;
        writeln!(out, "|---|--:|--:|--:|")?;
        for (title, values) in &self.rows {
            let value = |side| values.get(&side).copied().unwrap_or(f64::NAN);
            let (go, ours) = (value(Side::Kubernetes), value(Side::Ours));
            writeln!(out, "| {title} | {go:.2} | {ours:.2} | {:.1} |", go / ours)?;
        }
        if let Some((ready, cpu, memory)) = self.up {
            writeln!(
                out,
                "\n`stele-kube up`, everything in one process: up after {ready:.0} ms; 3 s later it \
                 has taken {cpu:.0} ms of CPU and holds {memory:.0} MiB."
            )?;
        }
        Ok(())
    }
}
