//! What a turn of the applier asks of its driver.

use std::time::Duration;

use etcd_api::etcdserverpb as pb;
use storage::mvcc::{CheckpointJob, Reencryption, Retired, SyncJob};

use super::slow::Slow;
use crate::member::event::{Look, Reply, ReplySlot};
use crate::request::Request;
use crate::state::hashes::{Compacted, HashJob};
use crate::telemetry::metrics::Counts;

/// The effects of a turn. The turn's changes are published already. The order that matters: notify
/// watchers, then answer.
#[derive(Default)]
pub struct ApplyEffects {
    pub replies: Vec<(ReplySlot, Reply)>,
    /// Everything up to this index is applied. Report `conf_changes` first.
    pub applied: Option<u64>,
    /// Each with its index. `None`: the change was refused.
    pub conf_changes: Vec<(u64, Option<raft::ConfChange>)>,
    /// The age of the oldest view of the store.
    pub oldest_view: Duration,
    /// The store's revision, if it changed.
    pub advanced: Option<i64>,
    /// Proposals of the leader: revokes of expired leases, checkpoints of leases.
    pub proposals: Vec<Request>,
    /// The leader's term. The proposals are void in any other term. 0: this member does not lead.
    pub term: raft::Term,
    pub checkpoint: Option<CheckpointJob>,
    pub sync: Option<SyncJob>,
    /// Memory to free on another thread.
    pub retired: Option<Retired>,
    /// The store is durable up to the entry before this one.
    pub drop_log_before: Option<u64>,
    /// Entries that were slow to apply.
    pub slow: Vec<Slow>,
    /// The compaction that ended.
    pub compacted: Option<Compacted>,
    /// Digests to compute on another thread, of histories that will be compacted.
    pub hash: Vec<HashJob>,
    /// Progress of re-encryption has come, if it should be reported.
    pub reencryption: Option<Reencryption>,
    pub cluster_changed: bool,
    /// A proposal to raise or clear this member's space alarm, valid in any term.
    pub alarm: Option<pb::AlarmRequest>,
    pub space_news: Vec<SpaceNews>,
    /// How full the disks are.
    pub look: Option<Look>,
    /// True: the log must not make files in advance. False: it may again.
    pub log_is_short: Option<bool>,
    /// The received state is installed. Report it after `conf_changes`, which are older, and before
    /// `applied`.
    pub installed: bool,
    pub counts: Counts,
    pub stopped: bool,
}

/// What operators are told about the space alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceNews {
    /// The disk is nearly full, and the alarm is proposed.
    Low { available: u64 },
    /// There is space again, and the alarm is being cleared.
    Back { available: u64, in_use: u64 },
    /// The proposed alarm was lost.
    AlarmLost,
}
