//! One follower as its leader sees it: what it holds, what to send next, how much may be under
//! way. Knows indexes and sizes, not messages.

use std::cmp::Ordering;
use std::collections::VecDeque;

use crate::io::Limits;
use crate::message::Index;

/// A follower that refuses what follows on its own acknowledgement so many times, each time asked
/// anew and with nothing acknowledged in between, has lost it. A single refusal may be an old one
/// that was long on its way.
const REFUSALS_OF_LOST_LOG: u8 = 3;

/// What became of an answer that refused an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It answers a message from before the present state.
    Old,
    /// The next probe begins earlier, or at what is known to match.
    SteppedBack,
    /// What was refused follows on what the follower acknowledged: asked again at the next sign of
    /// life, as long as that may have been an old answer.
    Doubtful,
    /// The follower's log is lost; told once.
    LostLog,
}

/// How entries flow to a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// Where its log agrees with ours is not known: one append at a time, the next only when it
    /// or a heartbeat was answered (`paused`).
    Probe { paused: bool },
    /// It follows: appends are sent ahead of their answers, as far as the window allows.
    Replicate,
    /// What it needs is no longer in the log. The snapshot under way holds everything up to
    /// `holds`; while it is being made (not yet `sent`) that is the least it will hold.
    Snapshot { holds: Index, sent: bool },
}

/// Invariant: `matched < next`; in `Probe` and `Snapshot` nothing is in flight.
#[derive(Debug)]
pub(crate) struct Progress {
    pub(crate) matched: Index,
    pub(crate) next: Index,
    pub(crate) flow: Flow,
    pub(crate) inflight: Inflight,
    /// Heard from since the last quorum check.
    pub(crate) active: bool,
    /// Heard from between the last two quorum checks.
    pub(crate) was_active: bool,
    /// The newest commit index it was told.
    pub(crate) commit_sent: Index,
    /// Send something even when there is nothing new: a lost tail shows only by being refused.
    pub(crate) poke: bool,
    /// The newest read round it confirmed.
    pub(crate) round: u64,
    /// How often in a row it refused what follows on `matched`.
    doubts: u8,
}

impl Progress {
    pub(crate) fn new(next: Index) -> Progress {
        assert!(next > 0, "the first entry is 1");
        Progress {
            matched: 0,
            next,
            flow: Flow::Probe { paused: false },
            inflight: Inflight::default(),
            active: false,
            was_active: false,
            commit_sent: 0,
            poke: false,
            round: 0,
            doubts: 0,
        }
    }

    /// It holds everything up to `index`. `base` is where our log begins.
    pub(crate) fn acknowledged(&mut self, index: Index, base: Index) {
        self.inflight.free_through(index);
        if index < self.matched {
            return; // an old answer
        }
        self.doubts = 0;
        self.matched = index;
        match self.flow {
            Flow::Replicate => self.next = self.next.max(index + 1),
            // A snapshot ends as soon as the log continues what the follower has, whichever
            // message brought it there.
            Flow::Snapshot { .. } if index < base => self.next = self.next.max(index + 1),
            Flow::Probe { .. } | Flow::Snapshot { .. } => {
                self.flow = Flow::Replicate;
                self.next = index + 1;
            }
        }
    }

    /// It refused an append after `prev`; nothing of ours after `hint` can match.
    pub(crate) fn refused(&mut self, prev: Index, hint: Index) -> Refusal {
        match self.flow {
            Flow::Snapshot { .. } => Refusal::Old,
            Flow::Replicate if prev <= self.matched => Refusal::Old,
            Flow::Replicate => {
                self.probe();
                Refusal::SteppedBack
            }
            Flow::Probe { .. } if prev + 1 != self.next => Refusal::Old,
            // A leader finds nothing matched of one whose log it does not know.
            Flow::Probe { .. } if prev <= self.matched && self.matched > 0 => {
                self.flow = Flow::Probe { paused: true };
                self.doubts = self.doubts.saturating_add(1);
                match self.doubts.cmp(&REFUSALS_OF_LOST_LOG) {
                    Ordering::Equal => Refusal::LostLog,
                    _ => Refusal::Doubtful,
                }
            }
            Flow::Probe { .. } => {
                self.next = prev.min(hint.saturating_add(1)).max(self.matched + 1);
                self.flow = Flow::Probe { paused: false };
                Refusal::SteppedBack
            }
        }
    }

    /// It lost what it acknowledged: whatever it is sent it refuses.
    pub(crate) fn has_lost_log(&self) -> bool {
        self.doubts >= REFUSALS_OF_LOST_LOG
    }

    /// Back to asking where the logs agree.
    pub(crate) fn probe(&mut self) {
        self.next = match self.flow {
            Flow::Snapshot { holds, sent: true } => holds.max(self.matched) + 1,
            _ => self.matched + 1,
        };
        self.flow = Flow::Probe { paused: false };
        self.inflight.clear();
    }

    /// The snapshot will be of what is `applied` now, or of more.
    pub(crate) fn await_snapshot(&mut self, applied: Index) {
        self.flow = Flow::Snapshot {
            holds: applied,
            sent: false,
        };
        self.inflight.clear();
    }

    /// The entries after this one are to be kept for it: a snapshot is of no use when the log
    /// behind it is gone by the time it has arrived. Nothing is kept for one that is silent, or
    /// that needs what is gone. `base` is where our log begins.
    pub(crate) fn needs_after(&self, base: Index) -> Option<Index> {
        let after = match self.flow {
            Flow::Snapshot { holds, .. } => holds,
            _ if !self.active && !self.was_active => return None,
            _ if self.matched >= base => self.matched,
            _ => self.next - 1,
        };
        (after >= base).then_some(after)
    }

    /// An append with `bytes` of entries up to `last` left; both 0 for an empty one.
    pub(crate) fn sent(&mut self, last: Index, bytes: usize) {
        match &mut self.flow {
            Flow::Probe { paused } => *paused = true,
            Flow::Replicate if last > 0 => {
                self.next = last + 1;
                self.inflight.add(last, bytes);
            }
            Flow::Replicate => {}
            Flow::Snapshot { .. } => unreachable!("no appends beside a snapshot"),
        }
    }
}

/// The window: appends sent and not answered, each by its last index and size.
#[derive(Debug, Default)]
pub(crate) struct Inflight {
    queue: VecDeque<(Index, usize)>,
    bytes: usize,
}

impl Inflight {
    pub(crate) fn is_full(&self, limits: &Limits) -> bool {
        self.queue.len() >= limits.inflight_messages || self.bytes >= limits.inflight_bytes
    }

    fn add(&mut self, last: Index, bytes: usize) {
        assert!(self.queue.back().is_none_or(|(newest, _)| *newest < last));
        self.queue.push_back((last, bytes));
        self.bytes += bytes;
    }

    /// One answer covers all sent before it.
    fn free_through(&mut self, index: Index) {
        while let Some((last, bytes)) = self.queue.front().copied() {
            if last > index {
                break;
            }
            self.queue.pop_front();
            self.bytes -= bytes;
        }
    }

    fn clear(&mut self) {
        self.queue.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests;
