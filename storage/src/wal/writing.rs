//! A segment under construction: records are framed, written and synced.

use std::path::Path;
use std::sync::Arc;

use super::outcome::Tail;
use super::record::{self, Head};
use super::sealed::RecordSealer;
use super::sector::{self, Framer};
use super::segment::{Header, Name, Segment, Spare, Spares};
use super::{Carry, PAGE_BYTES, SEGMENT_BYTES_MIN, SEGMENT_BYTES_STEP};
use crate::encryption::{Scope, TAG_BYTES};
use crate::vfs::{File, is_full};
use crate::{Error, Result};

/// A sync of no more than this has the changes of few clients; see `touch_ahead`. Writes do not tell:
/// a large batch may come in many small ones.
const SMALL_SYNC_BYTES: u64 = 4096;
/// This many small syncs in a row mean a load of few clients.
const SMALL_SYNCS_IN_A_ROW: u32 = 8;
/// Most bytes given up to begin with a new page; see `OpenSegment::fill_page`. A page that is written
/// again costs all of its bytes, so all but the longest rest is worth it.
const FILLING_BYTES_MAX: usize = PAGE_BYTES as usize * 3 / 4;
/// Bytes written ahead of small syncs: about one sync in two hundred is larger by that.
const TOUCH_AHEAD_BYTES: u64 = 64 << 10;

#[derive(Debug)]
pub(super) struct OpenSegment {
    pub(super) segment: Segment,
    /// Where its file comes from; `None`, like `file`, once it has its place.
    pub(super) source: Option<Spare>,
    pub(super) file: Option<Arc<dyn File>>,
    pub(super) framer: Framer,
    pub(super) seed: u32,
    /// Checksum of the last record appended.
    pub(super) crc: u32,
    /// Stream bytes written, and synced. Invariant: durable <= written <= framer.len().
    pub(super) written: u64,
    pub(super) durable: u64,
    /// Blocks of the file up to this byte have been written at least once.
    pub(super) touched: u64,
    /// Small syncs since the last larger one.
    pub(super) small_syncs: u32,
    /// Once this much is durable, earlier segments are not needed for what this one repeats.
    pub(super) head_end: u64,
    /// `None` if new records stay clear.
    pub(super) sealer: Option<RecordSealer>,
    /// Begun by another process: nothing may be sealed here under its scope.
    pub(super) resumed: bool,
    /// Takes no more records: its end was cut, or its format is an older one.
    pub(super) closed: bool,
}

impl OpenSegment {
    pub(super) fn begin(segment: Segment, source: Option<Spare>, header: &Header) -> OpenSegment {
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
            small_syncs: 0,
            seed,
            crc: seed,
            written: 0,
            durable: 0,
            head_end: 1,
            sealer: None,
            resumed: false,
            closed: false,
        }
    }

    pub(super) fn resume(tail: Tail) -> OpenSegment {
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
            small_syncs: 0,
            head_end: 0,
            sealer: None,
            resumed: true,
            closed: tail.closed,
        }
    }

    /// Makes a file for it; on a nearly full disk a shorter one, with room for the buffered bytes.
    pub(super) fn make_file(&mut self, spares: &Spares, dir: &Path) -> Result<Spare> {
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

    pub(super) fn room(&self) -> u64 {
        if self.closed {
            0
        } else {
            sector::capacity(self.segment.bytes) - self.framer.len()
        }
    }

    pub(super) fn is_of(&self, key: u32) -> bool {
        self.segment.is_of(key)
    }

    /// Later records are sealed under this scope; with `None` they stay clear.
    pub(super) fn begin_scope(&mut self, scope: Option<Scope>) {
        self.sealer = None;
        if let Some(scope) = scope {
            let sealer = RecordSealer::new(scope);
            self.append(record::KEY, 0, 0, &[&sealer.key_record()]);
            self.segment.keys.insert(sealer.key());
            self.sealer = Some(sealer);
        }
    }

    pub(super) fn append(&mut self, mut flags: u8, kind: u8, index: u64, payload: &[&[u8]]) {
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

    pub(super) fn repeat(&mut self, kind: u8, carry: &Carry) {
        let flags = record::CARRIED | record::REPEATED;
        let payload = &carry.payload;
        self.append(flags, kind, carry.index, &[payload]);
        self.head_end = self.framer.len();
    }

    pub(super) fn write(&mut self) -> Result<()> {
        if self.written == self.framer.len() {
            return Ok(());
        }
        let path = &self.segment.path;
        let file = self.file.as_ref().expect("a segment is installed first");
        let (sectors, offset) = self.framer.sectors();
        let end = offset + sectors.len() as u64;
        let written = file.write_at(sectors, offset);
        written.map_err(Error::io("write", path))?;
        if end > self.touched {
            self.touched = if self.small_syncs >= SMALL_SYNCS_IN_A_ROW {
                touch_ahead(&**file, path, end, self.segment.bytes)?
            } else {
                end
            };
        }
        self.framer.written();
        self.written = self.framer.len();
        Ok(())
    }

    /// Before a sync, fills up the file page in which the log ends, if a batch of the present size
    /// would not fit there and more than a quarter of the page is used: the disk writes pages, so the
    /// next batch would write this one again. Returns whether it did.
    pub(super) fn fill_page(&mut self) -> bool {
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

    pub(super) fn sync(&mut self) -> Result<()> {
        if self.durable == self.written {
            return Ok(());
        }
        let path = &self.segment.path;
        let file = self.file.as_ref().expect("only what was written is synced");
        file.sync_data().map_err(Error::io("sync", path))?;
        self.small_syncs = if self.written - self.durable <= SMALL_SYNC_BYTES {
            self.small_syncs.saturating_add(1)
        } else {
            0
        };
        self.durable = self.written;
        Ok(())
    }
}

/// The first write to a reserved block makes its sync change the file's extent map, too. Large
/// batches carry that cost easily. Single records would each pay for it, so zeros are written to
/// their blocks ahead, page by page: after one large write the page cache holds the file in large
/// pieces, and then the smallest record dirties, and is charged for, a whole piece. Returns how far
/// it came, in bytes; durable with the next sync.
fn touch_ahead(file: &dyn File, path: &Path, from: u64, file_bytes: u64) -> Result<u64> {
    static ZEROS: [u8; PAGE_BYTES as usize] = [0; PAGE_BYTES as usize];
    let to = file_bytes.min((from + TOUCH_AHEAD_BYTES).next_multiple_of(PAGE_BYTES));
    let mut at = from;
    while at < to {
        let next = to.min((at + 1).next_multiple_of(PAGE_BYTES));
        let zeros = &ZEROS[..(next - at) as usize];
        match file.write_at(zeros, at) {
            // The record itself has its place. The next write will report the full disk.
            Err(error) if is_full(&error) => return Ok(at),
            done => done.map_err(Error::io("write", path))?,
        }
        at = next;
    }
    Ok(to)
}
