//! The leader of a term: appends, replicates, tracks what is durable on each member, commits,
//! confirms reads, hands over leadership. All appends leave through `flush`, once per step.

mod feed;
mod flush;

use std::collections::BTreeMap;

use crate::io::{Complaint, Now, PeerStatus, Proposal, Proposed, Read, Refused, Waiting};
use crate::membership::quorum;
use crate::message::{
    Body, ConfChange, ConfChangeKind, EntryKind, Index, Message, NOBODY, NodeId, Position, Snapshot,
};
use crate::role::next::Next;
use crate::role::progress::{Flow, Progress, Refusal};
use crate::role::read::{Asker, Reads};
use crate::state::State;

#[derive(Debug)]
pub(crate) struct Leader {
    /// All other members, voters and learners.
    peers: BTreeMap<NodeId, Progress>,
    heartbeat_at: Now,
    /// When the next quorum check is due.
    check_at: Now,
    pub(crate) transfer: Option<Transfer>,
    reads: Reads,
    /// Index of the newest conf change that may be unapplied: one at a time (thesis §4.1).
    pending_conf: Index,
    uncommitted_bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) to: NodeId,
    until: Now,
    asked: bool,
}

impl Leader {
    /// `state` is already in the term just won.
    pub(crate) fn new(state: &mut State, now: Now) -> Leader {
        let last = state.log.last().index;
        let id = state.config.id;
        let mut leader = Leader {
            peers: state
                .members
                .others(id)
                .map(|peer| (peer, Progress::new(last + 1)))
                .collect(),
            heartbeat_at: now,
            check_at: now + state.config.election_timeout,
            transfer: None,
            reads: Reads::new(state.rounds),
            pending_conf: last,
            uncommitted_bytes: state.log.bytes_between(state.log.commit(), last),
        };
        // An entry of this term, so that entries of earlier terms can be committed (§5.4.2, §8). A
        // membership change waits for it, too: until it is committed, a change that an earlier
        // leader began elsewhere may still be committed.
        let first = leader.push(state, EntryKind::Normal, bytes::Bytes::new());
        leader.pending_conf = first.index;
        leader
    }

    fn push(&mut self, state: &mut State, kind: EntryKind, data: bytes::Bytes) -> Position {
        let position = state.log.push(state.term, kind, data);
        self.uncommitted_bytes += state.log.bytes_between(position.index - 1, position.index);
        position
    }

    pub(crate) fn propose(&mut self, state: &mut State, proposals: Vec<Proposal>) -> Proposed {
        let bytes: usize = proposals.iter().map(|p| p.data.len()).sum();
        let over = self.uncommitted_bytes + bytes > state.config.limits.uncommitted_bytes;
        let limits = &state.config.limits;
        let behind = state.log.unapplied_bytes() > limits.unapplied_bytes
            || state.log.unsaved_bytes() > limits.unsaved_bytes;
        let is_full = behind || (over && self.uncommitted_bytes > 0);
        if self.transfer.is_some() || is_full || proposals.is_empty() {
            return Proposed::Refused(Refused::Busy);
        }
        let mut first = None;
        for Proposal { kind, data } in proposals {
            let position = match kind {
                EntryKind::Normal => self.push(state, kind, data),
                EntryKind::ConfChange if !self.conf_pending(state) => {
                    let position = self.push(state, kind, data);
                    self.pending_conf = position.index;
                    position
                }
                // A second change while one is in flight, or a joint change, which etcd members do
                // not survive: an empty entry takes its index.
                _ => self.push(state, EntryKind::Normal, bytes::Bytes::new()),
            };
            first.get_or_insert(position);
        }
        first.map_or(Proposed::Refused(Refused::Busy), |first| {
            Proposed::Appended { first }
        })
    }

    /// True if a membership change would be refused now, because one may be in flight.
    pub(crate) fn conf_pending(&self, state: &State) -> bool {
        self.pending_conf > state.conf_applied_through()
    }

    pub(crate) fn read(&mut self, state: &State, asker: Asker) -> Result<(), Refused> {
        if self.reads.len() >= state.config.limits.pending_reads {
            return Err(Refused::Busy);
        }
        self.reads.push(asker);
        Ok(())
    }

