//! The messages between actors: one closed enum per inbox, so that everything that can happen to an
//! actor is visible in one place.
//!
//! The queues between actors have no limit of their own. Their content is what clients wait for, and
//! [`Admission`](crate::event::admission::Admission) limits that where requests come in.

pub mod admission;
pub mod inbox;

use bytes::Bytes;
use storage::mvcc::{Attempt, View};
use storage::vfs::DiskSpace;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::event::admission::Permit;
use crate::net::workers;
use crate::state::request::Request;
use crate::state::snapshot::Received;
pub use crate::state::{LeaseAnswer, Outcome, RaftView};

pub type Reply = Result<Applied, Error>;

/// What a change did, and the store's revision right after it.
#[derive(Debug)]
pub struct Applied {
    pub outcome: Outcome,
    pub revision: i64,
}

/// Where the answer to one request goes. Dropping it tells the waiting task that the server stops.
#[derive(Debug)]
pub struct ReplySlot {
    slot: oneshot::Sender<Reply>,
    /// The worker on which the task waits.
    home: usize,
    _permit: Permit,
}

impl ReplySlot {
    /// For the task that calls this.
    pub fn new(permit: Permit) -> (ReplySlot, oneshot::Receiver<Reply>) {
        let (slot, receiver) = oneshot::channel();
        (
            ReplySlot {
                slot,
                home: workers::here(),
                _permit: permit,
            },
            receiver,
        )
    }

    pub fn home(&self) -> usize {
        self.home
    }

    pub fn send(self, reply: Reply) {
        // Nobody listens when the client has gone; the change was made all the same.
        let _ = self.slot.send(reply);
    }
}

/// A change on its way into the log, with the one who waits for it (nobody, for the server's own).
#[derive(Debug)]
pub struct Proposal {
    pub request: Request,
    pub data: Bytes,
    pub reply: Option<ReplySlot>,
    /// Made by the leader of this term, and void when that leads no more: it is never sent on.
    pub term: Option<raft::Term>,
}

/// The member actor's inbox.
#[derive(Debug)]
pub enum MemberEvent {
    Propose(Proposal),
    /// The log on disk holds this write and all before it.
    Durable {
        ticket: raft::Ticket,
    },
    /// What the log on disk holds of what raft asked for.
    Fetched {
        fetch: raft::Fetch,
        found: Option<raft::LogPart>,
    },
    /// Everything through this index is in the store.
    Applied {
        index: u64,
    },
    /// A membership change was applied; comes before `Applied` of the same index.
    ConfChanged {
        index: u64,
        /// `None`: refused.
        change: Option<raft::ConfChange>,
    },
    /// A change of the members; its id is that of nobody else's.
    Configure {
        change: raft::ConfChange,
        reply: ReplySlot,
    },
    /// How far has this member's log come, compared with the leader's?
    Progress {
        id: u64,
        reply: ReplySlot,
    },
    /// What is there to tell of raft?
    Describe(ReplySlot),
    /// From another member.
    Receive(raft::Message),
    /// Its end of a connection was closed.
    Disconnected {
        peer: u64,
    },
    /// A message to it was lost.
    Unreachable {
        peer: u64,
    },
    /// Answered once the store shows all that was acknowledged before.
    Read(ReplySlot),
    /// Hand leadership over.
    Transfer {
        to: u64,
    },
    /// The state for a member that needs it, as `MemberEffects::snapshots_wanted` asked: a view
    /// and what to say of it.
    SnapshotReady {
        to: u64,
        snapshot: raft::Snapshot,
        view: View,
    },
    /// The transfer to this member ended, or never began.
    SnapshotSent {
        to: u64,
        ok: bool,
    },
    /// A state came from the leader, with the message that announces it.
    SnapshotReceived {
        message: raft::Message,
        received: Box<Received>,
    },
    /// The state that came is in place.
    SnapshotInstalled,
    Stop,
}

/// The log actor's inbox.
#[derive(Debug)]
pub enum LogEvent {
    Write(raft::Write),
    /// Entries for a member that was away. Always answered with `MemberEvent::Fetched`.
    Fetch(raft::Fetch),
    /// No start needs the entries before this one. Some are kept for members that were away.
    DropBefore {
        index: u64,
    },
    /// There is too little space for all that is kept.
    Shrink,
    /// True if there is no space for files made in advance.
    Short(bool),
    Stop,
}

/// A committed entry and, at its proposer, the decoded request and the one who waits.
#[derive(Debug)]
pub struct Committed {
    pub entry: raft::Entry,
    pub request: Option<Request>,
    pub reply: Option<ReplySlot>,
}

/// How full the disks are; `None`: the system does not tell.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    pub store: Option<DiskSpace>,
    pub log: Option<DiskSpace>,
}

/// The apply actor's inbox.
#[derive(Debug)]
pub enum ApplyEvent {
    Committed(Vec<Committed>),
    Lease(LeaseCall, ReplySlot),
    /// A checkpoint has come to its end, or waits for space.
    CheckpointRan(Box<Result<Attempt, storage::Error>>),
    /// How full the disks are, every now and then.
    Looked(Look),
    /// This member refused a change of `needed` bytes. It is answered once the space alarm is raised,
    /// or counts as lost.
    Refused {
        needed: u64,
        slot: ReplySlot,
    },
    /// There was no space for another file of the log.
    LogIsShort,
    /// To be answered once the entry at `index` is applied and published.
    Reads {
        index: u64,
        slots: Vec<ReplySlot>,
    },
    /// The term that this member leads, if it does: only a leader lets leases expire.
    Leading(Option<raft::Term>),
    /// Whether what leases have left may be written down; not before it is said.
    LeaseCheckpoints {
        allowed: bool,
    },
    /// Answered once the unused space is returned to the disk.
    Defragment(ReplySlot),
    /// A received state that replaces the whole state.
    Install(Box<Received>),
    /// New writes are encrypted with other keys; older pages must follow.
    KeysChanged,
    Stop,
}

/// Questions to the lessor that never touch the log.
#[derive(Clone, Debug)]
pub enum LeaseCall {
    KeepAlive {
        id: i64,
    },
    TimeToLive {
        id: i64,
        keys: bool,
    },
    Leases,
    /// What every lease has left, to be written down before a stop.
    CheckpointAll,
}
