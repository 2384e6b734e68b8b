//! Actor 1: the member of the cluster. Owns [`Raft`] and remembers who waits for which entry.
//! Plain values in and out; the shell runs it on a thread of its own.

mod changes;
mod forwarded;
mod replays;
mod stall;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use raft::{
    Body, Complaint, EntryKind, Fetch, Input, Message, NOBODY, Now, Output, Position, Proposed,
    Raft, Refused, RoleChange, RoleKind,
};
use storage::mvcc::View;

use crate::error::Error;
use crate::event::{
    Applied, Committed, MemberEvent, Outcome, Proposal, RaftView, Reply, ReplySlot,
};
use crate::state::request::Request;
use crate::state::snapshot::Received;
use changes::Changes;
use forwarded::Forwarded;
use replays::Replays;
use stall::Stall;

/// Entries of a write that is not worth a thread of its own.
const LONE_ENTRIES: usize = 4;

pub struct Member {
    raft: Raft,
    /// Proposals in the log and not yet committed, by position.
    waiting: VecDeque<Waiting>,
    forwarded: Forwarded,
    /// What was committed, or came from another member for the log.
    replays: Replays,
    /// What the disk has had for long, while it is watched.
    stall: Stall,
    /// What came while nobody led, and when its clients stop waiting.
    held: VecDeque<(Now, Proposal)>,
    changes: Changes,
    /// Proposals of other members that came while leadership is being handed over, or while
    /// another change of the members is under way.
    /// They go when their clients have lost patience.
    held_messages: Vec<(Now, Message)>,
    /// A leader whose connection was closed by its end: what is sent to it now is lost for sure.
    suspect: u64,
    /// In an order of its own, so that equal inputs have equal outputs.
    reads: BTreeMap<u64, Reading>,
    next_read: u64,
    /// There is another leader: what was asked of the former one may be lost.
    has_new_leader: bool,
    /// Members to whom raft sent a snapshot that is not there any more.
    not_sent: Vec<u64>,
    output: Output,
    /// Raft was fed what it has not yet said the consequences of.
    is_fed: bool,
}

/// Clients' patience is 7 s with etcd's timeouts; nobody waits for what is older.
const PATIENCE: Duration = Duration::from_secs(8);
/// As many as wait for one stream to a peer.
const HELD_MESSAGES_MAX: usize = 4096;
/// A read that got lost on its way to the leader is asked again after this: etcd's.
const READ_RETRY: Duration = Duration::from_millis(500);

/// One question for a read index, shared by all who came with it.
struct Reading {
    slots: Vec<ReplySlot>,
    asked_at: Now,
    began_at: Now,
}

/// What came in one turn and enters raft together.
#[derive(Default)]
struct Gathered {
    proposals: Vec<Proposal>,
    reads: Vec<ReplySlot>,
}

/// A state that goes with an input: raft sees only what is said of it, and decides.
enum Carried {
    Nothing,
    /// Ready for the member `to`.
    Out {
        to: u64,
        view: View,
    },
    /// Came from the leader.
    In(Box<Received>),
}

/// What a turn asks of the world.
#[derive(Default)]
pub struct MemberEffects {
    /// For the log, in this order.
    pub writes: Vec<raft::Write>,
    /// For the apply actor, in this order.
    pub committed: Vec<Committed>,
    pub replies: Vec<(ReplySlot, Reply)>,
    pub role_change: Option<RoleChange>,
    /// For other members; they may get lost.
    pub messages: Vec<Message>,
    /// Reads that may be answered once this index is applied.
    pub reads: Vec<(u64, Vec<ReplySlot>)>,
    /// Members that need the state: answered with `SnapshotReady` or `SnapshotSent`.
    pub snapshots_wanted: Vec<u64>,
    /// For the log, in any order with `writes`; answered with `Fetched`.
    pub fetches: Vec<Fetch>,
    /// Messages that travel with a state; answered with `SnapshotSent`.
    pub transfers: Vec<(Message, View)>,
    /// For the apply actor, behind `committed`; answered with `SnapshotInstalled`.
    pub install: Option<Box<Received>>,
    /// States that came and are of no use.
    pub unwanted: Vec<Box<Received>>,
    /// What whoever runs the cluster has to hear of.
    pub complaints: Vec<Complaint>,
    pub stop: bool,
}

struct Waiting {
    position: Position,
    request: Request,
    reply: Option<ReplySlot>,
}

