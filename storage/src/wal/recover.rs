//! Opens a log after a crash: every synced record comes back, the end that a power cut tore is cut
//! off, and anything else is refused with file and offset. Knows the format, not how records are
//! appended.
//!
//! The facts, from the durability contract of `vfs` and the order in which the log writes:
//! 1. A sector holds what it held before or what was written; both verify (see `sector`).
//! 2. A segment gets its name when its file has full size, durably; the name is durable before
//!    the first byte is written to it; and the segment before it was synced to its end by then.
//! 3. A record's `durable` was true when the record was appended.
//!
//! | case | what is found                                                         | outcome |
//! |------|-----------------------------------------------------------------------|---------|
//! | A    | records end, blank sectors or the end of the file follow              | opens   |
//! | B    | records end, sectors of the file's earlier life follow                | opens   |
//! | C    | the last record lacks sectors, no record starts in later ones         | cut     |
//! | D    | a gap in records not known durable, some start in later sectors       | cut     |
//! | E    | a gap, and a later record says that it was durable                    | refused |
//! | F    | a sector fails its checksum, wherever it is                           | refused |
//! | G    | all of a record's sectors are intact, but it is impossible            | refused |
//! | H    | a segment ends elsewhere than the next one says                       | refused |
//! | I    | a sequence number is missing between two segments                     | refused |
//! | J    | two files claim one sequence number                                   | refused |
//! | K    | a file does not have the size in its name                             | refused |
//! | L    | the last segment has its name, but nothing was written to it          | removed |
//! | M    | the same, but its header was lost and unsynced records are there      | removed |
//! | N    | its header is lost, and its records say that they were durable        | refused |
//! | O    | a header has impossible values                                        | refused |
//! | P    | a segment without a header that is not the last, or the only one left | refused |
//! | Q    | no segment at all                                                     | a new log |
//!
//! What follows a cut stays there, and the segment takes no more records, because the log must not
//! grow up to those behind the gap. The next record begins a new segment, whose header says where
//! this one ends. So a cut changes nothing on the disk, and a power cut before the new segment
//! leaves C or D again. Wiping would work, too, if one knew after a failed sync that it had been
//! tried.
//!
//! `anchor` makes sure that what is read here is on the disk, not only in the page cache.

mod list;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::anchor;
use super::record::{self, HEAD_BYTES, Head};
use super::sector::{self, DATA_BYTES, SECTOR_BYTES, Sector};
use super::segment::{Header, Spare};
use super::walk::Walk;
use super::{Carry, Options, Record, Recovery};
use crate::vfs::{File, Open, Vfs};
use crate::{Error, Result};
use list::{list, remove};

/// Files are read in pieces of this size; a multiple of the sector.
pub(super) const READ_BYTES: usize = 1 << 20;

/// A segment whose place in the log is certain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) sequence: u64,
    pub(super) bytes: u64,
    pub(super) path: PathBuf,
    /// Highest index of the records appended here; repeated ones do not count.
    pub(super) highest: Option<u64>,
    /// Lowest index of them, and their number.
    pub(super) lowest: Option<u64>,
    pub(super) records: u64,
    /// Ids of the keys that seal its records; 0 if some are clear.
    pub(super) keys: BTreeSet<u32>,
    /// Shared with those who read the segment: it is not dropped while they do.
    pub(super) pin: Arc<()>,
}

impl Segment {
    pub(super) fn new(sequence: u64, bytes: u64, path: PathBuf) -> Segment {
        Segment {
            sequence,
            bytes,
            path,
            highest: None,
            lowest: None,
            records: 0,
            keys: BTreeSet::new(),
            pin: Arc::default(),
        }
    }

    /// True if all its records have lower indexes.
    pub(super) fn is_before(&self, index: u64) -> bool {
        self.highest.is_none_or(|highest| highest < index)
    }

    pub(super) fn is_pinned(&self) -> bool {
        Arc::strong_count(&self.pin) > 1
    }

    /// As far as the headers say: its own, and the next segment's.
    fn unread(self, header: &Header, next: &Header) -> Segment {
        Segment {
            highest: Some(next.highest),
            // No key but the active one is in use, or the segment would be read.
            keys: BTreeSet::from([header.key]),
            ..self
        }
    }

    /// True if all its sealed records use this key.
    pub(super) fn is_of(&self, key: u32) -> bool {
        self.keys.iter().all(|used| *used == key)
    }
}

/// The segment in which the log continues.
#[derive(Debug)]
pub(super) struct Tail {
    pub(super) segment: Segment,
    pub(super) file: Arc<dyn File>,
    pub(super) seed: u32,
    /// Checksum of the last record.
    pub(super) crc: u32,
    pub(super) len: u64,
    /// The stream bytes in the sector that is not full, and the start of its first record.
    pub(super) open: Vec<u8>,
    pub(super) first: Option<usize>,
    /// Nothing may be appended: sectors behind the end hold pieces of incomplete records, or the
    /// format is an older one.
    pub(super) closed: bool,
}

