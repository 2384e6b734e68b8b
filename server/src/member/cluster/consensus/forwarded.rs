//! Proposals forwarded to the leader, by request id, until their entries are committed. Knows
//! nothing of what they ask for.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use raft::{NOBODY, NodeId, Now};

use super::ConsensusEffects;
use crate::basics::error::Error;
use crate::member::event::ReplySlot;
use crate::request::Request;

/// Time after a change of leader in which the new one commits what the old one had of a proposal.
/// After that the outcome is unknown: the client gets the error of a timeout, without waiting for
/// the full timeout.
const LOST_AFTER: Duration = Duration::from_millis(100);

type Waiter = (Request, Option<ReplySlot>);

#[derive(Default)]
pub(super) struct Forwarded {
    waiting: HashMap<u64, Waiter>,
    /// Ids with the time when they may be dropped, earliest first. Some are answered already.
    until: VecDeque<(Now, u64)>,
    /// The leader that got the newest proposal.
    leader: NodeId,
}

impl Forwarded {
    /// The leader that [`Self::leader_is`] named got it. `until`: when its client has left.
    pub(super) fn push(&mut self, until: Now, id: u64, waiter: Waiter) {
        self.waiting.insert(id, waiter);
        self.until.push_back((until, id));
    }

    /// Takes the client that waits for this entry.
    pub(super) fn take(&mut self, entry: &raft::Entry) -> Option<Waiter> {
        if self.waiting.is_empty() {
            return None;
        }
        self.waiting.remove(&Request::id_of(&entry.data)?)
    }

    /// Notes who leads. Proposals that another leader got may be lost with it.
    pub(super) fn leader_is(&mut self, leader: NodeId, now: Now) {
        if leader == NOBODY || leader == self.leader {
            return;
        }
        self.leader = leader;
        let lost_at = now + LOST_AFTER;
        for (until, _) in &mut self.until {
            *until = lost_at.min(*until);
        }
    }

    pub(super) fn due_at(&self) -> Option<Now> {
        self.until.front().map(|(until, _)| *until)
    }

    /// Fails the clients whose time is over.
    pub(super) fn give_up(&mut self, now: Now, effects: &mut ConsensusEffects) {
        while let Some((until, id)) = self.until.front().copied() {
            // Answered proposals are dropped early, so that no turn is needed for them.
            if until > now && self.waiting.contains_key(&id) {
                return;
            }
            self.until.pop_front();
            tell(self.waiting.remove(&id), effects);
        }
    }

    /// Fails all clients: another member's state replaces the entries they wait for.
    pub(super) fn lose_all(&mut self, effects: &mut ConsensusEffects) {
        self.until.clear();
        tell(self.waiting.drain().map(|(_, waiter)| waiter), effects);
    }
}

fn tell(waiters: impl IntoIterator<Item = Waiter>, effects: &mut ConsensusEffects) {
    let slots = waiters.into_iter().filter_map(|(_, slot)| slot);
    let told = slots.map(|slot| (slot, Err(Error::Timeout)));
    effects.replies.extend(told);
}
