//! `--experimental-enable-grpc-logging`: a line for each call.

use etcd_api::etcdserverpb as pb;
use serde_json::Value as Json;

use super::process::Proxy;
use super::{get, proxied, put, range, server};
use crate::harness::{fleet, subject};

/// Service, method and code of each line about a call of the client at `proxy`.
fn logged(proxy: &Proxy) -> Vec<[String; 3]> {
    let log = proxy.log();
    let lines = log
        .lines()
        .filter_map(|line| serde_json::from_str::<Json>(line).ok())
        .filter(|line| line["msg"] == "finished a call");
    let line = |line: Json| {
        let text = |name: &str| line[name].as_str().unwrap().to_owned();
        assert_eq!(line["level"], "info");
        assert!(text("peer.address").starts_with("127.0.0.1:"), "{line}");
        let took = go_text::parse_duration(&text("grpc.duration"));
        assert!(took.unwrap() > 0, "{line}");
        ["grpc.service", "grpc.method", "grpc.code"].map(text)
    };
    lines.map(line).collect()
}

#[tokio::test]
async fn calls_are_logged_when_they_end() {
    if subject::is_etcd() {
        // It logs the messages of calls, values and passwords included.
        return;
    }
    let server = server();
    let (silent, client) = proxied(&server, &[]).await;
    put(&client, "a", "1").await;
    let (proxy, client) = proxied(&server, &["--experimental-enable-grpc-logging"]).await;
    put(&client, "a", "2").await;
    get(&client, range("")).await.unwrap_err();
    let parts = client.maintenance().snapshot(pb::SnapshotRequest {}).await;
    let mut parts = parts.unwrap().into_inner();
    while parts.message().await.unwrap().is_some() {}
    let lines = [
        ["etcdserverpb.KV", "Put", "OK"],
        ["etcdserverpb.KV", "Range", "InvalidArgument"],
        ["etcdserverpb.Maintenance", "Snapshot", "OK"],
    ];
    let have_ended = || logged(&proxy).len() >= lines.len();
    fleet::wait("the lines of calls", have_ended, || proxy.log());
    assert_eq!(logged(&proxy), lines);
    assert!(logged(&silent).is_empty());
}
