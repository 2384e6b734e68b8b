//! Snapshots in both directions between Stele and etcd: saved from one, checked and restored by the
//! tools of either, and served by the other with the same history, as HashKV shows.
#![expect(
    clippy::disallowed_methods,
    reason = "a test around real processes looks at their files"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use pb::alarm_request::AlarmAction;
use pb::request_op::Request as Op;
use testkit::{Launch, Minor, Server, Tools};

use crate::harness::minors::beside_each_minor;
use crate::harness::rng::Rng;

const STELE: &str = env!("CARGO_BIN_EXE_stele");
const KEYS: usize = 200;
const CHANGES: usize = 1500;
const LEASES: i64 = 5;
const LEASE_SECONDS: i64 = 5000;
/// Leases do not lose more than this between two looks at them.
const LEASE_PATIENCE: i64 = 300;
/// Compacted up to so many changes before the end.
const HISTORY: i64 = 200;
/// What the servers of the testkit call themselves.
const CLUSTER: [&str; 2] = [
    "--initial-cluster=default=http://127.0.0.1:2380",
    "--initial-advertise-peer-urls=http://127.0.0.1:2380",
];

#[tokio::test]
async fn etcd_goes_on_from_a_snapshot_of_stele() {
    let Some(tools) = Tools::or_skip("a snapshot of Stele restored by etcdutl") else {
        return;
    };
    let source = Server::start_stele(STELE, &[], None);
    let told = Told::by(&source).await;
    let place = tempfile::tempdir().unwrap();
    let file = save(&tools, &source, place.path());
    check_status(&tools, &file, &told);

    let dir = place.path().join("restored");
    succeed(restore(Command::new(&tools.etcdutl), &file, &dir));
    let etcd = Launch::etcd(&tools).data_dir(&dir).start().unwrap();
    told.check(&etcd).await;
    // It can be written to, compacted and asked again.
    write_more(&etcd).await;
}

beside_each_minor!(stele_goes_on_from_a_snapshot_of_etcd);
async fn stele_goes_on_from_a_snapshot_of_etcd(minor: Minor) {
    let (Some(program), Some(tools)) = (
        minor.etcd_or_skip("a snapshot of etcd restored by Stele"),
        Tools::or_skip("a snapshot taken with etcdctl"),
    ) else {
        return;
    };
    let source = Launch::program(&program).start().unwrap();
    let told = Told::by(&source).await;
    let place = tempfile::tempdir().unwrap();
    let file = save(&tools, &source, place.path());
    check_status(&tools, &file, &told);

    let dir = place.path().join("restored");
    succeed(restore(utl(), &file, &dir));
    let mut stele = Server::start_stele(STELE, &[], Some(&dir));
    told.check(&stele).await;
    stele.kill_and_restart();
    told.check(&stele).await;
    write_more(&stele).await;
    let text = fail(restore(utl(), &file, &dir));
    assert!(text.contains("not empty or could not be read"), "{text}");
}

#[tokio::test]
async fn stele_goes_on_from_a_snapshot_of_its_own() {
    let Some(tools) = Tools::or_skip("a snapshot of Stele restored by Stele") else {
        return;
    };
    let source = Server::start_stele(STELE, &[], None);
    let told = Told::by(&source).await;
    let place = tempfile::tempdir().unwrap();
    let file = save(&tools, &source, place.path());
    let dir = place.path().join("restored");
    succeed(restore(utl(), &file, &dir));
    told.check(&Server::start_stele(STELE, &[], Some(&dir)))
        .await;

    let dir = place.path().join("bumped");
    let mut command = utl();
    command.args(["snapshot", "restore", "--bump-revision=1000000"]);
    command.arg("--mark-compacted").args(CLUSTER).arg(&file);
    succeed(command.arg("--data-dir").arg(&dir));
    let bumped = Server::start_stele(STELE, &[], Some(&dir));
    let client = Client::connect(bumped.url()).await.unwrap();
    let answer = client.kv().range(all()).await.unwrap().into_inner();
    assert_eq!(answer.count, told.keys);
    let revision = told.revision + 1_000_000;
    assert_eq!(answer.header.unwrap().revision, revision);
    let old = pb::RangeRequest {
        revision: revision - 1,
        ..all()
    };
    let error = client.kv().range(old).await.unwrap_err();
    assert!(error.message().contains("compacted"), "{error}");
}

