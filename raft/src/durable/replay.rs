//! The log read back at a start.

use std::collections::VecDeque;
use std::mem;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use storage::wal::Record;
use storage::{Error, Result};

use super::{Apply, ENTRY, HARD_STATE, METADATA, Options, RESET, Voided, parse_entry, words};
use crate::io::Recovered;
use crate::message::{Entry, HardState, Index, NOBODY, Position};

/// The log that the records describe, trimmed on the way: of old applied entries few stay.
pub(super) struct Replay<'a, 'f> {
    dir: PathBuf,
    /// Advances if there is `apply`.
    pub(super) applied: Position,
    apply: Option<&'a mut Apply<'f>>,
    kept_entries: usize,
    kept_bytes: usize,
    pub(super) metadata: Option<Bytes>,
    /// The index of the newest reset that was read.
    pub(super) void_before: Index,
    pub(super) hard_state: HardState,
    /// The index before the first entry; `None` until one is seen. Only `trimmed` knows its term.
    base: Option<Index>,
    /// The newest position trimmed away or reset to.
    trimmed: Option<Position>,
    entries: VecDeque<Entry>,
    /// Bytes of entries at or before `applied`.
    bytes: usize,
}

impl<'a, 'f> Replay<'a, 'f> {
    pub(super) fn new(
        dir: &Path,
        applied: Position,
        options: &Options,
        apply: Option<&'a mut Apply<'f>>,
    ) -> Replay<'a, 'f> {
        Replay {
            dir: dir.to_owned(),
            applied,
            apply,
            kept_entries: options.kept_entries,
            kept_bytes: options.kept_bytes,
            metadata: None,
            void_before: 0,
            hard_state: HardState::default(),
            base: None,
            trimmed: None,
            entries: VecDeque::new(),
            bytes: 0,
        }
    }

    fn corrupt(&self, what: String) -> Error {
        Error::corrupt(&self.dir, 0, what)
    }

    pub(super) fn take(&mut self, record: &Record<'_>) -> Result<()> {
        let payload = record.payload;
        match record.kind {
            METADATA => self.metadata = Some(Bytes::copy_from_slice(payload)),
            HARD_STATE => match words::<3>(payload) {
                Some([term, vote, commit]) => {
                    self.hard_state = HardState { term, vote, commit };
                    return self.apply_through(commit);
                }
                None => return Err(self.corrupt("a hard state has the wrong length".into())),
            },
            RESET => match words::<1>(payload) {
                Some([term]) => {
                    let index = record.index;
                    self.clear();
                    self.base = Some(index);
                    self.trimmed = Some(Position { term, index });
                    self.void_before = index;
                }
                None => return Err(self.corrupt("a reset has the wrong length".into())),
            },
            ENTRY => {
                let Some(entry) = parse_entry(record) else {
                    return Err(self.corrupt(format!("entry {} cannot be read", record.index)));
                };
                return self.push(entry);
            }
            kind => return Err(self.corrupt(format!("a log record of unknown kind {kind}"))),
        }
        Ok(())
    }

    /// Applies what is here and committed. The writer of the commit index had those entries on disk
    /// before, and the log that holds the applied position is the log that was committed.
    /// Without metadata the log is no member's yet: see [`super::LogWriter::begin_anew`].
    fn apply_through(&mut self, commit: Index) -> Result<()> {
        if self.apply.is_none() || self.metadata.is_none() || !self.continues() {
            return Ok(());
        }
        while self.applied.index < commit
            && let Some(entry) = self.get(self.applied.index + 1).cloned()
            && let Some(apply) = &mut self.apply
        {
            apply(&entry)?;
            self.applied = entry.position();
            self.bytes += entry.data.len();
            self.trim();
        }
        Ok(())
    }

    /// True if the entries here continue the applied position.
    fn continues(&self) -> bool {
        let Position { term, index } = self.applied;
        // Entries that begin right after it were written after it. If their term is earlier, they
        // are the tail that a snapshot has made void.
        let first = self.entries.front().map_or(term, |entry| entry.term);
        let begins = self.base.is_none_or(|base| base == index) && first >= term;
        begins || self.term_at(index) == Some(term)
    }

