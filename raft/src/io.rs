//! What goes into [`Raft::step`](crate::Raft::step) and what comes out of it.

use std::time::Duration;

use crate::message::{
    ConfChange, ConfState, Entry, EntryKind, HardState, Index, Message, NodeId, Position, Snapshot,
    Term,
};
use bytes::Bytes;

/// Time since an origin that the caller chooses; never runs backwards.
pub type Now = Duration;

/// Identifies one [`Write`]; counts up from 1.
pub type Ticket = u64;

#[derive(Clone, Debug)]
pub struct Config {
    /// Never 0.
    pub id: NodeId,
    pub voters: Vec<NodeId>,
    pub learners: Vec<NodeId>,
    /// Time between heartbeats of a leader; less than `election_timeout`.
    pub heartbeat: Duration,
    /// A follower that hears nothing for a random time of one to two such timeouts campaigns.
    pub election_timeout: Duration,
    /// A follower whose leader is silent for this long asks whether the others miss it, too. For
    /// nearly as long after hearing the leader, it supports nobody else. This changes only how soon
    /// a dead leader is replaced: while the leader lives, members that hear it refuse. Needs
    /// `pre_vote` and `check_quorum`. With `None` the election timeout is waited out, as in etcd.
    pub suspicion: Option<Duration>,
    /// Ask before raising the term, so that a member cut off disturbs nobody when it returns.
    pub pre_vote: bool,
    /// A leader that hears no quorum for an election timeout steps down, and followers that hear
    /// their leader do not vote.
    pub check_quorum: bool,
    /// Mixed with `id`; all random choices depend on both alone.
    pub seed: u64,
    pub limits: Limits,
}

impl Config {
    /// etcd's defaults.
    pub fn new(id: NodeId, voters: Vec<NodeId>, seed: u64) -> Config {
        Config {
            id,
            voters,
            learners: Vec::new(),
            heartbeat: Duration::from_millis(100),
            election_timeout: Duration::from_millis(1000),
            suspicion: None,
            pre_vote: true,
            check_quorum: true,
            seed,
            limits: Limits::default(),
        }
    }
}

/// Everything that is queued or kept is bounded by one of these.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Entry bytes in one `Append`; a larger entry is sent alone.
    pub append_bytes: usize,
    /// `Append`s in flight to one follower.
    pub inflight_messages: usize,
    /// Entry bytes in flight to one follower.
    pub inflight_bytes: usize,
    /// Uncommitted entry bytes that a leader holds; beyond it proposals get `Busy`.
    pub uncommitted_bytes: usize,
    /// Bytes of committed entries not yet applied; beyond it a follower takes no more entries, and
    /// a leader's proposals get `Busy`.
    pub unapplied_bytes: usize,
    /// Entry bytes that wait for this member's own disk, committed or not; beyond it a leader's
    /// proposals get `Busy`.
    pub unsaved_bytes: usize,
    /// Number of applied entries kept in memory for followers that may come back.
    pub kept_entries: usize,
    /// Bytes of applied entries kept for the same reason. For a follower that needs them now, because
    /// it is slow or a snapshot is in flight to it, this is the only limit.
    pub kept_bytes: usize,
    /// Entry bytes in one [`Fetch`]; a larger entry is fetched alone.
    pub fetch_bytes: usize,
    /// Fetches at one time, each for another follower. With 0, followers get a snapshot instead.
    pub fetches: usize,
    /// Reads that are not confirmed yet; beyond it new reads get `Busy`.
    pub pending_reads: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            append_bytes: 1 << 20,
            inflight_messages: 512,
            inflight_bytes: 32 << 20,
            uncommitted_bytes: 256 << 20,
            unapplied_bytes: 256 << 20,
            unsaved_bytes: 256 << 20,
            kept_entries: 5000,
            kept_bytes: 32 << 20,
            fetch_bytes: 4 << 20,
            fetches: 4,
            pending_reads: 1 << 16,
        }
    }
}

