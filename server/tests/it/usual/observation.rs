//! Each metric changes when its event happens, etcd's published alerts are correct for this store,
//! and the log has the lines that operators search for.

use std::collections::BTreeMap;
use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use pb::downgrade_request::DowngradeAction;
use pb::watch_request::RequestUnion;
use testkit::{Launch, Server};
use tonic::Streaming;

use crate::beside_etcd::beside::page;
use crate::harness::fleet::{PATIENCE, Process, found, wait};
use crate::usual::pages::samples;

const STELE: &str = env!("CARGO_BIN_EXE_stele");
const POLL: Duration = Duration::from_millis(5);
const MEGABYTE: usize = 1 << 20;

const PENDING: &str = "etcd_debugging_mvcc_pending_events_total";
const VIEWS: &str = "etcd_mvcc_db_open_read_transactions";
const PROPOSALS: &str = "etcd_server_proposals_pending";
const SIZE: &str = "etcd_mvcc_db_total_size_in_bytes";
const IN_USE: &str = "etcd_mvcc_db_total_size_in_use_in_bytes";
const QUOTA: &str = "etcd_server_quota_backend_bytes";
const FILE: &str = "stele_db_file_bytes";

async fn start(flags: &[&str]) -> (Server, Client) {
    let launch = Launch::program(STELE).flags(flags);
    let server = launch.start().unwrap_or_else(|error| panic!("{error}"));
    let client = Client::connect(server.url()).await.unwrap();
    (server, client)
}

