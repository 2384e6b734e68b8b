//! What a member's log must hold, from what the member said of it: the writes it asked for and
//! which of them it was told to be durable.

use std::collections::VecDeque;

use raft::{Entry, HardState, Index, Position, Term, Ticket, Write};

use crate::digest;

/// One state of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    pub base: Position,
    /// Term and digest of each entry after `base`.
    pub entries: Vec<(Term, u64)>,
}

impl Log {
    pub fn last(&self) -> Index {
        self.base.index + self.entries.len() as Index
    }

    /// `None` before the base and after the end.
    pub fn term_at(&self, index: Index) -> Option<Term> {
        if index == self.base.index {
            return Some(self.base.term);
        }
        self.entry(index).map(|(term, _)| term)
    }

    pub fn entry(&self, index: Index) -> Option<(Term, u64)> {
        let offset = index.checked_sub(self.base.index + 1)?;
        self.entries.get(offset as usize).copied()
    }

    pub fn reset(&mut self, position: Position) {
        self.base = position;
        self.entries.clear();
    }

    pub fn push(&mut self, entry: &Entry) {
        let keep = entry.index.saturating_sub(self.base.index + 1);
        self.entries.truncate(keep as usize);
        self.entries.push((entry.term, digest::of_entry(entry)));
    }
}

#[derive(Debug, Default)]
pub struct Shadow {
    /// With everything the member asked for.
    pub newest: Log,
    /// What a power cut must leave.
    pub durable: Log,
    pub hard_state: HardState,
    pending: VecDeque<Write>,
    /// A state that is, or may be, in place already, without the log's knowing.
    installing: Option<Position>,
}

impl Shadow {
    /// Tells of each entry what term the one before it has.
    pub fn write(&mut self, write: &Write, mut appends: impl FnMut(Term, &Entry)) {
        if let Some(position) = write.reset {
            self.newest.reset(position);
        }
        for entry in &write.entries {
            let before = self.newest.term_at(entry.index - 1).unwrap_or_default();
            appends(before, entry);
            self.newest.push(entry);
        }
        self.pending.push_back(write.clone());
    }

    pub fn durable_through(&mut self, ticket: Ticket) {
        while let Some(write) = self.pending.pop_front_if(|write| write.ticket <= ticket) {
            apply(&write, &mut self.durable, |_| {});
            // The next state may be in place before the log knows of this one.
            let known = write.reset.map(|position| position.index);
            if self.installing.is_some_and(|at| Some(at.index) <= known) {
                self.installing = None;
            }
            if let Some(state) = write.hard_state {
                self.hard_state = state;
            }
        }
    }

    /// The applier puts a state in the place of its own, and then the log will be reset.
    pub fn installs(&mut self, position: Position) {
        self.installing = Some(position);
    }

    /// The state that is in place, or about to be, without the log's knowing.
    pub fn installing(&self) -> Option<Position> {
        self.installing
    }

    /// Every log that a crash now may leave: what is durable, and of what was written after that
    /// any beginning.
    pub fn survivors(&self, mut each: impl FnMut(&Log)) {
        let mut log = self.durable.clone();
        each(&log);
        for write in &self.pending {
            apply(write, &mut log, &mut each);
        }
        if let Some(base) = self.installing {
            let entries = Vec::new();
            each(&Log { base, entries });
        }
    }

    /// The member found this on its disk.
    pub fn restart(&mut self, log: Log, hard_state: HardState) {
        self.newest = log.clone();
        self.durable = log;
        self.hard_state = hard_state;
        self.installing = None;
        self.pending.clear();
    }
}

fn apply(write: &Write, log: &mut Log, mut each: impl FnMut(&Log)) {
    if let Some(position) = write.reset {
        log.reset(position);
        each(log);
    }
    for entry in &write.entries {
        log.push(entry);
        each(log);
    }
}
