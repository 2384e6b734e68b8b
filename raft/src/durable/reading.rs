//! Reads committed entries back from the log's files, for followers that lag.
//!
//! The log may hold several versions of an entry. The last one counts, and an entry is certain to be
//! the last version once a later hard state says that it was committed, or the log has been read to
//! its end. A fetch is for committed entries only, so one of both comes.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use storage::wal::{Pinned, Place, Record};
use storage::{Error, Result};

use super::{ENTRY, HARD_STATE, LogWriter, RESET, parse_entry, words};
use crate::io::{Fetch, LogPart};
use crate::log;
use crate::message::{Entry, Index, Position};

/// A fetch that continues an earlier one begins where that ended. This many ends are remembered.
const PLACES_MAX: usize = 16;

/// Places after committed entries, each with the entry's position; the newest last.
#[derive(Clone, Debug, Default)]
pub(super) struct Places(Arc<Mutex<VecDeque<(Position, Place)>>>);

impl Places {
    fn take_after(&self, index: Index) -> Option<(Position, Place)> {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = places
            .iter()
            .position(|(before, _)| before.index == index)?;
        places.remove(at)
    }

    fn put(&self, before: Position, place: Place) {
        let mut places = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while places.len() >= PLACES_MAX {
            places.pop_front();
        }
        places.push_back((before, place));
    }
}

impl LogWriter {
    /// Prepares a fetch. Until the job has run, or is dropped, the entries it may read stay.
    pub fn fetch(&self, fetch: Fetch) -> FetchJob {
        FetchJob {
            dir: self.dir.clone(),
            fetch,
            pinned: self.wal.pin(fetch.from.saturating_sub(1)),
            places: self.places.clone(),
        }
    }
}

/// Reads what a fetch asks for; runs on any thread.
#[derive(Debug)]
pub struct FetchJob {
    dir: PathBuf,
    fetch: Fetch,
    pinned: Result<Pinned>,
    places: Places,
}

impl FetchJob {
    pub fn fetch(&self) -> Fetch {
        self.fetch
    }

    /// `None` if the log does not hold all of it. An error means that the log is damaged or its disk
    /// fails.
    pub fn run(self) -> Result<Option<LogPart>> {
        let fetch = self.fetch;
        let known = self.places.take_after(fetch.from - 1);
        let (prev, place) = known.unzip();
        let mut reader = self.pinned?.reader(place.as_ref());
        let mut part = Part::new(fetch, prev);
        let mut end = None;
        while let Some(record) = reader.read()? {
            match part.take(&record, &self.dir)? {
                Taken::Nothing => {}
                Taken::Entry => end = reader.place(),
                Taken::Last => break,
            }
        }
        let found = part.finish();
        if let (Some(place), Some(last)) =
            (end, found.as_ref().and_then(|part| part.entries.last()))
        {
            self.places.put(last.position(), place);
        }
        Ok(found)
    }
}

/// What a record was for a fetch.
enum Taken {
    Nothing,
    Entry,
    /// All that is wanted is here, and certain.
    Last,
}

/// The entries found so far, in the versions found so far.
struct Part {
    fetch: Fetch,
    prev: Option<Position>,
    entries: Vec<Entry>,
    bytes: usize,
    is_full: bool,
}

impl Part {
    /// `prev` is the position before the first entry, if it is known.
    fn new(fetch: Fetch, prev: Option<Position>) -> Part {
        let start = (fetch.from == 1).then(Position::default);
        Part {
            fetch,
            prev: prev.or(start),
            entries: Vec::new(),
            bytes: 0,
            is_full: false,
        }
    }

    fn take(&mut self, record: &Record<'_>, dir: &Path) -> Result<Taken> {
        let unreadable = || {
            let what = format!("record {} of the log cannot be read", record.index);
            Error::corrupt(dir, 0, what)
        };
        match record.kind {
            ENTRY => return Ok(self.entry(parse_entry(record).ok_or_else(unreadable)?)),
            HARD_STATE => {
                let [_, _, commit] = words::<3>(record.payload).ok_or_else(unreadable)?;
                let last = self.entries.last();
                if self.is_full && last.is_some_and(|last| last.index <= commit) {
                    return Ok(Taken::Last);
                }
            }
            RESET => {
                let [term] = words::<1>(record.payload).ok_or_else(unreadable)?;
                let index = record.index;
                self.cut_from(0);
                self.prev = (index + 1 == self.fetch.from).then_some(Position { term, index });
            }
            _ => {}
        }
        Ok(Taken::Nothing)
    }

    fn entry(&mut self, entry: Entry) -> Taken {
        let Fetch { from, through, .. } = self.fetch;
        self.cut_from(entry.index);
        if entry.index < from {
            self.prev = (entry.index + 1 == from).then(|| entry.position());
            return Taken::Nothing;
        }
        let next = from + self.entries.len() as Index;
        if self.is_full || self.prev.is_none() || entry.index != next || next > through {
            return Taken::Nothing;
        }
        let bytes = self.bytes + log::size_of(&entry);
        if bytes > self.fetch.bytes && !self.entries.is_empty() {
            self.is_full = true;
            return Taken::Nothing;
        }
        self.bytes = bytes;
        self.is_full = entry.index == through;
        self.entries.push(entry);
        Taken::Entry
    }

    /// A later record replaces the entries from `index` on.
    fn cut_from(&mut self, index: Index) {
        let kept = index.saturating_sub(self.fetch.from) as usize;
        if kept < self.entries.len() {
            let gone = self.entries.drain(kept..);
            self.bytes -= gone.map(|entry| log::size_of(&entry)).sum::<usize>();
            self.is_full = false;
        }
    }

    fn finish(self) -> Option<LogPart> {
        let prev = self.prev?;
        let found = !self.entries.is_empty();
        found.then_some(LogPart {
            prev,
            entries: self.entries,
        })
    }
}

#[cfg(test)]
mod tests;
