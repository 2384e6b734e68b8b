//! What users meet at the same time: TLS for clients and members, a large store, a hundred clients
//! that overwrite it, a snapshot that nobody reads at each member; and then the leader is killed, and
//! seconds later the next one, too.
//!
//! Of each pair of faults the result is the longest time without an acknowledged write. At the end
//! no acknowledged write may be missing, and all members must hash the same.

#![expect(clippy::disallowed_methods, reason = "waits for what it measures")]

use std::ffi::OsString;
use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb::{HashKvRequest, RangeRequest, SnapshotRequest, SnapshotResponse};
use tonic::Streaming;

use super::spread::{Spread, took_between};
use super::takeover::{self, Fault, LOAD};
use super::writers::Writers;
use super::{Cluster, Result};
use crate::versus::generator;
use crate::versus::options::{Options, Programs};

const KEYS: u64 = 1_000_000;
const FILL_CLIENTS: &str = "300";
const CLIENTS: &str = "100";
/// Requests a second of the load: some fail at once while their member is away, and would be too many.
const RATE: &str = "12000";
/// More than it can send.
const TOTAL: &str = "1000000000";
const CALM: Duration = Duration::from_secs(10);
/// From the first fault to the second, by when the first member is back.
const SECOND_FAULT_AFTER: Duration = Duration::from_secs(3);
const ROUNDS: usize = 5;

pub(in crate::versus) fn run(options: &Options, programs: &Programs) -> Result<()> {
    let keys = options.total.unwrap_or(KEYS).to_string();
    let rounds = options.rounds_or(ROUNDS);
    println!(
        "| side | keys | writes p50 ms | p99 | with stalled snapshots p50 | p99 | gaps ms | writes | lost |"
    );
    println!("|---|--:|--:|--:|--:|--:|---|--:|--:|");
    for side in options.servers() {
        let mut cluster = Cluster::start(side, programs, options)?;
        let report = cluster.scratch().join("load");
        let fill = put(
            FILL_CLIENTS,
            &keys,
            &["--sequential-keys", "--total", &keys],
        );
        let arguments = [cluster.client_flags(), fill].concat();
        generator::run(
            &programs.benchmark,
            &cluster.endpoints()?,
            &arguments,
            cluster.scratch(),
        )?;
        let load = put(CLIENTS, &keys, &["--rate", RATE, "--total", TOTAL]);
        let arguments = [cluster.client_flags(), load].concat();
        let endpoints = cluster.endpoints()?;
        let running = generator::start(&programs.benchmark, &endpoints, &arguments, &report)?;
        let writers = Writers::start(cluster.urls(), LOAD)?;
        std::thread::sleep(CALM / 2);
        let free = spread_over(&writers, CALM);
        let stalled = cluster.stall()?;
        let held = spread_over(&writers, CALM);
        let mut gaps = Vec::new();
        for _ in 0..rounds {
            let gap = two_faults(&mut cluster, &writers)?;
            eprintln!("{:9} {gap:?}", side.name());
            gaps.push(gap.as_secs_f64() * 1e3);
        }
        drop((running, stalled));
        let acknowledged = writers.acks().len() as u64;
        drop(writers);
        cluster.all_alive()?;
        let written = cluster.check()?;
        println!(
            "| {} | {keys} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {acknowledged} | {} |",
            side.name(),
            free.p50,
            free.p99,
            held.p50,
            held.p99,
            gaps.iter()
                .map(|gap| format!("{gap:.0}"))
                .collect::<Vec<_>>()
                .join(", "),
            acknowledged.saturating_sub(written),
        );
        if written < acknowledged {
            return Err(format!("{} lost acknowledged writes", side.name()).into());
        }
    }
    Ok(())
}

/// Arguments of a load of puts to this many keys.
fn put(clients: &str, keys: &str, more: &[&str]) -> Vec<OsString> {
    let shape = [
        "--key-size",
        "32",
        "--val-size",
        "256",
        "--key-space-size",
        keys,
    ];
    let clients = ["--clients", clients, "--conns", clients, "put"];
    let all = clients.iter().chain(&shape).chain(more);
    all.map(OsString::from).collect()
}

fn spread_over(writers: &Writers, time: Duration) -> Spread {
    let began = Instant::now();
    std::thread::sleep(time);
    let ended = Instant::now();
    Spread::of(took_between(&writers.acks(), began, ended), time)
}

fn two_faults(cluster: &mut Cluster, writers: &Writers) -> Result<Duration> {
    let (leader, term) = cluster.wait_healthy()?;
    std::thread::sleep(CALM / 2);
    let began = Instant::now();
    takeover::lose(cluster, writers, Fault::Kill, leader, term)?;
    std::thread::sleep(SECOND_FAULT_AFTER.saturating_sub(began.elapsed()));
    let (leader, term) = cluster.wait_healthy()?;
    takeover::lose(cluster, writers, Fault::Kill, leader, term)?;
    Ok(writers.longest_gap(began))
}

impl Cluster {
    /// Asks each member for a snapshot, and reads its first piece alone.
    fn stall(&self) -> Result<Vec<Streaming<SnapshotResponse>>> {
        self.runtime.block_on(async {
            let mut stalled = Vec::new();
            for url in self.urls() {
                let client = Client::connect(url).await?;
                let asked = client.maintenance().snapshot(SnapshotRequest {}).await?;
                let mut pieces = asked.into_inner();
                pieces.message().await?;
                stalled.push(pieces);
            }
            Ok(stalled)
        })
    }

    /// Compares the members' hashes. Returns the number of puts to the writers' keys.
    fn check(&self) -> Result<u64> {
        self.wait_healthy()?;
        self.runtime.block_on(async {
            let (mut revision, mut hashes, mut written) = (0, Vec::new(), 0);
            for url in self.urls() {
                let client = Client::connect(url).await?;
                let request = RangeRequest {
                    key: "writer-".into(),
                    range_end: "writer.".into(),
                    keys_only: true,
                    ..RangeRequest::default()
                };
                let range = client.kv().range(request).await?.into_inner();
                written = range.kvs.iter().map(|kv| kv.version as u64).sum();
                if revision == 0 {
                    revision = range.header.ok_or("no header")?.revision;
                }
                let hash = client
                    .maintenance()
                    .hash_kv(HashKvRequest { revision })
                    .await?;
                hashes.push(hash.into_inner().hash);
            }
            if hashes.iter().any(|hash| *hash != hashes[0]) {
                return Err(format!("at revision {revision} members hash {hashes:?}").into());
            }
            Ok(written)
        })
    }
}
