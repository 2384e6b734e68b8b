use std::collections::BTreeMap;
use std::time::Duration;

use super::labelled::CLIENT_VERSIONS_MAX;
use super::*;
use crate::config::Gate;

/// The metric families of a new single member of etcd 3.7, with their types.
const FAMILIES: &str = include_str!("families.txt");

/// Maps family names to types, and sample lines to values.
fn parse(text: &str) -> (BTreeMap<String, String>, BTreeMap<String, f64>) {
    let (mut types, mut samples) = (BTreeMap::new(), BTreeMap::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(
                types.insert(name.to_string(), kind.to_string()).is_none(),
                "{name} twice"
            );
        } else if !line.starts_with("# HELP ") {
            let (key, value) = line.rsplit_once(' ').unwrap();
            let value = value.trim_start_matches('+').replace("Inf", "inf");
            assert!(
                samples
                    .insert(key.to_string(), value.parse().unwrap())
                    .is_none(),
                "{key} twice"
            );
        }
    }
    (types, samples)
}

fn scrape() -> Scrape {
    Scrape {
        member_id: 0xbd,
        leader: 0xbd,
        members: vec![0xbd],
        quota_bytes: 2 << 30,
        cluster_version: Some("3.7".into()),
        gates: vec![Gate {
            name: "AllAlpha",
            stage: "ALPHA",
            enabled: false,
        }],
        ..Scrape::default()
    }
}

#[test]
fn every_family_of_a_fresh_etcd_is_there() {
    let text = Metrics::default().render(&scrape());
    let (types, _) = parse(&text);
    for line in FAMILIES.lines() {
        let (name, kind) = line.split_once(' ').unwrap();
        assert_eq!(types.get(name).map(String::as_str), Some(kind), "{name}");
    }
}

#[test]
fn samples_carry_etcds_labels() {
    let metrics = Metrics::default();
    metrics.put_total.add(3);
    metrics.wal_fsync.observe(Duration::from_micros(1500));
    metrics.client_request(false, "3.7");
    metrics.client_request(true, "unknown");
    metrics.health_check("readyz", "linearizable_read", true);
    metrics
        .apply_duration
        .of(Operation::Put, true)
        .observe(Duration::from_millis(1));
    let put = metrics
        .calls
        .of(find_method("/etcdserverpb.KV/Put").unwrap());
    put.started.inc();
    put.handled(0);
    put.handled(99);
    let text = metrics.render(&scrape());
    let (_, samples) = parse(&text);
    let expected = [
        ("etcd_mvcc_put_total", 3.0),
        (
            "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.001\"}",
            0.0,
        ),
        (
            "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"0.002\"}",
            1.0,
        ),
        (
            "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"+Inf\"}",
            1.0,
        ),
        ("etcd_disk_wal_fsync_duration_seconds_sum", 0.0015),
        (
            "etcd_server_client_requests_total{client_api_version=\"3.7\",type=\"unary\"}",
            1.0,
        ),
        (
            "etcd_server_client_requests_total{client_api_version=\"unknown\",type=\"stream\"}",
            1.0,
        ),
        (
            "etcd_server_healthcheck{name=\"linearizable_read\",type=\"readyz\"}",
            1.0,
        ),
        (
            "etcd_server_healthchecks_total{name=\"linearizable_read\",status=\"success\",type=\"readyz\"}",
            1.0,
        ),
        (
            "etcd_server_apply_duration_seconds_count{op=\"Put\",success=\"true\",version=\"v3\"}",
            1.0,
        ),
        (
            "grpc_server_handled_total{grpc_code=\"OK\",grpc_method=\"Put\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"}",
            1.0,
        ),
        (
            "grpc_server_handled_total{grpc_code=\"Unknown\",grpc_method=\"Put\",grpc_service=\"etcdserverpb.KV\",grpc_type=\"unary\"}",
            1.0,
        ),
        (
            "grpc_server_handled_total{grpc_code=\"Canceled\",grpc_method=\"Watch\",grpc_service=\"etcdserverpb.Watch\",grpc_type=\"bidi_stream\"}",
            0.0,
        ),
        ("etcd_server_id{server_id=\"bd\"}", 1.0),
        ("etcd_server_version{server_version=\"3.7.3\"}", 1.0),
        (
            "etcd_server_feature_enabled{name=\"AllAlpha\",stage=\"ALPHA\"}",
            0.0,
        ),
        ("etcd_network_known_peers{Local=\"bd\",Remote=\"bd\"}", 1.0),
    ];
    for (key, value) in expected {
        assert_eq!(samples.get(key), Some(&value), "{key}");
    }
}

#[test]
fn clients_cannot_make_counters_without_end() {
    let metrics = Metrics::default();
    for version in 0..1000 {
        metrics.client_request(false, &version.to_string());
    }
    assert!(metrics.clients.read().len() <= CLIENT_VERSIONS_MAX + 1);
}
