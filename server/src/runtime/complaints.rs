//! Logs what a member complains about: other members, and its own disk. A refused message is logged
//! once for each sender and reason, however often it happens.

use std::collections::HashSet;

use raft::Complaint;

/// Most refusals that are remembered. Further ones are not logged.
const TOLD_MAX: usize = 256;

#[derive(Clone, Default)]
pub(super) struct Complaints {
    refused: HashSet<Complaint>,
}

impl Complaints {
    /// `member_id` is this member.
    pub(super) fn tell(&mut self, member_id: u64, complaint: Complaint) {
        match complaint {
            Complaint::Refused { from, why } => {
                if self.refused.len() < TOLD_MAX && self.refused.insert(complaint) {
                    tracing::warn!(
                        "remote-peer-id" = format!("{from:x}"),
                        error = why,
                        "refused a message from a peer"
                    );
                }
            }
            Complaint::PeerLostLog { peer, acknowledged } => tracing::error!(
                "remote-peer-id" = format!("{peer:x}"),
                "acknowledged-index" = acknowledged,
                "a member has lost log entries that it acknowledged: its data directory was \
                 emptied, damaged or put back to an older state; it gets no more entries until it \
                 acknowledges again. When the other members are in step, remove it from the \
                 cluster and add it anew with an empty data directory"
            ),
            Complaint::Misread { from, why } => tracing::error!(
                "local-member-id" = format!("{member_id:x}"),
                "first-index" = from,
                error = why,
                "entries read back from this member's log are not what was written there; the \
                 member that needs them gets a snapshot in their place"
            ),
            Complaint::OwnLogLost {
                acknowledged,
                holds,
            } => tracing::error!(
                "local-member-id" = format!("{member_id:x}"),
                "acknowledged-index" = acknowledged,
                "last-index" = holds,
                "this member has lost log entries that it acknowledged: its data directory was \
                 emptied, damaged or put back to an older state; it gives no vote. Remove it from \
                 the cluster and add it anew with an empty data directory"
            ),
        }
    }
}
