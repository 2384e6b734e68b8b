//! The real file system. The only module of the crate that may touch files, and one of the few with
//! unsafe code: a memory map is sound only while nobody truncates or rewrites under a reader.
//! `Map`'s contract guarantees that, not the compiler. Knows nothing of the stored content.

#![expect(
    unsafe_code,
    reason = "a memory map of a file is an unsafe operation; see the SAFETY note"
)]

mod bus_error;

use std::borrow::Cow;
use std::ffi::c_void;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{Advice, Mmap, MmapOptions};
use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::{DiskSpace, File, FileMut, Lock, Map, Open, Vfs};
use bus_error::Watched;

/// Files hold users' secrets: only the owner may read them.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIR_MODE: u32 = 0o700;

/// Pages of the system that one question about memory asks for. A node of a tree that is longer is
/// read ahead once its beginning is read.
const RESIDENT_PAGES: usize = 16;

/// The operating system's file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsVfs;

impl Vfs for OsVfs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let create = match how {
            Open::Existing => OFlags::empty(),
            Open::New => OFlags::CREATE | OFlags::EXCL,
        };
        let fd = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC | create, FILE_MODE)?;
        let file = fs::File::from(fd);
        let len = file.metadata()?.len();
        Ok(Arc::new(OsFile {
            file: Arc::new(file),
            path: path.into(),
            len: Arc::new(AtomicU64::new(len)),
        }))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        match rustix::fs::stat(path) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        create_dir_all(dir, &mut |dir| self.sync_dir(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::rename(from, to)?)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Ok(rustix::fs::unlink(path)?)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(dir, flags, Mode::empty())?;
        Ok(rustix::fs::fsync(fd)?)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let fd = rustix::fs::open(path, flags, FILE_MODE)?;
        // flock, not fcntl: it belongs to the open file, so closing some other handle on the same
        // path does not drop it. The kernel releases it when the process dies.
        rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(OsLock { _fd: fd }))
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        let found = rustix::fs::statvfs(dir)?;
        Ok(DiskSpace {
            total: found.f_blocks.saturating_mul(found.f_frsize),
            available: found.f_bavail.saturating_mul(found.f_frsize),
        })
    }
}

/// Creates `dir` and its missing parents; `sync` makes the names in a directory durable.
fn create_dir_all(dir: &Path, sync: &mut dyn FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    if dir.as_os_str().is_empty() {
        return Ok(());
    }
    let parent = parent_of(dir);
    if !dir.is_dir() {
        create_dir_all(&parent, sync)?;
        match fs::DirBuilder::new().mode(DIR_MODE).create(dir) {
            Ok(()) => return sync(&parent),
            // Another process was faster.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
            Err(e) => return Err(e),
        }
    }
    // Whoever created it may have been killed before the sync. Its parents need no sync: they were
    // durable before it was created.
    match sync(&parent) {
        // No process with the rights of this one has created a name there.
        Err(e) if is_closed_to_us(&e) => Ok(()),
        synced => synced,
    }
}

/// True if the directory may not be read, is on a read-only file system, or on one without syncs.
fn is_closed_to_us(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem};
    matches!(
        error.kind(),
        InvalidInput | PermissionDenied | ReadOnlyFilesystem
    )
}

fn parent_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[derive(Debug)]
struct OsLock {
    /// Closing it releases the lock.
    _fd: OwnedFd,
}

impl Lock for OsLock {}

#[derive(Debug)]
struct OsFile {
    /// Shared with its maps.
    file: Arc<fs::File>,
    /// The path it was opened with.
    path: Arc<Path>,
    /// The file's length as this handle knows it. Maps refuse to read past it, because touching a
    /// mapped page beyond the end is a SIGBUS. Invariant: never above the true length, as long as a
    /// file is cut through one handle only.
    len: Arc<AtomicU64>,
}

impl OsFile {
    fn refresh_len(&self) -> io::Result<u64> {
        let len = self.file.metadata()?.len();
        self.len.store(len, Ordering::Release);
        Ok(len)
    }
}

impl File for OsFile {
    fn len(&self) -> io::Result<u64> {
        self.refresh_len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }
}