    /// `message` is of our term, or names no term.
    pub(crate) fn receive(&mut self, state: &mut State, now: Now, message: Message) -> Next {
        let from = message.from;
        if let Some(peer) = self.peers.get_mut(&from) {
            peer.active = true;
        }
        match message.body {
            Body::AppendReply { index, rejected } => {
                self.append_reply(state, from, index, rejected)
            }
            Body::HeartbeatReply { context } => {
                let round = self.reads.round_of(&context);
                if let Some(peer) = self.peers.get_mut(&from) {
                    peer.round = peer.round.max(round);
                    match &mut peer.flow {
                        Flow::Probe { paused } => *paused = false,
                        _ => peer.poke = peer.matched < state.log.last().index,
                    }
                }
            }
            Body::Propose { entries } => {
                let proposals = entries.into_iter().map(|entry| Proposal {
                    kind: entry.kind,
                    data: entry.data,
                });
                self.propose(state, proposals.collect());
            }
            Body::ReadIndex { context } if from != NOBODY => {
                // A refused read counts as lost: the follower's client asks again.
                let _ = self.read(state, Asker::Remote(from, context));
            }
            Body::TransferLeader => self.transfer_to(state, now, from),
            _ => {}
        }
        Next::Stay
    }

    fn append_reply(
        &mut self,
        state: &mut State,
        from: NodeId,
        index: Index,
        rejected: Option<Position>,
    ) {
        let Some(peer) = self.peers.get_mut(&from) else {
            return;
        };
        if index > state.log.last().index {
            return; // not an answer to anything we sent
        }
        match rejected {
            None => peer.acknowledged(index, state.log.base().index),
            Some(hint) => {
                let hint = match hint.term {
                    0 => hint.index,
                    term => state.log.newest_possible_match(hint.index, term).index,
                };
                if peer.refused(index, hint) == Refusal::LostLog {
                    state.complain(Complaint::PeerLostLog {
                        peer: from,
                        acknowledged: peer.matched,
                    });
                }
            }
        }
    }

    pub(crate) fn transfer_to(&mut self, state: &State, now: Now, to: NodeId) {
        let known = self
            .transfer
            .as_ref()
            .is_some_and(|transfer| transfer.to == to);
        if known || !state.members.is_voter(to) {
            return;
        }
        self.transfer = (to != state.config.id).then(|| Transfer {
            to,
            until: now + state.config.election_timeout,
            asked: false,
        });
    }

    /// A leader that is no voter any more, by a committed change, hands over (§6). The other
    /// members may not know of that change yet: they get a new leader while they can still count
    /// us.
    pub(crate) fn leave(&mut self, state: &State, now: Now) {
        if state.members.is_voter(state.config.id) || self.transfer.is_some() {
            return;
        }
        let heirs = state.members.voters().iter();
        let heirs = heirs.filter_map(|id| Some((id, self.peers.get(id)?)));
        if let Some((id, _)) = heirs.max_by_key(|(_, peer)| (peer.active, peer.matched)) {
            self.transfer_to(state, now, *id);
        }
    }

    pub(crate) fn tick(&mut self, state: &mut State, now: Now) -> Next {
        if now >= self.check_at {
            self.check_at = now + state.config.election_timeout;
            let hears_quorum = self.hears_quorum(state);
            if state.config.check_quorum && !hears_quorum {
                return Next::follow(state.term);
            }
        }
        if self
            .transfer
            .as_ref()
            .is_some_and(|transfer| now >= transfer.until)
        {
            self.transfer = None;
        }
        self.leave(state, now);
        if now >= self.heartbeat_at {
            self.heartbeat(state, now);
        }
        Next::Stay
    }

    /// True if a majority was heard since the last call.
    fn hears_quorum(&mut self, state: &State) -> bool {
        let voters = state.members.voters();
        let heard = voters.iter().filter(|id| {
            **id == state.config.id || self.peers.get(id).is_some_and(|peer| peer.active)
        });
        let heard = heard.count();
        for peer in self.peers.values_mut() {
            peer.was_active = std::mem::take(&mut peer.active);
        }
        heard >= quorum::majority(voters.len())
    }

    fn heartbeat(&mut self, state: &mut State, now: Now) {
        self.heartbeat_at = now + state.config.heartbeat;
        for (to, peer) in &self.peers {
            let body = Body::Heartbeat {
                // Not beyond what it holds: its log after that may be another leader's.
                commit: peer.matched.min(state.log.commit()),
                context: self.reads.context(),
            };
            state.send(*to, body);
        }
    }

