//! The log on disk: what `raft` must remember, as records of `storage::wal`. Only this module uses
//! that log. It knows nothing of elections.
//!
//! | kind | record index | payload | carried |
//! |---|---|---|---|
//! | 1 metadata | 0 | the server's bytes: whose log this is | yes |
//! | 2 entry | the entry's | term u64 LE, kind u8, data | no |
//! | 3 hard state | the last entry's | term, vote, commit, each u64 LE | yes |
//! | 4 reset | the position's | term u64 LE | no |
//!
//! The wal repeats *carried* records in each new segment. Records are read in order: an entry
//! replaces all entries at its index and after; a reset voids all entries before it; the last
//! metadata and hard state count. Metadata come last in a new log, and without them nothing is
//! applied: what is there may be a part of the first members. Then the store's applied position
//! decides the outcome:
//!
//! | the log | outcome |
//! |---|---|
//! | A: holds the applied position | entries after it are recovered, and some before |
//! | B: begins right after it, in its term or a later one | all entries are recovered |
//! | C: ends before it, or has another term there or an earlier one behind it | the store got a snapshot and the reset after it is missing: all entries are void, the reset is written now |
//! | D: begins later | entries are missing: refused |
//! | E: has a gap, or ends before the commit index it recorded | records are missing: refused |

mod reading;
mod replay;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use storage::Result;
use storage::encryption::DataKeys;
use storage::vfs::Vfs;
use storage::wal::{self, Record, Wal};

use crate::io::{Recovered, Write};
use crate::message::{ENTRY_BYTES_MAX, Entry, EntryKind, HardState, Index, Position};
pub use reading::FetchJob;
use reading::Places;
use replay::Replay;

const METADATA: u8 = 1;
const ENTRY: u8 = 2;
const HARD_STATE: u8 = 3;
const RESET: u8 = 4;

/// Bytes of an entry's payload before the data.
const ENTRY_HEAD_BYTES: usize = size_of::<u64>() + 1;
const _: () = assert!(ENTRY_HEAD_BYTES + ENTRY_BYTES_MAX <= wal::PAYLOAD_BYTES_MAX);

#[derive(Clone, Debug)]
pub struct Options {
    pub segment_bytes: u64,
    /// Most applied entries that recovery keeps in memory for slow followers.
    pub kept_entries: usize,
    /// Approximate limit of their bytes.
    pub kept_bytes: usize,
    /// Salts the checksums of the wal.
    pub seed: u64,
    /// Keys of encryption at rest.
    pub data_keys: Option<Arc<DataKeys>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: wal::SEGMENT_BYTES,
            kept_entries: 5000,
            kept_bytes: 32 << 20,
            seed: 0,
            data_keys: None,
        }
    }
}

/// What a log keeps of the entries that only followers may need, in whole files.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keep {
    /// The newest of them, as many as fit.
    pub bytes: u64,
    /// More if a follower is being fed the entries after this one, or gets a snapshot that holds
    /// all up to it: it would need another snapshot without them.
    pub feeding_after: Option<Index>,
    /// How many bytes that may be.
    pub fed_bytes: u64,
}

/// Applies one committed entry.
pub type Apply<'a> = dyn FnMut(&Entry) -> Result<()> + 'a;

/// What `LogWriter::open` found.
#[derive(Debug)]
pub struct Opened {
    /// As given to `begin_anew`; `None` in a directory that belongs to no member yet.
    pub metadata: Option<Bytes>,
    /// Entries after `applied`, and some before it, ready for `Raft::new`.
    pub recovered: Recovered,
    /// The store was ahead of the log: case C.
    pub voided: Option<Voided>,
    /// The wal's report about its end: a letter of its decision table.
    pub end: char,
}

/// A log that did not hold the applied position of the store. It begins anew after that position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Voided {
    /// The applied position.
    pub applied: Position,
    /// The newest entry that the log held; that before its first one, if it held none.
    pub last: Index,
    /// The commit index that the log had recorded.
    pub commit: Index,
}