beside_each_minor!(stele_takes_over_the_data_directory_of_a_killed_etcd);
async fn stele_takes_over_the_data_directory_of_a_killed_etcd(minor: Minor) {
    let Some(program) = minor.etcd_or_skip("a data directory of etcd imported") else {
        return;
    };
    let mut source = Launch::program(&program).start().unwrap();
    let client = Client::connect(source.url()).await.unwrap();
    make_history(&client).await;
    let place = tempfile::tempdir().unwrap();
    let dir = place.path().join("imported");
    let text = fail(import(source.data_dir(), &dir));
    assert!(
        text.contains("stop the etcd that runs on it first"),
        "{text}"
    );
    let revision = write_late(&client).await;
    source.kill();

    let refused = Launch::program(STELE)
        .data_dir(source.data_dir())
        .start()
        .err()
        .unwrap();
    let advice = format!(
        "stele utl import {} --data-dir NEW",
        source.data_dir().display()
    );
    assert!(refused.log.contains(&advice), "{refused}");
    let told = succeed(import(source.data_dir(), &dir));
    assert!(told.starts_with("imported member "), "{told}");
    let mut stele = Server::start_stele(STELE, &[], Some(&dir));
    source.start().unwrap();
    let client = Client::connect(source.url()).await.unwrap();
    let told = Told::read(&client).await;
    assert_eq!(told.revision, revision);
    told.check(&stele).await;
    assert_eq!(identity(&stele).await, identity(&source).await);
    stele.kill_and_restart();
    told.check(&stele).await;
    write_more(&stele).await;
    stele.kill_and_restart();
}

#[tokio::test]
async fn stele_takes_over_what_a_stopped_etcd_left_after_its_own_restore() {
    let Some(tools) = Tools::or_skip("a data directory of etcd imported after a stop") else {
        return;
    };
    let source = Server::start_stele(STELE, &[], None);
    let told = Told::by(&source).await;
    let place = tempfile::tempdir().unwrap();
    let file = save(&tools, &source, place.path());
    let (theirs, ours) = (place.path().join("theirs"), place.path().join("ours"));
    succeed(restore(Command::new(&tools.etcdutl), &file, &theirs));
    // Straight from the tool, then after a life as a server.
    succeed(import(&theirs, &ours));
    told.check(&Server::start_stele(STELE, &[], Some(&ours)))
        .await;
    std::fs::remove_dir_all(&ours).unwrap();
    let mut etcd = Launch::etcd(&tools).data_dir(&theirs).start().unwrap();
    told.check(&etcd).await;
    etcd.terminate();
    succeed(import(&theirs, &ours));
    told.check(&Server::start_stele(STELE, &[], Some(&ours)))
        .await;
}

#[tokio::test]
async fn a_client_that_stops_reading_a_snapshot_holds_up_nobody() {
    let server = Server::start_stele(STELE, &[], None);
    let client = Client::connect(server.url()).await.unwrap();
    let value = bytes::Bytes::from(vec![7; 100_000]);
    for number in 0..200 {
        client
            .kv()
            .put(put(&format!("large{number}"), value.clone(), 0))
            .await
            .unwrap();
    }
    let stalled = Client::connect(server.url()).await.unwrap();
    let call = stalled.maintenance().snapshot(pb::SnapshotRequest {}).await;
    let mut pieces = call.unwrap().into_inner();
    let first = pieces.message().await.unwrap().unwrap();
    assert_eq!(first.blob.len(), 32 << 10);
    assert!(first.remaining_bytes > 200 * 100_000 - (32 << 10));
    // Nobody reads the rest meanwhile: a put that waited for it would never be answered.
    for number in 0..200 {
        client
            .kv()
            .put(put(&format!("{number}"), "v", 0))
            .await
            .unwrap();
    }
    // The one that waited gets the state as it was when it asked.
    let (mut bytes, mut last) = (first.blob.len() as u64, first.remaining_bytes);
    let total = bytes + last;
    while let Some(piece) = pieces.message().await.unwrap() {
        assert!(piece.remaining_bytes <= last);
        (bytes, last) = (bytes + piece.blob.len() as u64, piece.remaining_bytes);
    }
    assert_eq!((bytes, last), (total + 32, 0));
}

