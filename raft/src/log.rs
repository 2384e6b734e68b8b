//! The log in memory: the newest entries, and how far each has come. Knows positions and tickets,
//! but not why entries are written or where their bytes go.
//!
//! ```text
//!   base ..... applied ≤ handed_out ≤ commit        ..  last
//!    │ kept for slow followers │                         │
//!    └───────────── entries ─────────────────────────────┘
//!   base ≤ durable ≤ written ≤ last,   handed_out ≤ written
//! ```
//!
//! A majority may commit an entry before this member's disk has it, so `handed_out` and `durable` are
//! in no order.

use std::collections::VecDeque;

use crate::io::{Limits, Ticket, Write};
use crate::message::{Entry, EntryKind, Index, Position, Term};

/// Cost of an entry besides its data, in bytes, so that empty entries are not free.
const ENTRY_OVERHEAD_BYTES: usize = 64;

pub(crate) fn size_of(entry: &Entry) -> usize {
    entry.data.len() + ENTRY_OVERHEAD_BYTES
}

/// How many of `entries` take together at most `bytes`; at least one if there is one.
pub(crate) fn count_within<'a>(
    entries: impl IntoIterator<Item = &'a Entry>,
    bytes: usize,
) -> usize {
    let mut taken = 0;
    let fits = |entry: &&Entry| {
        let is_first = taken == 0;
        taken += size_of(entry);
        is_first || taken <= bytes
    };
    entries.into_iter().take_while(fits).count()
}

#[derive(Debug)]
pub(crate) struct Log {
    /// The position before the first entry. Its term is kept to match appends that begin there.
    base: Position,
    /// Consecutive from `base.index + 1`.
    entries: VecDeque<Entry>,
    /// Sum of the sizes of the entries up to `applied`.
    kept_bytes: usize,
    /// Sum of the sizes of the entries after `applied` up to `handed_out`.
    unapplied_bytes: usize,
    applied: Index,
    handed_out: Index,
    commit: Index,
    durable: Index,
    /// Given to the log writer, or part of the write under construction.
    written: Index,
    /// Writes not yet durable. Invariant: `last` never exceeds what the log still holds of that
    /// write. Truncation lowers it, so that a late completion cannot mark replaced entries as
    /// durable.
    issued: VecDeque<Issued>,
    /// Sum of the sizes of the entries in `issued`, replaced ones among them: the log writer still
    /// has them.
    unsaved_bytes: usize,
    reset: Option<Position>,
}

#[derive(Debug)]
struct Issued {
    ticket: Ticket,
    last: Index,
    bytes: usize,
}

impl Log {
    /// All of `entries` must be durable.
    pub(crate) fn new(base: Position, entries: Vec<Entry>, applied: Index, commit: Index) -> Log {
        let last = base.index + entries.len() as Index;
        for (entry, index) in entries.iter().zip(base.index + 1..) {
            assert_eq!(entry.index, index, "the recovered log has a gap");
        }
        assert!(
            base.index <= applied && applied <= commit && commit <= last,
            "recovered log {}..{last} does not hold applied {applied} and commit {commit}",
            base.index
        );
        let kept = &entries[..(applied - base.index) as usize];
        Log {
            kept_bytes: kept.iter().map(size_of).sum(),
            unapplied_bytes: 0,
            base,
            entries: entries.into(),
            applied,
            handed_out: applied,
            commit,
            durable: last,
            written: last,
            issued: VecDeque::new(),
            unsaved_bytes: 0,
            reset: None,
        }
    }

    pub(crate) fn base(&self) -> Position {
        self.base
    }

    pub(crate) fn last(&self) -> Position {
        self.entries.back().map_or(self.base, Entry::position)
    }

    pub(crate) fn applied(&self) -> Index {
        self.applied
    }

    /// Bytes of entries handed out but not yet applied. Uncommitted entries do not count: a
    /// follower that refused entries because of its own uncommitted tail would never take those
    /// that commit it.
    pub(crate) fn unapplied_bytes(&self) -> usize {
        self.unapplied_bytes
    }

    pub(crate) fn commit(&self) -> Index {
        self.commit
    }

    pub(crate) fn durable(&self) -> Index {
        self.durable
    }

