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

use std::path::Path;

use super::file::{damaged, open, read, refuse};
use super::outcome::{Found, Visit};
use super::rest::Rest;
use super::sector::{self, SECTOR_BYTES, Sector};
use super::segment::{Header, Segment};
use super::walk::Walk;
use super::{Options, anchor, record};
use crate::vfs::{File, Vfs};
use crate::{Error, Result};
use list::{list, remove};

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
