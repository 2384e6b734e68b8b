//! Whether a leader stays leader under full load: a thousand clients put for some minutes.

#![expect(clippy::disallowed_methods, reason = "limits a load by time")]

use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb::{CompactionRequest, StatusRequest};

use super::{Cluster, Result};
use crate::versus::generator;
use crate::versus::loads::Load;
use crate::versus::options::{Options, Programs};

/// Log texts of a member that campaigns; after the start there should be none.
const CANDIDACIES: [&str; 2] = ["became pre-candidate at term", "became candidate at term"];

pub(in crate::versus) fn run(options: &Options, programs: &Programs) -> Result<()> {
    let load = Load::all().into_iter().find(|load| load.name == "put-1000");
    let load = load.ok_or("there is no load of a thousand clients")?;
    println!("| side | minutes | puts/s | term before | term after | pre-votes | elections |");
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for side in options.servers() {
        let mut cluster = Cluster::start(side, programs, options)?;
        let endpoints = cluster.endpoints()?;
        let (leader, before) = cluster.wait_healthy()?;
        let counted = CANDIDACIES.map(|line| cluster.count_in_logs(line));
        let (began, until) = (
            Instant::now(),
            Duration::from_secs_f64(options.minutes * 60.0),
        );
        let mut puts = 0;
        while began.elapsed() < until {
            let arguments = load.arguments();
            generator::run(
                &programs.benchmark,
                &endpoints,
                &arguments,
                cluster.scratch(),
            )?;
            puts += load.total;
            compact(&cluster, leader)?;
            eprintln!(
                "{:6} {:.0} s: {puts} puts",
                side.name(),
                began.elapsed().as_secs_f64()
            );
        }
        let elapsed = began.elapsed().as_secs_f64();
        cluster.all_alive()?;
        let (_, after) = cluster.wait_healthy()?;
        let now = CANDIDACIES.map(|line| cluster.count_in_logs(line));
        println!(
            "| {} | {:.1} | {:.0} | {before} | {after} | {} | {} |",
            side.name(),
            elapsed / 60.0,
            puts as f64 / elapsed,
            now[0] - counted[0],
            now[1] - counted[1],
        );
    }
    Ok(())
}

/// Compacts, because otherwise the store would fill the disk in ten minutes.
fn compact(cluster: &Cluster, leader: usize) -> Result<()> {
    let url = cluster.urls()[leader].clone();
    cluster.runtime.block_on(async {
        let client = Client::connect(url).await?;
        let status = client.maintenance().status(StatusRequest {}).await?;
        let header = status.into_inner().header.unwrap_or_default();
        let request = CompactionRequest {
            revision: header.revision,
            physical: false,
        };
        client.kv().compact(request).await?;
        Ok(())
    })
}
