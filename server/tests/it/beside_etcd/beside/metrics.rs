//! A member's `/metrics`: which families exist, with which labels, and which values change.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;

use crate::harness::fleet::Process;

/// Series without their values of labels that differ from cluster to cluster; true: not zero.
pub(super) type Samples = BTreeMap<String, bool>;

/// Not compared, and why.
const APART: [(&str, &str); 23] = [
    ("go_", "of Go"),
    ("process_", "of the machine"),
    ("promhttp_", "of the scrape"),
    ("os_", "of the machine"),
    ("etcd_server_go_version", "of Go"),
    ("stele_", "ours"),
    ("_bucket", "of time"),
    ("_sum", "of time"),
    ("round_trip_time", "looked at every half minute"),
    (
        "etcd_debugging_store_",
        "etcd's old store, which is not here",
    ),
    (
        "backend_commit_",
        "etcd's steps of a commit; checkpoints are rare",
    ),
    ("snap_save_", "etcd's snapshot files, which are not here"),
    (
        "etcd_snap_fsync",
        "etcd's snapshot files, which are not here",
    ),
    ("index_compaction", "etcd's index, which is not here"),
    ("heartbeat_send_failures", "of time"),
    (
        "peer_sent_failures",
        "of who starts first: what is sent to one that does not listen yet fails",
    ),
    ("slow_", "of time"),
    (
        "disconnected_peers",
        "of who is first to see a removed member go",
    ),
    ("=Alarm", "a list of alarms is a read here"),
    ("MoveLeader", "as often as needed, to begin with"),
    ("Canceled", "of who is first to end a stream"),
    (
        "=OK,grpc_method=LeaseKeepAlive",
        "of who is first to end a stream",
    ),
    (
        "Unavailable",
        "while the cluster is young, changes of members are refused",
    ),
];
/// Depend on who led first, or on what etcd leaves standing at zero.
const SERIES_APART: [&str; 3] = [
    "type=ClusterVersionSet",
    "cluster_version=3.6",
    // While the cluster is young.
    "Reason=etcdserver: re-configuration failed",
];

pub(crate) fn get(url: &str, path: &str) -> String {
    let address = url.trim_start_matches("http://");
    let Ok(mut stream) = TcpStream::connect(address) else {
        return String::new();
    };
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    let mut text = String::new();
    let done = stream
        .write_all(request.as_bytes())
        .and_then(|()| stream.read_to_string(&mut text));
    match done {
        Ok(_) => text,
        Err(_) => String::new(),
    }
}

pub(super) fn of(member: &Process) -> Samples {
    let text = get(&member.url, "/metrics");
    let (_, body) = text.split_once("\r\n\r\n").unwrap();
    let mut samples = Samples::new();
    for line in body.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let series = plain(series);
        let apart = APART.iter().any(|(part, _)| series.contains(part));
        if !apart && !SERIES_APART.iter().any(|part| series.contains(part)) {
            *samples.entry(series).or_default() |= value != "0";
        }
    }
    samples
}

/// Ids of members are whatever they are.
fn plain(series: &str) -> String {
    let Some((name, labels)) = series.split_once('{') else {
        return series.to_owned();
    };
    let labels = labels.trim_end_matches('}').split("\",").map(|label| {
        let (name, value) = label.split_once("=\"").unwrap();
        let value = value.trim_end_matches('"');
        match name {
            "To" | "From" | "Local" | "Remote" | "server_id" if value != "0" => {
                format!("{name}=ID")
            }
            _ => format!("{name}={value}"),
        }
    });
    format!("{name}{{{}}}", labels.collect::<Vec<_>>().join(","))
}

/// What is wrong with ours.
pub(super) fn compare(etcd: &[Samples], stele: &[Samples]) -> Vec<String> {
    let mut differences = Vec::new();
    for (at, (etcd, stele)) in etcd.iter().zip(stele).enumerate() {
        for (series, moved) in etcd {
            match stele.get(series) {
                None => differences.push(format!("m{at}: missing, moved {moved}: {series}")),
                Some(false) if *moved => differences.push(format!("m{at}: never moved: {series}")),
                _ => {}
            }
        }
        for (series, moved) in stele {
            if !etcd.contains_key(series) {
                differences.push(format!("m{at}: only here, moved {moved}: {series}"));
            }
        }
    }
    differences
}