impl Voided {
    /// True if the disk has lost writes that it had reported as durable: a member never takes a
    /// snapshot of what it knows to be committed, so its own log held the applied position.
    pub fn lost_writes(&self) -> bool {
        self.commit >= self.applied.index
    }
}

/// Owns the files; runs on its own thread.
#[derive(Debug)]
pub struct LogWriter {
    dir: PathBuf,
    wal: Wal,
    last: Index,
    written_bytes: u64,
    /// Entries before it are in a checkpoint, or in an installed state.
    needed_from: Index,
    /// Entries before it were made void by a reset: no follower can be fed from them.
    void_before: Index,
    /// Where earlier fetches ended.
    places: Places,
}

impl LogWriter {
    /// `applied` is what the store holds durably: the log must continue it without a gap.
    pub fn open(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        applied: Position,
        options: Options,
    ) -> Result<(LogWriter, Opened)> {
        LogWriter::begin(vfs, dir, applied, options, None)
    }

    /// Like `open`, but entries after `applied` that the log itself knows to be committed go to
    /// `apply`, in order, while they are read. They count as applied: memory does not grow with
    /// them.
    pub fn open_and_apply(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        applied: Position,
        options: Options,
        apply: &mut Apply<'_>,
    ) -> Result<(LogWriter, Opened)> {
        LogWriter::begin(vfs, dir, applied, options, Some(apply))
    }

    fn begin(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        applied: Position,
        options: Options,
        apply: Option<&mut Apply<'_>>,
    ) -> Result<(LogWriter, Opened)> {
        let mut replay = Replay::new(dir, applied, &options, apply);
        let wal_options = wal::Options {
            segment_bytes: options.segment_bytes,
            seed: options.seed,
            data_keys: options.data_keys,
            // What is kept for followers is in the store already.
            from: applied.index,
        };
        let (wal, recovery) = Wal::open(vfs, dir, wal_options, &mut |record| replay.take(&record))?;
        let metadata = replay.metadata.take();
        let void_before = replay.void_before;
        let term_on_disk = replay.hard_state.term;
        let applied = replay.applied;
        let (recovered, voided) = replay.settle()?;
        let last = recovered.base.index + recovered.entries.len() as Index;
        let mut writer = LogWriter {
            dir: dir.to_owned(),
            wal,
            last,
            written_bytes: 0,
            needed_from: 0,
            void_before,
            places: Places::default(),
        };
        if voided.is_some() {
            writer.reset(applied);
        }
        if voided.is_some() || recovered.hard_state.term != term_on_disk {
            writer.hard_state(&recovered.hard_state);
            writer.sync()?;
        }
        let opened = Opened {
            metadata,
            recovered,
            voided,
            end: recovery.end,
        };
        Ok((writer, opened))
    }

    /// Makes the first write of a member durable, and then whose log this is (`metadata`: node and
    /// cluster id, in the server's encoding). A log that a power cut left without metadata may hold
    /// a part of that write, and is no member's: it begins anew, with nothing of before. Otherwise
    /// a member could take a part of the first members for the whole cluster.
    pub fn begin_anew(&mut self, metadata: &[u8], first: &Write) -> Result<()> {
        if self.last > 0 {
            // Before the reset: a commit index beyond the end of the log is damage.
            self.hard_state(&HardState::default());
            self.reset(Position::default());
        }
        self.append(first)?;
        self.sync()?;
        self.set_metadata(metadata);
        self.sync()
    }

    /// Takes one write, in ticket order, and hands it to the file system. `sync` makes it durable.
    pub fn append(&mut self, write: &Write) -> Result<()> {
        if let Some(position) = write.reset {
            self.reset(position);
        }
        for entry in &write.entries {
            assert!(
                entry.index <= self.last + 1,
                "entry {} after {}",
                entry.index,
                self.last
            );
            self.last = entry.index;
            let kind = [kind_byte(entry.kind)];
            let parts: [&[u8]; 3] = [&entry.term.to_le_bytes(), &kind, &entry.data];
            self.wal.append(ENTRY, entry.index, &parts);
        }
        if let Some(state) = &write.hard_state {
            self.hard_state(state);
        }
        self.written_bytes += self.wal.buffered_bytes() as u64;
        self.wal.write()
    }

