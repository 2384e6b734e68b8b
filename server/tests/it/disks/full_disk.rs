//! Quotas and full disks. Under a quota, etcd's rules hold, compared with etcd. On a really full
//! file system, deletes, compactions, disarming and reads still work, and nothing is lost.
#![expect(
    clippy::disallowed_methods,
    reason = "fills the disk of a real process, and waits, for so long at most, for what it does then"
)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use pb::alarm_request::AlarmAction;
use tempfile::TempDir;
use testkit::{Launch, Server, Tools};

use crate::harness::subject;
use crate::usual::observation::end_of;
use crate::usual::pages;

/// For what a server does by itself.
const SOON: Duration = Duration::from_secs(60);
/// etcd's own tests use this quota: a fresh server is well below it.
const QUOTA: &str = "--quota-backend-bytes=53248";
const VALUE_BYTES: usize = 4096;
/// The disk of the log is full after some hundred of these, in less time than between two looks.
const LARGE_VALUE_BYTES: usize = 256 << 10;
const WRITERS: usize = 32;
/// More than is under way to a client that takes nothing, and less than views may hold back without
/// consequences while there is space (16 MiB).
const READ_KEYS: usize = 2500;
const REFUSED: &str = "etcdserver: mvcc: database space exceeded";
/// The file system that gets full.
const DISK_BYTES: usize = 48 << 20;
/// How a small one is made; by a user who may not, in a name space where he may.
const TMPFS: &str = "mount -t tmpfs -o size=$bytes none $dir";
/// All of the image's space is reserved: a host whose own disk fills up would break it otherwise.
const EXT4: &str =
    "fallocate -l $bytes $dir.img && mkfs.ext4 -q -m 0 $dir.img && mount -o loop $dir.img $dir";

/// What is allowed and refused under the alarm, and said of it: in words, to be compared.
#[tokio::test]
async fn under_a_quota_everything_is_allowed_refused_and_told_as_by_etcd() {
    let Some(tools) = Tools::or_skip("quotas beside real etcd") else {
        return;
    };
    let etcds = story(Launch::etcd(&tools).flag(QUOTA)).await;
    // By itself the alarm goes as soon as there is space, sooner than the story has it.
    let ours = subject::launch().flag(QUOTA);
    let ours = if subject::is_etcd() {
        ours
    } else {
        ours.flag("--auto-disarm-nospace=false")
    };
    assert_eq!(story(ours).await, etcds);
}

async fn story(launch: Launch) -> Vec<String> {
    let server = launch.start().unwrap_or_else(|error| panic!("{error}"));
    let client = Client::connect(server.url()).await.unwrap();
    let mut told = Vec::new();
    let lease = pb::LeaseGrantRequest { ttl: 600, id: 7 };
    client.lease().lease_grant(lease).await.unwrap();
    client.kv().put(put("small", 1)).await.unwrap();
    let refused = loop {
        if let Err(status) = client.kv().put(put("key", VALUE_BYTES)).await {
            break status;
        }
    };
    told.push(format!("{:?} {}", refused.code(), refused.message()));
    until(async || alarms(&client).await.len() == 1).await;
    told.extend(under_alarm(&client, &server).await);
    // Disarmed without space: the next put raises it again.
    told.push(format!("disarmed {}", disarm(&client).await));
    let again = client.kv().put(put("key", VALUE_BYTES)).await;
    told.push(word(again));
    until(async || alarms(&client).await.len() == 1).await;
    // The ways out.
    told.push(word(client.kv().delete_range(delete("key")).await));
    let range = pb::RangeRequest {
        key: "small".into(),
        ..Default::default()
    };
    let revision = client.kv().range(range).await.unwrap().into_inner();
    let compaction = pb::CompactionRequest {
        revision: revision.header.unwrap().revision,
        physical: true,
    };
    told.push(word(client.kv().compact(compaction).await));
    let defragment = pb::DefragmentRequest {};
    told.push(word(client.maintenance().defragment(defragment).await));
    told.push(word(client.kv().put(put("key", 10)).await));
    told.push(format!("disarmed {}", disarm(&client).await));
    told.push(word(client.kv().put(put("key", VALUE_BYTES)).await));
    told.push(pages::get(&server, "/health").1);
    told
}