#[test]
fn damaged_snapshots_and_wrong_flags_are_refused_as_by_etcdutl() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, vec![1; 8192 + 32]).unwrap();
    let dir = place.path().join("data");
    let text = fail(restore(utl(), &file, &dir));
    assert!(text.starts_with("Error: expected sha256 [1 1 1 "), "{text}");
    std::fs::write(&file, vec![1; 8192]).unwrap();
    let text = fail(restore(utl(), &file, &dir));
    assert_eq!(
        text,
        "Error: snapshot missing hash but --skip-hash-check=false\n"
    );
    let text = fail(restore(utl(), &file, &dir).arg("--skip-hash-check"));
    assert!(text.contains("not a meta page of bbolt"), "{text}");
    let text = fail(restore(utl(), &file, &dir).arg("--name=other"));
    let expected = "couldn't find local name \"other\" in the initial cluster configuration";
    assert!(text.contains(expected), "{text}");
    let text = fail(restore(utl(), &file, &dir).arg("--bump-revision=3"));
    assert!(text.contains("--mark-compacted required"), "{text}");
    assert!(!dir.join("member").exists());
}

/// What one server said of its history, to be compared with what another says.
struct Told {
    revision: i64,
    compacted: i64,
    keys: i64,
    /// At each of the revisions that can be asked for.
    hashes: Vec<(i64, u32)>,
    rows: Vec<etcd_api::mvccpb::KeyValue>,
    leases: Vec<(i64, i64, usize)>,
    alarms: Vec<pb::AlarmMember>,
}

impl Told {
    /// Has the server make a history, and asks it.
    async fn by(server: &Server) -> Told {
        let client = Client::connect(server.url()).await.unwrap();
        make_history(&client).await;
        Told::read(&client).await
    }

    async fn read(client: &Client) -> Told {
        let answer = client.kv().range(all()).await.unwrap().into_inner();
        let revision = answer.header.unwrap().revision;
        let mut told = Told {
            revision,
            compacted: revision - HISTORY,
            keys: answer.count,
            hashes: Vec::new(),
            rows: answer.kvs,
            leases: Vec::new(),
            alarms: Vec::new(),
        };
        // At the compacted revision itself etcd answers from memory what it was before.
        for revision in (told.compacted + 1..=told.revision).step_by(13).chain([0]) {
            let request = pb::HashKvRequest { revision };
            let hash = client.maintenance().hash_kv(request).await.unwrap();
            let hash = hash.into_inner();
            assert_eq!(hash.compact_revision, told.compacted);
            told.hashes.push((revision, hash.hash));
        }
        for id in 1..=LEASES {
            let request = pb::LeaseTimeToLiveRequest { id, keys: true };
            let lease = client.lease().lease_time_to_live(request).await.unwrap();
            let lease = lease.into_inner();
            assert!(lease.ttl > lease.granted_ttl - LEASE_PATIENCE, "{lease:?}");
            told.leases.push((id, lease.granted_ttl, lease.keys.len()));
        }
        let request = alarm(AlarmAction::Get);
        told.alarms = client
            .maintenance()
            .alarm(request)
            .await
            .unwrap()
            .into_inner()
            .alarms;
        told
    }

