//! Applies the log's committed entries after the store's checkpoint, while reading them and before
//! any actor runs. There are no clients, so no answers, no events and no lease time; it needs no
//! more memory than serving. With several threads, one reads, two look for the keys of puts in the
//! state that the start found, which is most of the work, and one applies.

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use raft::durable::{LogWriter, Opened, Options};
use raft::{Entry, EntryKind, Position};
use storage::mvcc::{Applied, Found, LonePut, Reader, Store, SyncJob};
use storage::vfs::Vfs;

use crate::basics::error::Error;
use crate::member::applier::Unsaved;
use crate::member::data_dir::Unusable;
use crate::request::{self, PutBy, Request};
use crate::state::entry;
use crate::state::{AnswerFor, Effects, State};

/// Bytes of keys and values gathered for one batch. The larger the batch, the more puts share a
/// leaf of the key tree; the smaller, the sooner all threads have work.
const GATHERED_BYTES: usize = 1 << 20;

/// Other entries are handed over in batches of so many, or of so many bytes of data.
const ENTRIES_MAX: usize = 64;
const ENTRY_BYTES_MAX: usize = 1 << 20;

/// Number of single entries applied between two looks at the store's memory.
const ENTRIES_PER_SPILL: u64 = 64;

/// Items of [`Work`] that wait between two threads: none, for each thread has one in hand, which is
/// memory enough.
const WAITING_MAX: usize = 0;

/// Which threads work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// One for all, so that all calls of the file system have one fixed order.
    One,
    /// One to read, two to look for keys, one to apply.
    Four,
}

/// Threads that look for keys.
const LOOKERS: usize = 2;

/// The result of a replay.
#[derive(Debug, Default)]
pub struct Replayed {
    pub entries: u64,
    /// Those that count for the next checkpoint.
    pub unsaved: Unsaved,
    /// Makes durable what the replay wrote to the page file.
    pub sync: Option<SyncJob>,
}

impl Replayed {
    /// The start has taken so long: another one would, until there is a checkpoint.
    pub(crate) fn took(&mut self, time: Duration) {
        if self.unsaved.entries > 0 {
            self.unsaved.replay = time;
        }
    }
}

/// Opens the log in `dir` and applies its committed entries to `state`.
pub(crate) fn open_log(
    vfs: Arc<dyn Vfs>,
    dir: &Path,
    state: &mut State,
    options: Options,
    threads: Threads,
    dirty_bytes_max: u64,
) -> Result<(LogWriter, Opened, Replayed), Unusable> {
    let (used, unused) = mpsc::channel();
    let mut applying = Applying {
        state,
        replayed: Replayed::default(),
        used,
        dirty_bytes_max,
    };
    let (log, opened) = match threads {
        Threads::One => read(vfs, dir, applying.position(), options, unused, |work| {
            applying.take(work)
        })?,
        Threads::Four => thread::scope(|scope| {
            let position = applying.position();
            // A small store takes puts without that; what was found would be of no use.
            let looks = applying.state.store.looks_for_keys();
            let looker = |_| {
                let reader = applying.state.store.reader();
                let (give, work) = mpsc::sync_channel(WAITING_MAX);
                let (give_found, found) = mpsc::sync_channel(WAITING_MAX);
                scope.spawn(move || {
                    // Fails when the applying thread has ended, whose error is returned.
                    let _ = work.into_iter().try_for_each(|work| {
                        let work = if looks { look(work, &reader) } else { Ok(work) };
                        give_found.send(work)
                    });
                });
                (give, found)
            };
            // Work goes to them in turn and comes from them in turn: in the order of the log.
            let (gives, founds): (Vec<_>, Vec<_>) = (0..LOOKERS).map(looker).unzip();
            let applying = &mut applying;
            let applier = scope.spawn(move || {
                let mut in_turn = founds.iter().cycle().map_while(|found| found.recv().ok());
                in_turn.try_for_each(|work| applying.take(work?))
            });
            let mut in_turn = gives.iter().cycle();
            let found = read(vfs, dir, position, options, unused, |work| {
                let give = in_turn.next().ok_or_else(gone)?;
                give.send(work).map_err(|_| gone())
            });
            drop(gives);
            let applied = applier
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            applied.map_err(Unusable::State).and(found)
        })?,
    };
    let replayed = applying.replayed;
    state.store.publish();
    Ok((log, opened, replayed))
}