/// Until the sample is as wanted.
async fn until(server: &Server, name: &str, is_so: impl Fn(f64) -> bool) {
    let moved = async {
        while !is_so(samples(server)[name]) {
            tokio::time::sleep(POLL).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, moved).await;
    waited.unwrap_or_else(|_| panic!("{name} is {}", samples(server)[name]));
}

fn put(key: usize, bytes: usize, lease: i64) -> pb::PutRequest {
    pb::PutRequest {
        key: format!("key-{key:06}").into(),
        value: vec![b'v'; bytes].into(),
        lease,
        ..Default::default()
    }
}

async fn watch(client: &Client, progress_notify: bool) -> Streaming<pb::WatchResponse> {
    let create = pb::WatchCreateRequest {
        key: "key-".into(),
        range_end: "key.".into(),
        progress_notify,
        ..Default::default()
    };
    let request = pb::WatchRequest {
        request_union: Some(RequestUnion::CreateRequest(create)),
    };
    let watch = client.watch().watch(tokio_stream::iter([request])).await;
    watch.unwrap().into_inner()
}

#[tokio::test]
async fn a_watch_moves_the_metrics_of_watches() {
    let (server, client) = start(&["--watch-progress-notify-interval=100ms"]).await;
    let count = |name: &str| format!("etcd_debugging_server_watch_send_loop_{name}_count");
    let mut events = watch(&client, true).await;
    assert!(events.message().await.unwrap().unwrap().created);
    client.kv().put(put(1, 1, 0)).await.unwrap();
    while events.message().await.unwrap().unwrap().events.is_empty() {}
    // Nothing but progress comes from here on.
    assert!(events.message().await.unwrap().unwrap().events.is_empty());
    for name in [
        "control_stream_duration_seconds",
        "watch_stream_duration_seconds",
        "watch_stream_duration_per_event_seconds",
        "progress_duration_seconds",
    ] {
        until(&server, &count(name), |count| count > 0.0).await;
    }
    drop(events);
    // One that does not read.
    let stalled = Client::connect(server.url()).await.unwrap();
    let events = watch(&stalled, false).await;
    until(&server, "etcd_debugging_mvcc_watcher_total", |count| {
        count == 1.0
    })
    .await;
    let mut key = 0;
    while samples(&server)[PENDING] == 0.0 {
        client
            .kv()
            .put(put(key % 4, MEGABYTE / 4, 0))
            .await
            .unwrap();
        key += 1;
        assert!(key < 10_000, "everything is taken");
    }
    drop((events, stalled));
    until(&server, PENDING, |count| count == 0.0).await;
}

#[tokio::test]
async fn a_snapshot_and_a_defragmentation_move_the_metrics_of_the_store() {
    let (mut server, client) = start(&[]).await;
    for key in 0..16 {
        client.kv().put(put(key, MEGABYTE, 0)).await.unwrap();
    }
    let before = samples(&server)[VIEWS];
    let request = pb::SnapshotRequest::default();
    let snapshot = client.maintenance().snapshot(request).await.unwrap();
    let mut snapshot = snapshot.into_inner();
    snapshot.message().await.unwrap().unwrap();
    client.kv().put(put(0, 1, 0)).await.unwrap();
    until(&server, VIEWS, |count| count > before).await;
    while snapshot.message().await.unwrap().is_some() {}
    until(&server, VIEWS, |count| count == before).await;
    until(
        &server,
        "etcd_disk_backend_snapshot_duration_seconds_count",
        |count| count == 1.0,
    )
    .await;

    let request = pb::CompactionRequest {
        revision: 17,
        physical: true,
    };
    client.kv().compact(request).await.unwrap();
    let request = pb::DefragmentRequest::default();
    client.maintenance().defragment(request).await.unwrap();
    for name in [
        "etcd_disk_backend_commit_duration_seconds_count",
        "etcd_debugging_disk_backend_commit_write_duration_seconds_count",
        "etcd_snap_fsync_duration_seconds_count",
        "etcd_debugging_snap_save_total_duration_seconds_count",
        "etcd_disk_backend_defrag_duration_seconds_count",
    ] {
        until(&server, name, |count| count > 0.0).await;
    }
    let request = pb::HashKvRequest { revision: 17 };
    let hash = client.maintenance().hash_kv(request).await;
    let hash = hash.unwrap().into_inner().hash;
    server.terminate();
    let log = server.log();
    for line in [
        "starting defragment",
        "finished defragment",
        "finished scheduled compaction",
    ] {
        assert!(log.contains(&format!("\"{line}\"")), "{line}: {log}");
    }
    let compaction = log
        .lines()
        .find(|line| line.contains("finished scheduled compaction"));
    let compaction: serde_json::Value = serde_json::from_str(compaction.unwrap()).unwrap();
    assert_eq!(compaction["compact-revision"], 17);
    assert_eq!(compaction["hash"], hash);
    assert!(compaction["number-of-keys-compacted"].is_number());
    assert!(
        compaction["current-db-size"]
            .as_str()
            .unwrap()
            .ends_with(" MB")
    );
    assert!(compaction["took"].is_string() && compaction["current-db-size-bytes"].is_number());
}

#[tokio::test]
async fn keys_that_go_with_their_lease_count_as_deleted() {
    let (server, client) = start(&["--warning-apply-duration=0s"]).await;
    let request = pb::LeaseGrantRequest { ttl: 100, id: 7 };
    client.lease().lease_grant(request).await.unwrap();
    for key in 0..3 {
        client.kv().put(put(key, 1, 7)).await.unwrap();
    }
    let before = samples(&server);
    let request = pb::LeaseRevokeRequest { id: 7 };
    client.lease().lease_revoke(request).await.unwrap();
    let after = samples(&server);
    let moved = |name: &str| after[name] - before[name];
    assert!((moved("etcd_mvcc_delete_total") - 3.0).abs() < 0.5);
    assert!((moved("etcd_mvcc_txn_total") - 1.0).abs() < 0.5);
    assert!(moved("etcd_server_slow_apply_total") > 0.0);
    // Whatever takes time takes longer than none.
    let slow = server.log();
    let slow = slow
        .lines()
        .find(|line| line.contains("apply request took too long"));
    let slow: serde_json::Value = serde_json::from_str(slow.unwrap()).unwrap();
    assert_eq!(slow["expected-duration"], "0s");
    assert!(slow["took"].is_string() && slow["request"].is_string());
}

/// The expressions are those of etcd's `contrib/mixin`.
fn alerts(samples: &BTreeMap<String, f64>) -> Vec<&'static str> {
    let (size, in_use, quota) = (samples[SIZE], samples[IN_USE], samples[QUOTA]);
    let mut firing = Vec::new();
    if size / quota * 100.0 > 95.0 {
        firing.push("etcdDatabaseQuotaLowSpace");
    }
    if in_use / size < 0.5 && in_use > 104_857_600.0 {
        firing.push("etcdDatabaseHighFragmentationRatio");
    }
    firing
}