async fn under_alarm(client: &Client, server: &Server) -> Vec<String> {
    let op = |request| pb::RequestOp {
        request: Some(request),
    };
    let put_op = || op(pb::request_op::Request::RequestPut(put("txn", 1)));
    let delete_op = || op(pb::request_op::Request::RequestDeleteRange(delete("none")));
    let txn = |success, failure| pb::TxnRequest {
        success,
        failure,
        ..Default::default()
    };
    let mut kv = client.kv();
    let mut told = vec![
        word(kv.put(put("small", 1)).await),
        word(kv.txn(txn(vec![put_op()], vec![])).await),
        word(kv.txn(txn(vec![delete_op()], vec![put_op()])).await),
        word(kv.txn(txn(vec![delete_op()], vec![])).await),
        word(kv.delete_range(delete("none")).await),
    ];
    let grant = pb::LeaseGrantRequest { ttl: 600, id: 8 };
    told.push(word(client.lease().lease_grant(grant).await));
    let revoke = pb::LeaseRevokeRequest { id: 7 };
    told.push(word(client.lease().lease_revoke(revoke).await));
    let (status, health) = pages::get(server, "/health");
    told.push(format!("{status} {health}"));
    let (status, health) = pages::get(server, "/health?exclude=NOSPACE");
    told.push(format!("{status} {health}"));
    told.push(pages::get(server, "/readyz").0.to_string());
    let status = client.maintenance().status(pb::StatusRequest {}).await;
    let status = status.unwrap().into_inner();
    told.push(format!("quota {}", status.db_size_quota));
    let errors = status.errors.join(" ");
    told.push(errors.split_whitespace().collect::<Vec<_>>().join(" "));
    let samples = pages::samples(server);
    told.push(format!(
        "{:?}",
        samples.get("etcd_server_quota_backend_bytes")
    ));
    // Its value counts in etcd how often the alarm was raised that was raised already.
    let alarm = |name: &&String| name.starts_with("etcd_debugging_server_alarms");
    told.push(format!("{:?}", samples.keys().find(alarm)));
    told
}

#[tokio::test]
async fn the_alarm_goes_by_itself_once_there_is_space() {
    if subject::is_etcd() {
        return; // It stays until somebody takes it back.
    }
    let server = subject::launch().flag(QUOTA).start().unwrap();
    let client = Client::connect(server.url()).await.unwrap();
    let full = loop {
        match client.kv().put(put("key", VALUE_BYTES)).await {
            // A disk that others keep busy may take longer than a put waits.
            Err(status) if status.message() != "etcdserver: request timed out" => break status,
            _ => {}
        }
    };
    assert_eq!(full.code(), tonic::Code::ResourceExhausted, "{full}");
    until(async || alarms(&client).await.len() == 1).await;
    client.kv().delete_range(delete("key")).await.unwrap();
    compact_all(&client).await;
    until(async || alarms(&client).await.is_empty()).await;
    client.kv().put(put("key", VALUE_BYTES)).await.unwrap();
    // One that a client raised is a client's to take back.
    let member = client.maintenance().status(pb::StatusRequest {}).await;
    let member_id = member.unwrap().into_inner().header.unwrap().member_id;
    let raise = alarm(AlarmAction::Activate, member_id);
    client.maintenance().alarm(raise).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(alarms(&client).await.len(), 1);
}

#[tokio::test]
async fn on_a_disk_that_is_really_full_what_frees_space_works_and_nothing_is_lost() {
    if let Some(disk) = SmallDisk::or_skip(TMPFS) {
        fill_and_free(disk).await;
    }
}

#[tokio::test]
async fn on_a_full_disk_of_ext4_it_is_the_same() {
    if let Some(disk) = SmallDisk::or_skip(EXT4) {
        fill_and_free(disk).await;
    }
}