#[derive(Debug)]
pub(super) struct Found {
    /// Oldest first, without the tail.
    pub(super) older: Vec<Segment>,
    pub(super) tail: Option<Tail>,
    /// Highest index of any record.
    pub(super) highest: u64,
    pub(super) carries: BTreeMap<u8, Carry>,
    /// Kinds of carried records that the newest segment holds.
    pub(super) in_tail: BTreeSet<u8>,
    pub(super) spares: Vec<Spare>,
    /// Above the numbers of all spares.
    pub(super) next_number: u64,
    pub(super) recovery: Recovery,
}

impl Found {
    fn new(spares: Vec<Spare>, next_number: u64) -> Found {
        Found {
            older: Vec::new(),
            tail: None,
            highest: 0,
            carries: BTreeMap::new(),
            in_tail: BTreeSet::new(),
            spares,
            next_number,
            recovery: Recovery {
                records: 0,
                end: 'Q',
                removed: None,
            },
        }
    }
}

pub(super) type Visit<'a> = dyn FnMut(Record<'_>) -> Result<()> + 'a;

pub(super) fn recover(
    vfs: &dyn Vfs,
    dir: &Path,
    options: &Options,
    visit: &mut Visit<'_>,
) -> Result<Found> {
    let mut listing = list(vfs, dir, options)?;
    let spares = std::mem::take(&mut listing.spares);
    let mut found = Found::new(spares, listing.next_number);
    let mut begun = Vec::new();
    let last = listing.segments.len().wrapping_sub(1);
    for (i, segment) in listing.segments.into_iter().enumerate() {
        let file = open(vfs, &segment.path)?;
        if i == last {
            anchor::anchor(&*file, &segment.path, segment.sequence, segment.bytes)?;
        }
        match read_header(&*file, &segment)? {
            Some(header) => begun.push((segment, header)),
            None if i == last && (i > 0 || segment.sequence == 1) => {
                found.recovery.removed = Some(unbegun(&*file, &segment)?);
                drop(file);
                remove(vfs, &segment.path)?;
            }
            None => return Err(refuse('P', &segment.path, 0, "the segment has no header")),
        }
    }
    let unneeded = unneeded(vfs, &begun, options)?;
    let headers: Vec<Header> = begun.iter().map(|(_, header)| *header).collect();
    // Records before this segment were dropped, or are not read.
    found.highest = headers.get(unneeded).map_or(0, |first| first.highest);
    for (i, (segment, header)) in begun.into_iter().enumerate() {
        match headers.get(i + 1) {
            Some(next) if i < unneeded => found.older.push(segment.unread(&header, next)),
            next => {
                let file = open(vfs, &segment.path)?;
                let walk = Walk::begin(segment, file, header, options.data_keys.clone());
                match next {
                    Some(next) => walk.middle(next, &mut found, visit)?,
                    None => walk.last(&mut found, visit)?,
                }
            }
        }
    }
    // A killed process may leave unsynced names; everything returned must be durable.
    vfs.sync_dir(dir).map_err(Error::io("sync", dir))?;
    Ok(found)
}

/// How many of the oldest segments hold only records before `options.from`. They are not read, so
/// the first segment that is read must repeat all carried records.
fn unneeded(vfs: &dyn Vfs, begun: &[(Segment, Header)], options: &Options) -> Result<usize> {
    let is_mixed = options
        .data_keys
        .as_ref()
        .is_some_and(|data_keys| data_keys.is_mixed());
    // Older keys can be forgotten only when it is known which segments use them.
    if is_mixed {
        return Ok(0);
    }
    let next_highest = |i: usize| begun.get(i + 1).map(|(_, next)| next.highest);
    let is_needed = |i: &usize| next_highest(*i).is_none_or(|highest| highest >= options.from);
    let mut first = (0..begun.len()).find(is_needed).unwrap_or_default();
    while first > 0 && !has_whole_head(vfs, &begun[first], options)? {
        first -= 1;
    }
    Ok(first)
}

/// True if a segment repeats all carried records: another record follows them. A power cut may have
/// torn the head of the last one, and then of those that were begun after it.
fn has_whole_head(
    vfs: &dyn Vfs,
    (segment, header): &(Segment, Header),
    options: &Options,
) -> Result<bool> {
    let file = open(vfs, &segment.path)?;
    let mut head = Walk::begin(segment.clone(), file, *header, options.data_keys.clone());
    loop {
        match head.advance() {
            Ok(Some((_, record))) if record.flags & record::REPEATED != 0 => {}
            Ok(found) => return Ok(found.is_some()),
            // Damage is reported when the segment is read.
            Err(_) => return Ok(false),
        }
    }
}

