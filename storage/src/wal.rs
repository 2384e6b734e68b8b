//! The write-ahead log: records appended to segment files, durable after `sync`, read back in
//! order at open. Knows nothing of raft: a record is a kind, an index and bytes.
//!
//! The formats stand in the modules that pack them: sectors in `sector`, records in `record`,
//! files and headers in `segment`; what is made of a damaged log is the table in `recover`.
//!
//! The order of writes, on which recovery relies. Rolling over to a new segment:
//! 1. the old segment's last bytes are written and synced,
//! 2. a file of full size, synced before, is renamed to the new name, and the directory synced,
//! 3. header, repeated records and new records go into it, in one write; `sync` makes them durable.
//!
//! Dropping a segment waits until the next one's head is durable: what it repeats is then safe.

#[cfg(any(test, fuzzing))]
mod fuzz;
mod record;
mod recover;
mod sealed;
mod sector;
mod segment;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::seal::{CLEAR, Purpose, Scope, Seal, TAG_BYTES};
use crate::vfs::{File, Vfs, is_full};
use crate::{Error, Result};
#[cfg(any(test, fuzzing))]
pub(crate) use fuzz::recover_anything;
use record::Head;
use recover::Segment;
use sealed::RecordSealer;
use sector::Framer;
pub use segment::{DropJob, PrepareJob};
use segment::{Header, Name, Spare, Spares};

/// The largest payload of one record.
pub const PAYLOAD_BYTES_MAX: usize = 32 << 20;

/// The largest segment: positions in it fit into 32 bits.
const SEGMENT_BYTES_MAX: u64 = 2 << 30;
/// The smallest: a header and a few records.
const SEGMENT_BYTES_MIN: u64 = 4096;
/// A new log's first segment is no larger: many logs hold little.
const FIRST_SEGMENT_BYTES_MAX: u64 = 8 << 20;
/// Segment sizes are multiples of a page, so that a write of whole pages needs no read.
const SEGMENT_BYTES_STEP: u64 = PAGE_BYTES;
/// What the system's page cache writes, and charges a process for, as a whole.
const PAGE_BYTES: u64 = 4096;
/// A write up to this size is that of a few clients; see `touch_ahead`.
const SMALL_WRITE_BYTES: usize = 4096;
/// So many small writes in a row make a load of few clients.
const SMALL_WRITES_IN_A_ROW: u32 = 8;
/// No more than this is given away to begin with a page; see `OpenSegment::fill_page`.
const FILLING_BYTES_MAX: usize = PAGE_BYTES as usize / 2;
/// So much is written ahead of small writes: one of some two hundred is larger by that.
const TOUCH_AHEAD_BYTES: u64 = 64 << 10;

#[derive(Clone, Debug)]
pub struct Options {
    /// The size of a segment file.
    pub segment_bytes: u64,
    /// Salt of the checksums, best random: makes them unguessable for whoever writes payloads.
    pub seed: u64,
    /// Keys of encryption at rest.
    pub seal: Option<Arc<Seal>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: 64 << 20,
            seed: 0,
            seal: None,
        }
    }
}

/// A record as recovery shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub kind: u8,
    pub index: u64,
    pub payload: &'a [u8],
    /// Not appended here by the caller: repeated at the head of a new segment, so that dropping
    /// old ones loses nothing.
    pub repeated: bool,
}

/// What `Wal::open` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Records shown, repeated ones included.
    pub records: u64,
    /// The letter of the decision table in `wal/recover.rs` that describes the log's end; C and D
    /// mean that a torn end was cut.
    pub end: char,
    /// L or M when a segment that was never begun was removed.
    pub removed: Option<char>,
}

/// A log as an inspector finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFound {
    /// Oldest first.
    pub segments: Vec<SegmentFound>,
    pub spares: usize,
    /// As in [`Recovery`].
    pub end: char,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFound {
    pub path: PathBuf,
    pub bytes: u64,
    /// Appended ones: repetitions do not count.
    pub records: u64,
    /// The index of the first of them, and the highest of any.
    pub first: Option<u64>,
    pub highest: Option<u64>,
    /// Ids of the keys they are sealed under; 0: some are clear.
    pub keys: Vec<u32>,
}

/// Whether a log would call its file so.
pub(crate) fn is_of_log(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.and_then(Name::parse).is_some()
}

