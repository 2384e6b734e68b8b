//! The cost of a new member for writers: the put latency of fifty clients of the leader at a fixed
//! rate, while learners receive the whole store, and undisturbed before each of them.
//!
//! Without options, the learners share the machine and disk with the three voters, so it measures
//! all four. With `--learner-dir` it measures the leader's cost, as far as one machine allows.

#![expect(clippy::disallowed_methods, reason = "measures over a time")]

use std::ffi::OsString;
use std::time::{Duration, Instant};

use super::spread::{Spread, took_between};
use super::writers::{Schedule, Writers};
use super::{Cluster, Result};
use crate::versus::generator;
use crate::versus::options::{Options, Programs};

const CLIENTS: usize = 50;
/// 1,000 puts per second: far below the limit of either side.
const LOAD: Schedule = Schedule {
    every: Duration::from_millis(50),
    patience: Duration::from_secs(10),
    value_bytes: 256,
};
/// About 300 MB of live state.
const FILL: u64 = 300_000;
const FILL_VALUE_BYTES: &str = "1024";
/// Undisturbed time, all rounds together.
const UNDISTURBED: Duration = Duration::from_secs(60);
/// Number of learners, one after the other.
const ROUNDS: usize = 5;
/// Time for the background writes of the fill to finish.
const CALM: Duration = Duration::from_secs(5);

pub(in crate::versus) fn run(options: &Options, programs: &Programs) -> Result<()> {
    let rounds = options.rounds_or(ROUNDS);
    println!("| side | | puts | seconds | p50 ms | p99 ms | max ms | p99 rise |");
    println!("|---|---|--:|--:|--:|--:|--:|--:|");
    for side in options.servers() {
        let cluster = Cluster::start(side, programs, options)?;
        let endpoints = cluster.endpoints()?;
        let fill = fill(options.total.unwrap_or(FILL));
        generator::run(&programs.benchmark, &endpoints, &fill, cluster.scratch())?;
        std::thread::sleep(CALM);
        let (leader, _) = cluster.wait_healthy()?;
        let urls = vec![cluster.urls()[leader].clone(); CLIENTS];
        let writers = Writers::start(urls, LOAD)?;
        std::thread::sleep(CALM);
        let (mut calm, mut fed, mut feeding) = (Vec::new(), Vec::new(), Duration::ZERO);
        let span = UNDISTURBED.mul_f64(options.minutes.min(1.0)) / rounds as u32;
        for round in 0..rounds {
            // The disk's speed varies, so an undisturbed span precedes each disturbed one.
            let calmed = Instant::now();
            std::thread::sleep(span);
            let began = Instant::now();
            let (member, id) = cluster.join(&format!("n{round}"))?;
            let ended = Instant::now();
            feeding += ended - began;
            let (before, during) = (
                took_between(&writers.acks(), calmed, began),
                took_between(&writers.acks(), began, ended),
            );
            eprintln!(
                "{:6} learner {round}: {:?}, p99 {:.2} ms, before it {:.2} ms",
                side.name(),
                ended - began,
                Spread::of(during.clone(), ended - began).p99,
                Spread::of(before.clone(), span).p99,
            );
            calm.extend(before);
            fed.extend(during);
            cluster.leave(member, id)?;
            std::thread::sleep(CALM);
        }
        let calm = Spread::of(calm, span * rounds as u32);
        calm.print(side.name(), "undisturbed", "");
        let fed = Spread::of(fed, feeding);
        let rise = format!("{:+.0} %", (fed.p99 / calm.p99 - 1.0) * 100.0);
        fed.print(side.name(), "feeding learners", &rise);
    }
    println!("\nAim for Stele: the p99 rises by no more than 20 %.");
    Ok(())
}

/// Puts of one kilobyte, all with different keys.
pub(super) fn fill(puts: u64) -> Vec<OsString> {
    let total = puts.to_string();
    let args = [
        "--clients",
        "200",
        "--conns",
        "20",
        "--precise",
        "put",
        "--total",
        &total,
        "--key-size",
        "32",
        "--val-size",
        FILL_VALUE_BYTES,
        "--sequential-keys",
        "--key-space-size",
        &total,
    ];
    args.iter().map(OsString::from).collect()
}
