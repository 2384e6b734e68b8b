//! What a segment holds after the end of its records.

use super::file::{READ_BYTES, damaged, read};
use super::record::{HEAD_BYTES, Head};
use super::sector::{self, DATA_BYTES, SECTOR_BYTES, Sector};
use super::segment::Segment;
use crate::Result;
use crate::vfs::File;

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