/// Reads and verifies a whole log. Tidies up as opening does: give it a file system that takes no
/// change.
pub(crate) fn inspect(vfs: &dyn Vfs, dir: &Path, seal: Option<Arc<Seal>>) -> Result<LogFound> {
    let options = Options {
        seal,
        ..Options::default()
    };
    let found = recover::recover(vfs, dir, &options, &mut |_| Ok(()))?;
    let tail = found.tail.map(|tail| tail.segment);
    let segments = found.older.into_iter().chain(tail);
    let segments = segments.map(|segment| SegmentFound {
        path: segment.path,
        bytes: segment.bytes,
        records: segment.records,
        first: segment.lowest,
        highest: segment.highest,
        keys: segment.keys.into_iter().collect(),
    });
    Ok(LogFound {
        segments: segments.collect(),
        spares: found.spares.len(),
        end: found.recovery.end,
    })
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
    /// Of a segment made today; those on disk keep theirs.
    segment_bytes: u64,
    salt: u64,
    seal: Option<Arc<Seal>>,
    spares: Spares,
    /// Full and wholly durable, oldest first.
    older: VecDeque<Segment>,
    /// The segment being written, and those that appended records will go on in. Empty only while
    /// the log is new and nothing was appended.
    open: VecDeque<OpenSegment>,
    /// Sequence number of the next segment.
    next_sequence: u64,
    /// Of any record appended.
    highest: u64,
    carries: BTreeMap<u8, Carry>,
    /// A write or sync failed: nothing is certain any more until the log is opened again.
    failed: bool,
}

#[derive(Debug)]
struct OpenSegment {
    segment: Segment,
    /// Where its file comes from; `None` as `file` once it has its place.
    source: Option<Spare>,
    file: Option<Arc<dyn File>>,
    framer: Framer,
    seed: u32,
    /// Of the last record appended.
    crc: u32,
    /// Stream bytes written, and synced. Invariant: durable <= written <= framer.len().
    written: u64,
    durable: u64,
    /// Blocks of the file up to this byte have been written at least once.
    touched: u64,
    /// Small writes since the last one that was not.
    small_writes: u32,
    /// When this much is durable, the segments before are not needed for what this one repeats.
    head_end: u64,
    /// `None`: new records stay clear.
    sealer: Option<RecordSealer>,
    /// Begun by another process: nothing may be sealed here under its scope.
    resumed: bool,
}

