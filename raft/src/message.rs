//! What members send each other and what the log holds: the paper's terms as Rust types. Knows
//! nothing of bytes (see `wire`) or of how a message travels.

use bytes::Bytes;

/// Number of an election; only grows, and is durable before any message names it.
pub type Term = u64;
/// Place of an entry in the log; the first one is 1.
pub type Index = u64;
/// A member's id; never 0.
pub type NodeId = u64;

/// "No member", as on the wire.
pub const NOBODY: NodeId = 0;

/// Identifies one entry: two different entries never share it (log matching, paper §5.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub term: Term,
    pub index: Index,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntryKind {
    #[default]
    Normal,
    ConfChange,
    /// Joint changes of newer etcd. Decoded only to show a log that holds one. Never proposed: etcd
    /// members stop on it.
    ConfChangeV2,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub term: Term,
    pub index: Index,
    pub kind: EntryKind,
    pub data: Bytes,
}

impl Entry {
    pub fn position(&self) -> Position {
        Position {
            term: self.term,
            index: self.index,
        }
    }
}

/// What a member must remember besides its log. `commit` is only a lower bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardState {
    pub term: Term,
    pub vote: NodeId,
    pub commit: Index,
}

/// Voters and learners. The joint fields stay empty here; they exist so that bytes of other members
/// survive a round trip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfState {
    pub voters: Vec<NodeId>,
    pub learners: Vec<NodeId>,
    pub voters_outgoing: Vec<NodeId>,
    pub learners_next: Vec<NodeId>,
    pub auto_leave: bool,
}

impl ConfState {
    /// Why no cluster has these members; `None` if one may. A message may lack them altogether.
    fn flaw(&self) -> Option<&'static str> {
        let ConfState {
            voters, learners, ..
        } = self;
        if voters.contains(&NOBODY) || learners.contains(&NOBODY) {
            return Some("a member without an id");
        }
        if voters.is_empty() && !learners.is_empty() {
            return Some("learners, and nobody to vote");
        }
        let both = learners.iter().any(|id| voters.contains(id));
        both.then_some("a member that both votes and learns")
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConfChangeKind {
    /// Adds a voter, or promotes a learner.
    #[default]
    AddNode,
    RemoveNode,
    /// Changes only what the context says; no effect here.
    UpdateNode,
    AddLearnerNode,
}

/// One membership change; the context is the server's (etcd: member JSON).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfChange {
    pub id: u64,
    pub kind: ConfChangeKind,
    pub node: NodeId,
    pub context: Bytes,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transition {
    #[default]
    Auto,
    JointImplicit,
    JointExplicit,
}

/// etcd's joint form; see [`EntryKind::ConfChangeV2`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfChangeV2 {
    pub transition: Transition,
    pub changes: Vec<(ConfChangeKind, NodeId)>,
    pub context: Bytes,
}

/// The state up to `position`, sent in place of the entries; `data` is the server's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub position: Position,
    pub conf: ConfState,
    pub data: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub from: NodeId,
    pub to: NodeId,
    /// 0 in requests that a follower forwards for its clients (`Propose`, `ReadIndex`).
    pub term: Term,
    pub body: Body,
}

impl Message {
    /// Why no correct member sends this message; `None` if it is sound. Acting on such a message
    /// would break what the rest of this crate assumes: terms only grow along a log, and no entry
    /// has a later term than the leader that sends it.
    pub fn flaw(&self) -> Option<&'static str> {
        match &self.body {
            Body::Append { entries, .. } | Body::Propose { entries } if has_too_large(entries) => {
                Some("an entry is larger than a log takes")
            }
            Body::Append { prev, entries, .. } => flaw_of_append(self.term, *prev, entries),
            Body::Vote { last, .. } | Body::PreVote { last, .. } if last.term > self.term => {
                Some("a candidate's log is of a later term than its vote")
            }
            Body::Snapshot(snapshot) if snapshot.position.term > self.term => {
                Some("a snapshot is of a later term than its leader")
            }
            // Entries of an append follow what this member has. A snapshot may name any index.
            Body::Snapshot(snapshot) if snapshot.position.index > INDEX_MAX => {
                Some("a snapshot is of an index that no log comes to")
            }
            Body::Snapshot(snapshot) => snapshot.conf.flaw(),
            _ => None,
        }
    }
}

/// Most bytes of an entry's data: the log on disk takes no more (see `durable`).
pub const ENTRY_BYTES_MAX: usize = (32 << 20) - 64;

fn has_too_large(entries: &[Entry]) -> bool {
    let mut sizes = entries.iter().map(|entry| entry.data.len());
    sizes.any(|bytes| bytes > ENTRY_BYTES_MAX)
}

/// Highest index accepted in a snapshot. A log reaches it after 290,000 years at a million entries
/// a second, and counting on from it never overflows.
const INDEX_MAX: Index = Index::MAX / 2;

pub(crate) fn flaw_of_append(
    term: Term,
    prev: Position,
    entries: &[Entry],
) -> Option<&'static str> {
    let mut at = prev;
    for entry in entries {
        if Some(entry.index) != at.index.checked_add(1) {
            return Some("entries of an append do not follow each other");
        }
        if entry.term < at.term {
            return Some("terms go back along the entries of an append");
        }
        at = entry.position();
    }
    (at.term > term).then_some("an entry is of a later term than its leader")
}

/// | body | from → to | says |
/// |---|---|---|
/// | `Propose` | follower → leader | append this for a client of mine |
/// | `Append`, `AppendReply` | leader ⇄ follower | here are the entries after `prev`; I hold them durably |
/// | `Vote`, `VoteReply` | candidate ⇄ all | elect me for this term |
/// | `PreVote`, `PreVoteReply` | candidate ⇄ all | would you, for the next term? Changes nothing |
/// | `Snapshot` | leader → follower | the entries you need are gone, take the state |
/// | `Heartbeat`, `HeartbeatReply` | leader ⇄ follower | I lead; `context` confirms reads |
/// | `TransferLeader` | follower → leader | hand over to `from` |
/// | `TimeoutNow` | leader → follower | campaign at once |
/// | `ReadIndex`, `ReadIndexReply` | follower ⇄ leader | how far must I have applied to read now? |
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Propose {
        entries: Vec<Entry>,
    },
    Append {
        prev: Position,
        entries: Vec<Entry>,
        commit: Index,
    },
    AppendReply {
        /// Everything up to here is held durably; if rejected, the `prev.index` that did not match.
        index: Index,
        /// The newest own position that may match: the leader skips what is between it and `index`.
        rejected: Option<Position>,
    },
    Vote {
        last: Position,
        /// The leader asked for this election, so members that hear it do not refuse.
        transfer: bool,
    },
    VoteReply {
        granted: bool,
    },
    PreVote {
        last: Position,
        transfer: bool,
    },
    PreVoteReply {
        granted: bool,
    },
    Snapshot(Snapshot),
    Heartbeat {
        commit: Index,
        context: Bytes,
    },
    HeartbeatReply {
        /// The heartbeat's context, byte for byte.
        context: Bytes,
    },
    TransferLeader,
    TimeoutNow,
    ReadIndex {
        context: Bytes,
    },
    ReadIndexReply {
        index: Index,
        context: Bytes,
    },
}
