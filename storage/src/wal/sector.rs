//! The layout of a segment's bytes in sectors. A segment file is a sequence of 512-byte sectors,
//! the unit that a disk writes as a whole. Each is blank (all zeros) or has its own checksum:
//!
//! ```text
//!   0                                                        504      508    512
//!   +---------------------------------------------------------+--------+------+
//!   | 504 bytes of the stream (zeros where it ends)           |  tag   | crc  |
//!   +---------------------------------------------------------+--------+------+
//!    tag = low 24 bits of the segment's sequence << 8 | start of the sector's first record / 8
//!          (255 when no record starts in it);   crc = CRC-32 of bytes 0..508
//! ```
//!
//! This tells a torn write from damage. After a power cut a sector holds its old content or its new
//! content, and both verify. A sector that does not verify has rotted. The tag tells the bytes of
//! this segment from those of the file's earlier life. It also lets recovery find records behind a
//! gap without searching payloads, which clients choose.
//!
//! A sector of format 1 has a CRC-32C instead. Recovery reads either in any segment: behind the end
//! of a new segment there may be sectors of the file's earlier life in the old format.

/// The unit that a disk writes as a whole.
pub(super) const SECTOR_BYTES: usize = 512;
/// Bytes of a sector that belong to the stream. A multiple of 8, as records are.
pub(super) const DATA_BYTES: usize = 504;

const CRC_AT: usize = 508;
const NO_RECORD: u8 = 255;
const BLANK: [u8; SECTOR_BYTES] = [0; SECTOR_BYTES];

const _: () = assert!(DATA_BYTES.is_multiple_of(8) && DATA_BYTES / 8 < NO_RECORD as usize);
const _: () = assert!(DATA_BYTES + 8 == SECTOR_BYTES);

/// A sector as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sector<'a> {
    Blank,
    /// Written as part of the segment in question.
    Own {
        /// Offset of the first record that starts in this sector.
        first: Option<usize>,
        data: &'a [u8],
    },
    /// Intact, but from an earlier life of the file.
    Stale,
    Damaged,
}

/// Reads one whole sector of the segment with this sequence number.
pub(super) fn read(sector: &[u8], sequence: u64) -> Sector<'_> {
    let (body, crc) = sector.split_at(CRC_AT);
    let is_intact = |sum: u32| sum.to_le_bytes() == crc;
    if !is_intact(crc32fast::hash(body)) && !is_intact(crc32c::crc32c(body)) {
        return if sector == BLANK {
            Sector::Blank
        } else {
            Sector::Damaged
        };
    }
    let (data, tag) = body.split_at(DATA_BYTES);
    if tag[1..] != sequence.to_le_bytes()[..3] {
        return Sector::Stale;
    }
    let first = usize::from(tag[0]) * 8;
    Sector::Own {
        first: (first < DATA_BYTES).then_some(first),
        data,
    }
}

/// File offset of a byte of the stream; the header's sector comes before the stream.
pub(super) fn file_offset(stream: u64) -> u64 {
    let (sector, rest) = (stream / DATA_BYTES as u64, stream % DATA_BYTES as u64);
    (sector + 1) * SECTOR_BYTES as u64 + rest
}

/// Length of the stream up to the end of the file page that holds the byte at `offset`.
pub(super) fn stream_before_page(offset: u64, page_bytes: u64) -> u64 {
    let page_end = (offset / page_bytes + 1) * page_bytes;
    capacity(page_end)
}

/// Stream bytes that a segment file of this size holds.
pub(super) fn capacity(file_bytes: u64) -> u64 {
    (file_bytes / SECTOR_BYTES as u64).saturating_sub(1) * DATA_BYTES as u64
}

/// Size of a segment file that holds this much stream.
pub(super) fn file_bytes(stream: u64) -> u64 {
    (stream.div_ceil(DATA_BYTES as u64) + 1) * SECTOR_BYTES as u64
}