async fn fill_and_free(disk: SmallDisk) {
    let mut server = disk
        .launch
        .start()
        .unwrap_or_else(|error| panic!("{error}"));
    let client = Client::connect(server.url()).await.unwrap();
    let mut written = 0;
    let refused = loop {
        match client.kv().put(numbered(written)).await {
            Ok(_) => written += 1,
            Err(status) => break status,
        }
    };
    assert_eq!(refused.message(), REFUSED, "{}", server.log());
    assert!(written > 1000, "{written} keys of {VALUE_BYTES} bytes");
    until(async || alarms(&client).await.len() == 1).await;
    // Somebody else takes what is left.
    disk.fill();
    expect(&client, 0..written).await;
    let kept = written / 10;
    for first in (kept..written).step_by(50) {
        let range = numbers(first..written.min(first + 50));
        client.kv().delete_range(range).await.unwrap();
        compact_all(&client).await;
    }
    disarm(&client).await;
    expect(&client, 0..kept).await;
    // As it is now, so it is found.
    server.kill();
    server.start().unwrap_or_else(|error| panic!("{error}"));
    let client = Client::connect(server.url()).await.unwrap();
    expect(&client, 0..kept).await;
    disk.make_room();
    until(async || alarms(&client).await.is_empty()).await;
    until(async || client.kv().put(numbered(written)).await.is_ok()).await;
    assert!(server.is_alive());
}

#[tokio::test]
async fn a_full_disk_of_the_log_alone_raises_the_alarm_too() {
    let Some(disk) = SmallDisk::or_skip(TMPFS) else {
        return;
    };
    let roomy = tempfile::tempdir().unwrap();
    let server = disk.hold_log(roomy.path());
    let client = Client::connect(server.url()).await.unwrap();
    client.kv().put(put("key", VALUE_BYTES)).await.unwrap();
    assert!(alarms(&client).await.is_empty());
    disk.fill();
    until(async || alarms(&client).await.len() == 1).await;
    let refused = client.kv().put(put("key", VALUE_BYTES)).await.unwrap_err();
    assert_eq!(refused.message(), REFUSED);
    client.kv().delete_range(delete("key")).await.unwrap();
    let space = pages::samples(&server);
    assert!(space["stele_log_disk_available_bytes"] < space["stele_disk_available_bytes"]);
    disk.make_room();
    until(async || alarms(&client).await.is_empty()).await;
    client.kv().put(put("key", VALUE_BYTES)).await.unwrap();
}

/// The disk fills faster than anybody looks at it.
#[tokio::test]
async fn writers_in_a_hurry_do_not_overrun_the_disk_of_the_log() {
    let Some(disk) = SmallDisk::or_skip(TMPFS) else {
        return;
    };
    let roomy = tempfile::tempdir().unwrap();
    let mut server = disk.hold_log(roomy.path());
    let client = Client::connect(server.url()).await.unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let client = client.clone();
        writers.spawn(async move {
            let request = put(&format!("key-{writer}"), LARGE_VALUE_BYTES);
            loop {
                if let Err(status) = client.kv().put(request.clone()).await {
                    break status.message().to_owned();
                }
            }
        });
    }
    for refused in writers.join_all().await {
        assert_eq!(refused, REFUSED, "{}", server.log());
    }
    assert!(server.is_alive(), "{}", server.log());
    client.kv().delete_range(delete("key-0")).await.unwrap();
}