    fn get(&self, index: Index) -> Option<&Entry> {
        let offset = index.checked_sub(self.base? + 1)?;
        self.entries.get(offset as usize)
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }

    fn last(&self) -> Option<Index> {
        self.base.map(|base| base + self.entries.len() as Index)
    }

    fn push(&mut self, entry: Entry) -> Result<()> {
        let base = *self.base.get_or_insert(entry.index.saturating_sub(1));
        let last = base + self.entries.len() as Index;
        if entry.index > last + 1 {
            return Err(self.corrupt(format!("entry {} follows entry {last}", entry.index)));
        }
        if entry.index <= base {
            // What came so far is a long tail of an earlier term. It was trimmed because these
            // indexes have been applied since, in the version that begins here.
            self.clear();
            self.base = Some(entry.index.saturating_sub(1));
            self.trimmed = None;
        }
        while self.last().is_some_and(|last| last >= entry.index) {
            if let Some(gone) = self.entries.pop_back()
                && gone.index <= self.applied.index
            {
                self.bytes -= gone.data.len();
            }
        }
        if entry.index <= self.applied.index {
            self.bytes += entry.data.len();
        }
        self.entries.push_back(entry);
        self.trim();
        Ok(())
    }

    /// Never drops the applied position itself: its term must be compared.
    fn trim(&mut self) {
        while let Some(first) = self.entries.front() {
            let surplus = self.applied.index.saturating_sub(first.index) as usize;
            let seen = self.entries.len();
            let over = seen.min(surplus) > self.kept_entries || self.bytes > self.kept_bytes;
            if first.index >= self.applied.index || !over {
                return;
            }
            self.bytes -= first.data.len();
            self.base = Some(first.index);
            self.trimmed = Some(first.position());
            self.entries.pop_front();
        }
    }

    fn term_at(&self, index: Index) -> Option<u64> {
        match self.trimmed {
            Some(trimmed) if trimmed.index == index => Some(trimmed.term),
            _ => self.get(index).map(|entry| entry.term),
        }
    }

    /// Applies the decision table of this module.
    pub(super) fn settle(mut self) -> Result<(Recovered, Option<Voided>)> {
        let applied = self.applied;
        let begin = self.base.unwrap_or(applied.index);
        if begin > applied.index {
            return Err(self.corrupt(format!(
                "the log begins with entry {}, the store needs {}",
                begin + 1,
                applied.index + 1
            )));
        }
        let continues = self.continues();
        let voided = (!continues).then(|| Voided {
            applied,
            last: self.last().unwrap_or_default(),
            commit: self.hard_state.commit,
        });
        if !continues {
            self.clear();
        }
        let base = if continues {
            self.base_position(begin, applied)
        } else {
            applied
        };
        let newest = self.entries.back().map_or(base, Entry::position);
        let mut state = self.hard_state;
        if continues && state.commit > newest.index {
            let what = format!("the log ends at {}, not {}", newest.index, state.commit);
            return Err(self.corrupt(what));
        }
        if state.term < newest.term {
            // The record was torn off after the entries it came with, or the store has a term that
            // this log never saw. A vote in that term would have been durable before anybody heard
            // of it, so there was none.
            state.term = newest.term;
            state.vote = NOBODY;
        }
        state.commit = state.commit.clamp(applied.index, newest.index);
        let recovered = Recovered {
            hard_state: state,
            base,
            entries: mem::take(&mut self.entries).into(),
            applied: applied.index,
        };
        Ok((recovered, voided))
    }

    /// The position before the first entry. If its term is unknown, the first entry is removed and
    /// becomes the base.
    fn base_position(&mut self, base: Index, applied: Position) -> Position {
        if base == applied.index {
            return applied;
        }
        if base == 0 {
            return Position::default();
        }
        if let Some(term) = self.term_at(base) {
            return Position { term, index: base };
        }
        match self.entries.pop_front() {
            Some(first) => first.position(),
            None => applied,
        }
    }
}
