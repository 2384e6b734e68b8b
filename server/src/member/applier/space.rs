//! When the store returns space to the file system: after a compaction has freed much space that
//! then stays unused, or on request. A plain state machine; the store does the work, in steps
//! between entries.

use raft::Now;
use storage::mvcc::{Stats, Store};

use crate::member::event::ReplySlot;

/// Surplus that is kept: one part in this many of the file, but not below [`KEPT_BYTES`].
const KEPT_PART: u64 = 6;
const KEPT_BYTES: u64 = 4 << 20;
/// Surplus that is kept even on request.
const KEPT_ON_REQUEST_BYTES: u64 = 1 << 20;
/// Space that was in use this short a time ago will be used again. Otherwise, steady overwrites and
/// compactions would move pages for nothing. Also the time between two looks, and between two
/// passes that nobody requested.
const LOOK_BACK: Now = Now::from_secs(15);
/// Looks after something was freed. The last one remembers no use from before that.
const LOOKS: u8 = 4;
/// Checkpoints until the file can be cut. Pages that one checkpoint gives up become free with that
/// one and two more. One more follows, because the older meta page relies on the file's length.
const SETTLING_CHECKPOINTS: u8 = 4;

#[derive(Debug, Default)]
pub(super) struct Space {
    state: State,
    /// Looks left to see whether the freed space stays unused.
    looks: u8,
    rest_until: Now,
    peak: Peak,
    /// Clients that requested the space. They are answered when it is returned.
    asking: Vec<ReplySlot>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Resting,
    /// A checkpoint counts the freed space as unused. The next step looks whether it stays unused.
    Looking,
    /// The space becomes free after this many checkpoints. Then the surplus is known.
    Gathering(u8),
    Moving,
    /// The old places of moved pages become free after this many checkpoints.
    Settling(u8),
}

/// What a step asks for.
#[derive(Debug, Default)]
pub(super) struct Wish {
    pub(super) checkpoint: bool,
    /// Pages were looked at, to be moved.
    pub(super) moved: bool,
    pub(super) answered: Vec<ReplySlot>,
}

impl Space {
    /// Requests the return of unused space. `slot` is answered when it is done.
    pub(super) fn ask(&mut self, slot: ReplySlot) {
        self.asking.push(slot);
    }

    pub(super) fn is_asked(&self) -> bool {
        !self.asking.is_empty()
    }

    /// Notes that a compaction removed rows.
    pub(super) fn freed(&mut self) {
        self.looks = LOOKS;
    }

    /// Call only while no checkpoint runs.
    pub(super) fn note(&mut self, now: Now, stats: &Stats) {
        self.peak
            .note(now, stats.file_bytes.saturating_sub(stats.vacant_bytes));
    }

    /// When the next step is due, unless a checkpoint runs.
    pub(super) fn wake_at(&self, now: Now) -> Option<Now> {
        match self.state {
            _ if !self.asking.is_empty() => Some(now),
            State::Resting if self.looks == 0 => None,
            _ => Some(self.rest_until.max(now)),
        }
    }

    /// Takes a step if one is due, while no checkpoint runs. If it wishes for one, [`Space::began`] or
    /// [`Space::could_not_begin`] is the answer. `urgent`: the file system needs the space. A step
    /// that moves pages looks at `bytes` of them.
    pub(super) fn step(
        &mut self,
        now: Now,
        urgent: bool,
        bytes: u64,
        store: &mut Store,
    ) -> storage::Result<Wish> {
        let mut wish = Wish::default();
        if self.wake_at(now) != Some(now) {
            return Ok(wish);
        }
        match self.state {
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
                if worth_it {
                    self.state = State::Moving;
                } else {
                    wish.answered = self.end(now);
                }
            }
            State::Moving => {
                wish.moved = true;
                if store.relocate_step(bytes)? {
                    self.state = State::Settling(SETTLING_CHECKPOINTS);
                }
            }
            State::Settling(0) => wish.answered = self.end(now),
            State::Resting | State::Gathering(_) | State::Settling(_) => wish.checkpoint = true,
        }
        if wish.checkpoint {
            store.settle_space();
        }
        Ok(wish)
    }

    /// The checkpoint that a step wished for has begun.
    pub(super) fn began(&mut self) {
        self.state = match self.state {
            State::Resting => State::Looking,
            State::Gathering(left) => State::Gathering(left - 1),
            State::Settling(left) => State::Settling(left - 1),
            State::Looking | State::Moving => unreachable!("these wish for none"),
        };
    }

    /// There was no space for it, and without it none can be returned. The same step is taken again
    /// later: what was moved by then must not stay in the middle of the file. Returns the clients
    /// that wait.
    pub(super) fn could_not_begin(&mut self, now: Now) -> Vec<ReplySlot> {
        if self.state == State::Resting {
            self.looks = LOOKS;
        }
        self.pause(now)
    }

    fn kept(&self, file_bytes: u64) -> u64 {
        if self.asking.is_empty() {
            (file_bytes / KEPT_PART).max(KEPT_BYTES)
        } else {
            KEPT_ON_REQUEST_BYTES
        }
    }

    fn end(&mut self, now: Now) -> Vec<ReplySlot> {
        self.state = State::Resting;
        self.pause(now)
    }

    fn pause(&mut self, now: Now) -> Vec<ReplySlot> {
        self.rest_until = now + LOOK_BACK;
        std::mem::take(&mut self.asking)
    }
}

/// The most bytes in use at one time within the last [`LOOK_BACK`], or up to twice that.
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