impl FileMut for OsFile {
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(buf, offset)?;
        self.len
            .fetch_max(offset + buf.len() as u64, Ordering::AcqRel);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let old = self.file.metadata()?.len();
        if len <= old {
            // Lowered first, so that no map trusts bytes that are about to vanish.
            self.len.store(len, Ordering::Release);
            return self.file.set_len(len);
        }
        // Growing reserves the space, so that a full disk shows here and not at a later write.
        let flags = FallocateFlags::empty();
        let reserved = reserved_by(|| rustix::fs::fallocate(&self.file, flags, old, len - old))?;
        if !reserved {
            self.file.set_len(len)?;
        }
        self.refresh_len().map(drop)
    }

    fn reserve(&self, from: u64, to: u64) -> io::Result<()> {
        let flags = FallocateFlags::KEEP_SIZE;
        // Where it is not supported, a later write will report a full disk.
        reserved_by(|| rustix::fs::fallocate(&self.file, flags, from, to - from)).map(drop)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn begin_write_out(&self) {
        let fd = self.file.as_raw_fd();
        let to_the_end = 0;
        // SAFETY: the call takes no memory, only a descriptor, which `self` keeps open. It waits
        // for nothing and takes no note of a failed write: the next sync reports that. A file
        // system without this call begins to write later.
        let _ = unsafe { libc::sync_file_range(fd, 0, to_the_end, libc::SYNC_FILE_RANGE_WRITE) };
    }

    fn forget(&self) {
        // A file system without this call keeps it in memory.
        let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
    }

    fn map(&self, len: u64) -> io::Result<Arc<dyn Map>> {
        let size = usize::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut options = MmapOptions::new();
        options.len(size);
        // SAFETY: the mapping is read-only and shared, and lives as long as `OsMap`. It is sound
        // when no byte handed out as a slice changes or vanishes meanwhile: `Map`'s contract has
        // the callers (this crate alone) never rewrite or cut off a range that a reader may hold,
        // the data directory's lock keeps other processes of ours away, and `OsMap::read` refuses
        // what lies beyond the end of the file.
        let map = unsafe { options.map(&*self.file) }?;
        // Trees are read in random order; read-ahead would fill the cache with neighbours. A kernel
        // without madvise only loses speed.
        let _ = map.advise(Advice::Random);
        Ok(Arc::new(OsMap {
            _watched: Watched::new(map.as_ptr(), map.len(), &self.path, &self.file),
            map,
            len,
            file_len: self.len.clone(),
        }))
    }
}

/// Calls `fallocate`; false if the file system does not support it. A signal may interrupt a long
/// call; what it has reserved by then does no harm to the next one.
fn reserved_by(fallocate: impl FnMut() -> rustix::io::Result<()>) -> io::Result<bool> {
    match rustix::io::retry_on_intr(fallocate) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

#[derive(Debug)]
struct OsMap {
    /// Dropped first, because fields are dropped in order: before another map can get its
    /// addresses.
    _watched: Watched,
    map: Mmap,
    len: u64,
    file_len: Arc<AtomicU64>,
}

impl OsMap {
    /// Address of bytes of the map, whether the file has them or not.
    fn address(&self, offset: u64, len: u64) -> io::Result<*mut c_void> {
        let end = offset.checked_add(len).filter(|end| *end <= self.len);
        end.ok_or(io::ErrorKind::InvalidInput)?;
        let start = self.map.as_ptr().wrapping_add(offset as usize);
        Ok(start.cast_mut().cast())
    }
}

impl Map for OsMap {
    fn read(&self, offset: u64, len: usize) -> io::Result<Cow<'_, [u8]>> {
        let end = offset
            .checked_add(len as u64)
            .filter(|end| *end <= self.len.min(self.file_len.load(Ordering::Acquire)))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(Cow::Borrowed(&self.map[offset as usize..end as usize]))
    }

    fn will_need(&self, offset: u64, len: u64) {
        if offset.saturating_add(len) <= self.len {
            // A kernel without this call reads page by page.
            let _ = (self.map).advise_range(Advice::WillNeed, offset as usize, len as usize);
        }
    }

    fn is_resident(&self, offset: u64, len: u64) -> bool {
        let page = rustix::param::page_size() as u64;
        let first = offset / page * page;
        let mut seen = [1; RESIDENT_PAGES];
        let len = (offset + len - first).min(RESIDENT_PAGES as u64 * page);
        let Ok(start) = self.address(first, len) else {
            return true;
        };
        // SAFETY: `address` has checked that the whole range is mapped; it stays so while `self`
        // lives. The call reads none of its bytes, and writes one byte for each of its pages, of
        // which `seen` has room for all.
        let told = unsafe { libc::mincore(start, len as usize, seen.as_mut_ptr()) };
        told != 0 || seen.iter().all(|page| page & 1 == 1)
    }

    fn lock(&self, offset: u64, len: u64) -> io::Result<()> {
        let start = self.address(offset, len)?;
        // SAFETY: `address` has checked that the whole range is mapped; it stays so while `self`
        // lives. The call keeps no pointer and changes no byte: it reads the file into memory.
        unsafe { rustix::mm::mlock(start, len as usize) }?;
        Ok(())
    }

    fn unlock(&self, offset: u64, len: u64) {
        let Ok(start) = self.address(offset, len) else {
            return;
        };
        // SAFETY: as for `mlock`. If the call fails, the range stays locked, which does no harm.
        let _ = unsafe { rustix::mm::munlock(start, len as usize) };
    }
}

#[cfg(test)]
mod tests;
