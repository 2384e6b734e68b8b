//! Linearizable reads without the log (thesis §6.4). The leader notes its commit index. Once a
//! majority has answered a heartbeat sent *after* the read came, no newer leader can have committed
//! anything before the read. All reads waiting at one moment share one such round. No lease is
//! used, so a paused or drifting clock cannot make an answer stale.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::message::{Index, NodeId};

/// Rounds in flight at once; further reads wait for one of them to end and share the next.
const ROUNDS_MAX: u64 = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// Our own caller.
    Local(u64),
    /// A follower, with the bytes to return to it.
    Remote(NodeId, Bytes),
}

#[derive(Debug)]
pub(crate) struct Reads {
    /// Not in a round yet.
    waiting: Vec<Asker>,
    /// In a round, oldest first: (round, commit index when it began, asker).
    asked: VecDeque<(u64, Index, Asker)>,
    started: u64,
    confirmed: u64,
}

impl Reads {
    /// Rounds are numbered from `started + 1`.
    pub(crate) fn new(started: u64) -> Reads {
        Reads {
            waiting: Vec::new(),
            asked: VecDeque::new(),
            started,
            confirmed: started,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len() + self.asked.len()
    }

    pub(crate) fn push(&mut self, asker: Asker) {
        self.waiting.push(asker);
    }

    /// Begins a round for all waiting reads, if there are any and not too many rounds are in
    /// flight. Returns whether a heartbeat must be sent.
    pub(crate) fn start(&mut self, commit: Index) -> bool {
        if self.waiting.is_empty() || self.started - self.confirmed >= ROUNDS_MAX {
            return false;
        }
        self.started += 1;
        let round = self.started;
        let starting = self.waiting.drain(..).map(|asker| (round, commit, asker));
        self.asked.extend(starting);
        true
    }

    pub(crate) fn started(&self) -> u64 {
        self.started
    }

    /// What a heartbeat carries: the newest round while a read is open, otherwise nothing.
    pub(crate) fn context(&self) -> Bytes {
        if self.asked.is_empty() {
            return Bytes::new();
        }
        Bytes::copy_from_slice(&self.started.to_le_bytes())
    }

    /// The round that a heartbeat's answer names; 0 if it names none or one never begun here.
    pub(crate) fn round_of(&self, context: &Bytes) -> u64 {
        let Ok(bytes) = <[u8; 8]>::try_from(context.as_ref()) else {
            return 0;
        };
        let round = u64::from_le_bytes(bytes);
        if round > self.started { 0 } else { round }
    }

    /// A majority answered `round`, which confirms all earlier ones, too.
    pub(crate) fn confirm(&mut self, round: u64, mut answer: impl FnMut(Asker, Index)) {
        self.confirmed = self.confirmed.max(round.min(self.started));
        while self
            .asked
            .front()
            .is_some_and(|(asked, ..)| *asked <= round)
        {
            if let Some((_, index, asker)) = self.asked.pop_front() {
                answer(asker, index);
            }
        }
    }

    /// All reads still open, when leadership ends.
    pub(crate) fn abandon(self) -> impl Iterator<Item = Asker> {
        let asked = self.asked.into_iter().map(|(_, _, asker)| asker);
        asked.chain(self.waiting)
    }
}