/// What a start finds on disk, or what `bootstrap` builds for a new cluster.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    pub hard_state: HardState,
    /// The position just before the first of `entries`.
    pub base: Position,
    pub entries: Vec<Entry>,
    /// Applied index of the state machine; not before `base`.
    pub applied: Index,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub kind: EntryKind,
    pub data: Bytes,
}

impl Proposal {
    pub fn normal(data: impl Into<Bytes>) -> Proposal {
        Proposal {
            kind: EntryKind::Normal,
            data: data.into(),
        }
    }
}

#[derive(Clone, Debug)]
pub enum Input {
    /// `wake_at` is reached. Harmless at any other time.
    Tick,
    /// Everything in the write with this ticket, and in all before it, is durable.
    Durable {
        ticket: Ticket,
    },
    /// Answered in `Output::proposed`, once for all of them.
    Propose(Vec<Proposal>),
    Receive(Message),
    /// Answered in a later `Output::reads` under the same `context`. If the request gets lost on
    /// the way to the leader, the caller asks again after a while, with a new context.
    ReadIndex {
        context: u64,
    },
    /// The state machine holds everything up to this index.
    Applied {
        index: Index,
    },
    /// The conf change entry at `index` was applied; `None` when the server refused it. Comes
    /// before `Applied` of the same index.
    ConfChanged {
        index: Index,
        change: Option<ConfChange>,
    },
    /// Hand leadership over.
    Transfer {
        to: NodeId,
    },
    /// Campaign now, without waiting for the timeout.
    Campaign,
    /// A message to this peer was certainly lost.
    Unreachable {
        peer: NodeId,
    },
    /// This peer closed its connection: its process is gone. If it was the leader, the next
    /// election starts at once.
    Disconnected {
        peer: NodeId,
    },
    /// Answers `Output::snapshots_wanted`: the state to send, as a `Snapshot` message.
    SnapshotReady {
        to: NodeId,
        snapshot: Snapshot,
    },
    /// The transfer to this peer ended, or no snapshot could be made (`ok: false`).
    SnapshotSent {
        to: NodeId,
        ok: bool,
    },
    /// Answers `Output::fetches`. `None`: the log on disk does not hold all of it. The caller answers
    /// every fetch, or the follower gets nothing more in this term.
    Fetched {
        fetch: Fetch,
        found: Option<LogPart>,
    },
    /// Answers `Output::install`. `ok`: the state machine durably holds the snapshot; otherwise it
    /// is unchanged.
    SnapshotInstalled {
        ok: bool,
    },
}

/// One unit for the log writer: first `reset`, then `entries`, then `hard_state`. Writes come in
/// the order of their tickets. Several may share one sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Write {
    pub ticket: Ticket,
    /// The log now starts after this position; everything written before is void.
    pub reset: Option<Position>,
    /// Consecutive. The first one replaces the log's entry at its index and all after it.
    pub entries: Vec<Entry>,
    pub hard_state: Option<HardState>,
}

/// A request for entries that are no longer in memory, for a follower that needs them. They are
/// committed and applied here, so nothing can replace them on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    pub peer: NodeId,
    /// The leader's.
    pub term: Term,
    /// The first entry wanted, and the last one that is not in memory.
    pub from: Index,
    pub through: Index,
    /// Most entry bytes wanted; the first entry is wanted whatever its size.
    pub bytes: usize,
}