    /// Sends a heartbeat at once to a member that suspects us.
    pub(crate) fn reassure(&self, state: &mut State, to: NodeId) {
        if state.suspicion().is_some()
            && let Some(peer) = self.peers.get(&to)
        {
            let body = Body::Heartbeat {
                commit: peer.matched.min(state.log.commit()),
                context: self.reads.context(),
            };
            state.send(to, body);
        }
    }

    pub(crate) fn unreachable(&mut self, peer: NodeId) {
        if let Some(peer) = self.peers.get_mut(&peer)
            && peer.flow == Flow::Replicate
        {
            peer.probe();
        }
    }

    pub(crate) fn snapshot_ready(&mut self, state: &mut State, to: NodeId, snapshot: Snapshot) {
        if let Some(peer) = self.peers.get_mut(&to)
            && let Flow::Snapshot { holds, sent: false } = peer.flow
            && snapshot.position.index >= holds
        {
            peer.flow = Flow::Snapshot {
                holds: snapshot.position.index,
                sent: true,
            };
            state.send(to, Body::Snapshot(snapshot));
        }
    }

    pub(crate) fn snapshot_sent(&mut self, to: NodeId, ok: bool) {
        if let Some(peer) = self.peers.get_mut(&to)
            && let Flow::Snapshot { sent, .. } = &mut peer.flow
        {
            *sent &= ok;
            peer.probe();
            // Its next answer, or that to a heartbeat, decides how to continue.
            peer.flow = Flow::Probe { paused: true };
        }
    }

    /// The members changed. A new member starts at the end of our log; a removed one is forgotten.
    pub(crate) fn reconfigured(&mut self, state: &State, change: &ConfChange) {
        let next = state.log.last().index + 1;
        let node = change.node;
        if state.members.contains(node) && node != state.config.id {
            self.peers.entry(node).or_insert_with(|| {
                let mut peer = Progress::new(next);
                peer.active = true; // a new member gets a full timeout to answer
                peer
            });
        } else {
            self.peers.remove(&node);
        }
        let lost = |transfer: &Transfer| !state.members.is_voter(transfer.to);
        if change.kind != ConfChangeKind::UpdateNode && self.transfer.as_ref().is_some_and(lost) {
            self.transfer = None;
        }
    }

    /// Followers need the entries after the returned index; `None` if no follower needs any.
    pub(crate) fn needed_after(&self, state: &State) -> Option<Index> {
        let base = state.log.base().index;
        let needs = self.peers.values().map(|peer| peer.needs_after(base));
        needs.flatten().min()
    }

    /// Followers that are being fed need the entries after the returned index.
    pub(crate) fn feeding_after(&self) -> Option<Index> {
        self.peers.values().filter_map(Progress::fed_after).min()
    }

    /// Refuses our caller's open reads when leadership ends. Reads of followers get no answer.
    pub(crate) fn resign(self, state: &mut State) {
        for asker in self.reads.abandon() {
            if let Asker::Local(context) = asker {
                state.answer_read(Read {
                    context,
                    outcome: Err(Refused::NotLeader {
                        leader: state.leader,
                    }),
                });
            }
        }
    }

    pub(crate) fn wake_at(&self) -> Now {
        let timers = self.heartbeat_at.min(self.check_at);
        self.transfer
            .as_ref()
            .map_or(timers, |transfer| timers.min(transfer.until))
    }

    pub(crate) fn waiting(&self, state: &State) -> Waiting {
        Waiting {
            uncommitted: self.uncommitted_bytes,
            unapplied: state.log.unapplied_bytes(),
            unsaved: state.log.unsaved_bytes(),
            in_flight: self.peers.values().map(|peer| peer.inflight.bytes()).sum(),
        }
    }

    pub(crate) fn peers(&self, state: &State) -> Vec<PeerStatus> {
        let status = |(id, peer): (&NodeId, &Progress)| PeerStatus {
            id: *id,
            matched: peer.matched,
            next: peer.next,
            learner: state.members.is_learner(*id),
            active: peer.active,
            snapshot: matches!(peer.flow, Flow::Snapshot { .. }),
        };
        self.peers.iter().map(status).collect()
    }
}
