//! Actor 1: consensus. It owns [`Raft`] and knows which client waits for which
//! entry. Plain values in and out; the shell runs it on its own thread.

mod changes;
mod effects;
mod forwarded;
mod output;
mod replays;
mod requests;
mod stall;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use raft::{Body, Complaint, EntryKind, Input, Message, NOBODY, Now, Output, Raft, RoleKind};
use storage::mvcc::View;

use crate::basics::error::Error;
use crate::member::event::{Answer, ConsensusEvent, Outcome, Proposal, RaftView, Reply, ReplySlot};
use crate::state::snapshot::Received;
use changes::Changes;
pub(crate) use effects::ConsensusEffects;
use forwarded::Forwarded;
use replays::Replays;
use requests::{Waiting, patience, take_waiting};
use stall::Stall;

/// Writes of at most this many entries are not worth a hand-over to another thread.
const LONE_ENTRIES: usize = 4;

pub struct Consensus {
    raft: Raft,
    /// See [`patience`].
    patience: Duration,
    /// Proposals that are in the log and not committed, by position.
    waiting: VecDeque<Waiting>,
    forwarded: Forwarded,
    /// Ids of requests that were committed, or that another member proposed.
    replays: Replays,
    /// How long the disk has been busy with the current writes.
    stall: Stall,
    /// Proposals that came without a leader, each with the time when its client gives up.
    held: VecDeque<(Now, Proposal)>,
    changes: Changes,
    /// Proposals of other members that came during a transfer of leadership, or during another
    /// change of the members. Dropped when their clients have given up.
    held_messages: Vec<(Now, Message)>,
    /// A leader that closed its connection. Whatever is sent to it would be lost.
    suspect: u64,
    /// A sorted map, so that equal inputs give equal outputs.
    reads: BTreeMap<u64, Reading>,
    next_read: u64,
    /// A new leader was found. Reads that the old one got may be lost.
    has_new_leader: bool,
    /// Members for which raft sent a snapshot whose view is gone.
    not_sent: Vec<u64>,
    output: Output,
    /// Raft has input whose effects are not collected yet.
    is_fed: bool,
}

/// Equal to the length of the queue of a stream to a peer.
const HELD_MESSAGES_MAX: usize = 4096;
/// A read without an answer is asked again after this time. etcd's value.
const READ_RETRY: Duration = Duration::from_millis(500);

/// One read index, shared by all reads that came together.
struct Reading {
    slots: Vec<ReplySlot>,
    asked_at: Now,
    began_at: Now,
}

/// Requests of one turn, which enter raft together.
#[derive(Default)]
struct Gathered {
    proposals: Vec<Proposal>,
    reads: Vec<ReplySlot>,
}

/// A state that belongs to an input. Raft sees only its description, and decides what happens.
enum Carried {
    Nothing,
    /// A view of the state, for the member `to`.
    Out {
        to: u64,
        view: View,
    },
    /// A state received from the leader.
    In(Box<Received>),
}

impl Consensus {
    /// `first_read` must differ in every run.
    pub fn new(raft: Raft, first_read: u64) -> Consensus {
        Consensus {
            patience: patience(raft.election_timeout()),
            raft,
            waiting: VecDeque::new(),
            forwarded: Forwarded::default(),
            replays: Replays::default(),
            stall: Stall::default(),
            held: VecDeque::new(),
            changes: Changes::default(),
            held_messages: Vec::new(),
            suspect: NOBODY,
            reads: BTreeMap::new(),
            next_read: first_read,
            has_new_leader: false,
            not_sent: Vec::new(),
            output: Output::default(),
            is_fed: false,
        }
    }

    /// When the next turn is due even if no event arrives.
    pub fn wake_at(&self) -> Option<Now> {
        let retry = self.reads.values().map(|read| read.asked_at + READ_RETRY);
        let stall = self.stall.due_at().filter(|_| self.leads_others());
        let leads = self.raft.status().role == RoleKind::Leader;
        let former = self.waiting.front().filter(|_| !leads);
        let due = [
            self.raft.wake_at(),
            retry.min(),
            self.forwarded.due_at(),
            former.map(|waiting| waiting.until),
            stall,
        ];
        due.into_iter().flatten().min()
    }

    pub fn status(&self) -> raft::Status {
        self.raft.status()
    }

    /// The applied voters and learners.
    pub fn conf(&self) -> raft::ConfState {
        self.raft.conf()
    }

    /// True if a write is so small that handing it to the log's thread would cost more time than it
    /// saves. Always false with other members: their messages must not wait for a sync.
    pub fn is_lone(&self, write: &raft::Write) -> bool {
        (1..=LONE_ENTRIES).contains(&write.entries.len()) && self.is_alone()
    }

