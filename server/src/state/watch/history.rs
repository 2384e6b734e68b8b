//! Reads a part of the history for watchers of one stream. A value that can run on any thread.
//!
//! Watchers at nearly the same revision are read for together ([`group`]). If one revision has more
//! events for them than may be held, those with most of them are put aside; the others go on. A watcher
//! that has too many by itself is read for alone, that revision piece by piece ([`long`]).

mod group;
mod long;

use std::collections::BTreeMap;

use storage::mvcc::Reader;

use super::event::{Event, Wants};
use super::index::Span;
use super::{HISTORY_INLINE_CHANGES, HISTORY_INLINE_REVISIONS, RevisionLimits};
pub use long::HeldView;
pub(super) use long::{Long, Step};

/// A watcher to read for. `serial` distinguishes it from a later watcher in the same slot.
#[derive(Clone, Debug)]
pub(super) struct ReadFor {
    pub(super) slot: u32,
    pub(super) serial: u64,
    pub(super) span: Span,
    pub(super) next: i64,
    pub(super) wants: Wants,
}

/// One read of history; see the module.
#[derive(Debug)]
pub struct HistoryRead(Work);

#[derive(Debug)]
enum Work {
    Group(Group),
    Long(Box<Long>),
}

/// A read for several watchers.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) reader: Reader,
    pub(super) limits: RevisionLimits,
    pub(super) watchers: Vec<ReadFor>,
    pub(super) from: i64,
    /// The last revision to read; `None`: the newest one.
    pub(super) through: Option<i64>,
}

/// The result of a read.
#[derive(Debug)]
pub struct HistoryDone(pub(super) Done);

#[derive(Debug)]
pub(super) enum Done {
    Group(GroupDone),
    /// The read itself goes on after this step.
    Long(Box<Long>, Step),
}

#[derive(Debug)]
pub(super) struct GroupDone {
    pub(super) watchers: Vec<ReadFor>,
    /// The read had a fixed end (`through`).
    pub(super) is_gap: bool,
    pub(super) outcome: Outcome,
}

#[derive(Debug)]
pub(super) enum Outcome {
    Read {
        events: Vec<Event>,
        /// (index in `watchers`, index in `events`), in revision order.
        hits: Vec<(u32, u32)>,
        /// The last revision that was read.
        through: i64,
        /// Watchers (indices) that have too many events in that last revision: they got none of it.
        aside: BTreeMap<u32, Aside>,
        store_revision: i64,
    },
    /// The first revision to read has been compacted.
    Compacted { revision: i64 },
    /// The store could not be read.
    Failed(storage::Error),
}

/// How a watcher that was put aside gets its events of the revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aside {
    /// With others.
    Again,
    /// By itself, in pieces.
    Alone,
}

impl HistoryRead {
    pub(super) fn of_group(group: Group) -> HistoryRead {
        HistoryRead(Work::Group(group))
    }

    pub(super) fn of_long(long: Box<Long>) -> HistoryRead {
        HistoryRead(Work::Long(long))
    }

    /// Runs the read in place if it is short and recent enough. `None`: nothing was done, and it is to
    /// be run by another thread.
    pub fn run_if_short(&mut self) -> Option<HistoryDone> {
        match &mut self.0 {
            Work::Group(group) if group.is_short() => group.run(HISTORY_INLINE_CHANGES),
            _ => None,
        }
    }

    pub fn run(self) -> HistoryDone {
        match self.0 {
            Work::Group(mut group) => group.run(usize::MAX).expect("there is no limit"),
            Work::Long(mut long) => {
                let step = long.read();
                HistoryDone(Done::Long(long, step))
            }
        }
    }
}

impl Group {
    fn is_short(&self) -> bool {
        let end = self.through.unwrap_or(i64::MAX);
        end.min(self.reader.view().revision()) - self.from < HISTORY_INLINE_REVISIONS
    }

    /// `None`: there are more than `most` changes to look at.
    fn run(&mut self, most: usize) -> Option<HistoryDone> {
        let outcome = match self.read(most) {
            Ok(outcome) => outcome?,
            Err(error) => Outcome::Failed(error),
        };
        Some(HistoryDone(Done::Group(GroupDone {
            is_gap: self.through.is_some(),
            watchers: std::mem::take(&mut self.watchers),
            outcome,
        })))
    }
}

#[cfg(test)]
impl HistoryDone {
    /// Bytes of events.
    pub(super) fn bytes(&self) -> usize {
        match &self.0 {
            Done::Group(GroupDone {
                outcome: Outcome::Read { events, .. },
                ..
            }) => events.iter().map(|event| event.bytes.len()).sum(),
            Done::Group(_) => 0,
            Done::Long(long, _) => long.bytes_held(),
        }
    }
}