    /// Bytes of entries given to the log writer that may not be durable.
    pub(crate) fn unsaved_bytes(&self) -> usize {
        self.unsaved_bytes
    }

    /// `None` before the base and after the end.
    pub(crate) fn term_at(&self, index: Index) -> Option<Term> {
        if index == self.base.index {
            return Some(self.base.term);
        }
        self.get(index).map(|entry| entry.term)
    }

    pub(crate) fn holds(&self, position: Position) -> bool {
        self.term_at(position.index) == Some(position.term)
    }

    /// The paper's "at least as up-to-date" (§5.4.1); `other` is the last entry of another log.
    pub(crate) fn is_behind_or_level(&self, other: Position) -> bool {
        other >= self.last()
    }

    /// Entries from `from` on, together at most `bytes`; at least one if there is one.
    pub(crate) fn slice(&self, from: Index, bytes: usize) -> Vec<Entry> {
        assert!(from > self.base.index, "entries before {from} are gone");
        let from = self.offset(from).min(self.entries.len());
        let count = count_within(self.entries.range(from..), bytes);
        self.entries.range(from..from + count).cloned().collect()
    }

    /// The newest own position at or before `index` whose term is at most `term`. Between it and
    /// `index` nothing can match a log that has `term` at `index`, because terms only grow along a
    /// log. Its term is 0 if it is before the base.
    pub(crate) fn newest_possible_match(&self, index: Index, term: Term) -> Position {
        let mut at = index.min(self.last().index);
        loop {
            match self.term_at(at) {
                Some(found) if found > term && at > 0 => at -= 1,
                found => {
                    return Position {
                        term: found.unwrap_or(0),
                        index: at,
                    };
                }
            }
        }
    }

    /// Appends one entry of our own, as leader.
    pub(crate) fn push(&mut self, term: Term, kind: EntryKind, data: bytes::Bytes) -> Position {
        let index = self.last().index + 1;
        assert!(term >= self.last().term, "terms only grow along a log");
        self.entries.push_back(Entry {
            term,
            index,
            kind,
            data,
        });
        Position { term, index }
    }

    /// Appends the leader's `entries`, as follower, after a position that this log holds. Entries
    /// that match stay: a late copy of an old message must not cut off what came after it (§5.3).
    /// The first that differs replaces everything from its index on. Returns the last index now
    /// known to match.
    pub(crate) fn accept(&mut self, prev: Position, entries: Vec<Entry>) -> Index {
        let matched = prev.index + entries.len() as Index;
        for (entry, index) in entries.into_iter().zip(prev.index + 1..) {
            if entry.index != index {
                return index - 1; // a gap: take only what comes before it
            }
            if self.holds(entry.position()) {
                continue;
            }
            if index <= self.last().index {
                self.truncate_from(index);
            }
            self.entries.push_back(entry);
        }
        matched
    }

    fn truncate_from(&mut self, index: Index) {
        assert!(
            index > self.commit,
            "entry {index} is committed and would be replaced"
        );
        self.entries.truncate(self.offset(index));
        self.written = self.written.min(index - 1);
        self.durable = self.durable.min(index - 1);
        for issued in &mut self.issued {
            issued.last = issued.last.min(index - 1);
        }
    }

    /// Raises the commit index, never lowers it; returns whether it moved.
    pub(crate) fn commit_to(&mut self, index: Index) -> bool {
        assert!(index <= self.last().index, "commit {index} is past the log");
        let moved = index > self.commit;
        self.commit = self.commit.max(index);
        moved
    }

    /// A snapshot at `position` replaced the state machine: all entries are dropped.
    pub(crate) fn reset(&mut self, position: Position) {
        assert!(position.index > self.commit, "a snapshot never goes back");
        self.base = position;
        self.entries.clear();
        self.kept_bytes = 0;
        self.unapplied_bytes = 0;
        self.applied = position.index;
        self.handed_out = position.index;
        self.commit = position.index;
        self.durable = position.index;
        self.written = position.index;
        for issued in &mut self.issued {
            issued.last = 0;
        }
        self.reset = Some(position);
    }