/// Looks for the keys of puts in the newest published state.
fn look(work: Work, reader: &Reader) -> Result<Work, Error> {
    let Work::Puts(puts, _) = work else {
        return Ok(work);
    };
    let found = reader.view().find_for(&puts.puts())?;
    Ok(Work::Puts(puts, Some(found)))
}

/// Never reported: the error that ended the thread is returned instead.
fn gone() -> Error {
    Error::Damaged("the thread that applies has ended".to_owned())
}

fn read(
    vfs: Arc<dyn Vfs>,
    dir: &Path,
    applied: Position,
    options: Options,
    unused: mpsc::Receiver<Puts>,
    give: impl FnMut(Work) -> Result<(), Error>,
) -> Result<(LogWriter, Opened), Unusable> {
    let mut reading = Reading {
        puts: Puts::default(),
        entries: Vec::new(),
        entry_bytes: 0,
        unused,
        give,
    };
    let mut damaged = None;
    let found = LogWriter::open_and_apply(vfs, dir, applied, options, &mut |entry: &Entry| {
        reading.take(entry).map_err(|error| {
            let what = format!("entry {} cannot be applied: {error}", entry.index);
            damaged = Some(error);
            storage::Error::corrupt(dir, 0, what)
        })
    });
    if let Some(error) = damaged {
        return Err(Unusable::State(error));
    }
    let found = found?;
    reading.give_rest().map_err(Unusable::State)?;
    Ok(found)
}

/// Work for the applying side, in the order of the log.
enum Work {
    Puts(Puts, Option<Found>),
    Entries(Vec<Entry>),
}

/// Puts that only write their key; see [`Request::lone_put`].
#[derive(Default)]
struct Puts {
    /// All keys and values, concatenated.
    bytes: Vec<u8>,
    rows: Vec<PutRow>,
    /// All headers, concatenated.
    headers: Vec<u8>,
}

struct PutRow {
    applied: Applied,
    /// End of the key in `bytes`. The key begins where the previous row's value ends.
    key_end: usize,
    value_end: usize,
    header_end: usize,
    reads: bool,
}

impl Puts {
    fn push(&mut self, applied: Applied, put: &request::LonePut<'_>) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(GATHERED_BYTES + GATHERED_BYTES / 8);
        }
        self.bytes.extend_from_slice(put.key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(put.value);
        self.headers.extend_from_slice(put.by.header);
        self.rows.push(PutRow {
            applied,
            key_end,
            value_end: self.bytes.len(),
            header_end: self.headers.len(),
            reads: put.by.reads,
        });
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
        self.headers.clear();
    }

    /// What decides about each put if auth is on when it is applied.
    fn by(&self) -> impl Iterator<Item = PutBy<'_>> {
        let mut start = 0;
        self.rows.iter().map(move |row| {
            let header = &self.headers[start..row.header_end];
            start = row.header_end;
            let reads = row.reads;
            PutBy { header, reads }
        })
    }

    fn puts(&self) -> Vec<LonePut<'_>> {
        let mut start = 0;
        let put = |row: &PutRow| {
            let key = &self.bytes[start..row.key_end];
            start = row.value_end;
            LonePut {
                applied: row.applied,
                key,
                value: &self.bytes[row.key_end..row.value_end],
                lease: 0,
            }
        };
        self.rows.iter().map(put).collect()
    }
}

struct Reading<F> {
    puts: Puts,
    /// Entries that are no such puts, and their bytes.
    entries: Vec<Entry>,
    entry_bytes: usize,
    /// Used batches, emptied. Their memory is mapped already.
    unused: mpsc::Receiver<Puts>,
    give: F,
}

impl<F: FnMut(Work) -> Result<(), Error>> Reading<F> {
    fn take(&mut self, entry: &Entry) -> Result<(), Error> {
        if entry.kind == EntryKind::Normal
            && let Some(put) = Request::lone_put(&entry.data)
        {
            let applied = Applied {
                index: entry.index,
                term: entry.term,
            };
            self.give_entries()?;
            self.puts.push(applied, &put);
            if self.puts.bytes.len() >= GATHERED_BYTES {
                self.give_puts()?;
            }
            return Ok(());
        }
        self.give_puts()?;
        self.entry_bytes += entry.data.len();
        self.entries.push(entry.clone());
        if self.entries.len() >= ENTRIES_MAX || self.entry_bytes >= ENTRY_BYTES_MAX {
            self.give_entries()?;
        }
        Ok(())
    }

