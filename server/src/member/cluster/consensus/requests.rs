//! Requests of clients on their way into the log, and those that wait for their entry.

use std::collections::VecDeque;
use std::time::Duration;

use raft::{NOBODY, Now, Position, Proposed, Refused, RoleKind};

use super::{Consensus, ConsensusEffects, READ_RETRY, Reading};
use crate::basics::error::Error;
use crate::member::event::{Proposal, ReplySlot};
use crate::request::Request;

impl Consensus {
    /// Proposes, or holds proposals while the leader seems gone: it would never get them.
    pub(super) fn hold_or_propose(
        &mut self,
        now: Now,
        mut proposals: Vec<Proposal>,
        effects: &mut ConsensusEffects,
    ) {
        let leader = self.raft.status().leader;
        if leader != NOBODY && leader == self.suspect {
            let until = now + self.patience;
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

    fn propose(&mut self, now: Now, mut proposals: Vec<Proposal>, effects: &mut ConsensusEffects) {
        // A paused former leader may see leases expire that the next leader has renewed.
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
        // The effects are collected only after the clients are noted: the turn that appends an
        // entry may also commit it.
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
                        until: now + self.patience,
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
            // A leader is expected soon. Clients wait for it, as with etcd.
            Proposed::Refused(_) => {
                let until = now + self.patience;
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
                        let until = now + self.patience;
                        self.forwarded.leader_is(leader, now);
                        self.forwarded.push(until, id, (request, reply));
                    }
                }
            }
        }
    }

    /// Fails the clients whose positions are at or after `first`: another leader has removed those
    /// entries of earlier terms from the log.
    fn forget_replaced(&mut self, first: Position, effects: &mut ConsensusEffects) {
        let is_replaced = |waiting: &mut Waiting| waiting.position.index >= first.index;
        while let Some(waiting) = self.waiting.pop_back_if(is_replaced) {
            let slot = waiting.reply.into_iter();
            effects
                .replies
                .extend(slot.map(|slot| (slot, Err(Error::Timeout))));
        }
    }

    /// Repeats reads that got lost, and drops requests whose clients have given up.
    pub(super) fn give_up(&mut self, now: Now, effects: &mut ConsensusEffects) {
        let has_new_leader = std::mem::take(&mut self.has_new_leader);
        if has_new_leader {
            self.forwarded.leader_is(self.raft.status().leader, now);
        }
        self.forwarded.give_up(now, effects);
        self.give_up_former(now, effects);
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
            if read.began_at + self.patience > now {
                self.read(now, read.began_at, read.slots, effects);
            }
        }
    }

    /// Fails clients of a former leader. Its entries may be gone without a trace: another member's
    /// state, or a shorter log, may be in their place, and nothing committed after that.
    fn give_up_former(&mut self, now: Now, effects: &mut ConsensusEffects) {
        if self.raft.status().role == RoleKind::Leader {
            return;
        }
        while let Some(waiting) = self.waiting.pop_front_if(|waiting| waiting.until <= now) {
            let slot = waiting.reply.into_iter();
            effects
                .replies
                .extend(slot.map(|slot| (slot, Err(Error::Timeout))));
        }
    }
}

pub(super) struct Waiting {
    pub(super) position: Position,
    /// When its client has left.
    pub(super) until: Now,
    pub(super) request: Request,
    pub(super) reply: Option<ReplySlot>,
}

/// Returns the client of the entry at `position`. Clients that wait for an earlier position, or for
/// this one in another term, lost their entry to a new leader and get an error.
pub(super) fn take_waiting(
    waiting: &mut VecDeque<Waiting>,
    position: Position,
    effects: &mut ConsensusEffects,
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

/// Older requests have no client left. Clients wait for 5 s and two election timeouts, as in etcd.
pub(super) fn patience(election_timeout: Duration) -> Duration {
    PATIENCE_MIN.max(CLIENTS_AT_LEAST + 2 * election_timeout)
}

/// With etcd's timeouts clients wait for 7 s.
const PATIENCE_MIN: Duration = Duration::from_secs(8);
const CLIENTS_AT_LEAST: Duration = Duration::from_secs(6);
