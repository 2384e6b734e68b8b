//! Turns the notes of the actors into log lines and metrics for operators.

use std::sync::Arc;

use raft::{ConfChange, ConfChangeKind, Message, NodeId, Now, RoleChange, RoleKind};
use storage::mvcc::{Next, Reencryption, Stats};

use super::complaints::Complaints;
use super::lateness::Lateness;
use crate::basics::clock::unix_time;
use crate::config;
use crate::member::applier::{Slow, SpaceNews};
use crate::member::driver::Note;
use crate::member::event::Look;
use crate::state::ChangeContext;
use crate::telemetry::logging::json;
use crate::telemetry::metrics::Metrics;

/// Each thread has its own, because the notes remember the state of that thread's actor.
#[derive(Clone)]
pub(super) struct Notes {
    member_id: NodeId,
    metrics: Arc<Metrics>,
    complaints: Complaints,
    lateness: Lateness,
}

impl Notes {
    pub(super) fn new(member_id: NodeId, metrics: Arc<Metrics>, lateness: Lateness) -> Notes {
        Notes {
            member_id,
            metrics,
            complaints: Complaints::default(),
            lateness,
        }
    }

    pub(super) fn note(&mut self, note: Note<'_>) {
        let metrics = &self.metrics;
        match note {
            Note::Write(_) => {}
            Note::Appended { took, log_bytes } => {
                metrics.wal_write.observe(took);
                metrics.wal_bytes.set(log_bytes as i64);
            }
            Note::Fetched { entries, .. } => {
                metrics.wal_entries_fetched.add(entries.len() as u64);
            }
            Note::Kept { kept_bytes } => metrics.wal_kept.set(kept_bytes as i64),
            Note::Synced { took, .. } => metrics.wal_fsync.observe(took),
            Note::Complaint(complaint) => self.complaints.tell(self.member_id, complaint),
            Note::ConfChanged => self.lateness.clear(),
            Note::RoleChanged { change, previous } => {
                self.lateness.clear();
                tell_role(self.member_id, change, previous);
            }
            Note::Installing => {
                metrics.snapshot_apply_in_progress.set(1);
                tracing::info!("applying snapshot");
            }
            Note::Installed => {
                metrics.snapshot_apply_in_progress.set(0);
                tracing::info!("applied snapshot");
            }
            Note::Applied { counts, took } => metrics.applied(counts, took, unix_time()),
            Note::Slow(slow) => {
                metrics.slow_apply.add(1);
                tell_slow(&slow);
            }
            Note::Checkpointed { needed_from } => {
                let index = needed_from.saturating_sub(1);
                tracing::info!("snapshot-index" = index, "saved snapshot to disk");
            }
            Note::Store { stats, oldest_view } => {
                self.note_views(stats);
                metrics.views_oldest.set(oldest_view.as_secs() as i64);
            }
            Note::Reencryption(progress) => self.tell_reencryption(progress),
            Note::ClusterVersion { before, now } => tell_version(before, now),
            Note::DowngradeEnabled(target) => tracing::info!(
                "target-version" = target,
                "server-version" = config::ETCD_VERSION,
                "The server is ready to downgrade"
            ),
            Note::Learns(learns) => metrics.is_learner.set(i64::from(learns)),
            Note::MemberChange(change) => tell_change(self.member_id, change),
            Note::Look(look) => self.note_look(look),
            Note::CannotLook { dir, error } => {
                tracing::warn!(%error, dir = %dir.display(), "cannot tell how full the disk is");
            }
            Note::Space(news) => tell_space(news),
        }
    }

    /// Uses etcd's text. It blames the disk first, which is nearly always right.
    pub(super) fn sending(&mut self, now: Now, messages: &[Message]) {
        for (to, over) in self.lateness.send(now, messages) {
            self.metrics.heartbeat_send_failures.inc();
            tracing::warn!(
                "to" = format!("{to:x}"),
                "heartbeat-interval" = ?self.lateness.interval(),
                "exceeded-duration" = ?over,
                "leader failed to send out heartbeat on time; took too long, leader is overloaded likely from slow disk"
            );
        }
    }

    fn note_views(&self, stats: &Stats) {
        self.metrics.views_open.set(stats.views as i64);
        self.metrics.views_held_bytes.set(stats.viewed_bytes as i64);
    }

    fn note_look(&self, look: &Look) {
        if let Some(disk) = look.store {
            self.metrics.disk_available.set(disk.available as i64);
        }
        if let Some(disk) = look.log {
            self.metrics.log_disk_available.set(disk.available as i64);
        }
    }

