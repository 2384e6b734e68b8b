//! Recovery of arbitrary bytes in the log's directory: it opens or refuses, never panics or loops,
//! and never returns a record that was not appended unless every checksum was forged.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::segment::Name;
use super::{Options, Wal, sector};
use crate::Result;
use crate::vfs::Vfs;
use crate::vfs::sim::SimVfs;

const DIR: &str = "log";
const OPTIONS: Options = Options {
    segment_bytes: 4096,
    seed: 0,
    data_keys: None,
    from: 0,
};
/// Records of the log that gets damaged: three segments' worth.
const RECORDS: u64 = 9;

/// The first byte chooses how to use the rest: as a segment, or as damage to a valid log.
pub(crate) fn recover_anything(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else {
        return;
    };
    let vfs = SimVfs::new(0);
    match choice % 3 {
        0 => install_raw(&vfs, data, false),
        1 => install_raw(&vfs, data, true),
        _ => {
            append_records(&vfs);
            let forged = data
                .chunks_exact(5)
                .fold(false, |forged, edit| damage(&vfs, edit) | forged);
            let Ok(shown) = open(&vfs).map(|(_, shown)| shown) else {
                return;
            };
            let genuine = |n: &u64| (1..=RECORDS).contains(n);
            assert!(forged || shown.iter().all(genuine), "{shown:?}");
            assert!(forged || shown.windows(2).all(|w| w[0] + 1 == w[1]));
        }
    }
    goes_on(&vfs);
}

/// A log that opens once accepts writes, and shows the same records again.
fn goes_on(vfs: &SimVfs) {
    let Ok((mut wal, before)) = open(vfs) else {
        return;
    };
    wal.append(1, u64::MAX, &[b"after"]);
    wal.write().expect("the disk is sound");
    wal.sync().expect("the disk is sound");
    drop(wal);
    let (_, after) = open(&vfs.power_cut(0)).expect("a log just written opens");
    assert_eq!(after[..after.len() - 1], before);
    assert_eq!(after.last(), Some(&u64::MAX));
}

fn open(vfs: &SimVfs) -> Result<(Wal, Vec<u64>)> {
    let mut shown = Vec::new();
    let vfs = Arc::new(vfs.clone());
    let (wal, recovery) = Wal::open(vfs, Path::new(DIR), OPTIONS, &mut |record| {
        shown.push(record.index);
        Ok(())
    })?;
    assert_eq!(recovery.records, shown.len() as u64);
    Ok((wal, shown))
}

fn append_records(vfs: &SimVfs) {
    let (mut wal, _) = open(vfs).expect("an empty directory opens");
    for n in 1..=RECORDS {
        wal.append(1, n, &[&[n as u8; 900]]);
        wal.write().expect("the disk is sound");
        if n % 2 == 0 {
            wal.sync().expect("the disk is sound");
        }
    }
}

/// Installs the bytes as one segment, either as is or with valid sector checksums.
fn install_raw(vfs: &SimVfs, data: &[u8], sealed: bool) {
    let mut bytes = data.to_vec();
    bytes.resize(data.len().next_multiple_of(4096).max(4096), 0);
    if sealed {
        let sectors = bytes.chunks_exact_mut(sector::SECTOR_BYTES);
        sectors.for_each(sector::set_checksum);
    }
    let name = Name::Segment {
        sequence: 1,
        bytes: bytes.len() as u64,
    };
    vfs.install(&name.path(Path::new(DIR)), &bytes);
}

/// One small damage to one file. True if its sector's checksum was made to match.
fn damage(vfs: &SimVfs, edit: &[u8]) -> bool {
    let names = vfs.list(Path::new(DIR)).unwrap_or_default();
    let Some(name) = names.get(usize::from(edit[0] & 15) % names.len().max(1)) else {
        return false;
    };
    let path = Path::new(DIR).join(name);
    let mut bytes = vfs.contents(&path).unwrap_or_default();
    let at = usize::from(u16::from_le_bytes([edit[1], edit[2]])) % bytes.len().max(1);
    let start = at / sector::SECTOR_BYTES * sector::SECTOR_BYTES;
    let whole = start + sector::SECTOR_BYTES <= bytes.len();
    let mut forged = false;
    match edit[3] % 7 {
        0 if whole => bytes[at] ^= edit[4],
        1 if whole => bytes[start..start + sector::SECTOR_BYTES].fill(0),
        2 => bytes.truncate(at),
        3 if whole => {
            bytes[at] ^= edit[4];
            sector::set_checksum(&mut bytes[start..start + sector::SECTOR_BYTES]);
            forged = true;
        }
        4 if whole => {
            let from = usize::from(edit[4]) * sector::SECTOR_BYTES;
            if from + sector::SECTOR_BYTES <= bytes.len() {
                bytes.copy_within(from..from + sector::SECTOR_BYTES, start);
                // A sector in the wrong place is intact: the record chain decides about it.
                forged = true;
            }
        }
        5 => {
            let _ = vfs.remove(&path);
            return false;
        }
        _ => {
            let sequence = u64::from(edit[4] % 8);
            let bytes_long = bytes.len() as u64;
            let copy: PathBuf = Name::Segment {
                sequence,
                bytes: bytes_long,
            }
            .path(Path::new(DIR));
            vfs.install(&copy, &bytes);
            return false;
        }
    }
    vfs.install(&path, &bytes);
    forged
}

#[cfg(test)]
mod tests;
