//! Reads the server's current values when metrics are scraped.

use etcd_api::etcdserverpb::AlarmType;
use storage::mvcc::KeyRange;

use super::usage;
use crate::basics::error::Error;
use crate::config::Config;
use crate::runtime::etcd_server::{EtcdServer, run_blocking};
use crate::telemetry::metrics::Scrape;

pub(super) async fn scrape(server: &EtcdServer, config: &Config) -> Scrape {
    let view = server.view();
    let usage = if view.is_deleting() {
        // May walk over all keys.
        let view = view.clone();
        run_blocking(move || Ok(usage::by_prefix(&view)?)).await
    } else {
        usage::by_prefix(&view).map_err(Error::from)
    };
    let shared = server.shared();
    let alarms = server.alarms().unwrap_or_default();
    let decided = server.cluster_version().ok().flatten();
    let waiting = server.hub().pending_events();
    server.metrics().pending_events.set(waiting);
    Scrape {
        member_id: server.identity().member_id,
        leader: shared.leadership.leader(),
        leader_changes: shared.leadership.changes(),
        current_revision: view.revision(),
        compact_revision: view.compacted(),
        auth_revision: server.auth_image().revision,
        keys: view
            .count(KeyRange::from_wire(b"\0", b"\0"), 0)
            .unwrap_or_default(),
        db_file_bytes: shared.space.file_bytes(),
        db_bytes: shared.space.in_use_bytes(),
        requests_in_flight: server.admission().in_flight(),
        requests_held_bytes: server.admission().held_bytes(),
        waiting: shared.queues.waiting(),
        open_views: view.held(),
        committed: shared.leadership.committed(),
        applied: shared.progress.applied(),
        quota_bytes: server.limits().quota_bytes,
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
        members: server
            .members()
            .map(|members| members.iter().map(|member| member.id).collect())
            .unwrap_or_default(),
        gates: config.feature_gates.clone(),
        extensive: config.extensive_metrics,
        usage: usage.unwrap_or_default(),
    }
}

/// The limit on open files of this process; 0 if unlimited.
pub(super) fn open_files_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile)
        .current
        .unwrap_or(0)
}
