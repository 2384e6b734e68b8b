//! Reads of segment files, and the errors of files that recovery refuses.

use std::path::Path;
use std::sync::Arc;

use super::sector;
use crate::vfs::{File, Open, Vfs};
use crate::{Error, Result};

/// Files are read in pieces of this size; a multiple of the sector.
pub(super) const READ_BYTES: usize = 1 << 20;

pub(super) fn open(vfs: &dyn Vfs, path: &Path) -> Result<Arc<dyn File>> {
    vfs.open(path, Open::Existing)
        .map_err(Error::io("open", path))
}

pub(super) fn read(file: &dyn File, buf: &mut [u8], at: u64, path: &Path) -> Result<()> {
    file.read_at(buf, at).map_err(Error::io("read", path))
}

/// The sectors of the record at this stream offset are intact, but the record is impossible.
pub(super) fn refuse_at(stream: u64, path: &Path, what: impl Into<String>) -> Error {
    refuse('G', path, sector::file_offset(stream), what)
}

pub(super) fn damaged(path: &Path, offset: u64) -> Error {
    refuse('F', path, offset, "a sector fails its checksum")
}

pub(super) fn refuse(case: char, path: &Path, offset: u64, what: impl Into<String>) -> Error {
    let what = what.into();
    Error::corrupt(path, offset, format!("{what} (log recovery, case {case})"))
}
