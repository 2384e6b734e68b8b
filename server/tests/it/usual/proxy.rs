//! `etcd grpc-proxy start`: a proxy before a server, with clients at the proxy.

mod keys;
mod log;
mod members;
mod ordering;
mod process;
mod secure;
mod streams;

use std::time::Duration;

use etcd_api::Client;
use etcd_api::etcdserverpb as pb;
use testkit::Server;
use tonic::{Code, Status};

use crate::harness::{fleet, subject};
use process::Proxy;

/// For answers that come by themselves.
const SOON: Duration = Duration::from_secs(60);

fn server() -> Server {
    let started = subject::launch().start();
    started.unwrap_or_else(|error| panic!("{error}"))
}

/// A proxy before `server`, and a client at it.
async fn proxied(server: &Server, flags: &[&str]) -> (Proxy, Client) {
    let endpoints = format!("--endpoints=127.0.0.1:{}", server.client_port());
    let mut all = vec![endpoints.as_str()];
    all.extend(flags);
    let proxy = Proxy::start(&all);
    let client = Client::connect(proxy.url()).await.unwrap();
    (proxy, client)
}

async fn put(client: &Client, key: &str, value: &str) -> i64 {
    let request = pb::PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        ..pb::PutRequest::default()
    };
    let answer = client.kv().put(request).await.unwrap().into_inner();
    answer.header.unwrap().revision
}

fn range(key: &str) -> pb::RangeRequest {
    pb::RangeRequest {
        key: key.to_owned().into(),
        ..pb::RangeRequest::default()
    }
}

async fn get(client: &Client, request: pb::RangeRequest) -> Result<Option<String>, Status> {
    let answer = client.kv().range(request).await?.into_inner();
    let first = answer.kvs.first();
    Ok(first.map(|kv| String::from_utf8_lossy(&kv.value).into_owned()))
}

#[tokio::test]
async fn a_proxy_passes_calls_on() {
    let server = server();
    let (proxy, client) = proxied(&server, &[]).await;
    put(&client, "a", "1").await;
    let direct = Client::connect(server.url()).await.unwrap();
    assert_eq!(get(&direct, range("a")).await.unwrap().unwrap(), "1");
    assert_eq!(get(&client, range("a")).await.unwrap().unwrap(), "1");

    let lease = pb::LeaseGrantRequest { ttl: 60, id: 7 };
    client.lease().lease_grant(lease).await.unwrap();
    let question = pb::LeaseTimeToLiveRequest { id: 7, keys: true };
    let told = client.lease().lease_time_to_live(question).await.unwrap();
    assert_eq!(told.into_inner().granted_ttl, 60);

    let lock = etcd_api::v3lockpb::LockRequest {
        name: "m".into(),
        lease: 7,
    };
    let locked = client.lock().lock(lock).await.unwrap().into_inner();
    assert_eq!(&locked.key[..], b"m/7");

    let status = client.maintenance().status(pb::StatusRequest {}).await;
    assert!(status.unwrap().into_inner().leader > 0);
    let parts = client.maintenance().snapshot(pb::SnapshotRequest {}).await;
    let first = parts.unwrap().into_inner().message().await.unwrap();
    assert!(!first.unwrap().blob.is_empty());

    let role = pb::AuthRoleGetRequest {
        role: "nobody".into(),
    };
    let refused = client.auth().role_get(role).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    let streamed = client.kv().range_stream(range("a")).await.unwrap_err();
    assert_eq!(streamed.code(), Code::Unimplemented);
    drop(proxy);
}

