//! The seam to the file system: everything `storage` does to a disk goes through [`Vfs`] and
//! [`File`], so that the same code runs on the real one (`os`) and on a simulated one (`sim`).
//!
//! The durability contract, which both keep and all callers rely on:
//! 1. Bytes written are visible to later reads and maps at once, durable only after `sync_data`.
//! 2. Before that, a power cut may keep any subset of the unsynced 512-byte blocks.
//! 3. A new length is durable after `sync_data` of that file.
//! 4. A created, renamed or removed name is durable only after `sync_dir` of its directory.
//! 5. A failed write or sync leaves the file in an unknown state; it is never retried. Worse, the
//!    state looks like a known one: what could not be written stays readable, for the next process
//!    too, and no later sync writes it, unless it is written anew. So who opens a file writes anew
//!    what it relies on and cannot prove to have been synced (`wal/anchor.rs`, `btree/open.rs`).
//!    Lengths and names are not so: a file system that cannot write its journal stops.
//!    The one exception is a full disk: what a write, a growth or a reservation that answered "no space"
//!    covered is unknown until it is written again, and everything else stands. Not so for a sync.
//! 6. What was reserved, or written once, can be written without the disk being too full for it, on
//!    file systems that write in place.

pub mod os;
pub mod sim;
pub mod untouched;
pub(crate) mod whole;

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What [`Vfs::open`] does about a file that is, or is not, there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// The file must exist.
    Existing,
    /// The file must not exist; it is created empty.
    New,
}

/// How full a file system is, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    pub total: u64,
    /// For this process: what is set aside for the administrator does not count.
    pub available: u64,
}

/// A file system. Paths are as the caller gives them; `sim` keeps its own name space.
pub trait Vfs: fmt::Debug + Send + Sync {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>>;
    fn exists(&self, path: &Path) -> io::Result<bool>;
    /// Names (not paths) of the files in `dir`, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Creates `dir` and what is missing above it; durable on return.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Takes an exclusive lock on `path` (created when missing) that is held until the value is
    /// dropped; `WouldBlock` when another process or handle holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>>;
    /// Of the file system that `dir` lies in.
    fn space(&self, dir: &Path) -> io::Result<DiskSpace>;
}

/// Whether something failed for want of space on the disk, or of what the owner may use of it.
pub fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// A file is shortened by so much at once. A file system may tell the disk of what became free, and a
/// disk that has to forget half a gigabyte at once does nothing else for a tenth of a second.
pub(crate) const SHORTENING_STEP_BYTES: u64 = 4 << 20;

/// Shortens a file to `len` bytes in small steps, durably, with a call of `rest` after each.
pub(crate) fn shorten(file: &dyn File, len: u64, mut rest: impl FnMut()) -> io::Result<()> {
    let mut left = file.len()?;
    while left > len {
        left = left.saturating_sub(SHORTENING_STEP_BYTES).max(len);
        file.set_len(left)?;
        // One that fails for want of space has failed for good, unlike all else.
        file.sync_data().map_err(io::Error::other)?;
        rest();
    }
    Ok(())
}

/// An open file, to be read; offsets are in bytes.
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
    /// Fills `buf` wholly, or fails with `UnexpectedEof`.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
}

/// What this crate alone does to a file. A map hands out slices of the file's bytes, and a slice whose
/// bytes change or vanish is undefined behaviour, in safe code: so who maps and who writes has to
/// know what the other does. `btree/presence.rs` and `btree/space.rs` see to that; nobody outside can.
pub(crate) trait FileMut {
    /// Writes all of `buf`, growing the file when needed.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Has the disk set space aside for the bytes `from..to`. The length stays: who shortens the
    /// file gives back what is reserved behind its end. Never shortens, whatever runs beside it.
    fn reserve(&self, from: u64, to: u64) -> io::Result<()>;
    fn sync_data(&self) -> io::Result<()>;
    /// Has the system let go of what it keeps of the file in memory, but for what is not on the disk
    /// yet. A hint.
    fn forget(&self);
    /// A read-only window on the first `len` bytes. `len` may exceed the file's length: bytes
    /// beyond its end become readable when the file has grown over them. When the disk cannot be
    /// read under it, the process ends, and says where (`os/bus_error.rs`).
    fn map(&self, len: u64) -> io::Result<Arc<dyn Map>>;
}

/// A window on a file that stays valid while it lives. The caller never reads a range that is
/// being written at the same time, and none beyond the end of the file.
pub(crate) trait Map: fmt::Debug + Send + Sync {
    fn read(&self, offset: u64, len: usize) -> io::Result<Cow<'_, [u8]>>;
    /// Has the system begin to read these bytes. A hint.
    fn will_need(&self, offset: u64, len: u64);
    /// Has the system read these bytes, which the file has, and keep them in memory.
    fn lock(&self, offset: u64, len: u64) -> io::Result<()>;
    /// Takes that back.
    fn unlock(&self, offset: u64, len: u64);
}

/// Proof of a held lock.
pub trait Lock: fmt::Debug + Send + Sync {}
