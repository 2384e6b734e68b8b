//! When the store gives space back to the file system: after a compaction has freed much, or when
//! someone asks. A plain state machine; the store does the work, in steps between entries.

use raft::Now;
use storage::mvcc::Store;

use crate::event::ReplySlot;

/// Surplus that is left alone: one part in so many of the file, and so much anyway.
const KEPT_PART: u64 = 6;
const KEPT_BYTES: u64 = 4 << 20;
/// Surplus that is left even when someone asks.
const KEPT_ON_REQUEST_BYTES: u64 = 1 << 20;
/// Time between two passes nobody asked for, so that what a busy store frees is reused rather than
/// moved about.
const REST: Now = Now::from_secs(20);
/// Checkpoints until what a checkpoint gave up is free: it itself and the two that no longer know
/// of it; and until the file is cut: one more, for the older meta page counts on its length.
const SETTLING_CHECKPOINTS: u8 = 4;

#[derive(Debug, Default)]
pub(super) struct Space {
    state: State,
    /// Something was freed since the last pass.
    due: bool,
    rest_until: Now,
    /// Who asked for the space, to be told when it is back.
    asking: Vec<ReplySlot>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Resting,
    /// What was freed becomes free with so many more checkpoints; then it is seen what it is worth.
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

    /// A compaction has removed something.
    pub(super) fn freed(&mut self) {
        self.due = true;
    }

    /// When there is a step to take, unless a checkpoint runs.
    pub(super) fn wake_at(&self, now: Now) -> Option<Now> {
        match self.state {
            State::Resting if !self.asking.is_empty() => Some(now),
            State::Resting if self.due => Some(self.rest_until.max(now)),
            State::Resting => None,
            _ => Some(now),
        }
    }

    /// One step; only while no checkpoint runs.
    pub(super) fn step(&mut self, now: Now, store: &mut Store) -> storage::Result<Wish> {
        let mut wish = Wish::default();
        match self.state {
            State::Resting => {
                if !self.asking.is_empty() || (self.due && now >= self.rest_until) {
                    self.due = false;
                    self.state = State::Gathering(SETTLING_CHECKPOINTS - 1);
                }
            }
            State::Gathering(0) => {
                let file = store.stats().file_bytes;
                let kept = match self.asking.is_empty() {
                    true => (file / KEPT_PART).max(KEPT_BYTES),
                    false => KEPT_ON_REQUEST_BYTES,
                };
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

    fn end(&mut self, now: Now, wish: &mut Wish) -> State {
        wish.answered = std::mem::take(&mut self.asking);
        self.rest_until = now + REST;
        State::Resting
    }
}
