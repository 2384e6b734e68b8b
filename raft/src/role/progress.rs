//! One follower as its leader sees it: what it holds, what to send next, how much may be in flight.
//! Knows indexes and sizes, not messages.

use std::cmp::Ordering;
use std::collections::VecDeque;

use crate::io::Limits;
use crate::message::Index;

/// After this many refusals in a row the follower's log counts as lost. Each one refuses a new
/// append that follows the follower's own acknowledgement, with no acknowledgement in between. A
/// single refusal may be an old one that was delayed.
const REFUSALS_OF_LOST_LOG: u8 = 3;

/// The meaning of an answer that refused an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It answers a message sent before the present state.
    Old,
    /// The next probe begins earlier, or where the logs are known to match.
    SteppedBack,
    /// The follower refused what follows its own acknowledgement. The leader asks again at the next
    /// sign of life, because this may be an old answer.
    Doubtful,
    /// The follower's log is lost; reported once.
    LostLog,
}

/// How entries flow to a follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// The leader does not know where the logs agree: one append at a time, the next only after it
    /// or a heartbeat was answered (`paused`).
    Probe { paused: bool },
    /// The logs agree: appends are sent before earlier ones are answered, as the window allows.
    Replicate,
    /// The log no longer has what it needs. The snapshot in flight holds everything up to `holds`;
    /// while it is being made (not yet `sent`), `holds` is the least it will hold.
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
    /// The newest commit index sent to it.
    pub(crate) commit_sent: Index,
    /// Send an append even if there is nothing new: only a refusal shows a lost tail.
    pub(crate) poke: bool,
    /// The first entry that is being read from the disk for it.
    pub(crate) fetching: Option<Index>,
    /// The newest read round it confirmed.
    pub(crate) round: u64,
    /// How often in a row it refused what follows `matched`.
    doubts: u8,
    /// A probe was sent that no refusal has answered. Appends that overtake each other are refused by
    /// many answers, which may come late: each probe makes one of them count.
    asked: bool,
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
            fetching: None,
            round: 0,
            doubts: 0,
            asked: false,
        }
    }

    /// The follower holds everything up to `index`. `base` is where our log begins.
    pub(crate) fn acknowledged(&mut self, index: Index, base: Index) {
        self.inflight.free_through(index);
        if index < self.matched {
            return; // an old answer
        }
        self.doubts = 0;
        self.matched = index;
        match self.flow {
            Flow::Replicate => self.next = self.next.max(index + 1),
            // A snapshot ends as soon as the log continues what the follower has. It does not
            // matter which message brought it there.
            Flow::Snapshot { .. } if index < base => self.next = self.next.max(index + 1),
            Flow::Probe { .. } | Flow::Snapshot { .. } => {
                self.flow = Flow::Replicate;
                self.next = index + 1;
            }
        }
    }

    /// The follower refused an append after `prev`; none of our entries after `hint` can match.
    pub(crate) fn refused(&mut self, prev: Index, hint: Index) -> Refusal {
        match self.flow {
            Flow::Snapshot { .. } => Refusal::Old,
            Flow::Replicate if prev <= self.matched => Refusal::Old,
            Flow::Replicate => {
                self.probe();
                Refusal::SteppedBack
            }
            Flow::Probe { .. } if prev + 1 != self.next => Refusal::Old,
            // `matched` is 0 while the leader does not know the follower's log.
            Flow::Probe { .. } if prev <= self.matched && self.matched > 0 => {
                if !std::mem::take(&mut self.asked) {
                    return Refusal::Old;
                }
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

    /// The follower lost what it acknowledged, and refuses every append.
    pub(crate) fn has_lost_log(&self) -> bool {
        self.doubts >= REFUSALS_OF_LOST_LOG
    }

    /// Goes back to finding where the logs agree.
    pub(crate) fn probe(&mut self) {
        self.next = match self.flow {
            Flow::Snapshot { holds, sent: true } => holds.max(self.matched) + 1,
            _ => self.matched + 1,
        };
        self.flow = Flow::Probe { paused: false };
        self.asked = false;
        self.inflight.clear();
    }

    /// The snapshot will hold at least everything up to `applied`.
    pub(crate) fn await_snapshot(&mut self, applied: Index) {
        self.flow = Flow::Snapshot {
            holds: applied,
            sent: false,
        };
        self.inflight.clear();
    }

    /// Entries after the returned index are kept in memory for the follower, as far as there is room:
    /// that is cheaper than reading them from the disk. `None` if the follower is silent and gets no
    /// snapshot, or needs entries that are already gone. `base` is where our log begins.
    pub(crate) fn needs_after(&self, base: Index) -> Option<Index> {
        let after = match self.flow {
            Flow::Snapshot { holds, .. } => holds,
            _ if self.is_silent() => return None,
            _ if self.matched >= base => self.matched,
            _ => self.next - 1,
        };
        (after >= base).then_some(after)
    }

    /// The follower is fed the entries after the returned index, or will be once it has its snapshot.
    /// `None` if it is silent and gets no snapshot.
    pub(crate) fn fed_after(&self) -> Option<Index> {
        match self.flow {
            Flow::Snapshot { holds, .. } => Some(holds),
            _ if self.is_silent() => None,
            _ => Some(self.matched),
        }
    }

    fn is_silent(&self) -> bool {
        !self.active && !self.was_active
    }

    /// How many bytes of entries may be read from the disk for it now; `None`: it can take none.
    pub(crate) fn may_fetch(&self, limits: &Limits) -> Option<usize> {
        match self.flow {
            _ if self.is_silent() || self.fetching.is_some() => None,
            Flow::Snapshot { .. } | Flow::Probe { paused: true } => None,
            // It may be refused: more than one append would be read in vain.
            Flow::Probe { paused: false } => Some(limits.append_bytes),
            // A poke needs only the position before `next`.
            Flow::Replicate if self.is_full(limits) => self.poke.then_some(0),
            Flow::Replicate => {
                let room = limits.inflight_bytes - self.inflight.bytes;
                Some(room.min(limits.fetch_bytes))
            }
        }
    }

    /// True if nothing more may be sent before an answer comes.
    pub(crate) fn is_full(&self, limits: &Limits) -> bool {
        self.flow == Flow::Replicate && self.inflight.is_full(limits)
    }

    /// An append with `bytes` of entries up to `last` was sent; both are 0 for an empty one.
    pub(crate) fn sent(&mut self, last: Index, bytes: usize) {
        match &mut self.flow {
            Flow::Probe { paused } => {
                *paused = true;
                self.asked = true;
            }
            Flow::Replicate if last > 0 => {
                self.next = last + 1;
                self.inflight.add(last, bytes);
            }
            Flow::Replicate => {}
            Flow::Snapshot { .. } => unreachable!("no appends beside a snapshot"),
        }
    }
}

/// The window: appends sent but not answered, each with its last index and its size.
#[derive(Debug, Default)]
pub(crate) struct Inflight {
    queue: VecDeque<(Index, usize)>,
    bytes: usize,
}

impl Inflight {
    fn is_full(&self, limits: &Limits) -> bool {
        self.queue.len() >= limits.inflight_messages || self.bytes >= limits.inflight_bytes
    }

    fn add(&mut self, last: Index, bytes: usize) {
        assert!(self.queue.back().is_none_or(|(newest, _)| *newest < last));
        self.queue.push_back((last, bytes));
        self.bytes += bytes;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// One answer covers everything sent before it.
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