impl Member {
    /// `first_read` is unlike that of any other run.
    pub fn new(raft: Raft, first_read: u64) -> Member {
        Member {
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

    pub fn wake_at(&self) -> Option<Now> {
        let retry = self.reads.values().map(|read| read.asked_at + READ_RETRY);
        let stall = self.stall.due_at().filter(|_| self.leads_others());
        let due = [
            self.raft.wake_at(),
            retry.min(),
            self.forwarded.due_at(),
            stall,
        ];
        due.into_iter().flatten().min()
    }

    pub fn status(&self) -> raft::Status {
        self.raft.status()
    }

    /// Who votes and who learns, as far as they are applied.
    pub fn conf(&self) -> raft::ConfState {
        self.raft.conf()
    }

    /// Whether so little is to be written that a hand-over to the log's thread would take longer
    /// than it saves. With others in the cluster, never: their messages must not wait for a sync.
    pub fn is_lone(&self, write: &raft::Write) -> bool {
        (1..=LONE_ENTRIES).contains(&write.entries.len()) && {
            let conf = self.raft.conf();
            conf.voters.len() == 1 && conf.learners.is_empty()
        }
    }

    /// Takes all of `events`. Proposals that arrived together enter the log together.
    pub fn turn(&mut self, now: Now, events: &mut Vec<MemberEvent>, effects: &mut MemberEffects) {
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

    /// What clients and operators ask for; the rest is raft's.
    fn hear(
        &mut self,
        now: Now,
        event: MemberEvent,
        gathered: &mut Gathered,
        effects: &mut MemberEffects,
    ) {
        match event {
            MemberEvent::Propose(proposal) => gathered.proposals.push(proposal),
            MemberEvent::Read(slot) => gathered.reads.push(slot),
            MemberEvent::Configure { change, reply } => {
                if let Err(reply) = self.changes.push(now, change, reply) {
                    effects.replies.push((reply, Err(Error::TooManyRequests)));
                }
            }
            MemberEvent::Progress { id, reply } => {
                effects.replies.push((reply, self.progress(id)));
            }
            MemberEvent::Describe(reply) => effects.replies.push((reply, Ok(self.describe()))),
            MemberEvent::Stop => effects.stop = true,
            MemberEvent::Receive(message) => self.receive(now, message, effects),
            event => self.tell_raft(now, event, effects),
        }
    }

    fn tell_raft(&mut self, now: Now, event: MemberEvent, effects: &mut MemberEffects) {
        let input = match event {
            MemberEvent::Disconnected { peer } => {
                if peer == self.raft.status().leader {
                    self.suspect = peer;
                }
                Input::Disconnected { peer }
            }
            MemberEvent::Unreachable { peer } => Input::Unreachable { peer },
            MemberEvent::Transfer { to } => Input::Transfer { to },
            MemberEvent::SnapshotReady { to, snapshot, view } => {
                let input = Input::SnapshotReady { to, snapshot };
                return self.step_with(now, input, Carried::Out { to, view }, effects);
            }
            MemberEvent::SnapshotReceived { message, received } => {
                let input = Input::Receive(message);
                return self.step_with(now, input, Carried::In(received), effects);
            }
            MemberEvent::SnapshotSent { to, ok } => Input::SnapshotSent { to, ok },
            MemberEvent::SnapshotInstalled => {
                // It may be part of the snapshot, and then its entry is never seen here.
                self.forwarded.lose_all(effects);
                Input::SnapshotInstalled { ok: true }
            }
            MemberEvent::Fetched { fetch, found } => Input::Fetched { fetch, found },
            MemberEvent::Durable { ticket } => {
                self.stall.durable(ticket);
                Input::Durable { ticket }
            }
            MemberEvent::Applied { index } => Input::Applied { index },
            MemberEvent::ConfChanged { index, change } => Input::ConfChanged { index, change },
            other => unreachable!("{other:?} is not for raft"),
        };
        self.step(now, input, effects);
    }

    fn receive(&mut self, now: Now, mut message: Message, effects: &mut MemberEffects) {
        self.drop_replays(&mut message, effects);
        if message.from == self.suspect {
            self.suspect = NOBODY;
        }
        if let Body::Snapshot(_) = message.body {
            return; // Without the state it announces.
        }
        if self.is_to_wait(&message) {
            self.held_messages.push((now + PATIENCE, message));
            return;
        }
        self.step(now, Input::Receive(message), effects);
    }

    /// What is sent to a leader that seems gone would be lost; it waits for the next one.
    fn hold_or_propose(
        &mut self,
        now: Now,
        mut proposals: Vec<Proposal>,
        effects: &mut MemberEffects,
    ) {
        let leader = self.raft.status().leader;
        if leader != NOBODY && leader == self.suspect {
            let until = now + PATIENCE;
            let held = proposals.drain(..).map(|p| (until, p));
            self.held.extend(held);
        } else if !self.held.is_empty() && leader != NOBODY && !self.hands_over() {
            let held = std::mem::take(&mut self.held).into_iter();
            proposals.splice(0..0, held.map(|(_, proposal)| proposal));
        }
        if !proposals.is_empty() {
            self.propose(now, proposals, effects);
        }
    }

    fn describe(&self) -> Applied {
        let view = RaftView {
            status: self.raft.status(),
            peers: self.raft.peers(),
        };
        Applied {
            outcome: Outcome::Raft(Box::new(view)),
            revision: 0,
        }
    }

    fn leads_others(&self) -> bool {
        self.raft.status().role == RoleKind::Leader && self.raft.conf().voters.len() > 1
    }

    /// A leader whose disk stands still makes way for a member that has on disk what it has not.
    fn watch_disk(&mut self, now: Now, effects: &mut MemberEffects) {
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

    /// A proposal that raft would drop now and take, or pass on, in a moment.
    fn is_to_wait(&self, message: &Message) -> bool {
        let Body::Propose { entries } = &message.body else {
            return false;
        };
        let changes = entries.iter().any(|e| e.kind != EntryKind::Normal);
        self.held_messages.len() < HELD_MESSAGES_MAX
            && (self.hands_over() || (changes && self.raft.conf_pending()))
    }

    /// Proposals that were here before are not to be applied again.
    fn drop_replays(&mut self, message: &mut Message, effects: &mut MemberEffects) {
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

    fn let_go(&mut self, now: Now, effects: &mut MemberEffects) {
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

    /// Changes of the members go one at a time, as far as can be known here.
    fn configure(&mut self, now: Now, effects: &mut MemberEffects) {
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

    /// Only a leader knows.
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
        let leader = status.durable;
        Ok(Applied {
            outcome: Outcome::Progress { matched, leader },
            revision: 0,
        })
    }

    /// Asks for the index from which on `slots` may be answered.
    fn read(
        &mut self,
        now: Now,
        began_at: Now,
        slots: Vec<ReplySlot>,
        effects: &mut MemberEffects,
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

    /// Asks again for lost reads, and forgets what nobody waits for any more.
    fn give_up(&mut self, now: Now, effects: &mut MemberEffects) {
        let has_new_leader = std::mem::take(&mut self.has_new_leader);
        if has_new_leader {
            self.forwarded.leader_is(self.raft.status().leader, now);
        }
        self.forwarded.give_up(now, effects);
        while let Some((_, proposal)) = self.held.pop_front_if(|(until, _)| *until <= now) {
            let slot = proposal.reply.into_iter();
            effects
                .replies
                .extend(slot.map(|slot| (slot, Err(Error::NoLeader))));
        }
        let due = |read: &Reading| has_new_leader || read.asked_at + READ_RETRY <= now;
        if !self.reads.values().any(due) {
            return;
        }
        for (_, read) in self
            .reads
            .extract_if(.., |_, read| due(read))
            .collect::<Vec<_>>()
        {
            if read.began_at + PATIENCE > now {
                self.read(now, read.began_at, read.slots, effects);
            }
        }
    }

    fn propose(&mut self, now: Now, mut proposals: Vec<Proposal>, effects: &mut MemberEffects) {
        // A leader that was stopped finds leases expired that the next one has seen renewed.
        let status = self.raft.status();
        let leads = (status.role == RoleKind::Leader).then_some(status.term);
        proposals.retain(|proposal| proposal.term.is_none() || proposal.term == leads);
        if proposals.is_empty() {
            return;
        }
        let data = proposals
            .iter()
            .map(|p| raft::Proposal::normal(p.data.clone()))
            .collect();
        // What follows is looked at only when those who wait are known: an entry may be committed
        // in the very turn that appends it.
        self.is_fed = true;
        match self.raft.propose(data) {
            Proposed::Appended { first } => {
                self.forget_replaced(first, effects);
                for (offset, proposal) in proposals.into_iter().enumerate() {
                    let position = Position {
                        term: first.term,
                        index: first.index + offset as u64,
                    };
                    let Proposal { request, reply, .. } = proposal;
                    self.waiting.push_back(Waiting {
                        position,
                        request,
                        reply,
                    });
                }
            }
            Proposed::Refused(Refused::Busy) if self.raft.status().transferring_to == NOBODY => {
                let slots = proposals.into_iter().filter_map(|proposal| proposal.reply);
                let error = || Err(Error::TooManyRequests);
                effects.replies.extend(slots.map(|slot| (slot, error())));
            }
            // There will be a leader soon; clients wait for that as they do with etcd.
            Proposed::Refused(_) => {
                let until = now + PATIENCE;
                self.held.extend(proposals.into_iter().map(|p| (until, p)));
            }
            Proposed::Forwarded { leader } => {
                for Proposal {
                    request,
                    data,
                    reply,
                    ..
                } in proposals
                {
                    if let Some(id) = Request::id_of(&data) {
                        self.forwarded.push(now, leader, id, (request, reply));
                    }
                }
            }
        }
    }

    /// Whoever waits for a place at or after `first` waits for an entry of an earlier term that
    /// another leader has taken out of the log since.
    fn forget_replaced(&mut self, first: Position, effects: &mut MemberEffects) {
        let is_replaced = |waiting: &mut Waiting| waiting.position.index >= first.index;
        while let Some(waiting) = self.waiting.pop_back_if(is_replaced) {
            let slot = waiting.reply.into_iter();
            effects
                .replies
                .extend(slot.map(|slot| (slot, Err(Error::Timeout))));
        }
    }

    /// What can share its consequences with the rest of the turn does: one write for the disk, one
    /// append for each follower, one acknowledgement.
    fn step(&mut self, now: Now, input: Input, effects: &mut MemberEffects) {
        if self.raft.joins(&input) {
            self.raft.feed(now, input);
            self.is_fed = true;
            return;
        }
        self.step_with(now, input, Carried::Nothing, effects);
    }

    /// By itself: what was fed before is not to find the state that is carried along.
    fn step_with(&mut self, now: Now, input: Input, carried: Carried, effects: &mut MemberEffects) {
        self.finish(now, effects);
        self.raft.step(now, input, &mut self.output);
        self.collect(carried, effects);
    }

    fn finish(&mut self, now: Now, effects: &mut MemberEffects) {
        if std::mem::take(&mut self.is_fed) {
            self.raft.finish(now, &mut self.output);
            self.collect(Carried::Nothing, effects);
        }
    }

    fn collect(&mut self, carried: Carried, effects: &mut MemberEffects) {
        effects.writes.extend(self.output.write.take());
        if let Some(change) = self.output.role_change.take() {
            self.has_new_leader |= change.leader != NOBODY;
            effects.role_change = Some(change);
        }
        self.collect_snapshots(carried, effects);
        effects.fetches.append(&mut self.output.fetches);
        effects.complaints.append(&mut self.output.complaints);
        effects.messages.append(&mut self.output.messages);
        for read in self.output.reads.drain(..) {
            // Refused ones are asked again when their time comes.
            if let Ok(index) = read.outcome
                && let Some(reading) = self.reads.remove(&read.context)
            {
                effects.reads.push((index, reading.slots));
            }
        }
        for entry in std::mem::take(&mut self.output.committed) {
            self.replays.is_news(&entry);
            if entry.kind != EntryKind::Normal {
                // Those who wait for it do so by its id, wherever in the log it came to stand.
                let _ = take_waiting(&mut self.waiting, entry.position(), effects);
                effects.committed.push(Committed {
                    reply: self.changes.take(&entry),
                    request: None,
                    entry,
                });
                continue;
            }
            let (request, reply) = match take_waiting(&mut self.waiting, entry.position(), effects)
            {
                Some(waiting) => (Some(waiting.request), waiting.reply),
                None => match self.forwarded.take(&entry) {
                    Some((request, reply)) => (Some(request), reply),
                    None => (None, None),
                },
            };
            effects.committed.push(Committed {
                entry,
                request,
                reply,
            });
        }
    }
}

impl Member {
    /// A view that is not wanted any more is dropped here: it would keep pages from being used again.
    fn collect_snapshots(&mut self, carried: Carried, effects: &mut MemberEffects) {
        effects
            .snapshots_wanted
            .append(&mut self.output.snapshots_wanted);
        let (mut ready, came) = match carried {
            Carried::Nothing => (None, None),
            Carried::Out { to, view } => (Some((to, view)), None),
            Carried::In(received) => (None, Some(received)),
        };
        if self.output.install.take().is_some() {
            effects.install = came;
        } else {
            effects.unwanted.extend(came);
        }
        let is_snapshot = |message: &mut Message| matches!(message.body, Body::Snapshot(_));
        for message in self.output.messages.extract_if(.., is_snapshot) {
            match ready.take_if(|(to, _)| *to == message.to) {
                Some((_, view)) => effects.transfers.push((message, view)),
                // It had to wait for the disk first.
                None => self.not_sent.push(message.to),
            }
        }
    }
}

/// Who waits for the entry at `position`. Those who wait for an earlier place, or for this place
/// in another term, lost it to a new leader: they are told.
fn take_waiting(
    waiting: &mut VecDeque<Waiting>,
    position: Position,
    effects: &mut MemberEffects,
) -> Option<Waiting> {
    while waiting
        .front()
        .is_some_and(|front| front.position.index <= position.index)
    {
        let front = waiting.pop_front()?;
        if front.position == position {
            return Some(front);
        }
        if let Some(slot) = front.reply {
            effects.replies.push((slot, Err(Error::Timeout)));
        }
    }
    None
}

#[cfg(test)]
mod tests;
