//! What is read of the member's state at each scrape.

use raft::Waiting;
use storage::mvcc::Usage;

use super::GO_VERSION;
use super::text::{Text, Type};
use crate::config::{ETCD_VERSION, Gate};

/// The server's current values at the time of a scrape.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scrape {
    pub member_id: u64,
    pub leader: u64,
    pub leader_changes: u64,
    pub current_revision: i64,
    /// -1 if never compacted.
    pub compact_revision: i64,
    pub auth_revision: u64,
    pub keys: u64,
    /// Size of the file, free pages included.
    pub db_file_bytes: u64,
    /// Bytes that count against the quota. See [`crate::member::driver::shared::Space::in_use_bytes`].
    pub db_bytes: u64,
    pub requests_in_flight: usize,
    pub requests_held_bytes: usize,
    pub waiting: Waiting,
    pub open_views: u64,
    pub committed: u64,
    pub applied: u64,
    pub quota_bytes: u64,
    /// Such as "3.7"; `None` until it is decided.
    pub cluster_version: Option<String>,
    /// Member and alarm type.
    pub alarms: Vec<(u64, String)>,
    /// Ids of all members, this one included.
    pub members: Vec<u64>,
    pub gates: Vec<Gate>,
    pub extensive: bool,
    /// Storage use of keys, by prefix.
    pub usage: Vec<(String, Usage)>,
}

pub(super) fn write_scrape(scrape: &Scrape, text: &mut Text) {
    let id = format!("{:x}", scrape.member_id);
    let mut gauge = |name, help: &str, labels: &[(&str, &str)], value: f64| {
        text.family(name, Type::Gauge, help).sample(labels, value);
    };
    for (name, help, value) in GAUGES {
        gauge(name, help, &[], value(scrape));
    }
    if let Some(version) = &scrape.cluster_version {
        gauge(
            "etcd_cluster_version",
            "The cluster's version.",
            &[("cluster_version", version)],
            1.0,
        );
    }
    for member in &scrape.members {
        gauge(
            "etcd_network_known_peers",
            "Members known.",
            &[("Local", &id), ("Remote", &format!("{member:x}"))],
            1.0,
        );
    }
    gauge(
        "etcd_server_go_version",
        "No Go here.",
        &[("server_go_version", GO_VERSION)],
        1.0,
    );
    gauge(
        "etcd_server_id",
        "This member's id.",
        &[("server_id", &id)],
        1.0,
    );
    gauge(
        "etcd_server_version",
        "The version served.",
        &[("server_version", ETCD_VERSION)],
        1.0,
    );
    text.family(
        "etcd_server_leader_changes_seen_total",
        Type::Counter,
        "Leader changes seen.",
    )
    .sample(&[], scrape.leader_changes as f64);
    write_lists(scrape, text);
}

/// Families with a sample for each gate, prefix or alarm.
fn write_lists(scrape: &Scrape, text: &mut Text) {
    let mut gauge = |name, help: &str, labels: &[(&str, &str)], value: f64| {
        text.family(name, Type::Gauge, help).sample(labels, value);
    };
    for gate in &scrape.gates {
        let labels = [("name", gate.name), ("stage", gate.stage)];
        gauge(
            "etcd_server_feature_enabled",
            "1 if the feature gate is on.",
            &labels,
            flag(gate.enabled),
        );
    }
    for (prefix, usage) in &scrape.usage {
        let labels = [("prefix", prefix.as_str())];
        gauge(
            "stele_prefix_keys",
            "Keys with the prefix.",
            &labels,
            usage.keys as f64,
        );
        gauge(
            "stele_prefix_bytes",
            "Bytes of the keys with the prefix, and of their values, without history.",
            &labels,
            usage.bytes as f64,
        );
    }
    for (member, alarm) in &scrape.alarms {
        let member = format!("{member:x}");
        let labels = [
            ("alarm_type", alarm.as_str()),
            ("server_id", member.as_str()),
        ];
        gauge(
            "etcd_debugging_server_alarms",
            "1 for an alarm raised.",
            &labels,
            1.0,
        );
    }
}

fn flag(on: bool) -> f64 {
    f64::from(u8::from(on))
}

/// A gauge without labels: name, help, and where the value comes from.
type GaugeRow = (&'static str, &'static str, fn(&Scrape) -> f64);

const GAUGES: [GaugeRow; 19] = [
    (
        "etcd_debugging_auth_revision",
        "Revision of users and roles.",
        |scrape| scrape.auth_revision as f64,
    ),
    (
        "etcd_debugging_mvcc_compact_revision",
        "Revision of the last compaction.",
        |scrape| scrape.compact_revision as f64,
    ),
    (
        "etcd_debugging_mvcc_current_revision",
        "Revision of the store.",
        |scrape| scrape.current_revision as f64,
    ),
    (
        "etcd_debugging_mvcc_keys_total",
        "Keys in the store.",
        |scrape| scrape.keys as f64,
    ),
    (
        "etcd_mvcc_db_open_read_transactions",
        "Views of the store that are open.",
        |scrape| scrape.open_views as f64,
    ),
    (
        "etcd_mvcc_db_total_size_in_bytes",
        "Bytes that count against the quota: those in use.",
        |scrape| scrape.db_bytes as f64,
    ),
    (
        "etcd_mvcc_db_total_size_in_use_in_bytes",
        "Bytes of the store in use.",
        |scrape| scrape.db_bytes as f64,
    ),
    (
        "stele_db_file_bytes",
        "Bytes of the store's file; those not in use are reused, and go back to the disk.",
        |scrape| scrape.db_file_bytes as f64,
    ),
    (
        "stele_requests_in_flight",
        "Changes and questions to the log that are not answered yet.",
        |scrape| scrape.requests_in_flight as f64,
    ),
    (
        "stele_requests_held_bytes",
        "Bytes of requests that are being received or are not answered yet.",
        |scrape| scrape.requests_held_bytes as f64,
    ),
    (
        "stele_uncommitted_bytes",
        "Bytes of entries that this leader has proposed and that are not committed yet.",
        |scrape| scrape.waiting.uncommitted as f64,
    ),
    (
        "stele_unapplied_bytes",
        "Bytes of entries that are committed and not applied yet.",
        |scrape| scrape.waiting.unapplied as f64,
    ),
    (
        "stele_unsaved_bytes",
        "Bytes of entries that are not on this member's disk yet, committed or not.",
        |scrape| scrape.waiting.unsaved as f64,
    ),
    (
        "stele_peer_in_flight_bytes",
        "Bytes of entries that this leader has sent and that members have not acknowledged yet.",
        |scrape| scrape.waiting.in_flight as f64,
    ),
    (
        "etcd_server_has_leader",
        "1 if a leader is known.",
        |scrape| flag(scrape.leader != 0),
    ),
    (
        "etcd_server_is_leader",
        "1 if this member leads.",
        |scrape| flag(scrape.leader != 0 && scrape.leader == scrape.member_id),
    ),
    (
        "etcd_server_proposals_applied_total",
        "Entries applied.",
        |scrape| scrape.applied as f64,
    ),
    (
        "etcd_server_proposals_committed_total",
        "Entries committed.",
        |scrape| scrape.committed as f64,
    ),
    (
        "etcd_server_quota_backend_bytes",
        "Size that raises the space alarm.",
        |scrape| scrape.quota_bytes as f64,
    ),
];