impl Wal {
    /// Opens the log in `dir` (created when missing) and shows every record to `visit`, oldest
    /// first. What was shown is durable when this returns. The caller holds the directory's lock.
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
            // An unusable directory shows now, and the first records find a file to go to.
            let bytes = options.segment_bytes.min(FIRST_SEGMENT_BYTES_MAX);
            let first = spares.make(bytes)?;
            spares.put(first);
        }
        let mut wal = Wal {
            dir: dir.to_owned(),
            segment_bytes: options.segment_bytes,
            salt: options.seed,
            seal: options.seal,
            spares,
            older: found.older.into(),
            open,
            next_sequence,
            highest: found.highest,
            carries: found.carries,
            failed: false,
        };
        wal.repeat_missing(&found.in_tail);
        Ok((wal, found.recovery))
    }

    /// Buffers a record whose payload is the parts one after the other, `PAYLOAD_BYTES_MAX` at
    /// most in sum.
    pub fn append(&mut self, kind: u8, index: u64, payload: &[&[u8]]) {
        self.append_with(0, kind, index, payload);
    }

    /// As `append`, and the newest such record of its kind is repeated at the head of every new
    /// segment: for state that must outlive dropped segments. Remembered across `open`.
    pub fn append_carried(&mut self, kind: u8, index: u64, payload: &[&[u8]]) {
        self.append_with(record::CARRIED, kind, index, payload);
        let payload = payload.concat();
        self.carries.insert(kind, Carry { index, payload });
    }

    /// Bytes that the next `write` will hand over, about.
    pub fn buffered_bytes(&self) -> usize {
        self.open.iter().map(|s| s.framer.buffered_bytes()).sum()
    }

    /// Bytes of records in the log, those of the framing included.
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
            // Where an earlier one ends, the next one has noted already.
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

    /// Removes or recycles the oldest segments as long as all their records' indexes are lower.
    pub fn drop_before(&mut self, index: u64) -> Result<()> {
        self.unless_failed(|wal| wal.drop_segments(index))
    }

    /// Work for a helper thread that spares this one the removal of dropped files; `None` when there is
    /// nothing to do. Ask after every `drop_before`.
    pub fn finish_drop(&mut self) -> Option<DropJob> {
        self.spares.drop_job()
    }

    /// Work for a helper thread that spares this one the making of the next segment file; `None`
    /// when there is nothing to do. Ask after every `write`.
    pub fn prepare_next(&mut self) -> Option<PrepareJob> {
        self.spares.job(self.segment_bytes)
    }

    /// A power cut may leave a segment its header and not the repeated records after it; without
    /// them the older segments could never be dropped.
    fn repeat_missing(&mut self, in_tail: &BTreeSet<u8>) {
        let missing = self.carries.iter().filter(|(k, _)| !in_tail.contains(k));
        let missing: Vec<(u8, Carry)> = missing.map(|(k, c)| (*k, c.clone())).collect();
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
        if self.seal.is_some() && last.sealer.is_none() {
            last.segment.keys.insert(CLEAR);
        }
        last.append(flags, kind, index, payload);
        last.segment.highest = last.segment.highest.max(Some(index));
        self.highest = self.highest.max(index);
    }

    /// What a record takes of a segment's stream, at most.
    fn stream_bytes(&self, payload: usize) -> u64 {
        let tag = if self.seal.is_some() { TAG_BYTES } else { 0 };
        record::stream_bytes(payload + tag) as u64
    }

    /// The last segment takes a record of that length, sealed as the active key asks. Answers
    /// whether it was begun for that.
    fn make_ready(&mut self, needed: u64) -> bool {
        let active = self.seal.as_ref().map_or(CLEAR, |seal| seal.active());
        if let Some(last) = self.open.back_mut() {
            let key = last.sealer.as_ref().map_or(CLEAR, RecordSealer::key);
            if key == active && last.room() >= needed {
                return false;
            }
            let room = last.room() >= needed + sealed::KEY_RECORD_STREAM_BYTES;
            if last.resumed && active != CLEAR && room && last.is_of(active) {
                last.begin_scope(scope(self.seal.as_deref()));
                return false;
            }
        }
        self.begin_segment(needed);
        true
    }

    /// Appends from here on go to a new segment, with room for that much after the repeated ones.
    /// Nothing is done to files yet: that is `write`'s.
    fn begin_segment(&mut self, needed: u64) {
        let carried = self.carries.values();
        let carried: u64 = carried.map(|c| self.stream_bytes(c.payload.len())).sum();
        let scope = scope(self.seal.as_deref());
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
        };
        let path = Name::Segment { sequence, bytes }.path(&self.dir);
        let segment = Segment {
            sequence,
            bytes,
            path,
            highest: None,
            lowest: None,
            records: 0,
            keys: BTreeSet::new(),
        };
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
                    // No helper was fast enough.
                    None => current.make_file(&self.spares, &self.dir)?,
                };
                current.file = Some(self.spares.install(&source, &current.segment.path)?);
            }
            if is_last {
                return current.write();
            }
            current.write()?;
            // Everything in a segment is durable before the next one comes into being.
            current.sync()?;
            let done = self.open.pop_front();
            self.older.extend(done.map(|done| done.segment));
        }
    }

    fn drop_segments(&mut self, index: u64) -> Result<()> {
        let epoch = self.seal.as_ref().map_or(0, |seal| seal.epoch());
        let mixed = self.is_mixed();
        if mixed {
            self.leave_other_keys()?;
        }
        while let Some(oldest) = self.older.front() {
            let needed = oldest.highest.is_some_and(|highest| highest >= index);
            let next_is_durable =
                self.older.len() > 1 || self.open.front().is_some_and(|c| c.durable >= c.head_end);
            if needed || !next_is_durable {
                break;
            }
            // One by one, each durable before the next goes: a gap would be taken for a loss.
            // What is in it is never to be read again, not even in a file waiting for its next life.
            let wanted = (!mixed).then_some(self.segment_bytes);
            self.spares.recycle(&oldest.path, oldest.bytes, wanted)?;
            self.older.pop_front();
        }
        match &self.seal {
            Some(seal) if mixed && self.is_of(seal.active()) => seal.log_is_settled(epoch),
            _ => {}
        }
        Ok(())
    }

    /// Something here may be sealed otherwise than new records are, or not be.
    fn is_mixed(&self) -> bool {
        self.seal.as_ref().is_some_and(|seal| seal.is_mixed())
    }

    /// Nothing here is sealed otherwise than under this key.
    fn is_of(&self, key: u32) -> bool {
        let older = self.older.iter().all(|segment| segment.is_of(key));
        older && self.open.iter().all(|open| open.is_of(key))
    }

    /// Makes all segments with other keys than the active one such that can be dropped.
    fn leave_other_keys(&mut self) -> Result<()> {
        self.spares.discard_stale()?;
        let active = self.seal.as_ref().map_or(CLEAR, |seal| seal.active());
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

impl OpenSegment {
    fn begin(segment: Segment, source: Option<Spare>, header: &Header) -> OpenSegment {
        let seed = header.seed();
        OpenSegment {
            framer: Framer::begin(segment.sequence, &header.encode()),
            touched: match &source {
                Some(spare) if spare.used => segment.bytes,
                _ => 0,
            },
            segment,
            source,
            file: None,
            small_writes: 0,
            seed,
            crc: seed,
            written: 0,
            durable: 0,
            head_end: 1,
            sealer: None,
            resumed: false,
        }
    }

    fn resume(tail: recover::Tail) -> OpenSegment {
        let sequence = tail.segment.sequence;
        OpenSegment {
            framer: Framer::resume(sequence, tail.len, &tail.open, tail.first),
            segment: tail.segment,
            source: None,
            file: Some(tail.file),
            seed: tail.seed,
            crc: tail.crc,
            written: tail.len,
            durable: tail.len,
            touched: sector::file_bytes(tail.len),
            small_writes: 0,
            head_end: 0,
            sealer: None,
            resumed: true,
        }
    }

    /// A file for it; on a disk that is nearly full a shorter one, with room for what is there.
    fn make_file(&mut self, spares: &Spares, dir: &Path) -> Result<Spare> {
        let least = sector::file_bytes(self.framer.len()).max(SEGMENT_BYTES_MIN);
        let least = least.next_multiple_of(SEGMENT_BYTES_STEP);
        let mut bytes = self.segment.bytes;
        let made = loop {
            match spares.make(bytes) {
                Err(error) if error.is_full() && bytes > least => {
                    bytes = (bytes / 2).next_multiple_of(SEGMENT_BYTES_STEP).max(least);
                }
                made => break made?,
            }
        };
        let sequence = self.segment.sequence;
        self.segment.bytes = bytes;
        self.segment.path = Name::Segment { sequence, bytes }.path(dir);
        Ok(made)
    }

    fn room(&self) -> u64 {
        sector::capacity(self.segment.bytes) - self.framer.len()
    }

    fn is_of(&self, key: u32) -> bool {
        self.segment.is_of(key)
    }

    /// Records from here on are sealed under this scope, or stay clear.
    fn begin_scope(&mut self, scope: Option<Scope>) {
        self.sealer = None;
        if let Some(scope) = scope {
            let sealer = RecordSealer::new(scope);
            self.append(record::KEY, 0, 0, &[&sealer.key_record()]);
            self.segment.keys.insert(sealer.key());
            self.sealer = Some(sealer);
        }
    }

    fn append(&mut self, mut flags: u8, kind: u8, index: u64, payload: &[&[u8]]) {
        let mut len = payload.iter().map(|part| part.len()).sum();
        if self.sealer.is_some() {
            flags |= record::SEALED;
            len += TAG_BYTES;
        }
        let mut head = Head {
            crc: 0,
            kind,
            flags,
            len,
            prev: self.crc,
            index,
            durable: self.durable as u32,
        };
        let mut bytes = head.encode();
        let sealed;
        let payload = match &mut self.sealer {
            Some(sealer) => {
                sealed = [sealer.seal(self.framer.len(), &bytes, payload)];
                &sealed
            }
            None => payload,
        };
        head.checksum(self.seed, &mut bytes, payload);
        let padding = head.stream_bytes() - record::HEAD_BYTES - len;
        self.framer.start_record();
        self.framer.push(&bytes);
        for part in payload {
            self.framer.push(part);
        }
        self.framer.push(&[0; record::ALIGN][..padding]);
        self.crc = head.crc;
    }

    fn repeat(&mut self, kind: u8, carry: &Carry) {
        let flags = record::CARRIED | record::REPEATED;
        let payload = &carry.payload;
        self.append(flags, kind, carry.index, &[payload]);
        self.head_end = self.framer.len();
    }

    fn write(&mut self) -> Result<()> {
        if self.written == self.framer.len() {
            return Ok(());
        }
        let path = &self.segment.path;
        let file = self.file.as_ref().expect("a segment is installed first");
        let (sectors, offset) = self.framer.sectors();
        let end = offset + sectors.len() as u64;
        let written = file.write_at(sectors, offset);
        written.map_err(Error::io("write", path))?;
        self.small_writes = match sectors.len() <= SMALL_WRITE_BYTES {
            true => self.small_writes.saturating_add(1),
            false => 0,
        };
        if end > self.touched {
            self.touched = match self.small_writes >= SMALL_WRITES_IN_A_ROW {
                true => touch_ahead(&**file, path, end, self.segment.bytes)?,
                false => end,
            };
        }
        self.framer.written();
        self.written = self.framer.len();
        Ok(())
    }

    /// Before a sync, fills the page of the file in which the log ends, when a batch like the one to
    /// be synced would not find room there and more than half of it is used: the disk writes pages,
    /// and the next batch would have this one written again. Whether it did.
    fn fill_page(&mut self) -> bool {
        let (len, news) = (self.framer.len(), self.framer.len() - self.durable);
        let next = sector::file_offset(len);
        let rest = sector::stream_before_page(next, PAGE_BYTES) - len;
        let all_written = self.durable > 0 && self.written == len;
        let pays = rest < news && rest as usize <= FILLING_BYTES_MAX;
        let fits = rest >= record::HEAD_BYTES as u64 && rest <= self.room();
        if !(all_written && pays && fits) {
            return false;
        }
        let mut head = Head {
            crc: 0,
            kind: 0,
            flags: record::FILLING,
            len: rest as usize - record::HEAD_BYTES,
            prev: self.crc,
            index: 0,
            durable: self.durable as u32,
        };
        let zeros = &[0; FILLING_BYTES_MAX][..head.len];
        let mut bytes = head.encode();
        head.checksum(self.seed, &mut bytes, &[zeros]);
        self.framer.start_record();
        self.framer.push(&bytes);
        self.framer.push(zeros);
        self.crc = head.crc;
        true
    }

    fn sync(&mut self) -> Result<()> {
        if self.durable == self.written {
            return Ok(());
        }
        let path = &self.segment.path;
        let file = self.file.as_ref().expect("only what was written is synced");
        file.sync_data().map_err(Error::io("sync", path))?;
        self.durable = self.written;
        Ok(())
    }
}

/// There is nothing to go on with when the system has no random bytes: the process ends.
fn scope(seal: Option<&Seal>) -> Option<Scope> {
    let scope = seal.map(|seal| seal.scope(Purpose::Record)).transpose();
    scope.unwrap_or_else(|error| panic!("{error}")).flatten()
}

/// The first write to a reserved block costs its sync a change of the file's map beside the data.
/// Large batches carry that easily. Lone records would each pay for it, so their blocks are
/// written ahead, as zeros. Page by page: after a large write the page cache holds the file in
/// large pieces, and from then on the smallest record dirties, and is charged for, a whole one.
/// Returns how far it went; durable with the next sync.
fn touch_ahead(file: &dyn File, path: &Path, from: u64, file_bytes: u64) -> Result<u64> {
    static ZEROS: [u8; PAGE_BYTES as usize] = [0; PAGE_BYTES as usize];
    let to = file_bytes.min((from + TOUCH_AHEAD_BYTES).next_multiple_of(PAGE_BYTES));
    let mut at = from;
    while at < to {
        let next = to.min((at + 1).next_multiple_of(PAGE_BYTES));
        let zeros = &ZEROS[..(next - at) as usize];
        match file.write_at(zeros, at) {
            // The record itself has its place. What comes next will tell.
            Err(error) if is_full(&error) => return Ok(at),
            done => done.map_err(Error::io("write", path))?,
        }
        at = next;
    }
    Ok(to)
}

#[cfg(test)]
mod tests;
