//! `/debug/vars`: the variables that Go's `expvar` and etcd publish.

use http::StatusCode;
use raft::{PeerStatus, RoleKind};
use serde_json::{Map, Value, json};

use super::scrape;
use crate::api::page::{Page, page};
use crate::config::Config;
use crate::member::event::RaftView;
use crate::runtime::etcd_server::EtcdServer;
use crate::telemetry::metrics::process;

const JSON: &str = "application/json; charset=utf-8";

pub(super) async fn vars(server: &EtcdServer, config: &Config) -> Page {
    // If the Raft status is not available, its value is null.
    let raft = server.raft_view().await.ok();
    let variables = [
        ("cmdline", json!(config.args)),
        ("file_descriptor_limit", json!(scrape::open_files_max())),
        ("memstats", memory(process::resident_bytes())),
        ("raft.status", raft.as_ref().map_or(Value::Null, status)),
    ];
    let lines = variables.map(|(name, value)| format!("{name:?}: {value}"));
    let body = format!("{{\n{}\n}}\n", lines.join(",\n"));
    page(StatusCode::OK, JSON, body)
}

/// Memory statistics under the names of Go's runtime. There is no garbage collector and no
/// allocation counter here, so only the resident size is reported.
fn memory(resident: u64) -> Value {
    const RESIDENT: [&str; 5] = ["Sys", "Alloc", "HeapAlloc", "HeapSys", "HeapInuse"];
    const ZERO: [&str; 20] = [
        "TotalAlloc",
        "Lookups",
        "Mallocs",
        "Frees",
        "HeapIdle",
        "HeapReleased",
        "HeapObjects",
        "StackInuse",
        "StackSys",
        "MSpanInuse",
        "MSpanSys",
        "MCacheInuse",
        "MCacheSys",
        "BuckHashSys",
        "GCSys",
        "OtherSys",
        "NextGC",
        "LastGC",
        "PauseTotalNs",
        "GCCPUFraction",
    ];
    let mut memory = Map::new();
    memory.extend(RESIDENT.map(|name| (name.to_owned(), json!(resident))));
    memory.extend(ZERO.map(|name| (name.to_owned(), json!(0))));
    memory.extend(["NumGC", "NumForcedGC"].map(|name| (name.to_owned(), json!(0))));
    memory.extend(["EnableGC", "DebugGC"].map(|name| (name.to_owned(), json!(false))));
    memory.extend(["PauseNs", "PauseEnd", "BySize"].map(|name| (name.to_owned(), json!([]))));
    Value::Object(memory)
}

fn status(raft: &RaftView) -> Value {
    let status = &raft.status;
    let role = match status.role {
        RoleKind::Follower => "StateFollower",
        RoleKind::PreCandidate => "StatePreCandidate",
        RoleKind::Candidate => "StateCandidate",
        RoleKind::Leader => "StateLeader",
    };
    let mut progress = Map::new();
    let mut follows = |id: u64, matched: u64, next: u64, state: &str| {
        let told = json!({"match": matched, "next": next, "state": state});
        progress.insert(format!("{id:x}"), told);
    };
    if status.role == RoleKind::Leader {
        follows(status.id, status.durable, status.last + 1, "StateReplicate");
    }
    for peer in &raft.peers {
        follows(peer.id, peer.matched, peer.next, state(peer));
    }
    json!({
        "id": format!("{:x}", status.id),
        "term": status.term,
        "vote": format!("{:x}", status.vote),
        "commit": status.commit,
        "lead": format!("{:x}", status.leader),
        "raftState": role,
        "applied": status.applied,
        "progress": progress,
        "leadtransferee": format!("{:x}", status.transferring_to),
    })
}

fn state(peer: &PeerStatus) -> &'static str {
    match (peer.snapshot, peer.active) {
        (true, _) => "StateSnapshot",
        (false, true) => "StateReplicate",
        (false, false) => "StateProbe",
    }
}
