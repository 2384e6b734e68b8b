//! Walks over the records of one segment in order, and finds where they end.

use std::path::Path;
use std::sync::Arc;

use super::file::{READ_BYTES, damaged, read, refuse, refuse_at};
use super::outcome::{Found, Tail, Visit};
use super::record::{self, Checksum, HEAD_BYTES, Head};
use super::rest::Rest;
use super::sealed::RecordOpener;
use super::sector::{self, DATA_BYTES, SECTOR_BYTES, Sector};
use super::segment::{Header, Segment};
use super::{Carry, Record};
use crate::encryption::{CLEAR, DataKeys};
use crate::vfs::File;
use crate::{Error, Result};

/// Reads one segment's records in order.
pub(super) struct Walk {
    segment: Segment,
    file: Arc<dyn File>,
    header: Header,
    seed: u32,
    /// Checksum of the previous record.
    prev: u32,
    /// Stream offset of the next record.
    at: u64,
    stream: Stream,
    data_keys: Option<Arc<DataKeys>>,
    /// Opens the sealed records after the last key record.
    opener: Option<RecordOpener>,
    /// The payload of that key record.
    scope: Option<Vec<u8>>,
}

impl Walk {
    pub(super) fn begin(
        segment: Segment,
        file: Arc<dyn File>,
        header: Header,
        data_keys: Option<Arc<DataKeys>>,
    ) -> Walk {
        let seed = header.seed();
        Walk {
            stream: Stream::new(segment.sequence, segment.bytes),
            segment,
            file,
            header,
            seed,
            prev: seed,
            at: 0,
            data_keys,
            opener: None,
            scope: None,
        }
    }

    /// Ends after `len` bytes of stream. `open` is the part of them in the sector that is not full.
    pub(super) fn ending(mut self, len: u64, open: Vec<u8>) -> Walk {
        self.stream.file_bytes = sector::file_offset(len - open.len() as u64);
        self.stream.tail = open;
        self
    }

    /// Continues at a place that an earlier walk of this segment came to.
    pub(super) fn resume(&mut self, at: u64, prev: u32, scope: Option<Vec<u8>>) -> Result<()> {
        (self.at, self.prev) = (at, prev);
        self.stream.seek(at);
        scope.map_or(Ok(()), |scope| self.begin_scope(at, scope))
    }

    /// Where the walk is: the offset in the stream, the checksum before it, and the payload of the
    /// key record in effect.
    pub(super) fn state(&self) -> (u64, u32, Option<Vec<u8>>) {
        (self.at, self.prev, self.scope.clone())
    }

    /// Fails if the records do not end where the next segment says.
    pub(super) fn check_end(&self, next: &Header) -> Result<()> {
        if self.at == next.previous_end && self.prev == next.previous_crc {
            return Ok(());
        }
        let what = format!(
            "records end here, the next segment says at byte {}",
            sector::file_offset(next.previous_end)
        );
        Err(self.refuse('H', what))
    }

    /// Fails if the records end before this place in the stream.
    pub(super) fn check_reaches(&self, len: u64) -> Result<()> {
        if self.at == len {
            return Ok(());
        }
        Err(self.refuse('E', "records that were durable are missing"))
    }

    /// Reads a segment that is not the last: the next one says where it ends.
    pub(super) fn middle(
        mut self,
        next: &Header,
        found: &mut Found,
        visit: &mut Visit<'_>,
    ) -> Result<()> {
        self.check_start(found)?;
        if next.previous_end > sector::capacity(self.segment.bytes) {
            let what = format!(
                "the next segment says that {} bytes of records are here, more than fit",
                next.previous_end
            );
            return Err(self.refuse('H', what));
        }
        while self.at < next.previous_end && self.step(found, visit)? {}
        self.check_end(next)?;
        found.older.push(self.segment);
        Ok(())
    }

