//! Reads the server's current values when metrics are scraped.

use etcd_api::etcdserverpb::AlarmType;
use storage::mvcc::KeyRange;

use super::usage;
use crate::config::Config;
use crate::runtime::node::Node;
use crate::telemetry::metrics::Scrape;

pub(super) fn scrape(node: &Node, config: &Config) -> Scrape {
    let view = node.view();
    let shared = node.shared();
    let alarms = node.alarms().unwrap_or_default();
    let decided = node.cluster_version().ok().flatten();
    let waiting = node.hub().pending_events();
    node.metrics().pending_events.set(waiting);
    Scrape {
        member_id: node.identity().member_id,
        leader: shared.leadership.leader(),
        leader_changes: shared.leadership.changes(),
        current_revision: view.revision(),
        compact_revision: view.compacted(),
        auth_revision: node.auth_image().revision,
        keys: view
            .count(KeyRange::from_wire(b"\0", b"\0"), 0)
            .unwrap_or_default(),
        db_file_bytes: shared.space.file_bytes(),
        db_bytes: shared.space.in_use_bytes(),
        requests_in_flight: node.admission().in_flight(),
        requests_held_bytes: node.admission().held_bytes(),
        open_views: view.held(),
        committed: shared.leadership.committed(),
        applied: shared.progress.applied(),
        quota_bytes: node.limits().quota_bytes,
        cluster_version: decided
            .as_deref()
            .and_then(|version| version.rsplit_once('.'))
            .map(|(minor, _)| minor.to_string()),
        alarms: alarms
            .iter()
            .filter_map(|alarm| {
                let kind = AlarmType::try_from(alarm.alarm).ok()?;
                Some((alarm.member_id, kind.as_str_name().to_string()))
            })
            .collect(),
        members: node
            .members()
            .map(|members| members.iter().map(|member| member.id).collect())
            .unwrap_or_default(),
        gates: config.feature_gates.clone(),
        extensive: config.extensive_metrics,
        usage: usage::by_prefix(&view).unwrap_or_default(),
    }
}

/// The limit on open files of this process; 0 if unlimited.
pub(super) fn open_files_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile)
        .current
        .unwrap_or(0)
}
