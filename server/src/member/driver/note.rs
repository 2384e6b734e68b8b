//! What the actors do, for log lines, metrics and the checkers of the simulation.

use std::path::Path;
use std::time::Duration;

use raft::{Complaint, ConfChange, NodeId, RoleChange, Ticket};
use storage::mvcc::{Reencryption, Stats};

use crate::member::applier::{Slow, SpaceNews};
use crate::member::event::Look;
use crate::telemetry::metrics::Counts;

/// A note has no effect on the actors.
pub enum Note<'a> {
    /// The member asks for this write. Nothing of it is on disk yet.
    Write(&'a raft::Write),
    /// A write was handed to the log's file.
    Appended {
        took: Duration,
        log_bytes: u64,
    },
    /// Entries were read from the log on disk for the member `to`.
    Fetched {
        to: NodeId,
        entries: &'a [raft::Entry],
    },
    /// So much of the log is kept for members that were away.
    Kept {
        kept_bytes: u64,
    },
    /// The log is durable through this write.
    Synced {
        through: Ticket,
        took: Duration,
    },
    Complaint(Complaint),
    /// Raft will hear of a change of the members next.
    ConfChanged,
    RoleChanged {
        change: &'a RoleChange,
        /// The leader before.
        previous: NodeId,
    },
    /// A state of another member is about to replace this member's.
    Installing,
    Installed,
    Applied {
        counts: &'a mut Counts,
        took: Duration,
    },
    /// An entry that was slow to apply.
    Slow(Slow),
    /// The store is durable up to the entry before `needed_from`.
    Checkpointed {
        needed_from: u64,
    },
    Store {
        stats: &'a Stats,
        oldest_view: Duration,
    },
    Reencryption(&'a Reencryption),
    ClusterVersion {
        before: Option<&'a str>,
        now: Option<&'a str>,
    },
    /// A downgrade to this version was enabled.
    DowngradeEnabled(&'a str),
    /// True if this member is a learner.
    Learns(bool),
    /// A change of the members was applied; `None`: refused.
    MemberChange(Option<&'a ConfChange>),
    /// How full the disks are.
    Look(&'a Look),
    /// The system does not report how full a disk is.
    CannotLook {
        dir: &'a Path,
        error: std::io::Error,
    },
    /// News of the space alarm.
    Space(SpaceNews),
}
