//! A member with different data is detected: before it serves, by the leader's periodic check, and
//! by the leader's check after a compaction. Members with equal data raise no alarm under any load,
//! also in clusters with etcd.
#![expect(
    clippy::disallowed_methods,
    reason = "a test writes a damaged snapshot, runs commands and waits for processes"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use pb::alarm_request::AlarmAction;
use testkit::{Launch, Tools};
use tokio_stream::StreamExt as _;

use crate::beside_etcd::beside::page;
use crate::harness::fleet::{PATIENCE, Process, wait};

const KEYS: usize = 50;
/// As long as each other: the damaged file has the same layout.
const TRUTH: &[u8] = b"what was written";
const DAMAGE: &[u8] = b"what rots there.";
const DAMAGED: usize = 2;
const POLL: Duration = Duration::from_millis(10);

const BY_TIME: &str = "--corrupt-check-time=200ms";
const BY_COMPACTION: &str = "--compact-hash-check-time=200ms";
const GATES: &str = "--feature-gates=CompactHashCheck=true,InitialCorruptCheck=true";

/// Three members to be, restored from one snapshot; one of them from a damaged copy.
struct Restored {
    members: Vec<Process>,
    _dir: tempfile::TempDir,
}

impl Restored {
    async fn new(damaged: bool) -> Restored {
        let dir = tempfile::tempdir().unwrap();
        let snapshot = snapshot().await;
        let mut members: Vec<Process> = (0..3)
            .map(|at| Process::new(STELE, dir.path(), &format!("m{at}")))
            .collect();
        let places: Vec<String> = members.iter().map(Process::place).collect();
        let places = places.join(",");
        for (at, member) in members.iter_mut().enumerate() {
            let file = dir.path().join(format!("{at}.snapshot"));
            let bytes = if damaged && at == DAMAGED {
                damage(&snapshot)
            } else {
                snapshot.clone()
            };
            fs::write(&file, bytes).unwrap();
            restore(&file, member, &places);
            member.flag(format!("--initial-cluster={places}"));
        }
        Restored { members, _dir: dir }
    }

    fn start(&mut self, flags: &[&str]) {
        for member in &mut self.members {
            flags
                .iter()
                .for_each(|flag| member.flag((*flag).to_owned()));
            member.start();
        }
    }

    async fn client(&self, at: usize) -> Client {
        connect(&self.members[at]).await
    }

    fn logs(&self) -> String {
        self.members.iter().map(Process::log).collect()
    }
}

const STELE: &str = env!("CARGO_BIN_EXE_stele");

/// Of a store with some history.
async fn snapshot() -> Vec<u8> {
    let server = Launch::program(STELE)
        .start()
        .unwrap_or_else(|error| panic!("{error}"));
    let client = Client::connect(server.url()).await.unwrap();
    for key in 0..KEYS {
        client.kv().put(put(key, TRUTH)).await.unwrap();
    }
    let request = pb::SnapshotRequest::default();
    let mut parts = client
        .maintenance()
        .snapshot(request)
        .await
        .unwrap()
        .into_inner();
    let mut bytes = Vec::new();
    while let Some(part) = parts.next().await {
        bytes.extend_from_slice(&part.unwrap().blob);
    }
    bytes
}

fn damage(snapshot: &[u8]) -> Vec<u8> {
    let mut bytes = snapshot.to_vec();
    let mut found = 0;
    for at in 0..bytes.len() - TRUTH.len() {
        if &bytes[at..at + TRUTH.len()] == TRUTH {
            bytes[at..at + TRUTH.len()].copy_from_slice(DAMAGE);
            found += 1;
        }
    }
    assert!(found >= KEYS, "{found}");
    bytes
}

