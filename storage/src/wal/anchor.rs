//! Makes sure that what recovery reads in the last segment is on the disk.
//!
//! After a failed write-back, Linux keeps the unwritten pages in memory and marks them clean. The
//! process ends, and the next one reads records that the disk does not have. Its sync has nothing
//! to write, and succeeds. The log would continue behind those records, and a power cut would leave
//! a hole in their place.
//!
//! Asking the system to forget clean pages does not help, because it may keep any of them. Writing
//! them again does: it makes them dirty, and the next sync puts them on the disk, or fails. Only a
//! part of the segment must be written, and the proof needs nothing from the page cache:
//! 1. A record says how much of the segment was durable when it was appended. That was true then,
//!    wherever the record itself is read from, so the sectors before are on the disk.
//! 2. The sectors behind were written by a process that appended records. So all that may be
//!    missing on the disk is between there and the segment's last own sector, and is written here
//!    as it is read.
//! 3. If the system forgets a page meanwhile, its disk content is read. Then that content is
//!    written, and recovery reads it afterwards: recovery starts after the sync has succeeded.
//!
//! The second point is why recovery never wipes what follows a cut (see `recover`). If the sync of
//! its zeros failed, they would be in memory only, and nothing would show where they end.
//!
//! Older segments need no such care: the next one got its name only after they were synced to their
//! end. Names need none either: they are in the file system's journal, and a file system that
//! cannot write its journal stops.

use std::path::Path;

use super::file::{READ_BYTES, read};
use super::rest::witness;
use super::sector::{self, DATA_BYTES, SECTOR_BYTES, Sector};
use crate::vfs::File;
use crate::{Error, Result};

/// After this, until the next write, the file of segment `sequence` reads as the disk has it.
/// Damaged sectors are left for recovery to report.
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
        // Write the header again, too.
        0 => 0,
        // The sector that records continued in was written again.
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