    async fn check(&self, server: &Server) {
        let client = Client::connect(server.url()).await.unwrap();
        let found = Told::read(&client).await;
        assert_eq!(found.revision, self.revision);
        assert_eq!(found.rows, self.rows);
        assert_eq!(found.hashes, self.hashes);
        assert_eq!(found.leases, self.leases);
        assert_eq!(found.alarms, self.alarms);
        assert_eq!(self.alarms.len(), 1);
    }
}

/// Puts, deletions, transactions, leases, compactions and an alarm.
async fn make_history(client: &Client) {
    let mut rng = Rng::new(5);
    let mut kv = client.kv();
    for id in 1..=LEASES {
        let ttl = LEASE_SECONDS;
        client
            .lease()
            .lease_grant(pb::LeaseGrantRequest { ttl, id })
            .await
            .unwrap();
    }
    let mut revision = 1;
    for change in 0..CHANGES {
        let key = format!("key{:03}", rng.below(KEYS));
        let header = match rng.below(8) {
            0 => {
                let request = pb::DeleteRangeRequest {
                    key: key.into(),
                    ..Default::default()
                };
                kv.delete_range(request).await.unwrap().into_inner().header
            }
            1 => {
                let ops = ["x", "y"].map(|name| pb::RequestOp {
                    request: Some(Op::RequestPut(put(&format!("{key}{name}"), "txn", 0))),
                });
                let request = pb::TxnRequest {
                    success: ops.to_vec(),
                    ..Default::default()
                };
                kv.txn(request).await.unwrap().into_inner().header
            }
            kind => {
                let lease = if kind == 2 { rng.below(6) as i64 } else { 0 };
                let value = vec![change as u8; rng.below(700)];
                kv.put(put(&key, value, lease))
                    .await
                    .unwrap()
                    .into_inner()
                    .header
            }
        };
        revision = header.unwrap().revision;
        if change == CHANGES / 2 {
            compact(client, revision - 100).await;
        }
    }
    compact(client, revision - HISTORY).await;
    client
        .maintenance()
        .alarm(alarm(AlarmAction::Activate))
        .await
        .unwrap();
}

async fn compact(client: &Client, revision: i64) {
    let physical = true;
    let request = pb::CompactionRequest { revision, physical };
    client.kv().compact(request).await.unwrap();
}

/// Writes that are refused, then some that are acknowledged, for the next tenth of a second in etcd's
/// log alone. Returns the last revision; the alarm is raised.
async fn write_late(client: &Client) -> i64 {
    for number in 0..50 {
        client
            .kv()
            .put(put(&format!("late{number}"), "v", 0))
            .await
            .unwrap_err();
        let request = pb::LeaseGrantRequest {
            ttl: LEASE_SECONDS,
            id: 100 + number,
        };
        client.lease().lease_grant(request).await.unwrap_err();
    }
    client
        .maintenance()
        .alarm(alarm(AlarmAction::Deactivate))
        .await
        .unwrap();
    for number in 0..50 {
        client
            .kv()
            .put(put(&format!("late{number}"), "v", 1 + number % LEASES))
            .await
            .unwrap();
    }
    let revision = 1 + client
        .kv()
        .range(all())
        .await
        .unwrap()
        .into_inner()
        .header
        .unwrap()
        .revision;
    client.kv().put(put("last", "v", 0)).await.unwrap();
    compact(client, revision - HISTORY).await;
    client
        .maintenance()
        .alarm(alarm(AlarmAction::Activate))
        .await
        .unwrap();
    revision
}

/// The alarm gone, changes and compactions go through.
async fn write_more(server: &Server) {
    let client = Client::connect(server.url()).await.unwrap();
    let refused = client.kv().put(put("a", "b", 0)).await.unwrap_err();
    assert!(refused.message().contains("database space exceeded"));
    client
        .maintenance()
        .alarm(alarm(AlarmAction::Deactivate))
        .await
        .unwrap();
    let answer = client
        .kv()
        .put(put("a", "b", 1))
        .await
        .unwrap()
        .into_inner();
    compact(&client, answer.header.unwrap().revision).await;
    let revoke = pb::LeaseRevokeRequest { id: 1 };
    client.lease().lease_revoke(revoke).await.unwrap();
    let request = pb::DeleteRangeRequest {
        key: "\0".into(),
        range_end: "\0".into(),
        ..Default::default()
    };
    let deleted = client
        .kv()
        .delete_range(request)
        .await
        .unwrap()
        .into_inner();
    assert!(deleted.deleted > 100);
}