#[tokio::test]
async fn etcds_alerts_fire_when_the_quota_is_near_and_not_for_free_pages() {
    let (server, client) = start(&["--quota-backend-bytes=251658240"]).await;
    // A file of nearly the quota's size, a good half of which is free again. No alert may ask for
    // what is not needed.
    let mut keys = 0;
    let refused = loop {
        match client.kv().put(put(keys, MEGABYTE, 0)).await {
            Ok(_) => keys += 1,
            // A disk that others keep busy may take longer than a put waits.
            Err(status) if status.message() == "etcdserver: request timed out" => {}
            Err(status) => break status,
        }
    };
    let log = server.log();
    let code = refused.code();
    assert_eq!(code, tonic::Code::ResourceExhausted, "{refused}: {log}");
    assert_eq!(alerts(&samples(&server)), ["etcdDatabaseQuotaLowSpace"]);
    let request = pb::DeleteRangeRequest {
        key: "key-".into(),
        range_end: format!("key-{:06}", keys / 2).into(),
        ..Default::default()
    };
    let deleted = client
        .kv()
        .delete_range(request)
        .await
        .unwrap()
        .into_inner();
    let request = pb::CompactionRequest {
        revision: deleted.header.unwrap().revision,
        physical: true,
    };
    client.kv().compact(request).await.unwrap();
    let half = samples(&server)[QUOTA] * 0.6;
    until(&server, SIZE, |size| size < half).await;
    let now = samples(&server);
    assert_eq!(alerts(&now), Vec::<&str>::new());
    assert!(now[FILE] > 0.0);
    let status = client
        .maintenance()
        .status(pb::StatusRequest::default())
        .await;
    let status = status.unwrap().into_inner();
    assert!(status.db_size_in_use > 0 && status.db_size_in_use <= status.db_size);
    assert!((status.db_size as f64) < half);
}

#[tokio::test(flavor = "multi_thread")]
async fn only_proposals_are_pending_and_a_read_without_quorum_is_told_of() {
    let dir = tempfile::tempdir().unwrap();
    let mut members = found(STELE, dir.path(), 3, &[]);
    for member in &members {
        let ready = || member.log().contains(testkit::READY_LINE);
        wait("a member that serves", ready, || member.log());
    }
    let (alone, others) = members.split_first_mut().unwrap();
    let client = Client::connect(alone.url.clone()).await.unwrap();
    client.kv().put(put(0, 1, 0)).await.unwrap();
    others.iter_mut().for_each(Process::kill);
    let mut kv = client.kv();
    let reading = tokio::spawn(async move {
        let request = pb::RangeRequest {
            key: "key-000000".into(),
            ..Default::default()
        };
        kv.range(request).await
    });
    let told = "waiting for ReadIndex response took too long, retrying";
    wait("a slow read", || alone.log().contains(told), || alone.log());
    let pending = |wanted: &str| {
        let line = format!("{PROPOSALS} {wanted}");
        page(&alone.url, "/metrics")
            .lines()
            .any(|found| found == line)
    };
    assert!(pending("0"), "a read is no proposal");
    let mut kv = client.kv();
    let putting = tokio::spawn(async move { kv.put(put(1, 1, 0)).await });
    wait("a proposal", || pending("1"), || alone.log());
    putting.abort();
    wait("no proposal", || pending("0"), || alone.log());
    reading.abort();
}

#[tokio::test]
async fn the_log_says_that_a_member_serves_and_why_it_is_not_healthy() {
    let (mut server, client) = start(&[]).await;
    let request = pb::AlarmRequest {
        action: pb::alarm_request::AlarmAction::Activate.into(),
        alarm: pb::AlarmType::Nospace.into(),
        ..Default::default()
    };
    client.maintenance().alarm(request).await.unwrap();
    let body = page(&server.url(), "/health");
    assert!(body.contains("\"ALARM NOSPACE\""), "{body}");
    let disarm = pb::AlarmRequest {
        action: pb::alarm_request::AlarmAction::Deactivate.into(),
        ..request
    };
    client.maintenance().alarm(disarm).await.unwrap();
    server.terminate();
    let log = server.log();
    for line in [
        "now serving peer/client/metrics",
        "alarm raised",
        "serving /health false due to an alarm",
        "alarm disarmed",
        "/health error",
    ] {
        assert!(log.contains(&format!("\"{line}\"")), "{line}: {log}");
    }
}

/// etcd's instructions for a downgrade have operators wait for this line.
#[tokio::test]
async fn the_log_says_that_a_member_is_ready_for_a_downgrade() {
    const READY: &str = "The server is ready to downgrade";
    let (server, client) = start(&[]).await;
    assert!(server.wait_for_log("set initial cluster version", PATIENCE));
    let mut maintenance = client.maintenance();
    let downgrade = |action: DowngradeAction| pb::DowngradeRequest {
        action: action as i32,
        version: "3.6".into(),
    };
    let validate = downgrade(DowngradeAction::Validate);
    maintenance.downgrade(validate).await.unwrap();
    assert!(!server.log().contains(READY));
    let enable = downgrade(DowngradeAction::Enable);
    maintenance.downgrade(enable).await.unwrap();
    assert!(server.wait_for_log(READY, PATIENCE));
    let log = server.log();
    let line = log.lines().find(|line| line.contains(READY)).unwrap();
    assert!(line.contains("\"target-version\":\"3.6.0\""), "{line}");
}

