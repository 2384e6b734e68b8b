//! A member whose data directory was emptied or reset to an older state. The member and the leader
//! each report it once, and the data on the other members is safe.
#![expect(
    clippy::disallowed_methods,
    reason = "takes a member's data away while it is stopped"
)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::clusters::cluster::{hash, holds, put};
use crate::harness::fleet::{PATIENCE, Process, found, wait};

const LOST: &str = "lost log entries that it acknowledged";
const AHEAD: &str = "log ends before the newest entry that the store has applied";
const WAY_OUT: &str = "add it anew with an empty data directory";

fn members(dir: &Path) -> Vec<Process> {
    found(env!("CARGO_BIN_EXE_stele"), dir, 3, &[])
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_put_back_to_an_older_state_says_so_and_so_does_the_leader() {
    let dir = tempfile::tempdir().unwrap();
    let mut members = members(dir.path());
    put(&members[0].url, "before").await;
    members[2].kill();
    let old = dir.path().join("old");
    copy(&members[2].dir, &old);
    // Under a leader that stays: the third member leads no more.
    put(&members[0].url, "between").await;
    members[2].start();
    for at in 0..20 {
        put(&members[0].url, &format!("acknowledged/{at}")).await;
    }
    let newest = hash(&members[0].url).await;
    assert_eq!(hash(&members[2].url).await, newest);
    members[2].kill();
    fs::remove_dir_all(&members[2].dir).unwrap();
    copy(&old, &members[2].dir);
    members[2].start();
    put(&members[0].url, "after").await;
    let logs = |members: &[Process]| members.iter().map(Process::log).collect::<Vec<_>>();
    let told = || {
        let logs = logs(&members);
        logs[2].contains(LOST) && (logs[0].contains(LOST) || logs[1].contains(LOST))
    };
    wait("the loss to be told", told, || logs(&members).join("\n"));
    for at in 0..20 {
        put(&members[at % 2].url, &format!("without/{at}")).await;
    }
    for log in logs(&members) {
        assert!(log.matches(LOST).count() <= 1, "once is enough:\n{log}");
        assert!(!log.contains(LOST) || log.contains(WAY_OUT), "{log}");
    }
    members
        .iter_mut()
        .for_each(|member| assert!(member.is_alive()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_put_back_behind_its_store_is_told_with_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let mut members = found(env!("CARGO_BIN_EXE_stele"), dir.path(), 1, &[]);
    let member = &mut members[0];
    put(&member.url, "before").await;
    member.kill();
    let (log, old) = (member.dir.join("member/log"), dir.path().join("old"));
    copy(&log, &old);
    member.start();
    for at in 0..20 {
        put(&member.url, &format!("acknowledged/{at}")).await;
    }
    // A member that is told to stop writes all that it has applied into its store.
    member.signal(Signal::TERM);
    let until = Instant::now() + PATIENCE;
    while member.is_alive() {
        assert!(Instant::now() < until, "it goes on:\n{}", member.log());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    member.kill();
    fs::remove_dir_all(&log).unwrap();
    copy(&old, &log);
    member.start();
    put(&member.url, "after").await;
    let text = member.log();
    let told: Vec<&str> = text.lines().filter(|line| line.contains(AHEAD)).collect();
    assert_eq!(told.len(), 1, "{text}");
    assert!(told[0].contains(log.to_str().unwrap()), "{}", told[0]);
    assert!(told[0].contains(WAY_OUT), "{}", told[0]);
    assert!(holds(&member.url, "acknowledged/19").await);
    // The log goes on from there: the next start has nothing to tell.
    member.kill();
    member.start();
    assert!(holds(&member.url, "after").await);
    assert!(!member.log().contains(AHEAD), "{}", member.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_directory_in_a_known_members_place_is_refused_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let mut members = members(dir.path());
    for member in &members {
        put(&member.url, &member.name).await;
    }
    members[2].kill();
    fs::remove_dir_all(&members[2].dir).unwrap();
    members[2].flag("--initial-cluster-state=existing".to_owned());
    members[2].start();
    let says = || {
        members[2]
            .log()
            .contains("has already been part of this cluster")
    };
    wait("a refusal", says, || members[2].log());
    let log = members[2].log();
    assert!(log.contains("etcdctl member remove"), "{log}");
    assert!(!members[2].dir.join("member/log").exists() || !log.contains("ready to serve"));
}
