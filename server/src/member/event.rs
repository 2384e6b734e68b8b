//! The messages between actors. Each inbox has one closed enum, so that everything that can happen
//! to an actor is visible in one place.
//!
//! The queues between actors have no limit of their own. They hold what clients wait for, and
//! [`Admission`](crate::member::event::admission::Admission) limits that where requests arrive.

pub mod admission;
pub(crate) mod inbox;

use bytes::Bytes;
use storage::mvcc::{Attempt, CheckpointJob, View};
use storage::vfs::DiskSpace;
use tokio::sync::oneshot;

use crate::basics::error::Error;
use crate::member::event::admission::Permit;
use crate::net::workers;
use crate::request::Request;
use crate::state::snapshot::Received;
pub use crate::state::{LeaseAnswer, Outcome, RaftView};

pub type Reply = Result<Answer, Error>;

/// The result of a change, and the store's revision right after it.
#[derive(Debug)]
pub struct Answer {
    pub outcome: Outcome,
    pub revision: i64,
}

/// Where the answer to one request goes. If it is dropped, the waiting task reports that the server
/// stops.
#[derive(Debug)]
pub struct ReplySlot {
    slot: oneshot::Sender<Reply>,
    /// Index of the worker on which the task waits.
    home: usize,
    _permit: Permit,
}

impl ReplySlot {
    /// For the task that calls this. The permit is held until the answer is sent.
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

    /// False if the client has left.
    pub fn is_awaited(&self) -> bool {
        !self.slot.is_closed()
    }

    pub fn send(self, reply: Reply) {
        // Fails if the client has left. The change was made all the same.
        let _ = self.slot.send(reply);
    }
}

/// A change to put into the log. `reply` is empty for changes that the server itself makes.
#[derive(Debug)]
pub struct Proposal {
    pub request: Request,
    pub data: Bytes,
    pub reply: Option<ReplySlot>,
    /// Set for a leader's proposal: it is valid in this term only, and never forwarded.
    pub term: Option<raft::Term>,
}

/// The inbox of the consensus actor.
#[derive(Debug)]
pub enum ConsensusEvent {
    Propose(Proposal),
    /// This write and all before it are durable.
    Durable {
        ticket: raft::Ticket,
    },
    /// What the log on disk holds of what raft asked for.
    Fetched {
        fetch: raft::Fetch,
        found: Option<raft::LogPart>,
    },
    /// Everything up to this index is in the store.
    Applied {
        index: u64,
    },
    /// A change of the members was applied. Comes before `Applied` of the same index.
    ConfChanged {
        index: u64,
        /// `None`: refused.
        change: Option<raft::ConfChange>,
    },
    /// Proposes a change of the members. Its id must be unique.
    Configure {
        change: raft::ConfChange,
        reply: ReplySlot,
    },
    /// Asks how much of the leader's log this member has.
    Progress {
        id: u64,
        reply: ReplySlot,
    },
    /// Asks for the state of raft.
    Describe(ReplySlot),
    /// A message from another member.
    Receive(raft::Message),
    /// The peer closed a connection.
    Disconnected {
        peer: u64,
    },
    /// A message to the peer was lost.
    Unreachable {
        peer: u64,
    },
    /// A linearizable read. Answered when the store shows every change acknowledged before it.
    Read(ReplySlot),
    /// Hands leadership over.
    Transfer {
        to: u64,
    },
    /// A view of the state and its description, for a member in `ConsensusEffects::snapshots_wanted`.
    SnapshotReady {
        to: u64,
        snapshot: raft::Snapshot,
        view: View,
    },
    /// The transfer to this member ended, or could not start.
    SnapshotSent {
        to: u64,
        ok: bool,
    },
    /// A state from the leader, with the message that announces it.
    SnapshotReceived {
        message: raft::Message,
        received: Box<Received>,
    },
    /// The received state is in place.
    SnapshotInstalled,
    Stop,
}

/// The log actor's inbox.
#[derive(Debug)]
pub enum LogEvent {
    Write(raft::Write),
    /// Entries for a member that was away. Always answered with `ConsensusEvent::Fetched`.
    Fetch(raft::Fetch),
    /// No start needs the entries before this one. Some are kept for members that were away.
    DropBefore {
        index: u64,
    },
    /// To be started when every write before it is durable: the store must not get ahead of the
    /// log.
    Checkpoint(Box<CheckpointJob>),
    /// There is too little space for all that is kept.
    Shrink,
    /// True if there is no space for files made in advance.
    Short(bool),
    Stop,
}

/// A committed entry. On the member that proposed it, also the decoded request and its client; others
/// decode it when they announce its keys, or apply it.
#[derive(Debug)]
pub struct Committed {
    pub entry: raft::Entry,
    pub request: Option<Request>,
    pub reply: Option<ReplySlot>,
}

/// How full the disks are. `None`: the system does not report it.
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
    /// A checkpoint ended, or waits for space.
    CheckpointRan(Box<Result<Attempt, storage::Error>>),
    /// How full the disks are; sent at intervals.
    Looked(Look),
    /// This member refused a change of `needed` bytes. It is answered once the space alarm is raised,
    /// or counts as lost.
    Refused {
        needed: u64,
        slot: ReplySlot,
    },
    /// There is no space for another file of the log.
    LogIsShort,
    /// Answered when the entry at `index` is applied and published.
    Reads {
        index: u64,
        slots: Vec<ReplySlot>,
    },
    /// The term that this member leads, if it leads. Only a leader ends expired leases.
    Leading(Option<raft::Term>),
    /// Whether remaining times of leases may go into the log. Not allowed until this says so.
    LeaseCheckpoints {
        allowed: bool,
    },
    /// Answered once the unused space is returned to the disk.
    Defragment(ReplySlot),
    /// A received state that replaces the whole state.
    Install(Box<Received>),
    /// New writes are encrypted with other keys. Existing pages must follow.
    KeysChanged,
    Stop,
}

/// Questions about leases that do not go through the log.
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
    /// The remaining time of every lease, to be written to the log before a stop.
    CheckpointAll,
}