    fn give_rest(&mut self) -> Result<(), Error> {
        // At most one of them has anything.
        self.give_puts()?;
        self.give_entries()
    }

    fn give_entries(&mut self) -> Result<(), Error> {
        if self.entries.is_empty() {
            return Ok(());
        }
        self.entry_bytes = 0;
        (self.give)(Work::Entries(std::mem::take(&mut self.entries)))
    }

    fn give_puts(&mut self) -> Result<(), Error> {
        if self.puts.rows.is_empty() {
            return Ok(());
        }
        let next = self.unused.try_recv().unwrap_or_default();
        let puts = std::mem::replace(&mut self.puts, next);
        (self.give)(Work::Puts(puts, None))
    }
}

struct Applying<'a> {
    state: &'a mut State,
    replayed: Replayed,
    used: mpsc::Sender<Puts>,
    /// Bytes of changed pages that make a checkpoint.
    dirty_bytes_max: u64,
}

impl Applying<'_> {
    fn position(&self) -> Position {
        let Applied { term, index } = self.state.store.root().applied();
        Position { term, index }
    }

    fn take(&mut self, work: Work) -> Result<(), Error> {
        match work {
            Work::Puts(mut puts, found) => {
                self.count(puts.rows.len(), puts.bytes.len());
                let sync = self.state.put_all(puts.puts(), puts.by(), found)?;
                // The newest sync covers the older ones, and nothing waits for it.
                self.replayed.sync = sync.or(self.replayed.sync.take());
                puts.clear();
                let _ = self.used.send(puts);
                self.keep_small()
            }
            Work::Entries(entries) => {
                for entry in &entries {
                    self.count(1, entry.data.len());
                    self.apply(entry)?;
                    if self.replayed.entries.is_multiple_of(ENTRIES_PER_SPILL) {
                        self.keep_small()?;
                    }
                }
                Ok(())
            }
        }
    }

    fn count(&mut self, entries: usize, bytes: usize) {
        self.replayed.entries += entries as u64;
        self.replayed.unsaved.entries += entries as u64;
        self.replayed.unsaved.bytes += bytes as u64;
    }

    /// Returns an error only for a damaged store. Whether a request failed was answered long ago.
    fn apply(&mut self, entry: &Entry) -> Result<(), Error> {
        let applied = Applied {
            index: entry.index,
            term: entry.term,
        };
        let result = match entry.kind {
            EntryKind::Normal if entry.data.is_empty() => {
                self.state.skip(applied);
                Ok(())
            }
            EntryKind::Normal => {
                let (request, mut effects) = (entry::request(entry)?, Effects::default());
                let by = Request::auth_info_of(&entry.data);
                let result =
                    self.state
                        .apply(applied, &request, &by, AnswerFor::Nobody, &mut effects);
                result.map(drop)
            }
            EntryKind::ConfChange | EntryKind::ConfChangeV2 => {
                let change = entry::conf_change(entry)?;
                self.state.apply_conf_change(applied, &change)
            }
        };
        match result {
            Err(Error::Damaged(what)) => Err(Error::Damaged(what)),
            _ => Ok(()),
        }
    }

    /// Does what the applier does between entries: writes history to the file, and makes a
    /// checkpoint when too much else is dirty. Deletions are left to it: while one is in the way of the
    /// checkpoint, changed pages are written without. Only where that does not help, because the disk
    /// is full or because of what came since the deletion, it is written here.
    fn keep_small(&mut self) -> Result<(), Error> {
        let store = &mut self.state.store;
        self.replayed.sync = store.spill()?.or(self.replayed.sync.take());
        store.reserve(false)?;
        let is_small = |store: &Store| store.stats().dirty_bytes < self.dirty_bytes_max;
        if is_small(store) {
            return Ok(());
        }
        if store.root().is_deleting() {
            store.spill_all()?;
            if is_small(store) {
                return Ok(());
            }
        }
        store.delete_step(usize::MAX)?;
        if let Some(job) = store.begin_checkpoint() {
            let _ = store.finish_checkpoint(job.run()?);
            // Nobody reads yet, but pages given up since the last published root are reused only
            // after another root is published.
            store.publish();
            while !store.release_step(usize::MAX) {}
            self.replayed.unsaved = Unsaved::default();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