/// `None` if the first sector holds no header: blank, or left from the file's earlier life.
pub(super) fn read_header(file: &dyn File, segment: &Segment) -> Result<Option<Header>> {
    let mut bytes = [0; SECTOR_BYTES];
    read(file, &mut bytes, 0, &segment.path)?;
    let data = match sector::read(&bytes, segment.sequence) {
        Sector::Own { data, .. } => data,
        Sector::Blank | Sector::Stale => return Ok(None),
        Sector::Damaged => return Err(damaged(&segment.path, 0)),
    };
    let header =
        Header::decode(data).map_err(|(at, what)| refuse('O', &segment.path, at as u64, what))?;
    if header.sequence != segment.sequence {
        let what = format!("the header says segment {}", header.sequence);
        return Err(refuse('O', &segment.path, 16, what));
    }
    Ok(Some(header))
}

/// The last segment has no header: power failed before its first sync, or its first sector rotted.
fn unbegun(file: &dyn File, segment: &Segment) -> Result<char> {
    let rest = Rest::scan(file, segment, 0)?;
    match (rest.own_end, rest.durable) {
        (0, _) => Ok('L'),
        (_, 0) => Ok('M'),
        _ => Err(refuse(
            'N',
            &segment.path,
            0,
            "the header is lost, but records were durable",
        )),
    }
}

/// The content of a segment after the end of its records.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// One of the segment's own sectors has bytes after the end: some record was begun.
    pub(super) junk: bool,
    /// Some record starts in a sector after the one with the end.
    pub(super) behind: bool,
    pub(super) stale: bool,
    /// File offset where the last of the segment's own sectors ends; 0 if there is none.
    pub(super) own_end: u64,
    /// The most that any record there says was durable, in stream bytes.
    pub(super) durable: u32,
}

impl Rest {
    pub(super) fn scan(file: &dyn File, segment: &Segment, end: u64) -> Result<Rest> {
        let mut rest = Rest::default();
        let kept = (end % DATA_BYTES as u64) as usize;
        let open_at = sector::file_offset(end - kept as u64);
        let mut buf = vec![0; READ_BYTES.min((segment.bytes - open_at) as usize)];
        let mut at = open_at;
        while at < segment.bytes {
            let piece = buf.len().min((segment.bytes - at) as usize);
            read(file, &mut buf[..piece], at, &segment.path)?;
            for bytes in buf[..piece].chunks_exact(SECTOR_BYTES) {
                let ended = (at == open_at).then_some(kept);
                rest.add(bytes, at, ended, segment)?;
                at += SECTOR_BYTES as u64;
            }
        }
        Ok(rest)
    }

    /// `ended` is where in this sector the records end, if they do.
    fn add(&mut self, bytes: &[u8], at: u64, ended: Option<usize>, s: &Segment) -> Result<()> {
        match sector::read(bytes, s.sequence) {
            Sector::Blank => {}
            Sector::Stale => self.stale = true,
            Sector::Damaged => return Err(damaged(&s.path, at)),
            Sector::Own { first, data } => {
                self.own_end = at + SECTOR_BYTES as u64;
                self.durable = self.durable.max(witness(data, first));
                match ended {
                    // A record's first 8 bytes are never all zero, so a record begun here shows.
                    Some(kept) => self.junk |= data[kept..].iter().any(|b| *b != 0),
                    None => {
                        self.junk = true;
                        self.behind |= first.is_some();
                    }
                }
            }
        }
        Ok(())
    }
}

/// The most that the records starting in this sector say was durable, in stream bytes.
pub(super) fn witness(data: &[u8], first: Option<usize>) -> u32 {
    let mut durable = 0;
    let mut next = first;
    while let Some(bytes) = next.and_then(|at| data.get(at..at + HEAD_BYTES)) {
        let Ok(head) = Head::decode(bytes) else { break };
        durable = durable.max(head.durable);
        next = next.map(|at| at + head.stream_bytes());
    }
    durable
}

pub(super) fn open(vfs: &dyn Vfs, path: &Path) -> Result<Arc<dyn File>> {
    vfs.open(path, Open::Existing)
        .map_err(Error::io("open", path))
}

pub(super) fn read(file: &dyn File, buf: &mut [u8], at: u64, path: &Path) -> Result<()> {
    file.read_at(buf, at).map_err(Error::io("read", path))
}

/// The sectors of the record at this stream offset are intact, but the record is impossible.
pub(super) fn refuse_at(stream: u64, path: &Path, what: impl Into<String>) -> Error {
    refuse('G', path, sector::file_offset(stream), what)
}

pub(super) fn damaged(path: &Path, offset: u64) -> Error {
    refuse('F', path, offset, "a sector fails its checksum")
}

pub(super) fn refuse(case: char, path: &Path, offset: u64, what: impl Into<String>) -> Error {
    let what = what.into();
    Error::corrupt(path, offset, format!("{what} (log recovery, case {case})"))
}
