//! The files of the log's directory: worthless ones are removed, and the segments must be a
//! sequence without gaps, each of the size in its name.

use std::path::Path;

use crate::vfs::{File, Vfs};
use crate::wal::Options;
use crate::wal::file::{open, refuse};
use crate::wal::segment::{self, Name, SPARES_MAX, Segment, Spare};
use crate::{Error, Result};

pub(super) struct Listing {
    pub(super) segments: Vec<Segment>,
    pub(super) spares: Vec<Spare>,
    pub(super) next_number: u64,
}

/// The directory's segments, with worthless files removed and sequence and sizes checked.
pub(super) fn list(vfs: &dyn Vfs, dir: &Path, options: &Options) -> Result<Listing> {
    // Spares may hold data that was never sealed, or is under a key to be forgotten.
    let mixed = options
        .data_keys
        .as_ref()
        .is_some_and(|keys| keys.is_mixed());
    let mut listing = Listing {
        segments: Vec::new(),
        spares: Vec::new(),
        next_number: 0,
    };
    for text in vfs.list(dir).map_err(Error::io("list", dir))? {
        let path = dir.join(&text);
        match Name::parse(&text) {
            None => {}
            Some(Name::Preparing(n)) => {
                listing.next_number = listing.next_number.max(n.saturating_add(1));
                remove(vfs, &path)?;
            }
            Some(Name::Spare(n)) => {
                listing.next_number = listing.next_number.max(n.saturating_add(1));
                let bytes = size(&*open(vfs, &path)?, &path)?;
                if bytes == options.segment_bytes && listing.spares.len() < SPARES_MAX && !mixed {
                    // It does not show whether this was a segment once.
                    listing.spares.push(Spare {
                        path,
                        bytes,
                        used: false,
                        stale: true,
                        cached: false,
                    });
                } else {
                    remove(vfs, &path)?;
                }
            }
            Some(Name::Segment { sequence, bytes }) => {
                listing.segments.push(Segment::new(sequence, bytes, path));
            }
        }
    }
    listing.segments.sort_by_key(|s| s.sequence);
    for pair in listing.segments.windows(2) {
        let (before, after) = (&pair[0], &pair[1]);
        if before.sequence == after.sequence {
            let what = format!("{} has the same number", before.path.display());
            return Err(refuse('J', &after.path, 0, what));
        }
        if before.sequence.checked_add(1) != Some(after.sequence) {
            let what = format!("the segment before it is missing; the log has {before:?}");
            return Err(refuse('I', &after.path, 0, what));
        }
    }
    for segment in &listing.segments {
        let has = size(&*open(vfs, &segment.path)?, &segment.path)?;
        if has != segment.bytes || !segment::is_possible_size(has) {
            let what = format!("{has} bytes long, its name promises {}", segment.bytes);
            return Err(refuse('K', &segment.path, has, what));
        }
    }
    Ok(listing)
}

pub(super) fn remove(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    vfs.remove(path).map_err(Error::io("remove", path))
}

fn size(file: &dyn File, path: &Path) -> Result<u64> {
    file.len().map_err(Error::io("stat", path))
}
