//! What the actors do, for those who only look: log lines, metrics, the checkers of the simulation.

use std::path::Path;
use std::time::Duration;

use raft::{Complaint, ConfChange, NodeId, RoleChange, Ticket};
use storage::mvcc::{Resealing, Stats};

use crate::applier::{Slow, SpaceNews};
use crate::event::Look;
use crate::telemetry::metrics::Counts;

/// Nobody acts on a note: the actors go on the same whether it is heard or not.
pub enum Note<'a> {
    /// The member asks for this write. Nothing of it is on disk yet.
    Write(&'a raft::Write),
    /// A write was handed to the log's file.
    Appended {
        took: Duration,
        log_bytes: u64,
    },
    /// The log is durable through this write.
    Synced {
        through: Ticket,
        took: Duration,
    },
    Complaint(Complaint),
    /// Raft is about to hear of a change of the members.
    ConfChanged,
    RoleChanged {
        change: &'a RoleChange,
        /// Who led before.
        previous: NodeId,
    },
    /// A state of another member takes the place of ours.
    Installing,
    Installed,
    Applied {
        counts: &'a mut Counts,
        took: Duration,
    },
    /// An entry that took long to apply.
    Slow(Slow),
    /// The store is durable through the entry before this one.
    Checkpointed {
        needed_from: u64,
    },
    Store {
        stats: &'a Stats,
        oldest_view: Duration,
    },
    Resealing(&'a Resealing),
    ClusterVersion {
        before: Option<&'a str>,
        now: Option<&'a str>,
    },
    /// Whether this member only learns.
    Learns(bool),
    /// A change of the members was applied; `None`: refused.
    MemberChange(Option<&'a ConfChange>),
    /// How full the disks are.
    Look(&'a Look),
    /// That cannot be told.
    CannotLook {
        dir: &'a Path,
        error: std::io::Error,
    },
    /// What becomes of the space alarm.
    Space(SpaceNews),
}
