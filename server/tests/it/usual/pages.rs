//! The HTTP pages of a running server: metrics that follow the work done, health, version.

#![expect(
    clippy::disallowed_methods,
    reason = "waits, for so long at most, for what a server does after its answer"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use pb::request_op::Request as Op;
use testkit::{Server, Tools};

use crate::harness::subject;

/// For what a server does by itself after an answer: removing compacted rows, counting a watch.
const SOON: Duration = Duration::from_secs(60);

#[tokio::test]
async fn counters_move_by_what_was_done() {
    let server = subject::launch().start().unwrap();
    let client = Client::connect(server.url()).await.unwrap();
    let before = samples(&server);
    let expected = work(&client).await;
    let deadline = Instant::now() + SOON;
    loop {
        let after = samples(&server);
        let wrong: Vec<_> = expected
            .iter()
            .filter_map(|&(name, moved)| {
                let value = |samples: &BTreeMap<String, f64>| samples.get(name).copied();
                let change = value(&after).unwrap_or(0.0) - value(&before).unwrap_or(0.0);
                (change != moved).then(|| format!("{name}: {change}, expected {moved}"))
            })
            .collect();
        if wrong.is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "{}", wrong.join("\n"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn gauges_follow_watches() {
    let server = subject::launch().start().unwrap();
    let client = Client::connect(server.url()).await.unwrap();
    let create = |key: &'static str| pb::WatchRequest {
        request_union: Some(pb::watch_request::RequestUnion::CreateRequest(
            pb::WatchCreateRequest {
                key: key.into(),
                ..Default::default()
            },
        )),
    };
    let (sender, requests) = tokio::sync::mpsc::channel(2);
    for key in ["a", "b"] {
        sender.send(create(key)).await.unwrap();
    }
    let requests = tokio_stream::wrappers::ReceiverStream::new(requests);
    let mut watches = client.watch().watch(requests).await.unwrap().into_inner();
    for _ in 0..2 {
        assert!(watches.message().await.unwrap().unwrap().created);
    }
    gauges(&server, 1.0, 2.0).await;
    client.kv().put(put("a", "1")).await.unwrap();
    assert_eq!(watches.message().await.unwrap().unwrap().events.len(), 1);
    let sent = samples(&server)["etcd_debugging_mvcc_events_total"];
    assert_eq!(sent, 1.0);
    // The connection, and the stream with it.
    drop((client, sender, watches));
    gauges(&server, 0.0, 0.0).await;
}

#[tokio::test]
async fn the_families_are_etcds() {
    let Some(tools) = Tools::or_skip("metric families beside real etcd's") else {
        return;
    };
    let ours = families(&subject::launch().start().unwrap()).await;
    let etcds = families(&Server::start_etcd(&tools, &[])).await;
    let missing: Vec<_> = etcds.difference(&ours).collect();
    // What etcd has not got has families under our own name.
    let own = |family: &&String| family.starts_with("# TYPE stele_");
    let more: Vec<_> = ours.difference(&etcds).filter(|f| !own(f)).collect();
    assert!(
        missing.is_empty() && more.is_empty(),
        "missing: {missing:#?}\nnot etcd's: {more:#?}"
    );
}

/// Names and types of all families but Go's own, after a call and the health checks: some stand
/// there only when there is something to tell.
async fn families(server: &Server) -> BTreeSet<String> {
    let client = Client::connect(server.url()).await.unwrap();
    client.kv().put(put("a", "1")).await.unwrap();
    get(server, "/readyz");
    get(server, "/livez");
    // etcd serves before the cluster has a version, which has a family.
    let deadline = Instant::now() + SOON;
    while get(server, "/version").1.contains("not_decided") {
        assert!(Instant::now() < deadline, "the cluster gets no version");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let page = get(server, "/metrics").1;
    page.lines()
        .filter(|line| line.starts_with("# TYPE "))
        .filter(|line| !line.starts_with("# TYPE go_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn health_and_version_are_told() {
    let server = subject::launch().start().unwrap();
    assert_eq!(
        get(&server, "/health"),
        (200, r#"{"health":"true","reason":""}"#.to_owned())
    );
    for page in ["/livez", "/readyz"] {
        assert_eq!(get(&server, page).0, 200, "{page}");
    }
    let (status, version) = get(&server, "/version");
    assert_eq!(status, 200);
    assert_eq!(
        version,
        r#"{"etcdserver":"3.7.3","etcdcluster":"3.7.0","storage":"3.7.0"}"#
    );
    assert_eq!(get(&server, "/no-such-page").0, 404);
}

/// Does some of everything, and says how far each counter must have moved.
async fn work(client: &Client) -> Vec<(&'static str, f64)> {
    let mut kv = client.kv();
    kv.put(put("a", "12")).await.unwrap();
    let with_previous = pb::PutRequest {
        prev_kv: true,
        ..put("a", "345")
    };
    kv.put(with_previous).await.unwrap();
    kv.range(range("a")).await.unwrap();
    let two = pb::TxnRequest {
        success: vec![
            op(Op::RequestPut(put("b", "1"))),
            op(Op::RequestRange(range("b"))),
        ],
        ..Default::default()
    };
    kv.txn(two).await.unwrap();
    let reading = pb::TxnRequest {
        success: vec![op(Op::RequestRange(range("b")))],
        ..Default::default()
    };
    kv.txn(reading).await.unwrap();
    let delete = pb::DeleteRangeRequest {
        key: "a".into(),
        ..Default::default()
    };
    kv.delete_range(delete).await.unwrap();
    let refused = pb::PutRequest {
        lease: 77,
        ..put("a", "1")
    };
    kv.put(refused).await.unwrap_err();

    let mut lease = client.lease();
    let grant = |id, ttl| pb::LeaseGrantRequest { id, ttl };
    lease.lease_grant(grant(1, 100)).await.unwrap();
    lease.lease_grant(grant(2, 60)).await.unwrap();
    let keep_alive = tokio_stream::iter([pb::LeaseKeepAliveRequest { id: 1 }]);
    let mut kept = lease
        .lease_keep_alive(keep_alive)
        .await
        .unwrap()
        .into_inner();
    assert_eq!(kept.message().await.unwrap().unwrap().ttl, 100);
    lease
        .lease_revoke(pb::LeaseRevokeRequest { id: 2 })
        .await
        .unwrap();

    // Revisions: 2 and 3 put a, 4 puts b, 5 deletes a. Both versions of a go; a tombstone at the
    // compaction's own revision stays.
    let compact = pb::CompactionRequest {
        revision: 5,
        physical: true,
    };
    kv.compact(compact).await.unwrap();
    let hash = pb::HashKvRequest { revision: 0 };
    client.maintenance().hash_kv(hash).await.unwrap();
    vec![
        ("etcd_mvcc_put_total", 3.0),
        ("etcd_mvcc_delete_total", 1.0),
        ("etcd_mvcc_range_total", 5.0),
        ("etcd_mvcc_txn_total", 2.0),
        ("etcd_debugging_mvcc_total_put_size_in_bytes", 9.0),
        ("etcd_debugging_mvcc_db_compaction_keys_total", 2.0),
        (
            "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds_count",
            1.0,
        ),
        ("etcd_debugging_lease_granted_total", 2.0),
        ("etcd_debugging_lease_renewed_total", 1.0),
        ("etcd_debugging_lease_revoked_total", 1.0),
        ("etcd_debugging_lease_ttl_total_count", 2.0),
        ("etcd_debugging_lease_ttl_total_sum", 160.0),
        ("etcd_mvcc_hash_rev_duration_seconds_count", 1.0),
        ("etcd_server_proposals_failed_total", 0.0),
        (APPLIED_PUT, 2.0),
        (REFUSED_PUT, 1.0),
        (ANSWERED_PUT, 3.0),
        (ANSWERED_READ_TXN, 1.0),
    ]
}

const APPLIED_PUT: &str =
    r#"etcd_server_apply_duration_seconds_count{op="Put",success="true",version="v3"}"#;
const REFUSED_PUT: &str =
    r#"etcd_server_apply_duration_seconds_count{op="Put",success="false",version="v3"}"#;
const ANSWERED_PUT: &str =
    r#"etcd_server_request_duration_seconds_count{success="true",type="Put"}"#;
const ANSWERED_READ_TXN: &str =
    r#"etcd_server_request_duration_seconds_count{success="true",type="ReadonlyTxn"}"#;

async fn gauges(server: &Server, streams: f64, watches: f64) {
    let deadline = Instant::now() + SOON;
    loop {
        let now = samples(server);
        let seen = (
            now["etcd_debugging_mvcc_watch_stream_total"],
            now["etcd_debugging_mvcc_watcher_total"],
        );
        if seen == (streams, watches) {
            return;
        }
        assert!(Instant::now() < deadline, "{seen:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Every sample by its name and labels.
pub(crate) fn samples(server: &Server) -> BTreeMap<String, f64> {
    let (status, page) = get(server, "/metrics");
    assert_eq!(status, 200);
    page.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        })
        .collect()
}

/// Status and body of a page.
pub(crate) fn get(server: &Server, page: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.client_port())).unwrap();
    write!(
        stream,
        "GET {page} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, unchunked(head, body))
}

fn unchunked(head: &str, mut body: &str) -> String {
    if !head
        .to_ascii_lowercase()
        .contains("transfer-encoding: chunked")
    {
        return body.to_owned();
    }
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        whole += &rest[..length];
        body = rest[length..].trim_start_matches("\r\n");
    }
    whole
}

fn put(key: &'static str, value: &'static str) -> pb::PutRequest {
    pb::PutRequest {
        key: key.into(),
        value: value.into(),
        ..Default::default()
    }
}

fn range(key: &'static str) -> pb::RangeRequest {
    pb::RangeRequest {
        key: key.into(),
        ..Default::default()
    }
}

fn op(request: Op) -> pb::RequestOp {
    pb::RequestOp {
        request: Some(request),
    }
}
