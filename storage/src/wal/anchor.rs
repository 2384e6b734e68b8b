//! Makes sure of the last segment before recovery reads it: what it shows is on the disk.
//!
//! After a write-back that failed, Linux keeps what was to be written in memory and calls it clean. The
//! process ends, and the next one reads records that the disk does not have. Its sync has nothing to
//! write, and succeeds. The log would go on behind those records, and a power cut leave a hole where
//! they had been.
//!
//! Asking the system to forget clean pages is no way out, because it may keep any of them. Writing them
//! again is: it makes them unclean, and the sync after it puts them on the disk, or fails. Not all of
//! the segment need be written, and the proof needs nothing from the page cache:
//! 1. A record says how much of the segment was durable when it was appended. That was true then,
//!    wherever the record itself is read from, so the sectors before are on the disk.
//! 2. Whoever wrote the sectors behind wrote records. So all that may be missing on the disk lies
//!    between there and the last sector of the segment's own, and is written here as it is read.
//! 3. A page that the system forgets meanwhile is read as the disk has it. Then that is what is
//!    written, and what recovery reads afterwards: it starts when the sync has succeeded.
//!
//! The second point is why recovery never wipes what lies behind a cut (see `recover`). Its zeros would
//! be such bytes of memory alone if their sync failed, and nothing would tell where they end.
//!
//! Older segments need no such care: the next one has its name because they were synced to their end. Nor
//! do names: they are in the file system's journal, and one that cannot write that stops.

use std::path::Path;

use super::recover::{READ_BYTES, read, witness};
use super::sector::{self, DATA_BYTES, SECTOR_BYTES, Sector};
use crate::vfs::File;
use crate::{Error, Result};

/// From here on, until somebody writes to it, the file of the segment with this number reads as the disk
/// has it. Damaged sectors are left for the reader to complain about.
pub(super) fn anchor(file: &dyn File, path: &Path, sequence: u64, bytes: u64) -> Result<()> {
    let (mut durable, mut own_end) = (0, 0);
    let mut buf = vec![0; READ_BYTES.min(bytes as usize)];
    in_pieces(0, bytes, |at, len| {
        read(file, &mut buf[..len], at, path)?;
        for (i, sector) in buf[..len].chunks_exact(SECTOR_BYTES).enumerate() {
            if let Sector::Own { first, data } = sector::read(sector, sequence) {
                own_end = at + ((i + 1) * SECTOR_BYTES) as u64;
                // The header is no record.
                let first = first.filter(|_| at > 0 || i > 0);
                durable = durable.max(witness(data, first));
            }
        }
        Ok(())
    })?;
    let from = match u64::from(durable) {
        // The header either.
        0 => 0,
        // The sector that records went on in was written again.
        durable => sector::file_offset(durable / DATA_BYTES as u64 * DATA_BYTES as u64),
    };
    in_pieces(from, own_end, |at, len| {
        read(file, &mut buf[..len], at, path)?;
        let written = file.write_at(&buf[..len], at);
        written.map_err(Error::io("write", path))
    })?;
    file.sync_data().map_err(Error::io("sync", path))
}

fn in_pieces(from: u64, to: u64, mut f: impl FnMut(u64, usize) -> Result<()>) -> Result<()> {
    let mut at = from;
    while at < to {
        let len = READ_BYTES.min((to - at) as usize);
        f(at, len)?;
        at += len as u64;
    }
    Ok(())
}
