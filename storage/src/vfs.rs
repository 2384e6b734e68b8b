//! The seam to the file system: everything `storage` does to a disk goes through [`Vfs`] and
//! [`File`], so that the same code runs on the real one (`os`) and on a simulated one (`sim`).
//!
//! The durability contract, which both keep and all callers rely on:
//! 1. Bytes written are visible to later reads and maps at once, durable only after `sync_data`.
//! 2. Before that, a power cut may keep any subset of the unsynced 512-byte blocks.
//! 3. A new length is durable after `sync_data` of that file.
//! 4. A created, renamed or removed name is durable only after `sync_dir` of its directory.
//! 5. A failed write or sync leaves the file in an unknown state; it is never retried.

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
}

/// An open file; offsets are in bytes.
#[expect(
    clippy::len_without_is_empty,
    reason = "an empty file is nothing special here"
)]
pub trait File: fmt::Debug + Send + Sync {
    fn len(&self) -> io::Result<u64>;
    /// Fills `buf` wholly, or fails with `UnexpectedEof`.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Writes all of `buf`, growing the file when needed.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    fn set_len(&self, len: u64) -> io::Result<()>;
    fn sync_data(&self) -> io::Result<()>;
    /// A read-only window on the first `len` bytes. `len` may exceed the file's length: bytes
    /// beyond its end become readable when the file has grown over them.
    fn map(&self, len: u64) -> io::Result<Arc<dyn Map>>;
}

/// A window on a file that stays valid while it lives. The caller never reads a range that is
/// being written at the same time, and none beyond the end of the file.
#[expect(
    clippy::len_without_is_empty,
    reason = "an empty window is nothing special here"
)]
pub trait Map: fmt::Debug + Send + Sync {
    fn read(&self, offset: u64, len: usize) -> io::Result<Cow<'_, [u8]>>;
    fn len(&self) -> u64;
}

/// Proof of a held lock.
pub trait Lock: fmt::Debug + Send + Sync {}