    /// Bytes of records handed to the file system since the start.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    fn set_metadata(&mut self, metadata: &[u8]) {
        self.wal.append_carried(METADATA, 0, &[metadata]);
    }

    fn reset(&mut self, position: Position) {
        self.last = position.index;
        self.void_before = position.index;
        // A state is durable before its reset is written.
        self.needed_from = self.needed_from.max(position.index);
        self.wal
            .append(RESET, position.index, &[&position.term.to_le_bytes()]);
    }

    fn hard_state(&mut self, state: &HardState) {
        let words = [state.term, state.vote, state.commit].map(u64::to_le_bytes);
        self.wal
            .append_carried(HARD_STATE, self.last, &[&words[0], &words[1], &words[2]]);
    }

    /// Makes everything appended durable. Failure is final: the process must end.
    pub fn sync(&mut self) -> Result<()> {
        self.wal.write()?;
        self.wal.sync()
    }

    /// Entries before `index` are no longer needed for a start; [`Self::finish_drop`] removes whole
    /// segments of them.
    pub fn drop_before(&mut self, index: Index) -> Result<()> {
        self.drop_but(index, Keep::default())
    }

    /// Like `drop_before`, but keeps the newest of those entries for followers that lag.
    pub fn drop_but(&mut self, index: Index, keep: Keep) -> Result<()> {
        self.needed_from = self.needed_from.max(index);
        self.shrink_to(keep)
    }

    /// Drops entries that only followers may need, until those left are no more than `keep` says.
    /// Those that a reset made void are not kept at all.
    pub fn shrink_to(&mut self, keep: Keep) -> Result<()> {
        let void_before = self.void_before.min(self.needed_from);
        if void_before > 0 {
            self.wal.drop_before(void_before)?;
        }
        let fed_bytes = keep.feeding_after.map_or(0, |after| {
            let is_fed = self.wal.droppable_bytes(self.needed_from.min(after + 1));
            self.kept_bytes() - is_fed
        });
        let bytes = if fed_bytes <= keep.fed_bytes {
            keep.bytes.max(fed_bytes)
        } else {
            // It will need a snapshot again anyhow.
            keep.bytes
        };
        self.wal.drop_but(self.needed_from, bytes)
    }

    /// Bytes of the files that only followers may need, as far as that is known since the start.
    pub fn kept_bytes(&self) -> u64 {
        self.wal.droppable_bytes(self.needed_from)
    }

    /// Removal of dropped segments, for a helper thread, so that the next write need not do it.
    pub fn finish_drop(&mut self) -> Option<wal::DropJob> {
        self.wal.finish_drop()
    }

    /// Creation of the next segment file, for a helper thread, so that no write need do it.
    pub fn prepare_next(&mut self) -> Option<wal::PrepareJob> {
        self.wal.prepare_next()
    }
}

fn words<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let (words, rest) = bytes.as_chunks::<8>();
    if !rest.is_empty() {
        return None;
    }
    let words: &[[u8; 8]; N] = words.try_into().ok()?;
    Some(words.map(u64::from_le_bytes))
}

fn kind_byte(kind: EntryKind) -> u8 {
    match kind {
        EntryKind::Normal => 0,
        EntryKind::ConfChange => 1,
        EntryKind::ConfChangeV2 => 2,
    }
}

fn parse_entry(record: &Record<'_>) -> Option<Entry> {
    let (term, rest) = record.payload.split_first_chunk::<8>()?;
    let (kind, data) = rest.split_first()?;
    Some(Entry {
        term: u64::from_le_bytes(*term),
        index: record.index,
        kind: match kind {
            0 => EntryKind::Normal,
            1 => EntryKind::ConfChange,
            2 => EntryKind::ConfChangeV2,
            _ => return None,
        },
        data: Bytes::copy_from_slice(data),
    })
}

#[cfg(test)]
mod tests;
