//! A member that was down is fed from the others' log on disk. If that is gone, it gets a snapshot
//! instead, and then the log after it, whatever faults happen meanwhile.
#![expect(clippy::disallowed_methods, reason = "a test waits for a time to pass")]

use std::time::{Duration, Instant};

use etcd_api::etcdserverpb as pb;
use testkit::mesh::{Mesh, Path};

use crate::beside_etcd::beside::page;
use crate::clusters::cluster::{ask, hash, holds, put};
use crate::harness::fleet::{Process, found, put_behind, start_all, wait};

/// Little of the log is kept in memory, and what is on the disk does not count.
const FLAGS: [&str; 2] = ["--snapshot-catchup-entries=50", "--wal-keep-bytes=0"];
/// The log is kept for a silent member for two election timeouts, and a little more for a machine
/// that is busy.
const AWAY: Duration = Duration::from_secs(3);
/// If it was not long enough: so often.
const ROUNDS: usize = 5;
const LARGE_BYTES: usize = 1 << 20;
/// Enough of them that a transfer takes its time.
const LARGE: usize = 60;

fn members(dir: &std::path::Path) -> Vec<Process> {
    found(env!("CARGO_BIN_EXE_stele"), dir, 3, &FLAGS)
}

/// Writes through one of the others until the log does not reach back to where `victim` left.
async fn outrun(members: &[Process], victim: usize, round: usize, written: &mut Vec<String>) {
    let until = Instant::now() + AWAY;
    let mut count = 0;
    while Instant::now() < until || count < 120 {
        let key = format!("{round}/{victim}/{count}");
        put(&members[(victim + 1) % members.len()].url, &key).await;
        written.push(key);
        count += 1;
    }
}

/// More entries, and more bytes, than memory keeps by default.
const ENTRIES: usize = 6_400;
const LARGE_ENTRIES: usize = 40;
const WRITERS: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_was_away_is_fed_from_the_log_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let mut members = found(env!("CARGO_BIN_EXE_stele"), dir.path(), 3, &[]);
    put(&members[0].url, "first").await;
    let victim = 1;
    members[victim].kill();
    let others: Vec<String> = [0, 2].map(|other| members[other].url.clone()).into();
    put_large(&others[0], LARGE_ENTRIES).await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let url = others[writer % others.len()].clone();
        writers.spawn(async move {
            for number in 0..ENTRIES / WRITERS {
                put(&url, &format!("{writer}/{number}")).await;
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    members[victim].start();
    let written = ["first".to_owned(), "0/0".to_owned(), "15/399".to_owned()];
    all_agree(&members, &written).await;
    let fetched: f64 = others
        .iter()
        .map(|url| metric(url, "stele_wal_entries_fetched_total"))
        .sum();
    assert!(fetched > 1_000.0, "{fetched} read from the disk");
    for member in &members {
        let log = member.log();
        assert!(!log.contains("database snapshot"), "{}: {log}", member.name);
    }
}

fn metric(url: &str, name: &str) -> f64 {
    let metrics = page(url, "/metrics");
    let mut lines = metrics.lines().filter_map(|line| line.strip_prefix(name));
    lines.next().unwrap().trim().parse().unwrap()
}

async fn all_agree(members: &[Process], written: &[String]) {
    let mut hashes = Vec::new();
    for member in members {
        for key in written.iter().rev().take(50).chain(written.iter().take(50)) {
            assert!(
                holds(&member.url, key).await,
                "{}: {key} is lost",
                member.name
            );
        }
        hashes.push(hash(&member.url).await);
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_was_away_for_long_catches_up_by_a_snapshot_and_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut members = members(dir.path());
    let mut written = Vec::new();
    put(&members[0].url, "first").await;
    // The second time the same member, so that a snapshot follows a snapshot; then another.
    for (round, victim) in [1, 1, 0].into_iter().enumerate() {
        let mut caught_up = false;
        for again in 0..ROUNDS {
            members[victim].kill();
            outrun(&members, victim, round * ROUNDS + again, &mut written).await;
            members[victim].start();
            all_agree(&members, &written).await;
            caught_up = members[victim].log().contains("received database snapshot");
            if caught_up {
                break;
            }
        }
        assert!(caught_up, "it never was away for long enough");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_killed_while_a_snapshot_comes_gets_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut members = members(dir.path());
    let mut written = Vec::new();
    put_large(&members[0].url, LARGE).await;
    let victim = 2;
    members[victim].kill();
    outrun(&members, victim, 0, &mut written).await;
    let incoming = members[victim].dir.join("member/store/pages.incoming");
    for _ in 0..2 {
        members[victim].start();
        let log = || members[victim].log();
        let comes = || incoming.exists() || log().contains("received database snapshot");
        wait("a snapshot to come", comes, log);
        members[victim].kill();
    }
    members[victim].start();
    all_agree(&members, &written).await;
    assert!(!incoming.exists(), "what was not finished is cleared away");
}

async fn put_large(url: &str, count: usize) {
    for i in 0..count {
        let request = pb::PutRequest {
            key: format!("large/{i}").into(),
            value: vec![i as u8; LARGE_BYTES].into(),
            ..Default::default()
        };
        let call = |client: etcd_api::Client| {
            let request = request.clone();
            async move { client.kv().put(request).await }
        };
        ask(url, call).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transfer_that_is_cut_off_goes_on_where_it_broke() {
    let dir = tempfile::tempdir().unwrap();
    let mesh = Mesh::new(3);
    let program = env!("CARGO_BIN_EXE_stele");
    let member = |at: usize| Process::new(program, dir.path(), &format!("m{at}"));
    let mut members: Vec<Process> = (0..3).map(member).collect();
    put_behind(&mesh, &mut members);
    start_all(&mut members, &FLAGS);
    for (at, member) in members.iter().enumerate() {
        mesh.runs_as(at, member.pid());
    }
    let mut written = Vec::new();
    put_large(&members[0].url, LARGE).await;
    let victim = 2;
    members[victim].kill();
    outrun(&members, victim, 0, &mut written).await;
    // So slow that the cut comes in the middle of the transfer.
    mesh.isolate(victim, Path::Slow(Duration::from_millis(20)));
    members[victim].start();
    mesh.runs_as(victim, members[victim].pid());
    let log = || members[victim].log();
    let comes = || log().contains("receiving database snapshot");
    wait("a snapshot to come", comes, log);
    mesh.isolate(victim, Path::Cut);
    let broken = || log().contains("a database snapshot broke off, waiting for the rest");
    wait("the transfer to break off", broken, log);
    mesh.set_all(Path::Open);
    let arrived = || log().matches("received database snapshot").count();
    wait("a snapshot to arrive", || arrived() > 0, log);
    all_agree(&members, &written).await;
    let sent = |members: &[Process]| -> usize {
        let sent = members.iter().map(|member| member.log());
        sent.map(|log| log.matches("sending database snapshot").count())
            .sum()
    };
    let before = sent(&members);
    for more in 0..200 {
        let key = format!("more/{more}");
        put(&members[0].url, &key).await;
        written.push(key);
    }
    all_agree(&members, &written).await;
    assert_eq!(sent(&members), before, "it caught up by the log");
    assert_eq!(arrived(), 1, "the one that was cut off, and no other");
    assert!(log().contains("receiving the rest of a database snapshot"));
}