#[tokio::test]
async fn messages_are_limited_in_both_directions() {
    let server = server();
    let (_proxy, client) = proxied(&server, &["--max-send-bytes=1000"]).await;
    let text = "x".repeat(2000);
    let large = pb::PutRequest {
        key: "a".into(),
        value: text.clone().into(),
        ..pb::PutRequest::default()
    };
    let refused = client.kv().put(large.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let words = refused.message();
    assert!(
        words.starts_with("trying to send message larger than max ("),
        "{words}"
    );

    let direct = Client::connect(server.url()).await.unwrap();
    direct.kv().put(large).await.unwrap();
    let (_proxy, client) =
        proxied(&server, &["--max-recv-bytes=1000", "--max-send-bytes=1000"]).await;
    let refused = get(&client, range("a")).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let words = refused.message();
    assert!(
        words.starts_with("grpc: received message larger than max ("),
        "{words}"
    );
}

#[tokio::test]
async fn calls_wait_for_a_server_that_is_away() {
    let mut server = server();
    let (_proxy, client) = proxied(&server, &[]).await;
    put(&client, "a", "1").await;
    server.kill();
    let waiting = tokio::spawn(async move {
        put(&client, "a", "2").await;
        get(&client, range("a")).await.unwrap()
    });
    server.start().unwrap_or_else(|error| panic!("{error}"));
    let answered = tokio::time::timeout(SOON, waiting).await;
    assert_eq!(answered.unwrap().unwrap().unwrap(), "2");
}

#[tokio::test]
async fn a_call_ends_at_its_deadline_though_no_server_is_there() {
    let port = testkit::free_port();
    let proxy = Proxy::start(&[&format!("--endpoints=127.0.0.1:{port}")]);
    let client = Client::connect(proxy.url()).await.unwrap();
    let mut request = tonic::Request::new(range("a"));
    request.set_timeout(Duration::from_millis(300));
    let late = client.kv().range(request).await.unwrap_err();
    assert!(
        matches!(late.code(), Code::DeadlineExceeded | Code::Cancelled),
        "{late:?}"
    );
    let (status, page) = proxy.page("/health");
    let expected = r#"{"health":"false","reason":"GET ERROR:context deadline exceeded"}"#;
    assert_eq!((status, page.trim()), (503, expected));
    assert_eq!(proxy.page("/metrics").0, 500);
}

#[tokio::test]
async fn pages_show_the_cluster_and_the_proxy() {
    let server = server();
    let metrics = format!("http://127.0.0.1:{}", testkit::free_port());
    let flag = format!("--metrics-addr={metrics}");
    let (proxy, client) = proxied(&server, &[&flag]).await;
    put(&client, "a", "1").await;
    let healthy = (200, r#"{"health":"true","reason":""}"#.to_owned());
    for address in [proxy.url(), metrics] {
        let page = |path| process::page(&address, path);
        assert_eq!(page("/health"), healthy);
        assert_eq!(page("/proxy/health"), healthy);
        // The server's own metrics, and the proxy's.
        let (status, text) = page("/metrics");
        assert_eq!(status, 200);
        assert!(text.contains("etcd_server_has_leader 1"), "{text}");
        let (status, text) = page("/proxy/metrics");
        assert_eq!(status, 200);
        assert!(text.contains("etcd_server_has_leader 0"), "{text}");
        let started = "grpc_server_started_total{grpc_method=\"Put\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"} 1";
        assert!(text.contains(started), "{text}");
        assert_eq!(page("/debug/vars").0, 404);
        assert_eq!(page("/debug/pprof/cmdline").0, 404);
    }
}

#[tokio::test]
async fn endpoints_follow_the_clusters_members() {
    let dir = tempfile::tempdir().unwrap();
    let members = fleet::found(env!("CARGO_BIN_EXE_stele"), dir.path(), 2, &[]);
    let log = || members.iter().map(|m| m.log()).collect::<String>();
    let ready = || {
        members
            .iter()
            .all(|m| m.log().contains(testkit::READY_LINE))
    };
    fleet::wait("the start", ready, log);
    let endpoints = format!("--endpoints={}", members[0].url);
    let proxy = Proxy::start(&[&endpoints, "--endpoints-auto-sync-interval=100ms"]);
    let other = members[1].url.trim_start_matches("http://");
    fleet::wait(
        "the other member",
        || proxy.log().contains(other),
        || proxy.log(),
    );
    // Calls go to the members in turn.
    let client = Client::connect(proxy.url()).await.unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let status = client.maintenance().status(pb::StatusRequest {}).await;
        seen.insert(status.unwrap().into_inner().header.unwrap().member_id);
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn command_lines_are_read_as_etcd_reads_them() {
    let cases: [(&[&str], i32, &str, &str); 6] = [
        (&[], 0, "grpc-proxy related command", ""),
        (&["start", "--help"], 0, "      --listen-addr string ", ""),
        (&["start", "--nope"], 1, "", "Error: unknown flag: --nope"),
        (
            &["start", "--max-send-bytes=x"],
            1,
            "",
            "Error: invalid argument \"x\" for \"--max-send-bytes\" flag: strconv.ParseInt: parsing \"x\": invalid syntax",
        ),
        (
            &["start", "--cert=c"],
            1,
            "",
            "KeyFile and CertFile must both be present[key: , cert: c]",
        ),
        (
            &["start", "--endpoints="],
            1,
            "",
            "etcdclient: no available endpoints",
        ),
    ];
    for (words, code, out, err) in cases {
        let listen = format!("--listen-addr=127.0.0.1:{}", testkit::free_port());
        let listen: &[&str] = if words.is_empty() { &[] } else { &[&listen] };
        let output = process::run(&[words, listen].concat());
        let (stdout, stderr) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        assert_eq!(output.status.code(), Some(code), "{words:?}: {stderr}");
        assert!(
            stdout.contains(out) && stderr.contains(err),
            "{words:?}: {stdout}{stderr}"
        );
    }
}