/// Clients that take nothing of an older state keep its pages from reuse, but not when somebody
/// needs the space.
#[tokio::test]
async fn readers_that_take_nothing_are_given_up_once_the_disk_is_full() {
    const OPEN: &str = "stele_views_open";
    const HELD: &str = "stele_views_held_back_bytes";
    const LINE: &str = "gave up a client that reads too slowly";
    let Some(disk) = SmallDisk::or_skip(TMPFS) else {
        return;
    };
    // Checkpoints find out what only readers keep.
    let launch = disk.launch.clone().flag("--snapshot-count=100");
    let mut server = launch.start().unwrap_or_else(|error| panic!("{error}"));
    let client = Client::connect(server.url()).await.unwrap();
    for number in 0..READ_KEYS {
        client.kv().put(numbered(number)).await.unwrap();
    }
    // Each has its own connection: one that nobody reads holds up all its streams.
    let stalled = Client::connect(server.url()).await.unwrap();
    let snapshot = stalled.maintenance().snapshot(pb::SnapshotRequest {}).await;
    let mut snapshot = snapshot.unwrap().into_inner();
    let stalled = Client::connect(server.url()).await.unwrap();
    let all = pb::RangeRequest {
        key: "number/".into(),
        range_end: "number0".into(),
        ..Default::default()
    };
    let mut range = stalled.kv().range_stream(all).await.unwrap().into_inner();
    client
        .kv()
        .delete_range(numbers(0..READ_KEYS))
        .await
        .unwrap();
    compact_all(&client).await;
    let mut written = READ_KEYS;
    until(async || {
        for _ in 0..10 {
            client.kv().put(numbered(written)).await.unwrap();
            written += 1;
        }
        pages::samples(&server)[HELD] >= 4_000_000.0
    })
    .await;
    assert!(
        !server.log().contains(LINE),
        "given up while there is space"
    );
    let refused = loop {
        match client.kv().put(numbered(written)).await {
            Ok(_) => written += 1,
            Err(status) => break status,
        }
    };
    assert_eq!(refused.message(), REFUSED, "{}", server.log());
    let given_up = |line: &&str| line.contains(LINE) && line.contains("Needed");
    // A checkpoint may free some space, and the alarm goes by itself: that space is filled, too.
    until(async || {
        while client.kv().put(numbered(written)).await.is_ok() {
            written += 1;
        }
        server.log().lines().filter(given_up).count() == 2
    })
    .await;
    until(async || pages::samples(&server)[OPEN] == 0.0).await;
    // After what was under way, nobody may believe that this was all.
    for end in [end_of(&mut snapshot).await, end_of(&mut range).await] {
        let end = end.expect_err("a part was sent as if it were all");
        assert_eq!(end.message(), "etcdserver: request timed out");
    }
    for first in (READ_KEYS..written).step_by(200) {
        let range = numbers(first..written.min(first + 200));
        client.kv().delete_range(range).await.unwrap();
        compact_all(&client).await;
    }
    until(async || {
        disarm(&client).await;
        client.kv().put(numbered(written)).await.is_ok()
    })
    .await;
    expect(&client, written..written + 1).await;
    assert!(server.is_alive(), "{}", server.log());
}

/// A file system of its own, seen by a process that holds it and by servers started in its place.
struct SmallDisk {
    holder: Child,
    /// As this process reaches it.
    root: PathBuf,
    /// As servers reach it.
    inside: PathBuf,
    launch: Launch,
    _place: TempDir,
}

impl SmallDisk {
    /// `None` after [`testkit::skip`]: it takes a mount namespace, for a user one of users as well.
    fn or_skip(file_system: &str) -> Option<SmallDisk> {
        if subject::is_etcd() {
            return None; // Real etcd panics on a full disk.
        }
        let found = SmallDisk::mount(file_system, "-rm", "-m -U --preserve-credentials");
        let found = found.or_else(|| SmallDisk::mount(file_system, "-m", "-m"));
        if found.is_none() {
            let why = format!("this user may not mount by '{file_system}'");
            testkit::skip("a full disk", &why);
        }
        found
    }

