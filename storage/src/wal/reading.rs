//! Reads old records on another thread, while the log's owner appends new ones.
//!
//! The owner pins the segments that hold them: while they are pinned they are not dropped, so their
//! files are neither removed nor filled with new records. Only durable records are read. Their
//! sectors are never written again, except the one in which they end, so its bytes are copied while
//! the log is pinned.

use std::sync::Arc;

use super::file::{self, damaged, refuse};
use super::recover::read_header;
use super::sector::{self, DATA_BYTES, SECTOR_BYTES, Sector};
use super::segment::{Header, Segment};
use super::walk::Walk;
use super::writing::OpenSegment;
use super::{Record, Wal, record};
use crate::encryption::DataKeys;
use crate::vfs::{Open, Vfs};
use crate::{Error, Result};

/// The log's durable records from some segment on, as they were when it was pinned.
#[derive(Debug)]
pub struct Pinned {
    vfs: Arc<dyn Vfs>,
    data_keys: Option<Arc<DataKeys>>,
    /// Oldest first. Holds the pins.
    segments: Vec<Segment>,
    /// Of the newest segment, if it is the one being written.
    end: Option<End>,
}

/// Where the durable records of the newest segment end.
#[derive(Debug)]
struct End {
    len: u64,
    /// The stream bytes in the sector that is not full.
    open: Vec<u8>,
}

/// A place between two records. It stays good until its segment is dropped.
#[derive(Clone, Debug)]
pub struct Place {
    sequence: u64,
    at: u64,
    prev: u32,
    scope: Option<Vec<u8>>,
}

impl Wal {
    /// Pins the durable records from the first segment on that holds an index not below `index`.
    pub fn pin(&self, index: u64) -> Result<Pinned> {
        let is_needed = |s: &&Segment| s.highest.is_some_and(|highest| highest >= index);
        let first = self.older.iter().position(|s| is_needed(&s));
        let first = first.unwrap_or(self.older.len());
        let mut segments: Vec<Segment> = self.older.range(first..).cloned().collect();
        let current = self.open.front().filter(|open| open.durable > 0);
        let end = current.map(End::of).transpose()?.flatten();
        if end.is_some() {
            segments.extend(current.map(|open| open.segment.clone()));
        }
        Ok(Pinned {
            vfs: self.spares.vfs(),
            data_keys: self.data_keys.clone(),
            segments,
            end,
        })
    }
}

impl End {
    fn of(open: &OpenSegment) -> Result<Option<End>> {
        let Some(file) = &open.file else {
            return Ok(None);
        };
        let kept = (open.durable % DATA_BYTES as u64) as usize;
        let mut bytes = [0; SECTOR_BYTES];
        let at = sector::file_offset(open.durable - kept as u64);
        if kept > 0 {
            file::read(&**file, &mut bytes, at, &open.segment.path)?;
        }
        let data = match sector::read(&bytes, open.segment.sequence) {
            Sector::Own { data, .. } => &data[..kept],
            _ if kept == 0 => &[],
            _ => return Err(damaged(&open.segment.path, at)),
        };
        Ok(Some(End {
            len: open.durable,
            open: data.to_vec(),
        }))
    }
}

impl Pinned {
    /// Begins at `place`, or with the oldest record if the place is not pinned.
    pub fn reader(self, place: Option<&Place>) -> Reader {
        let begins = |s: &Segment| place.is_some_and(|place| place.sequence == s.sequence);
        let at = self.segments.iter().position(begins);
        Reader {
            next: at.unwrap_or(0),
            place: place.filter(|_| at.is_some()).cloned(),
            pinned: self,
            walk: None,
        }
    }
}

/// Reads records in order.
pub struct Reader {
    pinned: Pinned,
    /// Where to begin in the next segment, if not at its start.
    place: Option<Place>,
    /// The segment after the one that is read now.
    next: usize,
    walk: Option<(Walk, u64)>,
}

impl Reader {
    /// The next record; `None` after the last one that was durable.
    pub fn read(&mut self) -> Result<Option<Record<'_>>> {
        let found = loop {
            if let Some((walk, _)) = &mut self.walk
                && let Some(found) = walk.advance()?
            {
                break found;
            }
            if !self.enter_next()? {
                return Ok(None);
            }
        };
        let Some((walk, _)) = &mut self.walk else {
            return Ok(None);
        };
        let (start, head) = found;
        Ok(Some(Record {
            kind: head.kind,
            index: head.index,
            payload: walk.payload(start, &head)?,
            repeated: head.flags & record::REPEATED != 0,
        }))
    }

    /// The place after the record that `read` returned last.
    pub fn place(&self) -> Option<Place> {
        let (walk, sequence) = self.walk.as_ref()?;
        let (at, prev, scope) = walk.state();
        Some(Place {
            sequence: *sequence,
            at,
            prev,
            scope,
        })
    }

    /// False if there is no further segment.
    fn enter_next(&mut self) -> Result<bool> {
        let Some(segment) = self.pinned.segments.get(self.next).cloned() else {
            return self.check_end().map(|()| false);
        };
        let path = segment.path.clone();
        let file = self.pinned.vfs.open(&path, Open::Existing);
        let file = file.map_err(Error::io("open", &path))?;
        let header = read_header(&*file, &segment)?;
        let header: Header =
            header.ok_or_else(|| refuse('P', &path, 0, "the segment has no header"))?;
        if let Some((before, _)) = &self.walk {
            before.check_end(&header)?;
        }
        let sequence = segment.sequence;
        let mut walk = Walk::begin(segment, file, header, self.pinned.data_keys.clone());
        self.next += 1;
        if self.next == self.pinned.segments.len()
            && let Some(end) = &self.pinned.end
        {
            walk = walk.ending(end.len, end.open.clone());
        }
        if let Some(place) = self.place.take() {
            walk.resume(place.at, place.prev, place.scope)?;
        }
        self.walk = Some((walk, sequence));
        Ok(true)
    }

    /// The records that were durable are all there.
    fn check_end(&self) -> Result<()> {
        match (&self.walk, &self.pinned.end) {
            (Some((walk, _)), Some(end)) => walk.check_reaches(end.len),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
