//! The write-ahead log: records appended to segment files, durable after `sync`, read back in order
//! at open. Knows nothing of raft: a record is a kind, an index and bytes.
//!
//! The modules that encode a format document it: sectors in `sector`, records in `record`, files
//! and headers in `segment`. The table in `recover` decides what happens to a damaged log. Old
//! records are read beside the log's owner by `reading`.
//!
//! Recovery relies on this order of writes. To roll over to a new segment:
//! 1. The old segment's last bytes are written and synced.
//! 2. A file of full size, synced before, is renamed to the new name, and the directory is synced.
//! 3. Header, repeated records and new records are written to it at once; `sync` makes them
//!    durable.
//!
//! A segment is dropped only when the next one's head is durable: what it repeats is then safe.

mod anchor;
mod file;
mod found;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod outcome;
mod reading;
mod record;
mod recover;
mod rest;
mod sealed;
mod sector;
mod segment;
mod walk;
mod writing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::encryption::{CLEAR, DataKeys, Purpose, Scope, TAG_BYTES};
use crate::vfs::Vfs;
use crate::{Error, Result};
pub use found::{LogFound, SegmentFound};
pub(crate) use found::{inspect, is_of_log};
#[cfg(any(test, fuzzing))]
pub(crate) use fuzz::recover_anything;
pub use reading::{Pinned, Place, Reader};
use record::Checksum;
use sealed::RecordSealer;
pub use segment::{DropJob, PrepareJob, SPARES_MAX};
use segment::{Dropped, Header, Name, Segment, Spares};
use writing::OpenSegment;

/// The largest payload of one record.
pub const PAYLOAD_BYTES_MAX: usize = 32 << 20;

/// The usual size of a segment. A start reads the last one to its end, which the page cache does not
/// have because [`DropJob`] takes spares out of it. It reads the one with the oldest entry that it
/// needs from its beginning. With 64 MiB both took 60 ms, and 100 ms more where the disk is slow. With
/// less than 16 MiB the log would change files more often than once a second under load.
pub const SEGMENT_BYTES: u64 = 16 << 20;
/// The largest segment: positions in it fit into 32 bits.
const SEGMENT_BYTES_MAX: u64 = 2 << 30;
/// The smallest segment: a header and a few records.
const SEGMENT_BYTES_MIN: u64 = 4096;
/// Upper bound of a new log's first segment: many logs hold little.
const FIRST_SEGMENT_BYTES_MAX: u64 = 8 << 20;
/// The page cache writes whole pages, and charges a process for them.
const PAGE_BYTES: u64 = 4096;
/// Segment sizes are multiples of a page, so that a write of whole pages needs no read.
const SEGMENT_BYTES_STEP: u64 = PAGE_BYTES;

#[derive(Clone, Debug)]
pub struct Options {
    /// The size of a new segment file, in bytes.
    pub segment_bytes: u64,
    /// Salt of the checksums, best random, so that a client that chooses payloads cannot guess
    /// them.
    pub seed: u64,
    /// Keys of encryption at rest.
    pub data_keys: Option<Arc<DataKeys>>,
    /// Segments that hold only records of lower indexes are not read when the log is opened.
    pub from: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: SEGMENT_BYTES,
            seed: 0,
            data_keys: None,
            from: 0,
        }
    }
}

/// A record that recovery returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub kind: u8,
    pub index: u64,
    pub payload: &'a [u8],
    /// A repetition that the log wrote at the head of a new segment, so that dropping old segments
    /// loses nothing.
    pub repeated: bool,
}

/// What `Wal::open` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Records passed to the visitor, repeated ones included.
    pub records: u64,
    /// The letter of the decision table in `wal/recover.rs` that describes the log's end. C and D
    /// mean that a torn end was cut, and that the next record goes to a new segment.
    pub end: char,
    /// L or M if a segment that was never begun was removed.
    pub removed: Option<char>,
}

/// A record to be repeated at the head of every new segment.
#[derive(Clone, Debug)]
struct Carry {
    index: u64,
    payload: Vec<u8>,
}