    /// Moves what the log writer does not have yet into `write`; false if there is nothing.
    pub(crate) fn fill(&mut self, write: &mut Write) -> bool {
        write.reset = self.reset.take();
        let from = self.offset(self.written + 1).min(self.entries.len());
        write.entries.extend(self.entries.range(from..).cloned());
        self.written = self.last().index;
        write.reset.is_some() || !write.entries.is_empty()
    }

    /// The writer got `write`, which `fill` made.
    pub(crate) fn issue(&mut self, write: &Write) {
        let bytes = write.entries.iter().map(size_of).sum();
        self.unsaved_bytes += bytes;
        self.issued.push_back(Issued {
            ticket: write.ticket,
            last: self.written,
            bytes,
        });
    }

    /// The ticket that makes `index` durable; 0 if it is durable already.
    pub(crate) fn ticket_of(&self, index: Index) -> Ticket {
        if index <= self.durable {
            return 0;
        }
        let covering = self.issued.iter().find(|issued| issued.last >= index);
        covering.expect("every entry is in some write").ticket
    }

    pub(crate) fn saved(&mut self, through: Ticket) {
        while let Some(issued) = self.issued.front() {
            if issued.ticket > through {
                break;
            }
            self.durable = self.durable.max(issued.last);
            self.unsaved_bytes -= issued.bytes;
            self.issued.pop_front();
        }
    }

    /// Hands out what is committed, each entry once. The writer must have all of it already.
    pub(crate) fn take_committed(&mut self, out: &mut Vec<Entry>) {
        assert!(
            self.commit <= self.written,
            "entry {} is committed and not given to the writer",
            self.commit
        );
        if !self.has_committed_to_hand_out() {
            return;
        }
        let range = self.offset(self.handed_out + 1)..self.offset(self.commit + 1);
        let begin = out.len();
        out.extend(self.entries.range(range).cloned());
        self.unapplied_bytes += out[begin..].iter().map(size_of).sum::<usize>();
        self.handed_out = self.commit;
    }

    pub(crate) fn has_committed_to_hand_out(&self) -> bool {
        self.commit > self.handed_out
    }

    /// The state machine holds everything up to `index`. Old entries are dropped, except those
    /// after `needed_after`, which a follower still needs, as far as `limits` allow. Entries that
    /// are not durable stay: from the base on back, followers are fed from the disk.
    pub(crate) fn applied_to(
        &mut self,
        index: Index,
        limits: &Limits,
        needed_after: Option<Index>,
    ) {
        assert!(
            index <= self.handed_out,
            "applied {index}, handed out {}",
            self.handed_out
        );
        while self.applied < index {
            self.applied += 1;
            let bytes = self.get(self.applied).map_or(0, size_of);
            self.unapplied_bytes -= bytes;
            self.kept_bytes += bytes;
        }
        let surplus = |log: &Log| {
            if log.base.index >= log.durable {
                return false;
            }
            let needed = needed_after.is_some_and(|index| index <= log.base.index);
            let too_many = (log.applied - log.base.index) as usize > limits.kept_entries;
            (too_many && !needed) || log.kept_bytes > limits.kept_bytes
        };
        while surplus(self) {
            let Some(gone) = self.entries.pop_front() else {
                break;
            };
            self.kept_bytes -= size_of(&gone);
            self.base = gone.position();
        }
    }

    /// A committed conf change after `from`: this member may count by the wrong membership.
    pub(crate) fn has_committed_conf_change_after(&self, from: Index) -> bool {
        let from = from.max(self.base.index);
        if from >= self.commit {
            return false;
        }
        let range = self.offset(from + 1)..self.offset(self.commit + 1);
        self.entries
            .range(range)
            .any(|entry| entry.kind != EntryKind::Normal)
    }

    pub(crate) fn bytes_between(&self, after: Index, through: Index) -> usize {
        let range = self.offset(after + 1)..self.offset(through + 1);
        self.entries.range(range).map(size_of).sum()
    }

    fn get(&self, index: Index) -> Option<&Entry> {
        let offset = index.checked_sub(self.base.index + 1)?;
        self.entries.get(offset as usize)
    }

    fn offset(&self, index: Index) -> usize {
        (index - self.base.index - 1) as usize
    }
}

#[cfg(test)]
mod tests;