#[tokio::test]
async fn a_state_that_a_peer_sends_moves_the_metrics_of_snapshots_and_is_logged() {
    let dir = tempfile::tempdir().unwrap();
    let mut members = found(STELE, dir.path(), 1, &["--snapshot-catchup-entries=5"]);
    let first = &members[0];
    let ready = || first.log().contains(testkit::READY_LINE);
    wait("a member that serves", ready, || first.log());
    let client = Client::connect(first.url.clone()).await.unwrap();
    for key in 0..100 {
        client.kv().put(put(key, 1000, 0)).await.unwrap();
    }
    let mut second = Process::new(STELE, dir.path(), "second");
    let request = pb::MemberAddRequest {
        peer_urls: vec![second.peer_url.clone()],
        is_learner: false,
    };
    client.cluster().member_add(request).await.unwrap();
    second.flag(format!(
        "--initial-cluster={},{}",
        first.place(),
        second.place()
    ));
    second.flag("--initial-cluster-state=existing".to_owned());
    second.start();
    let ready = || second.log().contains(testkit::READY_LINE);
    wait("a member that serves", ready, || second.log());
    let metrics = page(&second.url, "/metrics");
    for name in [
        "etcd_snap_db_fsync_duration_seconds_count",
        "etcd_snap_db_save_total_duration_seconds_count",
    ] {
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap();
        let count: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        assert!(count > 0.0, "{line}: {}", second.log());
    }
    assert!(metrics.contains("\netcd_server_snapshot_apply_in_progress_total 0\n"));
    let logged = || second.log().contains("\"applied snapshot\"");
    wait("the line of an applied snapshot", logged, || second.log());
    members.push(second);
}

#[tokio::test]
async fn readers_that_take_nothing_are_given_up_once_they_hold_much_back() {
    const KEYS: usize = 32;
    const OPEN: &str = "stele_views_open";
    const LINE: &str = "gave up a client that reads too slowly";
    let (server, client) = start(&[]).await;
    let round = async || {
        let mut revision = 0;
        for key in 0..KEYS {
            let answer = client.kv().put(put(key, MEGABYTE, 0)).await.unwrap();
            revision = answer.into_inner().header.unwrap().revision;
        }
        let request = pb::CompactionRequest {
            revision,
            physical: true,
        };
        client.kv().compact(request).await.unwrap();
    };
    round().await;
    // Each has its own connection: one that nobody reads holds up all its streams.
    let stalled = Client::connect(server.url()).await.unwrap();
    let snapshot = stalled.maintenance().snapshot(pb::SnapshotRequest {}).await;
    let mut snapshot = snapshot.unwrap().into_inner();
    let stalled = Client::connect(server.url()).await.unwrap();
    let all = pb::RangeRequest {
        key: "key-".into(),
        range_end: "key.".into(),
        ..Default::default()
    };
    let range = stalled.kv().range_stream(all).await;
    let mut range = range.unwrap().into_inner();
    let lines = || -> Vec<String> {
        let log = server.log();
        let lines = log.lines().filter(|line| line.contains(LINE));
        lines.map(str::to_owned).collect()
    };
    let given_up = async {
        while lines().len() < 2 {
            round().await;
        }
    };
    tokio::time::timeout(PATIENCE, given_up).await.unwrap();
    let lines = lines();
    assert!(lines.iter().all(|line| line.contains("Much")), "{lines:?}");
    until(&server, OPEN, |open| open == 0.0).await;
    // What was under way still arrives. After it, nobody may believe that this was all.
    let ends = [end_of(&mut snapshot).await, end_of(&mut range).await];
    for end in ends {
        let end = end.expect_err("a part was sent as if it were all");
        assert_eq!(end.code(), tonic::Code::Unavailable);
        assert_eq!(end.message(), "etcdserver: request timed out");
    }
}

/// How a stream ends, whatever comes before that.
pub(crate) async fn end_of<T>(stream: &mut Streaming<T>) -> Result<(), tonic::Status> {
    while stream.message().await?.is_some() {}
    Ok(())
}