    /// Reports the progress of re-sealing. The last line tells operators that old keys may go.
    fn tell_reencryption(&self, progress: &Reencryption) {
        let gauges = &self.metrics;
        let done = progress.next == Next::Done;
        let left = progress.total_bytes - progress.walked_bytes;
        gauges.encryption_key.set(progress.active.into());
        gauges.reencryption_in_progress.set(i64::from(!done));
        let left = if done { 0 } else { left as i64 };
        gauges.encryption_left_bytes.set(left);
        let (key, others) = (progress.active, format!("{:?}", progress.others));
        match progress.next {
            Next::Done => {
                tracing::info!(key, "re-sealed everything; other keys are no longer needed");
            }
            Next::Step => tracing::info!(
                key,
                others,
                "looked-at-bytes" = progress.walked_bytes,
                "total-bytes" = progress.total_bytes,
                "re-sealing pages"
            ),
            Next::Checkpoint => tracing::info!(
                key,
                others,
                "re-sealing: waiting for checkpoints to drop what is old"
            ),
            Next::Wait => tracing::info!(
                key,
                others,
                "re-sealing: waiting for the end of a snapshot that is being received"
            ),
        }
    }
}

fn tell_role(member_id: NodeId, change: &RoleChange, previous: NodeId) {
    let id = format!("{member_id:x}");
    match change.role {
        RoleKind::Leader => tracing::info!("{id} became leader at term {}", change.term),
        RoleKind::Follower => tracing::info!("{id} became follower at term {}", change.term),
        RoleKind::PreCandidate => {
            tracing::info!("{id} became pre-candidate at term {}", change.term);
        }
        RoleKind::Candidate => tracing::info!("{id} became candidate at term {}", change.term),
    }
    if change.leader != previous && change.leader != raft::NOBODY {
        let leader = format!("{:x}", change.leader);
        tracing::info!(
            "raft.node: {id} elected leader {leader} at term {}",
            change.term
        );
    }
}

fn tell_slow(slow: &Slow) {
    tracing::warn!(
        took = config::duration(slow.took),
        "expected-duration" = config::duration(slow.limit),
        prefix = "",
        request = slow.request,
        response = slow.response,
        error = slow.error,
        "apply request took too long"
    );
}

fn tell_version(before: Option<&str>, now: Option<&str>) {
    let to = minor(now);
    match before {
        None => tracing::info!("cluster-version" = to, "set initial cluster version"),
        Some(_) => tracing::info!(from = minor(before), to, "updated cluster version"),
    }
}

/// The version without its patch number.
fn minor(version: Option<&str>) -> &str {
    let version = version.unwrap_or_default();
    version.rsplit_once('.').map_or(version, |(minor, _)| minor)
}

fn tell_space(news: SpaceNews) {
    match news {
        SpaceNews::Low { available } => tracing::warn!(
            "available-bytes" = available,
            "the disk is nearly full: raising the NOSPACE alarm; what takes space is refused, deletes and compactions are not"
        ),
        SpaceNews::Back { available, in_use } => tracing::info!(
            "available-bytes" = available,
            "in-use-bytes" = in_use,
            "there is space again: taking the NOSPACE alarm back"
        ),
        SpaceNews::AlarmLost => tracing::warn!("failed to raise the space alarm"),
    }
}

/// Writes the lines that operators search for.
fn tell_change(member_id: NodeId, change: Option<&ConfChange>) {
    let local = format!("{member_id:x}");
    let Some(change) = change else {
        tracing::error!(
            "local-member-id" = local,
            "Validation on configuration change failed"
        );
        return;
    };
    let id = format!("{:x}", change.node);
    match change.kind {
        ConfChangeKind::RemoveNode => tracing::info!(
            "local-member-id" = local,
            "removed-remote-peer-id" = id,
            "removed member"
        ),
        ConfChangeKind::UpdateNode => tracing::info!(
            "local-member-id" = local,
            "updated-remote-peer-id" = id,
            "updated member"
        ),
        kind => {
            // The context was valid when the change was applied.
            let context = ChangeContext::of(change).unwrap_or_default();
            if context.is_promote {
                tracing::info!(
                    "local-member-id" = local,
                    "promoted-member-id" = id,
                    "promote member"
                );
                return;
            }
            tracing::info!(
                "local-member-id" = local,
                "added-peer-id" = id,
                "added-peer-peer-urls" = %json(&context.member.peer_urls),
                "added-peer-is-learner" = kind == ConfChangeKind::AddLearnerNode,
                "added member"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_snapshot_is_being_applied_until_it_is_installed() {
        let metrics = Arc::new(Metrics::default());
        let lateness = Lateness::new(Duration::from_millis(100));
        let mut notes = Notes::new(1, Arc::clone(&metrics), lateness);
        for (note, applied) in [(Note::Installing, 1), (Note::Installed, 0)] {
            notes.note(note);
            assert_eq!(metrics.snapshot_apply_in_progress.get(), applied);
        }
    }
}
