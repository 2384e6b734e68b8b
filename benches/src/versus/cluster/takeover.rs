//! How long no client can write after the leader is killed, terminated, or stopped.
//!
//! One client at each member writes continuously: small puts, one after the other, with a short
//! timeout. The result is the longest time without any acknowledged write around the fault.

#![expect(clippy::disallowed_methods, reason = "waits for what it measures")]

use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::writers::{Schedule, Writers};
use super::{Cluster, Result};
use crate::versus::options::{Options, Programs, Side};

pub(super) const LOAD: Schedule = Schedule {
    every: Duration::from_millis(2),
    patience: Duration::from_millis(100),
    value_bytes: 256,
};
/// How long writes must work before a fault, and after it.
const CALM: Duration = Duration::from_millis(1500);
/// How long the first write after a fault may take.
const WRITTEN_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);
const ROUNDS: usize = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Kill,
    Terminate,
    Stop,
}

impl Fault {
    const ALL: [Fault; 3] = [Fault::Kill, Fault::Terminate, Fault::Stop];

    pub(super) fn name(self) -> &'static str {
        match self {
            Fault::Kill => "kill -9",
            Fault::Terminate => "SIGTERM",
            Fault::Stop => "SIGSTOP",
        }
    }

    /// Stele's goal, for the table.
    fn aim(self) -> &'static str {
        match self {
            Fault::Kill => "median <= 150, max <= 400",
            Fault::Terminate => "<= 20",
            Fault::Stop => "<= 600",
        }
    }
}

pub(in crate::versus) fn run(options: &Options, programs: &Programs) -> Result<()> {
    let rounds = options.rounds_or(ROUNDS);
    let mut rows = Vec::new();
    for side in options.servers() {
        let mut cluster = Cluster::start(side, programs, options)?;
        let writers = Writers::start(cluster.urls(), LOAD)?;
        let mut gaps = [const { Vec::new() }; Fault::ALL.len()];
        for round in 0..rounds {
            for (fault, gaps) in Fault::ALL.into_iter().zip(&mut gaps) {
                let gap = one(&mut cluster, &writers, fault)
                    .map_err(|error| format!("{} on {}: {error}", fault.name(), side.name()))?;
                let ms = gap.as_secs_f64() * 1e3;
                eprintln!(
                    "{:8} {:6} round {round}: {ms:.1} ms",
                    fault.name(),
                    side.name()
                );
                gaps.push(ms);
            }
        }
        cluster.all_alive()?;
        for (fault, gaps) in Fault::ALL.into_iter().zip(gaps) {
            rows.push((fault, side, gaps));
        }
    }
    print(rows);
    Ok(())
}

fn print(mut rows: Vec<(Fault, Side, Vec<f64>)>) {
    rows.sort_by_key(|(fault, side, _)| (*fault as usize, *side));
    println!("| the leader gets | side | rounds | median ms | max ms | aim |");
    println!("|---|---|--:|--:|--:|---|");
    for (fault, side, mut gaps) in rows {
        gaps.sort_by(f64::total_cmp);
        let aim = match side {
            Side::Stele => fault.aim(),
            _ => "",
        };
        println!(
            "| {} | {} | {} | {:.1} | {:.1} | {aim} |",
            fault.name(),
            side.name(),
            gaps.len(),
            gaps[gaps.len() / 2],
            gaps.last().copied().unwrap_or_default(),
        );
    }
    println!("\nThe longest time without an acknowledged write, at any of the three members.");
}

fn one(cluster: &mut Cluster, writers: &Writers, fault: Fault) -> Result<Duration> {
    cluster.wait_healthy()?;
    std::thread::sleep(CALM);
    let (leader, term) = cluster.wait_healthy()?;
    lose(cluster, writers, fault, leader, term)
}

/// The leader of `term` is lost, and comes back when another leads. Returns the longest time without
/// an acknowledged write.
pub(super) fn lose(
    cluster: &mut Cluster,
    writers: &Writers,
    fault: Fault,
    leader: usize,
    term: u64,
) -> Result<Duration> {
    let began = Instant::now();
    match fault {
        Fault::Kill => cluster.member(leader).kill(),
        Fault::Stop => cluster.member(leader).signal(Signal::STOP),
        Fault::Terminate => {
            let ended = cluster.member(leader).terminate();
            if !ended.success() && ended.code().is_some() {
                return Err(format!("the leader did not end well: {ended}").into());
            }
        }
    }
    cluster.wait_new_leader(leader, term)?;
    wait_written(writers)?;
    // If the fault lasts longer than the first write, the gap shows it.
    std::thread::sleep(CALM / 3);
    let gap = writers.longest_gap(began);
    match fault {
        Fault::Stop => cluster.member(leader).signal(Signal::CONT),
        Fault::Kill | Fault::Terminate => cluster.member(leader).start()?,
    }
    Ok(gap)
}

fn wait_written(writers: &Writers) -> Result<()> {
    let since = Instant::now();
    while !writers.wrote_since(since) {
        if since.elapsed() > WRITTEN_WITHIN {
            return Err("nothing can be written any more".into());
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}
