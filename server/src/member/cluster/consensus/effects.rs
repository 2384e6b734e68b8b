//! What a turn of consensus asks of its driver.

use raft::{Complaint, Fetch, Message, RoleChange};
use storage::mvcc::View;

use crate::member::event::{Committed, Reply, ReplySlot};
use crate::state::snapshot::Received;

/// The effects of a turn.
#[derive(Default)]
pub struct ConsensusEffects {
    /// For the log, in this order.
    pub writes: Vec<raft::Write>,
    /// For the applier, in this order.
    pub committed: Vec<Committed>,
    pub replies: Vec<(ReplySlot, Reply)>,
    pub role_change: Option<RoleChange>,
    /// For other members. Messages may get lost.
    pub messages: Vec<Message>,
    /// Reads, and the index that must be applied before they are answered.
    pub reads: Vec<(u64, Vec<ReplySlot>)>,
    /// Members that need a snapshot. Expects `SnapshotReady` or `SnapshotSent`.
    pub snapshots_wanted: Vec<u64>,
    /// For the log, in any order with `writes`; answered with `Fetched`.
    pub fetches: Vec<Fetch>,
    /// Messages to send together with a view. Expects `SnapshotSent`.
    pub transfers: Vec<(Message, View)>,
    /// For the applier, after `committed`. Expects `SnapshotInstalled`.
    pub install: Option<Box<Received>>,
    /// Received states that are not needed.
    #[expect(
        clippy::vec_box,
        reason = "they come in boxes, and are passed on in them"
    )]
    pub unwanted: Vec<Box<Received>>,
    /// Complaints that operators must hear.
    pub complaints: Vec<Complaint>,
    pub stop: bool,
}
