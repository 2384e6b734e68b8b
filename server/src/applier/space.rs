//! When the store gives space back to the file system: after a compaction has freed much that the
//! store has had no use for in a while, or when someone asks. A plain state machine; the store does
//! the work, in steps between entries.

use raft::Now;
use storage::mvcc::{Stats, Store};

use crate::event::ReplySlot;

/// Surplus that is left alone: one part in so many of the file, and so much anyway.
const KEPT_PART: u64 = 6;
const KEPT_BYTES: u64 = 4 << 20;
/// Surplus that is left even when someone asks.
const KEPT_ON_REQUEST_BYTES: u64 = 1 << 20;
/// Space that was in use so short a time ago will be again: a store under a steady load of
/// overwrites and compactions would else move its pages about for nothing. Also the time between two
/// looks, and between two passes nobody asked for.
const LOOK_BACK: Now = Now::from_secs(15);
/// Looks after something was freed: by the last one, no use before that is remembered.
const LOOKS: u8 = 4;
/// Checkpoints until what a checkpoint gave up is free: it itself and the two that no longer know
/// of it; and until the file is cut: one more, for the older meta page counts on its length.
const SETTLING_CHECKPOINTS: u8 = 4;

#[derive(Debug, Default)]
pub(super) struct Space {
    state: State,
    /// How often it is still to be seen whether what was freed stays unused.
    looks: u8,
    rest_until: Now,
    peak: Peak,
    /// Who asked for the space, to be told when it is back.
    asking: Vec<ReplySlot>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Resting,
    /// With a checkpoint what was freed is in use no more; then it is seen whether that lasts.
    Looking,
    /// It becomes free with so many more checkpoints; then it is seen what it is worth.
    Gathering(u8),
    Moving,
    /// The old places of what was moved become free.
    Settling(u8),
}

/// What a step asks for.
#[derive(Debug, Default)]
pub(super) struct Wish {
    pub(super) checkpoint: bool,
    pub(super) answered: Vec<ReplySlot>,
}

impl Space {
    pub(super) fn ask(&mut self, slot: ReplySlot) {
        self.asking.push(slot);
    }

    pub(super) fn is_asked(&self) -> bool {
        !self.asking.is_empty()
    }

    /// A compaction has removed something.
    pub(super) fn freed(&mut self) {
        self.looks = LOOKS;
    }

    /// Only while no checkpoint runs.
    pub(super) fn note(&mut self, now: Now, stats: &Stats) {
        self.peak
            .note(now, stats.file_bytes.saturating_sub(stats.vacant_bytes));
    }

    /// When there is a step to take, unless a checkpoint runs.
    pub(super) fn wake_at(&self, now: Now) -> Option<Now> {
        match self.state {
            State::Resting if !self.asking.is_empty() => Some(now),
            State::Resting if self.looks > 0 => Some(self.rest_until.max(now)),
            State::Resting => None,
            _ => Some(now),
        }
    }

    /// One step; only while no checkpoint runs. `urgent`: the file system needs the space.
    pub(super) fn step(
        &mut self,
        now: Now,
        urgent: bool,
        store: &mut Store,
    ) -> storage::Result<Wish> {
        let mut wish = Wish::default();
        match self.state {
            State::Resting => {
                if !self.asking.is_empty() || (self.looks > 0 && now >= self.rest_until) {
                    wish.checkpoint = true;
                    self.state = State::Looking;
                }
            }
            State::Looking => {
                let file = store.stats().file_bytes;
                let unused = file.saturating_sub(self.peak.bytes());
                let lasts = !self.asking.is_empty() || urgent || unused > self.kept(file);
                self.state = if lasts {
                    self.looks = 0;
                    State::Gathering(SETTLING_CHECKPOINTS - 2)
                } else {
                    self.looks = self.looks.saturating_sub(1);
                    self.rest_until = now + LOOK_BACK;
                    State::Resting
                };
            }
            State::Gathering(0) => {
                let kept = self.kept(store.stats().file_bytes);
                let worth_it = store.surplus_bytes().is_some_and(|surplus| surplus > kept);
                self.state = if worth_it {
                    State::Moving
                } else {
                    self.end(now, &mut wish)
                };
            }
            State::Moving => {
                if store.relocate_step()? {
                    self.state = State::Settling(SETTLING_CHECKPOINTS);
                }
            }
            State::Settling(0) => self.state = self.end(now, &mut wish),
            State::Gathering(left) => {
                wish.checkpoint = true;
                self.state = State::Gathering(left - 1);
            }
            State::Settling(left) => {
                wish.checkpoint = true;
                self.state = State::Settling(left - 1);
            }
        }
        if wish.checkpoint {
            store.settle_space();
        }
        Ok(wish)
    }

    fn kept(&self, file_bytes: u64) -> u64 {
        if self.asking.is_empty() {
            (file_bytes / KEPT_PART).max(KEPT_BYTES)
        } else {
            KEPT_ON_REQUEST_BYTES
        }
    }

    fn end(&mut self, now: Now, wish: &mut Wish) -> State {
        wish.answered = std::mem::take(&mut self.asking);
        self.rest_until = now + LOOK_BACK;
        State::Resting
    }
}

/// The most that was in use at one time, in the last [`LOOK_BACK`] or up to twice that.
#[derive(Debug, Default)]
struct Peak {
    latest: u64,
    before: u64,
    turns_at: Now,
}

impl Peak {
    fn note(&mut self, now: Now, bytes: u64) {
        if now >= self.turns_at {
            let recent = now < self.turns_at + LOOK_BACK;
            self.before = if recent { self.latest } else { 0 };
            self.latest = 0;
            self.turns_at = now + LOOK_BACK;
        }
        self.latest = self.latest.max(bytes);
    }

    fn bytes(&self) -> u64 {
        self.latest.max(self.before)
    }
}

#[cfg(test)]
mod tests;
