//! Proposals sent on to the leader, by request id, until their entries are committed. Knows nothing
//! of what they ask for.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use raft::{NOBODY, NodeId, Now};

use super::{ConsensusEffects, PATIENCE};
use crate::error::Error;
use crate::event::ReplySlot;
use crate::request::Request;

/// What the former leader had of a proposal is committed by the next one within this time, or never
/// as far as anybody can tell: whoever waits is told that the outcome is unknown, as after a
/// timeout, and need not wait the timeout out.
const LOST_AFTER: Duration = Duration::from_millis(100);

type Waiter = (Request, Option<ReplySlot>);

#[derive(Default)]
pub(super) struct Forwarded {
    waiting: HashMap<u64, Waiter>,
    /// When they may be forgotten, in that order; some were answered before.
    until: VecDeque<(Now, u64)>,
    /// Whom the newest was sent to.
    leader: NodeId,
}

impl Forwarded {
    pub(super) fn push(&mut self, now: Now, leader: NodeId, id: u64, waiter: Waiter) {
        self.leader_is(leader, now);
        self.waiting.insert(id, waiter);
        self.until.push_back((now + PATIENCE, id));
    }

    /// Does this entry answer one who waits here?
    pub(super) fn take(&mut self, entry: &raft::Entry) -> Option<Waiter> {
        if self.waiting.is_empty() {
            return None;
        }
        self.waiting.remove(&Request::id_of(&entry.data)?)
    }

    /// Who leads now. What was sent to another may have been lost with it.
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

    pub(super) fn give_up(&mut self, now: Now, effects: &mut ConsensusEffects) {
        while let Some((until, id)) = self.until.front().copied() {
            // What was answered goes before its time: nobody is to be woken for it.
            if until > now && self.waiting.contains_key(&id) {
                return;
            }
            self.until.pop_front();
            tell(self.waiting.remove(&id), effects);
        }
    }

    /// The state of another member takes the place of the entries that would have answered.
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