/// Consecutive entries of the log on disk; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPart {
    /// The position before the first entry.
    pub prev: Position,
    pub entries: Vec<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// `leader` is `NOBODY` when unknown.
    NotLeader { leader: NodeId },
    /// A limit is reached or leadership is being handed over: try again.
    Busy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposed {
    /// The proposals got the positions `first`, `first + 1`, ... A later leader may still replace
    /// them.
    Appended {
        first: Position,
    },
    /// Forwarded to the leader; only `committed` shows whether it took them.
    Forwarded {
        leader: NodeId,
    },
    Refused(Refused),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    pub context: u64,
    /// Once everything up to this index is applied, the state is fresh enough.
    pub outcome: Result<Index, Refused>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleKind {
    Follower,
    PreCandidate,
    Candidate,
    Leader,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleChange {
    pub term: Term,
    pub role: RoleKind,
    pub leader: NodeId,
}

/// Problems that the cluster's operator must know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Complaint {
    /// A message that no correct member sends. It had no effect.
    Refused { from: NodeId, why: &'static str },
    /// `peer` acknowledged everything up to `acknowledged` to this leader, but now refuses what
    /// follows: its log is lost, or comes from an older disk. It gets no more entries
    /// until it acknowledges again.
    PeerLostLog { peer: NodeId, acknowledged: Index },
    /// This member acknowledged everything up to `acknowledged` but holds the log only up to
    /// `holds`. It gives no vote until it holds again what it promised to keep.
    OwnLogLost { acknowledged: Index, holds: Index },
    /// Entries read back from this member's disk cannot be what it wrote there. They were not sent.
    Misread { from: Index, why: &'static str },
}

/// All `messages` may be sent at once: everything that had to be durable first already is.
#[derive(Debug, Default)]
pub struct Output {
    pub write: Option<Write>,
    pub messages: Vec<Message>,
    /// To be applied in this order; committed by a quorum, which this member's disk need not be part
    /// of. `write` of this or an earlier output has them. A state machine must not become durable
    /// with them before that write is.
    pub committed: Vec<Entry>,
    pub reads: Vec<Read>,
    pub proposed: Option<Proposed>,
    /// Set when term, role or leader changed.
    pub role_change: Option<RoleChange>,
    /// These peers need the state: answer with `SnapshotReady` or `SnapshotSent { ok: false }`.
    pub snapshots_wanted: Vec<NodeId>,
    /// To be read from the log on disk, at most one for each peer; each is answered with `Fetched`.
    pub fetches: Vec<Fetch>,
    /// Install this as the state machine, then answer with `SnapshotInstalled`.
    pub install: Option<Snapshot>,
    /// The members after the conf change or snapshot that this step applied.
    pub conf: Option<ConfState>,
    pub complaints: Vec<Complaint>,
}

impl Output {
    /// Empties it but keeps its allocations.
    pub fn clear(&mut self) {
        self.write = None;
        self.messages.clear();
        self.committed.clear();
        self.reads.clear();
        self.proposed = None;
        self.role_change = None;
        self.snapshots_wanted.clear();
        self.fetches.clear();
        self.install = None;
        self.conf = None;
        self.complaints.clear();
    }
}

/// Invariant: `applied ≤ handed_out ≤ commit ≤ last` and `durable ≤ last`. A majority of others may
/// commit what is not durable here, so `applied` and `durable` are in no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    pub id: NodeId,
    pub term: Term,
    pub vote: NodeId,
    pub leader: NodeId,
    pub role: RoleKind,
    pub applied: Index,
    pub commit: Index,
    pub durable: Index,
    pub last: Index,
    pub learner: bool,
    /// Leadership is being handed to this member; [`NOBODY`](crate::NOBODY) if it is not.
    pub transferring_to: NodeId,
    /// Followers that are being fed need the entries after this one, be they in memory or on the
    /// disk. `None` if there are none, or another member leads.
    pub feeding_after: Option<Index>,
    pub waiting: Waiting,
}

/// What waits in memory, in bytes of entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Proposed here, and not committed yet; 0 unless this member leads.
    pub uncommitted: usize,
    /// Committed, and not applied yet.
    pub unapplied: usize,
    /// Not on this member's disk yet, committed or not.
    pub unsaved: usize,
    /// Sent to other members, and not acknowledged by them, added up; 0 unless this member leads.
    pub in_flight: usize,
}

/// One follower as its leader sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    pub id: NodeId,
    pub matched: Index,
    pub next: Index,
    pub learner: bool,
    /// Heard from since the last quorum check.
    pub active: bool,
    pub snapshot: bool,
}