/// The log, owned by one thread.
#[derive(Debug)]
pub struct Wal {
    dir: PathBuf,
    /// Size of a new segment; those on disk keep theirs.
    segment_bytes: u64,
    salt: u64,
    data_keys: Option<Arc<DataKeys>>,
    spares: Spares,
    /// Full and completely durable, oldest first.
    older: VecDeque<Segment>,
    /// The segment being written, and those that appended records continue in. Empty only while the
    /// log is new and nothing was appended.
    open: VecDeque<OpenSegment>,
    /// Sequence number of the next segment.
    next_sequence: u64,
    /// Highest index of any record appended.
    highest: u64,
    carries: BTreeMap<u8, Carry>,
    /// A power cut tore the head of the newest segment, and perhaps of others before it: until what
    /// they lack is durable again, only the oldest ones are sure to have it.
    head_is_torn: bool,
    /// A write or sync failed: nothing is certain until the log is opened again.
    failed: bool,
}

impl Wal {
    /// Opens the log in `dir` (created if missing) and passes every record that `options.from` asks
    /// for to `visit`, oldest first. Those records are durable when this returns. The caller holds
    /// the directory's lock.
    pub fn open(
        vfs: Arc<dyn Vfs>,
        dir: &Path,
        options: Options,
        visit: &mut dyn FnMut(Record<'_>) -> Result<()>,
    ) -> Result<(Wal, Recovery)> {
        let options = Options {
            segment_bytes: options
                .segment_bytes
                .clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
                .next_multiple_of(SEGMENT_BYTES_STEP),
            ..options
        };
        vfs.create_dir_all(dir).map_err(Error::io("create", dir))?;
        let found = recover::recover(&*vfs, dir, &options, visit)?;
        let spares = Spares::new(vfs, dir, found.spares, found.next_number);
        let open: VecDeque<OpenSegment> = found.tail.map(OpenSegment::resume).into_iter().collect();
        let next_sequence = open.back().map_or(1, |tail| tail.segment.sequence + 1);
        if open.is_empty() && spares.is_empty() {
            // An unusable directory shows now, and the first records find a file ready.
            let bytes = options.segment_bytes.min(FIRST_SEGMENT_BYTES_MAX);
            let first = spares.make(bytes)?;
            spares.put(first);
        }
        let mut wal = Wal {
            dir: dir.to_owned(),
            segment_bytes: options.segment_bytes,
            salt: options.seed,
            data_keys: options.data_keys,
            spares,
            older: found.older.into(),
            open,
            next_sequence,
            highest: found.highest,
            carries: found.carries,
            head_is_torn: false,
            failed: false,
        };
        wal.repeat_missing(&found.in_tail);
        Ok((wal, found.recovery))
    }

    /// Buffers a record. Its payload is the concatenated parts, together at most
    /// `PAYLOAD_BYTES_MAX`.
    pub fn append(&mut self, kind: u8, index: u64, payload: &[&[u8]]) {
        self.append_with(0, kind, index, payload);
    }

    /// Like `append`, and every new segment repeats the newest such record of its kind at its head:
    /// for state that must outlive dropped segments. Remembered across `open`.
    pub fn append_carried(&mut self, kind: u8, index: u64, payload: &[&[u8]]) {
        self.append_with(record::CARRIED, kind, index, payload);
        let payload = payload.concat();
        self.carries.insert(kind, Carry { index, payload });
    }

    /// Approximate bytes that the next `write` hands over.
    pub fn buffered_bytes(&self) -> usize {
        self.open.iter().map(|s| s.framer.buffered_bytes()).sum()
    }

    /// Bytes of records in the log, framing included.
    pub fn size_bytes(&self) -> u64 {
        let older: u64 = self.older.iter().map(|s| s.bytes).sum();
        let open = self.open.iter().map(|s| sector::file_bytes(s.framer.len()));
        older + open.sum::<u64>()
    }

    /// Hands everything buffered to the file system. A failure is final.
    pub fn write(&mut self) -> Result<()> {
        self.unless_failed(Wal::write_all)
    }

    /// Makes everything written durable. A failure is final.
    pub fn sync(&mut self) -> Result<()> {
        self.unless_failed(|wal| {
            // The next segment has recorded already where an earlier one ends.
            let is_last = wal.open.len() == 1;
            let Some(current) = wal.open.front_mut() else {
                return Ok(());
            };
            if is_last && current.fill_page() {
                current.write()?;
            }
            current.sync()
        })
    }

    /// Drops the oldest segments whose records all have lower indexes, except those that are pinned.
    /// [`Wal::finish_drop`] removes their files, except those under a key to be forgotten: these are
    /// durably gone on return.
    pub fn drop_before(&mut self, index: u64) -> Result<()> {
        self.drop_but(index, 0)
    }

    /// Like `drop_before`, but keeps the newest of those segments, as many as fit into `keep_bytes`.
    /// Those under a key to be forgotten are dropped all the same.
    pub fn drop_but(&mut self, index: u64, keep_bytes: u64) -> Result<()> {
        self.unless_failed(|wal| wal.drop_segments(index, keep_bytes))
    }

    /// Bytes of the files that `drop_before` would drop if nothing were pinned.
    pub fn droppable_bytes(&self, index: u64) -> u64 {
        let droppable = self
            .older
            .iter()
            .take_while(|segment| segment.is_before(index));
        droppable.map(|segment| segment.bytes).sum()
    }

    /// Removal of dropped files, as a job for a helper thread; `None` if there is nothing to do.
    /// Ask after every `drop_before`.
    pub fn finish_drop(&mut self) -> Option<DropJob> {
        self.spares.drop_job(self.segment_bytes)
    }

    /// Creation of the next segment file, as a job for a helper thread; `None` if there is nothing
    /// to do. Ask after every `write`.
    pub fn prepare_next(&mut self) -> Option<PrepareJob> {
        self.spares.job(self.segment_bytes)
    }

    /// Appends the carried records that a power cut tore off behind a segment's header. Without
    /// them the older segments could never be dropped.
    fn repeat_missing(&mut self, in_tail: &BTreeSet<u8>) {
        let missing = self.carries.iter().filter(|(k, _)| !in_tail.contains(k));
        let missing: Vec<(u8, Carry)> = missing.map(|(k, c)| (*k, c.clone())).collect();
        self.head_is_torn = !missing.is_empty();
        for (kind, carry) in missing {
            let needed = self.stream_bytes(carry.payload.len());
            let is_new = self.make_ready(needed);
            match self.open.back_mut() {
                Some(tail) if !is_new => tail.repeat(kind, &carry),
                // A new segment begins with all of them.
                _ => return,
            }
        }
    }

    fn append_with(&mut self, flags: u8, kind: u8, index: u64, payload: &[&[u8]]) {
        let len = payload.iter().map(|part| part.len()).sum();
        assert!(len <= PAYLOAD_BYTES_MAX, "payload of {len} bytes");
        self.make_ready(self.stream_bytes(len));
        let last = self.open.back_mut().expect("made ready");
        if self.data_keys.is_some() && last.sealer.is_none() {
            last.segment.keys.insert(CLEAR);
        }
        last.append(flags, kind, index, payload);
        last.segment.highest = last.segment.highest.max(Some(index));
        self.highest = self.highest.max(index);
    }

    /// Upper bound of the stream bytes that a record takes.
    fn stream_bytes(&self, payload: usize) -> u64 {
        let tag = if self.data_keys.is_some() {
            TAG_BYTES
        } else {
            0
        };
        record::stream_bytes(payload + tag) as u64
    }

    /// Makes sure that the last segment can take a record of that length, sealed as the active key
    /// requires. Returns true if it began a segment for that.
    fn make_ready(&mut self, needed: u64) -> bool {
        let active = self
            .data_keys
            .as_ref()
            .map_or(CLEAR, |data_keys| data_keys.active());
        if let Some(last) = self.open.back_mut() {
            let key = last.sealer.as_ref().map_or(CLEAR, RecordSealer::key);
            if key == active && last.room() >= needed {
                return false;
            }
            let room = last.room() >= needed + sealed::KEY_RECORD_STREAM_BYTES;
            if last.resumed && active != CLEAR && room && last.is_of(active) {
                last.begin_scope(scope(self.data_keys.as_deref()));
                return false;
            }
        }
        self.begin_segment(needed);
        true
    }

    /// Appends continue in a new segment, with room for `needed` bytes after the repeated records.
    /// `write` does the file work later.
    fn begin_segment(&mut self, needed: u64) {
        let carried = self.carries.values();
        let carried: u64 = carried.map(|c| self.stream_bytes(c.payload.len())).sum();
        let scope = scope(self.data_keys.as_deref());
        let key_record = scope
            .as_ref()
            .map_or(0, |_| sealed::KEY_RECORD_STREAM_BYTES);
        let least = sector::file_bytes(key_record + carried + needed);
        let source = self.spares.take(least, self.is_mixed());
        let bytes = match &source {
            Some(spare) => spare.bytes,
            None => (self.segment_bytes.max(least)).next_multiple_of(SEGMENT_BYTES_STEP),
        };
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let before = self.open.back();
        let header = Header {
            sequence,
            previous_crc: before.map_or(0, |before| before.crc),
            previous_end: before.map_or(0, |before| before.framer.len()),
            highest: self.highest,
            salt: self.salt,
            key: scope.as_ref().map_or(CLEAR, |scope| scope.key),
            checksum: Checksum::Crc32,
        };
        let path = Name::Segment { sequence, bytes }.path(&self.dir);
        let segment = Segment::new(sequence, bytes, path);
        let mut next = OpenSegment::begin(segment, source, &header);
        next.begin_scope(scope);
        for (kind, carry) in &self.carries {
            next.repeat(*kind, carry);
        }
        self.open.push_back(next);
    }

    fn write_all(&mut self) -> Result<()> {
        loop {
            let is_last = self.open.len() <= 1;
            let Some(current) = self.open.front_mut() else {
                return Ok(());
            };
            if current.file.is_none() {
                let source = match current.source.take() {
                    Some(spare) => spare,
                    // No helper thread was fast enough.
                    None => current.make_file(&self.spares, &self.dir)?,
                };
                current.file = Some(self.spares.install(&source, &current.segment.path)?);
            }
            if is_last {
                return current.write();
            }
            current.write()?;
            // Everything in a segment is durable before the next one gets its name.
            current.sync()?;
            let done = self.open.pop_front();
            self.older.extend(done.map(|done| done.segment));
        }
    }

    fn drop_segments(&mut self, index: u64, keep_bytes: u64) -> Result<()> {
        let epoch = self
            .data_keys
            .as_ref()
            .map_or(0, |data_keys| data_keys.epoch());
        let mixed = self.is_mixed();
        if mixed {
            self.leave_other_keys()?;
        }
        let newest = self.open.back();
        self.head_is_torn &= newest.is_none_or(|newest| newest.durable < newest.head_end);
        if self.head_is_torn {
            return Ok(());
        }
        let keep_bytes = if mixed { 0 } else { keep_bytes };
        let mut droppable = self.droppable_bytes(index);
        while let Some(oldest) = self.older.front() {
            let needed = !oldest.is_before(index) || oldest.is_pinned() || droppable <= keep_bytes;
            let next_is_durable =
                self.older.len() > 1 || self.open.front().is_some_and(|c| c.durable >= c.head_end);
            if needed || !next_is_durable {
                break;
            }
            droppable -= oldest.bytes;
            let dropped = Dropped {
                path: oldest.path.clone(),
                bytes: oldest.bytes,
            };
            if mixed {
                // Its content must never be readable again, not even in a spare file.
                self.spares.drop_now(&dropped)?;
            } else {
                self.spares.drop_later(dropped);
            }
            self.older.pop_front();
        }
        match &self.data_keys {
            Some(data_keys) if mixed && self.is_of(data_keys.active()) => {
                data_keys.log_is_settled(epoch)
            }
            _ => {}
        }
        Ok(())
    }

    /// True if something here may be sealed differently from new records, or not at all.
    fn is_mixed(&self) -> bool {
        self.data_keys
            .as_ref()
            .is_some_and(|data_keys| data_keys.is_mixed())
    }

    /// True if everything sealed here uses this key.
    fn is_of(&self, key: u32) -> bool {
        let older = self.older.iter().all(|segment| segment.is_of(key));
        older && self.open.iter().all(|open| open.is_of(key))
    }

    /// Prepares all segments under other keys than the active one to be dropped.
    fn leave_other_keys(&mut self) -> Result<()> {
        self.spares.discard_stale()?;
        let active = self
            .data_keys
            .as_ref()
            .map_or(CLEAR, |data_keys| data_keys.active());
        if self.open.back().is_some_and(|last| !last.is_of(active)) {
            self.begin_segment(0);
            self.write_all()?;
            if let Some(current) = self.open.front_mut() {
                current.sync()?;
            }
        }
        Ok(())
    }

    fn unless_failed(&mut self, f: impl FnOnce(&mut Wal) -> Result<()>) -> Result<()> {
        if self.failed {
            let source = io::Error::other("an earlier write or sync failed");
            return Err(Error::io("write", &self.dir)(source));
        }
        let done = f(self);
        self.failed = done.is_err();
        done
    }
}

/// Without random bytes from the system nothing can continue: the process ends.
fn scope(data_keys: Option<&DataKeys>) -> Option<Scope> {
    let scope = data_keys
        .map(|data_keys| data_keys.scope(Purpose::Record))
        .transpose();
    scope.unwrap_or_else(|error| panic!("{error}")).flatten()
}

#[cfg(test)]
mod tests;