    /// True if raft has a single member.
    pub fn is_alone(&self) -> bool {
        let conf = self.raft.conf();
        conf.voters.len() == 1 && conf.learners.is_empty()
    }

    /// Handles all of `events`. Proposals that came together enter the log together.
    pub fn turn(
        &mut self,
        now: Now,
        events: &mut Vec<ConsensusEvent>,
        effects: &mut ConsensusEffects,
    ) {
        let mut gathered = Gathered::default();
        for event in events.drain(..) {
            self.hear(now, event, &mut gathered, effects);
        }
        self.let_go(now, effects);
        self.hold_or_propose(now, gathered.proposals, effects);
        self.configure(now, effects);
        if !gathered.reads.is_empty() {
            self.read(now, now, gathered.reads, effects);
        }
        self.finish(now, effects);
        if self.raft.wake_at().is_some_and(|at| at <= now) {
            self.step(now, Input::Tick, effects);
        }
        for to in std::mem::take(&mut self.not_sent) {
            self.step(now, Input::SnapshotSent { to, ok: false }, effects);
        }
        self.watch_disk(now, effects);
        self.give_up(now, effects);
        self.finish(now, effects);
    }

    /// Handles the requests of clients and operators. The other events are for raft.
    fn hear(
        &mut self,
        now: Now,
        event: ConsensusEvent,
        gathered: &mut Gathered,
        effects: &mut ConsensusEffects,
    ) {
        match event {
            ConsensusEvent::Propose(proposal) => gathered.proposals.push(proposal),
            ConsensusEvent::Read(slot) => gathered.reads.push(slot),
            ConsensusEvent::Configure { change, reply } => {
                if let Err(reply) = self.changes.push(now + self.patience, change, reply) {
                    effects.replies.push((reply, Err(Error::TooManyRequests)));
                }
            }
            ConsensusEvent::Progress { id, reply } => {
                effects.replies.push((reply, self.progress(id)));
            }
            ConsensusEvent::Describe(reply) => effects.replies.push((reply, Ok(self.describe()))),
            ConsensusEvent::Stop => effects.stop = true,
            ConsensusEvent::Receive(message) => self.receive(now, message, effects),
            event => self.tell_raft(now, event, effects),
        }
    }

    fn tell_raft(&mut self, now: Now, event: ConsensusEvent, effects: &mut ConsensusEffects) {
        let input = match event {
            ConsensusEvent::Disconnected { peer } => {
                if peer == self.raft.status().leader {
                    self.suspect = peer;
                }
                Input::Disconnected { peer }
            }
            ConsensusEvent::Unreachable { peer } => Input::Unreachable { peer },
            ConsensusEvent::Transfer { to } => Input::Transfer { to },
            ConsensusEvent::SnapshotReady { to, snapshot, view } => {
                let input = Input::SnapshotReady { to, snapshot };
                return self.step_with(now, input, Carried::Out { to, view }, effects);
            }
            ConsensusEvent::SnapshotReceived { message, received } => {
                let input = Input::Receive(message);
                return self.step_with(now, input, Carried::In(received), effects);
            }
            ConsensusEvent::SnapshotSent { to, ok } => Input::SnapshotSent { to, ok },
            ConsensusEvent::SnapshotInstalled => {
                // The entry may be part of the snapshot, and then it is never seen here.
                self.forwarded.lose_all(effects);
                Input::SnapshotInstalled { ok: true }
            }
            ConsensusEvent::Fetched { fetch, found } => Input::Fetched { fetch, found },
            ConsensusEvent::Durable { ticket } => {
                self.stall.durable(ticket);
                Input::Durable { ticket }
            }
            ConsensusEvent::Applied { index } => Input::Applied { index },
            ConsensusEvent::ConfChanged { index, change } => Input::ConfChanged { index, change },
            other => unreachable!("{other:?} is not for raft"),
        };
        self.step(now, input, effects);
    }

    fn receive(&mut self, now: Now, mut message: Message, effects: &mut ConsensusEffects) {
        self.drop_replays(&mut message, effects);
        if message.from == self.suspect {
            self.suspect = NOBODY;
        }
        if let Body::Snapshot(_) = message.body {
            return; // Useless without the state that it announces.
        }
        if self.is_to_wait(&message) {
            self.held_messages.push((now + self.patience, message));
            return;
        }
        self.step(now, Input::Receive(message), effects);
    }

    fn describe(&self) -> Answer {
        let view = RaftView {
            status: self.raft.status(),
            peers: self.raft.peers(),
        };
        Answer {
            outcome: Outcome::Raft(Box::new(view)),
            revision: 0,
        }
    }

    fn leads_others(&self) -> bool {
        self.raft.status().role == RoleKind::Leader && self.raft.conf().voters.len() > 1
    }

