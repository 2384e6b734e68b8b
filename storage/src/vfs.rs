//! The interface to the file system: `storage` accesses a disk only through [`Vfs`] and [`File`],
//! so that the same code runs on the real one (`os`) and on a simulated one (`sim`, which only
//! tests compile: feature `test-support`).
//!
//! The durability contract, which both keep and all callers rely on:
//! 1. Bytes written are visible to later reads and maps at once, but durable only after
//!    `sync_data`.
//! 2. Before that, a power cut may keep any subset of the unsynced 512-byte blocks.
//! 3. A new length is durable after `sync_data` of that file.
//! 4. A created, renamed or removed name is durable only after `sync_dir` of its directory.
//! 5. A failed write or sync leaves the file in an unknown state; it is never retried. Worse, the
//!    state looks like a known one: the unwritten data stays readable, for the next process, too,
//!    and no later sync writes it, unless it is written again. So a process that opens a file
//!    writes again what it relies on and cannot prove to have been synced (`wal/anchor.rs`,
//!    `btree/file/open.rs`). Lengths and names need no such care: a file system that cannot write
//!    its journal stops. The one exception is a full disk: what the write, growth or reservation
//!    covered that returned "no space" is unknown until it is written again, and everything else
//!    stays valid. The exception does not include a sync.
//! 6. Bytes that were reserved, or written once, can be written even if the disk is full, on file
//!    systems that write in place.

pub(crate) mod dry_run;
pub mod os;
#[cfg(any(test, feature = "test-support"))]
pub mod sim;
pub mod unsynced;

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How [`Vfs::open`] treats an existing or missing file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// The file must exist.
    Existing,
    /// The file must not exist; it is created empty.
    New,
}

/// Size and free space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    pub total: u64,
    /// For this process: without the administrator's reserve.
    pub available: u64,
}

/// A file system. Paths are used as given; `sim` has its own name space.
pub trait Vfs: fmt::Debug + Send + Sync {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>>;
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Names (not paths) of the files in `dir`, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Creates `dir` and its missing parents; durable on return.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Renames a file; replaces `to` if it exists. Durable after `sync_dir`.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file. Durable after `sync_dir`.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes an exclusive lock on `path` (created if missing), held until the value is dropped.
    /// `WouldBlock` if another process or handle holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;
    /// Space of the file system that contains `dir`.
    fn space(&self, dir: &Path) -> io::Result<DiskSpace>;
}

/// True if the disk, or its owner's quota, is full.
pub fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// Files are shortened in steps of this size. A file system may tell the disk which blocks became
/// free, and a disk that must discard half a gigabyte at once does nothing else for a tenth of a
/// second.
pub(crate) const SHORTENING_STEP_BYTES: u64 = 4 << 20;

/// Shortens a file to `len` bytes in small steps, durably; calls `rest` after each.
pub(crate) fn shorten(file: &dyn File, len: u64, mut rest: impl FnMut()) -> io::Result<()> {
    let mut left = file.len()?;
    while left > len {
        left = left.saturating_sub(SHORTENING_STEP_BYTES).max(len);
        file.set_len(left)?;
        // Unlike other calls, a sync that fails on a full disk has failed for good.
        file.sync_data().map_err(io::Error::other)?;
        rest();
    }
    Ok(())
}

/// An open file, for reading; offsets are in bytes.
#[expect(
    clippy::len_without_is_empty,
    reason = "an empty file is nothing special here"
)]
#[expect(
    private_bounds,
    reason = "whoever could change a file could do so under a map of it"
)]
pub trait File: FileMut + fmt::Debug + Send + Sync {
    fn len(&self) -> io::Result<u64>;
    /// Fills all of `buf`, or fails with `UnexpectedEof`.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
}

/// Operations on a file that only this crate may use. A map returns slices of the file's bytes, and
/// a slice whose bytes change or vanish is undefined behaviour, in safe code. So mapping and
/// writing must be coordinated. `btree/pages/readers.rs` and `btree/space.rs` do that; code
/// outside cannot.
pub(crate) trait FileMut {
    /// Writes all of `buf`; grows the file if necessary.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Reserves disk space for the bytes `from..to`. The length stays the same, so shortening the
    /// file gives back what is reserved behind its end. Never shortens, whatever runs at the same
    /// time.
    fn reserve(&self, from: u64, to: u64) -> io::Result<()>;
    fn sync_data(&self) -> io::Result<()>;
    /// Asks the system to begin to write to the disk what was written to the file, so that a later
    /// sync finds little to do. A hint.
    fn begin_write_out(&self);
    /// Asks the system to drop the file from the page cache, except what is not on the disk yet. A
    /// hint.
    fn forget(&self);
    /// A read-only window on the first `len` bytes. `len` may exceed the file's length: bytes
    /// beyond its end become readable once the file has grown over them. If the disk cannot be read
    /// through it, the process ends and reports the place (`os/bus_error.rs`).
    fn map(&self, len: u64) -> io::Result<Arc<dyn Map>>;
}

/// A window on a file, valid while it lives. The caller never reads a range that is being written
/// at the same time, nor beyond the end of the file.
pub(crate) trait Map: fmt::Debug + Send + Sync {
    fn read(&self, offset: u64, len: usize) -> io::Result<Cow<'_, [u8]>>;
    /// Asks the system to begin reading these bytes. A hint.
    fn will_need(&self, offset: u64, len: u64);
    /// False if reading these bytes would wait for the disk. A system that does not tell says true.
    fn is_resident(&self, offset: u64, len: u64) -> bool;
    /// Reads these bytes, which the file must have, and keeps them in memory.
    fn lock(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Undoes `lock`.
    fn unlock(&self, offset: u64, len: u64);
}

/// Proof of a held lock.
pub trait Lock: fmt::Debug + Send + Sync {}