fn restore(file: &Path, member: &Process, places: &str) {
    let output = Command::new(STELE)
        .args(["utl", "snapshot", "restore", "--skip-hash-check"])
        .arg(file)
        .arg(format!("--data-dir={}", member.dir.display()))
        .arg(format!("--name={}", member.name))
        .arg(format!("--initial-advertise-peer-urls={}", member.peer_url))
        .arg(format!("--initial-cluster={places}"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

fn put(key: usize, value: &[u8]) -> pb::PutRequest {
    pb::PutRequest {
        key: format!("key-{key:04}").into(),
        value: value.to_vec().into(),
        ..Default::default()
    }
}

/// Once it serves.
async fn connect(member: &Process) -> Client {
    let ready = || member.log().contains(testkit::READY_LINE);
    wait("a member that serves", ready, || member.log());
    Client::connect(member.url.clone()).await.unwrap()
}

async fn alarms(client: &Client) -> Vec<pb::AlarmMember> {
    let request = pb::AlarmRequest {
        action: AlarmAction::Get as i32,
        ..Default::default()
    };
    client
        .maintenance()
        .alarm(request)
        .await
        .unwrap()
        .into_inner()
        .alarms
}

async fn corrupt_members(client: &Client) -> Vec<u64> {
    loop {
        let alarms = alarms(client).await;
        if !alarms.is_empty() {
            let corrupt = pb::AlarmType::Corrupt as i32;
            assert!(alarms.iter().all(|alarm| alarm.alarm == corrupt));
            return alarms.iter().map(|alarm| alarm.member_id).collect();
        }
        tokio::time::sleep(POLL).await;
    }
}

async fn id(client: &Client) -> u64 {
    let status = client
        .maintenance()
        .status(pb::StatusRequest::default())
        .await;
    status.unwrap().into_inner().header.unwrap().member_id
}

#[tokio::test]
async fn a_damaged_member_does_not_start_when_its_peers_are_asked_first() {
    let mut cluster = Restored::new(true).await;
    let (right, damaged) = cluster.members.split_at_mut(DAMAGED);
    right.iter_mut().for_each(Process::start);
    for member in right {
        connect(member).await;
    }
    let damaged = &mut damaged[0];
    damaged.flag(GATES.to_owned());
    damaged.start();
    let until = std::time::Instant::now() + PATIENCE;
    while damaged.is_alive() {
        assert!(std::time::Instant::now() < until, "{}", damaged.log());
        tokio::time::sleep(POLL).await;
    }
    let log = damaged.log();
    assert!(log.contains("starting initial corruption check"), "{log}");
    assert!(
        log.contains("found different hash values from remote peer"),
        "{log}"
    );
    assert!(log.contains("found data inconsistency with peers"), "{log}");
    assert!(!log.contains(testkit::READY_LINE), "{log}");
}

#[tokio::test]
async fn a_damaged_member_is_found_by_time_and_stops_changes_until_disarmed() {
    let mut cluster = Restored::new(true).await;
    cluster.start(&[BY_TIME]);
    let client = cluster.client(0).await;
    let corrupt = tokio::time::timeout(PATIENCE, corrupt_members(&client)).await;
    let corrupt = corrupt.unwrap_or_else(|_| panic!("{}", cluster.logs()));
    assert!(!corrupt.is_empty());
    let refused = client.kv().put(put(1, b"late")).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (tonic::Code::DataLoss, "etcdserver: corrupt cluster")
    );
    let request = pb::RangeRequest {
        key: "key-0001".into(),
        ..Default::default()
    };
    client.kv().range(request).await.unwrap();
    let url = &cluster.members[0].url;
    assert!(page(url, "/health").contains("ALARM CORRUPT"));
    assert!(page(url, "/readyz").contains("[-]data_corruption failed: alarm activated: CORRUPT"));
    let logs = cluster.logs();
    assert!(
        logs.contains("same compact revision then hashes must match"),
        "{logs}"
    );
    assert!(logs.contains("finished peer corruption check"), "{logs}");
}

#[tokio::test]
async fn a_damaged_member_is_found_and_named_after_a_compaction() {
    let mut cluster = Restored::new(true).await;
    cluster.start(&[BY_COMPACTION, "--feature-gates=CompactHashCheck=true"]);
    let client = cluster.client(0).await;
    // Whichever member leads is in step by then.
    let response = client.kv().put(put(0, b"new")).await.unwrap().into_inner();
    let request = pb::CompactionRequest {
        revision: response.header.unwrap().revision,
        physical: false,
    };
    client.kv().compact(request).await.unwrap();
    let corrupt = tokio::time::timeout(PATIENCE, corrupt_members(&client)).await;
    let corrupt = corrupt.unwrap_or_else(|_| panic!("{}", cluster.logs()));
    assert_eq!(corrupt, [id(&cluster.client(DAMAGED).await).await]);
    let logs = cluster.logs();
    assert!(logs.contains("Detected compaction hash mismatch"), "{logs}");
}

/// Each member leads in turn, and compares the others with itself all the time.
#[tokio::test]
async fn members_with_the_same_data_are_left_in_peace_under_load() {
    let programs = [STELE; 3].map(PathBuf::from);
    compare_under_load(&programs).await;
}

#[tokio::test]
async fn members_of_both_kinds_are_left_in_peace_under_load() {
    let Some(tools) = Tools::or_skip("corruption checks beside etcd") else {
        return;
    };
    compare_under_load(&[STELE.into(), tools.etcd, STELE.into()]).await;
}

async fn compare_under_load(programs: &[PathBuf]) {
    let dir = tempfile::tempdir().unwrap();
    let members = programs.iter().enumerate();
    let members = members.map(|(at, program)| Process::new(program, dir.path(), &format!("m{at}")));
    let mut members: Vec<Process> = members.collect();
    crate::harness::fleet::start_all(&mut members, &[BY_TIME, BY_COMPACTION, GATES]);
    let mut clients = Vec::new();
    for member in &members {
        clients.push(connect(member).await);
    }
    let load = tokio::spawn(load(clients[0].clone()));
    for (at, client) in clients.iter().enumerate() {
        lead(&clients, id(client).await).await;
        for line in [
            "finished peer corruption check",
            "successfully checked hash on whole cluster",
        ] {
            let before = members[at].log().matches(line).count();
            let until = std::time::Instant::now() + PATIENCE;
            while members[at].log().matches(line).count() < before + 2 {
                assert!(
                    std::time::Instant::now() < until,
                    "{line}: {}",
                    members[at].log()
                );
                tokio::time::sleep(POLL).await;
            }
        }
    }
    load.abort();
    assert_eq!(alarms(&clients[0]).await, []);
    // One that was away is asked to look before it comes back.
    members[0].kill();
    members[0].start();
    let client = connect(&members[0]).await;
    assert!(
        members[0]
            .log()
            .contains("initial corruption checking passed; no corruption")
    );
    assert_eq!(alarms(&client).await, []);
}

/// Puts, deletes and compactions for ever.
async fn load(client: Client) {
    for round in 0.. {
        for key in 0..KEYS {
            let Ok(response) = client.kv().put(put(key, &[round as u8; 100])).await else {
                continue; // Leadership moves.
            };
            if key == KEYS / 2 {
                let revision = response.into_inner().header.unwrap().revision - KEYS as i64 / 2;
                let physical = false;
                let request = pb::CompactionRequest { revision, physical };
                let _ = client.kv().compact(request).await;
                let request = pb::DeleteRangeRequest {
                    key: format!("key-{key:04}").into(),
                    ..Default::default()
                };
                let _ = client.kv().delete_range(request).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Until `target` leads.
async fn lead(clients: &[Client], target: u64) {
    loop {
        for client in clients {
            let status = client
                .maintenance()
                .status(pb::StatusRequest::default())
                .await;
            let status = status.unwrap().into_inner();
            if status.leader == target {
                return;
            }
            let request = pb::MoveLeaderRequest { target_id: target };
            if status.leader == status.header.unwrap().member_id {
                // May fail when leadership moves by itself meanwhile: then again.
                let _ = client.maintenance().move_leader(request).await;
            }
        }
        tokio::time::sleep(POLL).await;
    }
}
