//! Segment files: their names, the header in their first sector, and the spares that become
//! segments.
//!
//! `<sequence>-<size>.wal` (both hex) is a segment of the log. It gets this name only after its
//! file durably has the full size, so a shorter one has lost bytes. `spare-<n>.wal` is a file of
//! full size that can become a segment: a new one with reserved space, or a dropped segment (stale,
//! as the sectors' tags show). `preparing-<n>.wal` is a file under construction, or a dropped
//! segment that is not needed; either is worthless after a crash.

mod header;
mod spares;

use std::path::{Path, PathBuf};

use super::sector::SECTOR_BYTES;
pub(super) use header::Header;
pub use spares::{DropJob, PrepareJob};
pub(super) use spares::{Dropped, SPARES_MAX, Spare, Spares};

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