    /// A leader with a stalled disk hands over to a member whose disk has what its own has not.
    fn watch_disk(&mut self, now: Now, effects: &mut ConsensusEffects) {
        for write in &effects.writes {
            self.stall.wrote(now, write);
        }
        if self.stall.due_at().is_none_or(|at| now < at) || !self.leads_others() {
            return;
        }
        if let Some(to) = self.stall.heir(now, &self.raft.peers())
            && !self.hands_over()
        {
            self.step(now, Input::Transfer { to }, effects);
        }
    }

    fn hands_over(&self) -> bool {
        self.raft.status().transferring_to != NOBODY
    }

    /// True for a proposal that raft would drop at this moment, but accept or forward soon.
    fn is_to_wait(&self, message: &Message) -> bool {
        let Body::Propose { entries } = &message.body else {
            return false;
        };
        let changes = entries.iter().any(|e| e.kind != EntryKind::Normal);
        self.held_messages.len() < HELD_MESSAGES_MAX
            && (self.hands_over() || (changes && self.raft.conf_pending()))
    }

    /// Removes proposals that were seen before, because an entry must not be applied twice.
    fn drop_replays(&mut self, message: &mut Message, effects: &mut ConsensusEffects) {
        let Body::Propose { entries } = &mut message.body else {
            return;
        };
        let before = entries.len();
        entries.retain(|entry| self.replays.is_news(entry));
        if entries.len() < before {
            let (from, why) = (message.from, "a proposal came a second time");
            effects.complaints.push(Complaint::Refused { from, why });
        }
    }

    fn let_go(&mut self, now: Now, effects: &mut ConsensusEffects) {
        self.held_messages.retain(|(until, _)| *until > now);
        if self.held_messages.is_empty() || self.hands_over() {
            return;
        }
        if self.raft.status().leader == NOBODY {
            return;
        }
        for (until, message) in std::mem::take(&mut self.held_messages) {
            if self.is_to_wait(&message) {
                self.held_messages.push((until, message))
            } else {
                self.step(now, Input::Receive(message), effects)
            }
        }
    }

    /// Proposes changes of the members one at a time, as far as this member knows of them.
    fn configure(&mut self, now: Now, effects: &mut ConsensusEffects) {
        self.changes.forget(now);
        while self.changes.is_waiting() {
            let leader = self.raft.status().leader;
            let can_go = leader != NOBODY && leader != self.suspect && !self.hands_over();
            if !can_go || self.raft.conf_pending() {
                return;
            }
            let Some(proposal) = self.changes.next() else {
                return;
            };
            self.step(now, Input::Propose(vec![proposal]), effects);
        }
    }

    /// Only a leader knows the progress of others.
    fn progress(&self, id: u64) -> Reply {
        let status = self.raft.status();
        if status.role != RoleKind::Leader {
            return Err(Error::NotLeader);
        }
        let matched = if id == status.id {
            status.durable
        } else {
            let peers = self.raft.peers();
            let peer = peers.iter().find(|peer| peer.id == id);
            peer.ok_or(Error::MemberNotFound)?.matched
        };
        // The others may have committed what this member's disk lacks.
        let leader = status.durable.max(status.commit);
        Ok(Answer {
            outcome: Outcome::Progress { matched, leader },
            revision: 0,
        })
    }

    /// Asks for a read index. `slots` may be answered when that index is applied.
    fn read(
        &mut self,
        now: Now,
        began_at: Now,
        slots: Vec<ReplySlot>,
        effects: &mut ConsensusEffects,
    ) {
        let context = self.next_read;
        self.next_read += 1;
        self.reads.insert(
            context,
            Reading {
                slots,
                asked_at: now,
                began_at,
            },
        );
        self.step(now, Input::ReadIndex { context }, effects);
    }

    /// Feeds raft. Inputs of one turn share their effects where that is possible: one write to the
    /// disk, one append for each follower, one acknowledgement.
    fn step(&mut self, now: Now, input: Input, effects: &mut ConsensusEffects) {
        if self.raft.joins(&input) {
            self.raft.feed(now, input);
            self.is_fed = true;
            return;
        }
        self.step_with(now, input, Carried::Nothing, effects);
    }

    /// Steps raft with one input alone: effects of earlier inputs must not take `carried`.
    fn step_with(
        &mut self,
        now: Now,
        input: Input,
        carried: Carried,
        effects: &mut ConsensusEffects,
    ) {
        self.finish(now, effects);
        self.raft.step(now, input, &mut self.output);
        self.collect(carried, effects);
    }

    fn finish(&mut self, now: Now, effects: &mut ConsensusEffects) {
        if std::mem::take(&mut self.is_fed) {
            self.raft.finish(now, &mut self.output);
            self.collect(Carried::Nothing, effects);
        }
    }
}

#[cfg(test)]
mod tests;