    fn mount(file_system: &str, unshare: &str, enter: &str) -> Option<SmallDisk> {
        let place = tempfile::tempdir().unwrap();
        let (dir, script) = (place.path().join("disk"), place.path().join("server"));
        fs::create_dir(&dir).unwrap();
        let mount = format!("{file_system} && echo mounted && exec cat");
        // Ends when its input does, with this process at the latest.
        let mut holder = Command::new("unshare")
            .args([unshare, "sh", "-ec", &mount])
            .env("dir", &dir)
            .env("bytes", DISK_BYTES.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut answer = String::new();
        let mut output = BufReader::new(holder.stdout.take().unwrap());
        output.read_line(&mut answer).unwrap();
        if answer.trim() != "mounted" {
            let _ = holder.wait();
            return None;
        }
        let (pid, stele) = (holder.id(), env!("CARGO_BIN_EXE_stele"));
        let text = format!("#!/bin/sh\nexec nsenter -t {pid} {enter} {stele} \"$@\"\n");
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
        let inside = dir.strip_prefix("/").unwrap();
        Some(SmallDisk {
            root: Path::new("/proc")
                .join(pid.to_string())
                .join("root")
                .join(inside),
            holder,
            launch: Launch::program(&script).data_dir(dir.join("data")),
            inside: dir.clone(),
            _place: place,
        })
    }

    /// Starts a server that has its log on this disk, and everything else in `dir`.
    fn hold_log(&self, dir: &Path) -> Server {
        let log_dir = self.inside.join("log");
        let launch = self.launch.clone().data_dir(dir.join("data"));
        let launch = launch.flag(format!("--wal-dir={}", log_dir.display()));
        launch.start().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Takes all that is left.
    fn fill(&self) {
        let mut file = fs::File::create(self.root.join("filler")).unwrap();
        for bytes in [1 << 20, 4096] {
            while file.write_all(&vec![1; bytes]).is_ok() {}
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.root.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        let _ = self.holder.wait();
    }
}

async fn until(mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    while !condition().await {
        assert!(Instant::now() < deadline, "waited in vain");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Exactly these keys are there, as they were put.
async fn expect(client: &Client, numbers: Range<usize>) {
    let range = pb::RangeRequest {
        key: "number/".into(),
        range_end: "number0".into(),
        keys_only: true,
        ..Default::default()
    };
    let found = client.kv().range(range).await.unwrap().into_inner().kvs;
    let keys: Vec<String> = numbers.clone().map(key).collect();
    let found: Vec<_> = found.iter().map(|kv| kv.key.clone()).collect();
    assert!(found.iter().eq(keys.iter()), "{} keys", found.len());
    for number in numbers.step_by(97) {
        let range = pb::RangeRequest {
            key: key(number).into(),
            ..Default::default()
        };
        let found = client.kv().range(range).await.unwrap().into_inner().kvs;
        assert_eq!(found[0].value, numbered(number).value);
    }
}

fn key(number: usize) -> String {
    format!("number/{number:06}")
}

fn numbered(number: usize) -> pb::PutRequest {
    let word = (number as u64).to_be_bytes();
    pb::PutRequest {
        key: key(number).into(),
        value: word.repeat(VALUE_BYTES / word.len()).into(),
        ..Default::default()
    }
}

fn numbers(numbers: Range<usize>) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest {
        key: key(numbers.start).into(),
        range_end: key(numbers.end).into(),
        ..Default::default()
    }
}

fn put(key: &str, bytes: usize) -> pb::PutRequest {
    pb::PutRequest {
        key: key.to_owned().into(),
        value: vec![b'v'; bytes].into(),
        ..Default::default()
    }
}

fn delete(key: &str) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest {
        key: key.to_owned().into(),
        ..Default::default()
    }
}

async fn compact_all(client: &Client) {
    let status = client.maintenance().status(pb::StatusRequest {}).await;
    let revision = status.unwrap().into_inner().header.unwrap().revision;
    let compaction = pb::CompactionRequest {
        revision,
        physical: true,
    };
    client.kv().compact(compaction).await.unwrap();
}

fn alarm(action: AlarmAction, member_id: u64) -> pb::AlarmRequest {
    pb::AlarmRequest {
        action: action as i32,
        member_id,
        alarm: pb::AlarmType::Nospace as i32,
    }
}

async fn alarms(client: &Client) -> Vec<pb::AlarmMember> {
    let get = client.maintenance().alarm(alarm(AlarmAction::Get, 0)).await;
    get.unwrap().into_inner().alarms
}

/// As etcdctl does it; how many there were.
async fn disarm(client: &Client) -> usize {
    let raised = alarms(client).await;
    for one in &raised {
        let request = alarm(AlarmAction::Deactivate, one.member_id);
        client.maintenance().alarm(request).await.unwrap();
    }
    raised.len()
}

/// How a call ended, in a word or etcd's.
fn word<T>(result: Result<T, tonic::Status>) -> String {
    match result {
        Ok(_) => "done".to_owned(),
        Err(status) => format!("{:?} {}", status.code(), status.message()),
    }
}