fn put(key: &str, value: impl Into<bytes::Bytes>, lease: i64) -> pb::PutRequest {
    pb::PutRequest {
        key: key.to_owned().into(),
        value: value.into(),
        lease,
        ..Default::default()
    }
}

fn all() -> pb::RangeRequest {
    pb::RangeRequest {
        key: "\0".into(),
        range_end: "\0".into(),
        ..Default::default()
    }
}

fn alarm(action: AlarmAction) -> pb::AlarmRequest {
    pb::AlarmRequest {
        action: action as i32,
        member_id: 77,
        alarm: pb::AlarmType::Nospace as i32,
    }
}

/// `etcdctl snapshot save`.
fn save(tools: &Tools, server: &Server, place: &Path) -> PathBuf {
    let file = place.join("saved.db");
    let mut command = Command::new(&tools.etcdctl);
    command.arg("--endpoints").arg(server.url());
    succeed(command.args(["snapshot", "save"]).arg(&file));
    file
}

/// Both tools say the same of the file, in every format.
fn check_status(tools: &Tools, file: &Path, told: &Told) {
    for format in ["json", "table", "simple", "fields"] {
        let of = |mut command: Command| {
            command.args(["snapshot", "status", "-w", format]).arg(file);
            succeed(&mut command)
        };
        let theirs = of(Command::new(&tools.etcdutl));
        assert_eq!(of(utl()), theirs);
        if format == "simple" {
            let words: Vec<&str> = theirs.split(", ").collect();
            assert_eq!(words[1], told.revision.to_string());
            assert_eq!(words[2], told.keys.to_string());
        }
    }
    for (revision, hash) in &told.hashes {
        let mut command = utl();
        command.args(["hashkv", &format!("--rev={revision}")]);
        let found = succeed(command.arg(file));
        assert!(
            found.starts_with(&format!("{hash}, ")),
            "{revision}: {found}"
        );
    }
    let old = format!("--rev={}", told.compacted - 1);
    let text = fail(utl().args(["hashkv", &old]).arg(file));
    assert_eq!(text, "Error: mvcc: required revision has been compacted\n");
}

fn utl() -> Command {
    let mut command = Command::new(STELE);
    command.arg("utl");
    command
}

fn restore(mut command: Command, file: &Path, dir: &Path) -> Command {
    command.args(["snapshot", "restore"]).arg(file);
    command.arg("--data-dir").arg(dir).args(CLUSTER);
    command
}

fn import(from: &Path, to: &Path) -> Command {
    let mut command = utl();
    command.arg("import").arg(from).arg("--data-dir").arg(to);
    command
}

/// Cluster and members, their ids and URLs.
async fn identity(server: &Server) -> (u64, u64, Vec<pb::Member>) {
    let client = Client::connect(server.url()).await.unwrap();
    let request = pb::MemberListRequest::default();
    let answer = client
        .cluster()
        .member_list(request)
        .await
        .unwrap()
        .into_inner();
    let header = answer.header.unwrap();
    (header.cluster_id, header.member_id, answer.members)
}

fn succeed(command: impl Into<Ran>) -> String {
    let output = command.into().0;
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?}: {err}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

fn fail(command: impl Into<Ran>) -> String {
    let output = command.into().0;
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

/// A command that has ended.
struct Ran(Output);

impl From<&mut Command> for Ran {
    fn from(command: &mut Command) -> Ran {
        Ran(command.output().unwrap())
    }
}

impl From<Command> for Ran {
    fn from(mut command: Command) -> Ran {
        Ran::from(&mut command)
    }
}
