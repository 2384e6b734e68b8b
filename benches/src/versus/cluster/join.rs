//! How long an empty member needs to be in step with a large store that clients keep writing to.

#![expect(clippy::disallowed_methods, reason = "waits for what it measures")]

use std::time::{Duration, Instant};

use super::absent::wait_in_step;
use super::snapshot::fill;
use super::spread::{Spread, took_between};
use super::writers::{Schedule, Writers};
use super::{Cluster, Result};
use crate::versus::generator;
use crate::versus::options::{Options, Programs};

/// Two gigabytes of live state.
const FILL: u64 = 2_000_000;
const CLIENTS: usize = 50;
/// 20 MB per second, if the machine can do that.
const LOAD: Schedule = Schedule {
    every: Duration::from_millis(40),
    patience: Duration::from_secs(10),
    value_bytes: 16 << 10,
};
/// Undisturbed load before the member joins.
const CALM: Duration = Duration::from_secs(10);

pub(in crate::versus) fn run(options: &Options, programs: &Programs) -> Result<()> {
    println!("| side | in step after s | transfers | MB/s | p99 before ms | p99 meanwhile |");
    println!("|---|--:|--:|--:|--:|--:|");
    for side in options.servers() {
        let cluster = Cluster::start(side, programs, options)?;
        let fill = fill(options.total.unwrap_or(FILL));
        let endpoints = cluster.endpoints()?;
        generator::run(&programs.benchmark, &endpoints, &fill, cluster.scratch())?;
        let leader = cluster.wait_healthy()?.0;
        let leader_url = cluster.urls()[leader].clone();
        let load = Writers::start(vec![leader_url.clone(); CLIENTS], LOAD)?;
        let calm = Instant::now();
        std::thread::sleep(CALM);
        let sent = cluster.count_in_logs("sending database snapshot");
        let began = Instant::now();
        let (member, id) = cluster.join("newcomer")?;
        let member_url = member.url();
        let in_step = wait_in_step(&leader_url, &member_url);
        cluster.runtime.block_on(in_step)?;
        let ended = Instant::now();
        let transfers = cluster.count_in_logs("sending database snapshot") - sent;
        let acks = load.acks();
        let before = Spread::of(took_between(&acks, calm, began), began - calm);
        let meanwhile = Spread::of(took_between(&acks, began, ended), ended - began);
        println!(
            "| {} | {:.1} | {transfers} | {:.1} | {:.1} | {:.1} |",
            side.name(),
            (ended - began).as_secs_f64(),
            meanwhile.per_second() * LOAD.value_bytes as f64 / 1e6,
            before.p99,
            meanwhile.p99,
        );
        drop(load);
        cluster.leave(member, id)?;
    }
    println!("\nAim for Stele: it converges, in one transfer.");
    Ok(())
}