    pub(super) fn last(mut self, found: &mut Found, visit: &mut Visit<'_>) -> Result<()> {
        self.check_start(found)?;
        found.in_tail.clear();
        while self.step(found, visit)? {}
        let rest = Rest::scan(&*self.file, &self.segment, self.at)?;
        if u64::from(rest.durable) > self.at {
            let what = "a record is missing that a later one says was durable";
            return Err(self.refuse('E', what));
        }
        let case = match &rest {
            Rest { behind: true, .. } => 'D',
            Rest { junk: true, .. } => 'C',
            Rest { stale: true, .. } => 'B',
            _ => 'A',
        };
        found.recovery.end = case;
        let (open, first) = self.open_sector()?;
        found.tail = Some(Tail {
            segment: self.segment,
            file: self.file,
            seed: self.seed,
            crc: self.prev,
            len: self.at,
            open,
            first,
            closed: matches!(case, 'C' | 'D') || self.header.checksum != Checksum::Crc32,
        });
        Ok(())
    }

    fn check_start(&self, found: &Found) -> Result<()> {
        if found.highest != self.header.highest {
            let what = format!("the header says index {} before it", self.header.highest);
            return Err(refuse('O', &self.segment.path, 32, what));
        }
        Ok(())
    }

    /// Passes on the next record; false where the records end.
    fn step(&mut self, found: &mut Found, visit: &mut Visit<'_>) -> Result<bool> {
        let Some((start, head)) = self.advance()? else {
            return Ok(false);
        };
        let payload = self.payload(start, &head)?;
        let repeated = head.flags & record::REPEATED != 0;
        if head.flags & record::CARRIED != 0 {
            let carry = Carry {
                index: head.index,
                payload: payload.to_vec(),
            };
            found.carries.insert(head.kind, carry);
            found.in_tail.insert(head.kind);
        }
        visit(Record {
            kind: head.kind,
            index: head.index,
            payload,
            repeated,
        })?;
        if !repeated {
            self.segment.highest = self.segment.highest.max(Some(head.index));
            self.segment.lowest = self.segment.lowest.or(Some(head.index));
            self.segment.records += 1;
            found.highest = found.highest.max(head.index);
        }
        found.recovery.records += 1;
        Ok(true)
    }

    /// Moves behind the next record that is not the log's own, and returns where it begins.
    pub(super) fn advance(&mut self) -> Result<Option<(u64, Head)>> {
        loop {
            let start = self.at;
            let Some(head) = self.next_head()? else {
                return Ok(None);
            };
            if head.flags & record::KEY != 0 {
                let record = self.stream.bytes(start, HEAD_BYTES + head.len);
                self.begin_scope(start, record[HEAD_BYTES..].to_vec())?;
            } else if head.flags & record::FILLING == 0 {
                return Ok(Some((start, head)));
            }
        }
    }

    /// The records after a key record's `payload` are sealed as it says.
    fn begin_scope(&mut self, start: u64, payload: Vec<u8>) -> Result<()> {
        let opener = RecordOpener::new(self.data_keys.as_deref(), &payload);
        let opener = opener.map_err(|what| refuse_at(start, &self.segment.path, what))?;
        self.segment.keys.insert(opener.key());
        self.opener = Some(opener);
        self.scope = Some(payload);
        Ok(())
    }

    /// What was appended, of the record that `advance` found last.
    pub(super) fn payload(&mut self, start: u64, head: &Head) -> Result<&[u8]> {
        let path = &self.segment.path;
        let record = self.stream.bytes(start, HEAD_BYTES + head.len);
        match &mut self.opener {
            Some(opener) if head.flags & record::SEALED != 0 => opener
                .open(start, record)
                .map_err(|what| refuse_at(start, path, what)),
            None if head.flags & record::SEALED != 0 => {
                Err(refuse_at(start, path, "a sealed record before any key"))
            }
            _ => {
                self.segment.keys.insert(CLEAR);
                Ok(&record[HEAD_BYTES..])
            }
        }
    }

