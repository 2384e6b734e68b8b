//! A member that was away for longer than the others keep the log for gets the state instead, and
//! then the log behind it; whatever befalls it on the way.
#![expect(clippy::disallowed_methods, reason = "a test waits for a time to pass")]

use std::time::{Duration, Instant};

use etcd_api::etcdserverpb as pb;

use crate::cluster::{ask, hash, holds, put};
use crate::fleet::{Process, found, wait};

const FLAGS: [&str; 1] = ["--snapshot-catchup-entries=50"];
/// The log is kept for a silent member for two election timeouts, and a little more for a machine
/// that is busy.
const AWAY: Duration = Duration::from_secs(3);
/// If it was not long enough: so often.
const ROUNDS: usize = 5;
const LARGE_BYTES: usize = 1 << 20;

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
    // Enough that a transfer takes its time.
    for i in 0..60 {
        let request = pb::PutRequest {
            key: format!("large/{i}").into(),
            value: vec![i; LARGE_BYTES].into(),
            ..Default::default()
        };
        let call = |client: etcd_api::Client| {
            let request = request.clone();
            async move { client.kv().put(request).await }
        };
        ask(&members[0].url, call).await;
    }
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
