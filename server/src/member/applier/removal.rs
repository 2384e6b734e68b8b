//! When compacted rows are removed. Pages change as a whole: after random overwrites, removing a
//! tenth of the rows writes as much as removing half of them. So removal waits until there is
//! enough to remove, or for a while. What is compacted while it runs waits anew: with a compaction
//! each second it would otherwise never end, and write whole pages for each row. A plain state
//! machine; the store does the work.

use raft::Now;
use storage::mvcc::Stats;

use crate::member::event::ReplySlot;
use crate::state::held_back::PATIENCE_WITH_READERS;

/// In a store of at most this size, removal costs little and starts at once.
const SMALL_STORE_BYTES: u64 = 16 << 20;
/// Removal pays if at least three rows can go for this many keys.
const KEYS_FOR_THREE_ROWS: u64 = 5;
/// Wait after the newest compaction.
const PATIENCE: Now = Now::from_secs(60);
/// Longest wait, however often compactions come.
const PATIENCE_MAX: Now = Now::from_secs(600);

#[derive(Debug)]
pub(super) struct Removal {
    state: State,
    /// When removal began, or went on after a start. `None` if there may be nothing to remove.
    since: Option<Now>,
    /// Rows removed since then.
    rows: u64,
    /// Clients that asked for physical compaction, and its revision.
    asking: Vec<(i64, ReplySlot)>,
    /// Set when it first waits for readers: the latest time at which it goes on.
    readers_until: Option<Now>,
    /// Its last look found readers that it waits for.
    is_held_up: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    Waiting { until: Now, latest: Now },
    Running,
}

impl Removal {
    /// The state after a start. `since` is its time if rows are to be removed: the end of that
    /// compaction is then told like that of any other.
    pub(super) fn interrupted(since: Option<Now>) -> Removal {
        Removal {
            state: State::Running,
            since,
            rows: 0,
            asking: Vec::new(),
            readers_until: None,
            is_held_up: false,
        }
    }

    /// Goes on with the removal of a restored state, as after a start: readers of the state before
    /// it hold nothing of this one back. Clients wait on.
    pub(super) fn go_on(&mut self, since: Option<Now>) {
        *self = Removal {
            asking: std::mem::take(&mut self.asking),
            ..Removal::interrupted(since)
        };
    }

    /// A compaction was applied: its rows wait for removal.
    pub(super) fn compacted(&mut self, now: Now) {
        match &mut self.state {
            State::Idle => self.state = State::waiting(now),
            State::Waiting { until, latest } => *until = (now + PATIENCE).min(*latest),
            // After a start, without rows to remove until now.
            State::Running if self.since.is_none() => self.since = Some(now),
            State::Running => {}
        }
    }

    /// Answers `slot` when all is removed that was compacted up to `revision`.
    pub(super) fn ask(&mut self, revision: i64, slot: ReplySlot) {
        self.asking.push((revision, slot));
    }

    pub(super) fn is_running(&self) -> bool {
        self.state == State::Running
    }

    /// The latest time at which it begins.
    pub(super) fn due_at(&self) -> Option<Now> {
        match self.state {
            State::Waiting { until, .. } => Some(until),
            _ => None,
        }
    }

    /// Begins if it is time. The store has `superseded` rows beside one row for each of `keys`.
    /// `urgent`: the space is needed.
    pub(super) fn begin(
        &mut self,
        now: Now,
        urgent: bool,
        superseded: u64,
        keys: u64,
        stats: &Stats,
    ) {
        let State::Waiting { until, .. } = self.state else {
            return;
        };
        let asked = urgent || !self.asking.is_empty();
        let is_small = stats.in_use_bytes <= SMALL_STORE_BYTES;
        let pays = superseded * KEYS_FOR_THREE_ROWS >= keys * 3;
        if asked || is_small || pays || now >= until {
            self.state = State::Running;
            self.since = Some(now);
            self.rows = 0;
        }
    }

    /// True if its next step waits for readers that hold `much` back. What these keep cannot be
    /// reused, so removal, which writes the neighbours of what it removes elsewhere, would only make
    /// the file longer. The hash of the compaction is such a reader, and soon done in most stores.
    pub(super) fn wait_for_readers(&mut self, now: Now, much: bool) -> bool {
        let until = || now + PATIENCE_WITH_READERS;
        self.is_held_up = much && now < *self.readers_until.get_or_insert_with(until);
        self.is_held_up
    }

    /// True if a client waits for it while it waits for readers.
    pub(super) fn keeps_a_client_waiting(&self) -> bool {
        self.is_held_up && self.asking.iter().any(|(_, slot)| slot.is_awaited())
    }

    /// When it began, if that is known.
    pub(super) fn since(&self) -> Option<Now> {
        self.since
    }

    pub(super) fn removed(&mut self, rows: u64) {
        self.rows += rows;
    }

    /// Rows removed since it began.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Ends the removal of what was compacted up to `through`. Returns the clients that waited for
    /// it. The next one waits for its time if anything was compacted since, which a client may ask for.
    pub(super) fn ended(&mut self, now: Now, through: i64, all: bool) -> Vec<ReplySlot> {
        let asking = std::mem::take(&mut self.asking).into_iter();
        let (answered, asking): (Vec<_>, Vec<_>) = asking.partition(|(of, _)| *of <= through);
        self.state = match all {
            true => State::Idle,
            false if asking.is_empty() => State::waiting(now),
            false => State::Waiting {
                until: now,
                latest: now,
            },
        };
        self.asking = asking;
        self.since = None;
        self.readers_until = None;
        self.is_held_up = false;
        answered.into_iter().map(|(_, slot)| slot).collect()
    }
}

impl State {
    fn waiting(now: Now) -> State {
        State::Waiting {
            until: now + PATIENCE,
            latest: now + PATIENCE_MAX,
        }
    }
}

#[cfg(test)]
mod tests;