    /// Moves behind the next record, which is then in `stream`, and returns its head. `None`: the
    /// records end here.
    fn next_head(&mut self) -> Result<Option<Head>> {
        let path = &self.segment.path;
        let stream = &mut self.stream;
        let start = self.at;
        if !stream.fill(&*self.file, path, start, record::ALIGN)?
            || record::is_absent(stream.bytes(start, record::ALIGN))
            || !stream.fill(&*self.file, path, start, HEAD_BYTES)?
        {
            return Ok(None);
        }
        let head = match Head::decode(stream.bytes(start, HEAD_BYTES)) {
            Ok(head) => head,
            Err(e) => return Err(self.refuse('G', e.what)),
        };
        let whole = head.stream_bytes();
        if head.prev != self.prev {
            return Err(self.refuse('G', "the record does not follow the one before it"));
        }
        if start + whole as u64 > sector::capacity(self.segment.bytes) {
            return Err(self.refuse('G', "the record reaches beyond its segment"));
        }
        if !stream.fill(&*self.file, path, start, whole)? {
            return Ok(None);
        }
        if !head.verifies(self.header.checksum, self.seed, stream.bytes(start, whole)) {
            return Err(self.refuse('G', "the record fails its checksum"));
        }
        self.at += whole as u64;
        self.prev = head.crc;
        Ok(Some(head))
    }

    /// The stream bytes in the sector that is not full, and the start of its first record.
    fn open_sector(&self) -> Result<(Vec<u8>, Option<usize>)> {
        let path = &self.segment.path;
        let kept = (self.at % DATA_BYTES as u64) as usize;
        if kept == 0 {
            return Ok((Vec::new(), None));
        }
        let at = sector::file_offset(self.at - kept as u64);
        let mut bytes = [0; SECTOR_BYTES];
        read(&*self.file, &mut bytes, at, path)?;
        match sector::read(&bytes, self.segment.sequence) {
            Sector::Own { first, data } => {
                Ok((data[..kept].to_vec(), first.filter(|start| *start < kept)))
            }
            _ => Err(damaged(path, at)),
        }
    }

    fn refuse(&self, case: char, what: impl Into<String>) -> Error {
        let offset = sector::file_offset(self.at);
        refuse(case, &self.segment.path, offset, what)
    }
}

/// A segment's stream, read in pieces; holds at most one piece and one record.
struct Stream {
    sequence: u64,
    file_bytes: u64,
    bytes: Vec<u8>,
    /// Stream offset of `bytes`.
    start: u64,
    /// File offset of the next piece.
    next: u64,
    /// The reader met a sector that is not the segment's own, or the file's end.
    stopped: bool,
    /// Stream bytes that follow those of the file.
    tail: Vec<u8>,
    piece: Vec<u8>,
}

impl Stream {
    fn new(sequence: u64, file_bytes: u64) -> Stream {
        Stream {
            sequence,
            file_bytes,
            bytes: Vec::new(),
            start: 0,
            next: sector::file_offset(0),
            stopped: false,
            tail: Vec::new(),
            piece: Vec::new(),
        }
    }

    /// Continues at this stream offset.
    fn seek(&mut self, at: u64) {
        self.start = at - at % DATA_BYTES as u64;
        self.next = sector::file_offset(self.start);
    }

    /// Makes `bytes(at, len)` possible; false if the stream ends before. Forgets everything before
    /// `at`.
    fn fill(&mut self, file: &dyn File, path: &Path, at: u64, len: usize) -> Result<bool> {
        let end = at + len as u64;
        while self.start + (self.bytes.len() as u64) < end {
            if self.stopped {
                return Ok(false);
            }
            let gone = self.bytes.len().min((at - self.start) as usize);
            self.bytes.drain(..gone);
            self.start += gone as u64;
            self.read_piece(file, path)?;
        }
        Ok(true)
    }

    fn bytes(&self, at: u64, len: usize) -> &[u8] {
        let from = (at - self.start) as usize;
        &self.bytes[from..from + len]
    }

    fn read_piece(&mut self, file: &dyn File, path: &Path) -> Result<()> {
        let piece = READ_BYTES.min((self.file_bytes - self.next) as usize);
        self.piece.resize(piece, 0);
        read(file, &mut self.piece, self.next, path)?;
        for bytes in self.piece.chunks_exact(SECTOR_BYTES) {
            match sector::read(bytes, self.sequence) {
                Sector::Own { data, .. } => self.bytes.extend_from_slice(data),
                Sector::Blank | Sector::Stale => {
                    self.stopped = true;
                    break;
                }
                Sector::Damaged => return Err(damaged(path, self.next)),
            }
            self.next += SECTOR_BYTES as u64;
        }
        if self.next >= self.file_bytes {
            self.bytes.append(&mut self.tail);
            self.stopped = true;
        }
        Ok(())
    }
}
