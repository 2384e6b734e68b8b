//! Segment files: their names, the header in their first sector, what is known of them, and the
//! spares that become segments.
//!
//! `<sequence>-<size>.wal` (both hex) is a segment of the log. It gets this name only after its
//! file durably has the full size, so a shorter one has lost bytes. `spare-<n>.wal` is a file of
//! full size that can become a segment: a new one with reserved space, or a dropped segment (stale,
//! as the sectors' tags show). `preparing-<n>.wal` is a file under construction, or a dropped
//! segment that is not needed; either is worthless after a crash.

mod header;
mod spares;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::sector::SECTOR_BYTES;
pub(super) use header::Header;
pub use spares::{DropJob, PrepareJob, SPARES_MAX};
pub(super) use spares::{Dropped, Spare, Spares};

/// Numbers in names stay below this, so that counting up never overflows.
const NUMBERS_MAX: u64 = 1 << 62;

/// A file of the log's directory, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Name {
    Segment { sequence: u64, bytes: u64 },
    Spare(u64),
    Preparing(u64),
}

impl Name {
    /// `None` if the name is not one of the log's.
    pub(super) fn parse(name: &str) -> Option<Name> {
        let hex = |text: &str| {
            let number = u64::from_str_radix(text, 16).ok()?;
            (text.len() == 16 && number < NUMBERS_MAX).then_some(number)
        };
        let stem = name.strip_suffix(".wal")?;
        let (left, right) = stem.split_once('-')?;
        let parsed = match left {
            "spare" => Name::Spare(hex(right)?),
            "preparing" => Name::Preparing(hex(right)?),
            _ => Name::Segment {
                sequence: hex(left)?,
                bytes: hex(right)?,
            },
        };
        Some(parsed)
    }

    pub(super) fn path(&self, dir: &Path) -> PathBuf {
        dir.join(match self {
            Name::Segment { sequence, bytes } => format!("{sequence:016x}-{bytes:016x}.wal"),
            Name::Spare(n) => format!("spare-{n:016x}.wal"),
            Name::Preparing(n) => format!("preparing-{n:016x}.wal"),
        })
    }
}

/// True if a segment file can have that size.
pub(super) fn is_possible_size(bytes: u64) -> bool {
    bytes.is_multiple_of(SECTOR_BYTES as u64)
        && bytes >= 2 * SECTOR_BYTES as u64
        && bytes <= u64::from(u32::MAX)
}

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
    pub(super) fn unread(self, header: &Header, next: &Header) -> Segment {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_written_and_strangers_are_left_alone() {
        let dir = Path::new("");
        let segment = Name::Segment {
            sequence: 0x1f,
            bytes: 64 << 20,
        };
        for name in [segment, Name::Spare(3), Name::Preparing(NUMBERS_MAX - 1)] {
            let text = name.path(dir).display().to_string();
            assert_eq!(Name::parse(&text), Some(name));
        }
        for name in [
            "",
            "x",
            "1-2.wal",
            "spare-.wal",
            "0000000000000000.wal",
            "spare-ffffffffffffffff.wal",
        ] {
            assert_eq!(Name::parse(name), None);
        }
    }
}