/// Packs a stream into sectors, ready to be written at `offset()` of the file.
#[derive(Debug)]
pub(super) struct Framer {
    sequence: u64,
    /// Complete sectors not yet handed out; the last one is open if `fill > 0`.
    sectors: Vec<u8>,
    /// File offset of `sectors`.
    offset: u64,
    /// Stream bytes in the open sector. Invariant: below `DATA_BYTES`; 0 if none is open.
    fill: usize,
    /// The tag's first byte for the open sector.
    first: u8,
    /// Length of the stream, without the header's sector.
    len: u64,
}

/// A larger buffer is released after a write.
const KEPT_BUFFER_BYTES: usize = 4 << 20;

impl Framer {
    /// For a new segment: the first write starts with the header's sector.
    pub(super) fn begin(sequence: u64, header: &[u8; DATA_BYTES]) -> Framer {
        let mut sectors = vec![0; SECTOR_BYTES];
        sectors[..DATA_BYTES].copy_from_slice(header);
        finish(&mut sectors, sequence, NO_RECORD);
        Framer {
            sequence,
            sectors,
            offset: 0,
            fill: 0,
            first: NO_RECORD,
            len: 0,
        }
    }

    /// Continues after `len` bytes of stream. `open` is the part of them in the sector that is not
    /// full yet, `first` the start of its first record.
    pub(super) fn resume(sequence: u64, len: u64, open: &[u8], first: Option<usize>) -> Framer {
        assert_eq!(open.len() as u64, len % DATA_BYTES as u64);
        let mut sectors = Vec::new();
        if !open.is_empty() {
            sectors.resize(SECTOR_BYTES, 0);
            sectors[..open.len()].copy_from_slice(open);
        }
        Framer {
            sequence,
            sectors,
            offset: file_offset(len - open.len() as u64),
            fill: open.len(),
            first: first.map_or(NO_RECORD, |first| (first / 8) as u8),
            len,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        self.sectors.len()
    }

    /// Call before pushing the first byte of a record.
    pub(super) fn start_record(&mut self) {
        if self.fill == 0 || self.first == NO_RECORD {
            debug_assert!(self.fill.is_multiple_of(8));
            self.first = (self.fill / 8) as u8;
        }
    }

    pub(super) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.fill == 0 {
                self.sectors.resize(self.sectors.len() + SECTOR_BYTES, 0);
            }
            let open = self.sectors.len() - SECTOR_BYTES;
            let (now, later) = bytes.split_at(bytes.len().min(DATA_BYTES - self.fill));
            let at = open + self.fill;
            self.sectors[at..at + now.len()].copy_from_slice(now);
            self.fill += now.len();
            self.len += now.len() as u64;
            bytes = later;
            if self.fill == DATA_BYTES {
                finish(&mut self.sectors[open..], self.sequence, self.first);
                self.fill = 0;
                self.first = NO_RECORD;
            }
        }
    }

    /// Everything not yet handed out, as whole sectors, and its file offset.
    pub(super) fn sectors(&mut self) -> (&[u8], u64) {
        if self.fill > 0 {
            let open = self.sectors.len() - SECTOR_BYTES;
            finish(&mut self.sectors[open..], self.sequence, self.first);
        }
        (&self.sectors, self.offset)
    }

    /// The result of `sectors` was written. The open sector stays: the next write repeats its
    /// beginning, which a disk that writes whole sectors cannot lose that way.
    pub(super) fn written(&mut self) {
        let kept = if self.fill > 0 { SECTOR_BYTES } else { 0 };
        let done = self.sectors.len() - kept;
        self.offset += done as u64;
        self.sectors.copy_within(done.., 0);
        self.sectors.truncate(kept);
        if self.sectors.capacity() > KEPT_BUFFER_BYTES {
            self.sectors.shrink_to(KEPT_BUFFER_BYTES);
        }
    }
}

fn finish(sector: &mut [u8], sequence: u64, first: u8) {
    sector[DATA_BYTES] = first;
    sector[DATA_BYTES + 1..CRC_AT].copy_from_slice(&sequence.to_le_bytes()[..3]);
    set_checksum(sector);
}

/// Recomputes the checksum of a sector.
pub(super) fn set_checksum(sector: &mut [u8]) {
    let crc = crc32fast::hash(&sector[..CRC_AT]);
    sector[CRC_AT..SECTOR_BYTES].copy_from_slice(&crc.to_le_bytes());
}

#[cfg(test)]
mod tests;
