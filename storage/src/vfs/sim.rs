//! A simulated disk in memory, for tests. It counts calls, fails on command, and after a power cut
//! keeps what the durability contract of `vfs` guarantees and a seeded choice of the rest. All
//! handles cloned from one `SimVfs` share the disk. Knows nothing of the stored content.
//!
//! The usual test: run a workload with `fail_after(n)` until it fails. Then for some seeds open
//! `power_cut(seed)` and check that everything synced is there. Repeat for n = 0, 1, 2, ...

mod disk;
pub(crate) mod rng;

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{DiskSpace, File, FileMut, Lock, Map, Open, Vfs};
use disk::{Disk, InodeId};

/// A power cut keeps or loses each unsynced piece of this size as a whole.
pub const BLOCK_BYTES: usize = 512;

/// A handle on a simulated disk.
#[derive(Clone, Debug)]
pub struct SimVfs {
    disk: Arc<Mutex<Disk>>,
}

impl SimVfs {
    /// An empty disk. The seed is mixed into the seeds of power cuts.
    pub fn new(seed: u64) -> SimVfs {
        SimVfs::with(Disk::new(seed))
    }

    /// The next `calls` calls that change or sync something succeed; the one after them takes
    /// effect (unsynced, so that a power cut may keep any part of it) but reports EIO, and from
    /// then on everything fails.
    pub fn fail_after(&self, calls: u64) {
        self.disk.lock().fail_after(calls);
    }

    /// Number of calls so far that changed or synced something (reads do not count).
    pub fn calls(&self) -> u64 {
        self.disk.lock().calls()
    }

    /// Bytes written so far.
    pub fn written_bytes(&self) -> u64 {
        self.disk.lock().written_bytes()
    }

    /// The next `reads` reads and mappings succeed, and none after them: like a bad medium, or a
    /// process without address space. Writes and syncs continue to work.
    pub fn fail_reads_after(&self, reads: u64) {
        self.disk.lock().fail_reads_after(reads);
    }

    /// Number of reads (through maps, too) and mappings so far.
    pub fn reads(&self) -> u64 {
        self.disk.lock().reads()
    }

    /// The ranges that maps were told to read ahead, offset and length, in call order.
    pub fn announced(&self) -> Vec<(u64, u64)> {
        self.disk.lock().announced().to_vec()
    }

    /// How often maps were asked whether pages are in memory.
    pub fn asked(&self) -> u64 {
        self.disk.lock().asked()
    }

    /// The disk as it may be found if power is cut now: a separate disk, without faults, with no
    /// lock held and everything on it durable. This one does not change.
    pub fn power_cut(&self, seed: u64) -> SimVfs {
        SimVfs::with(self.disk.lock().power_cut(seed))
    }

    /// The disk as a new process finds it after the old one was killed. Nothing written is lost,
    /// unsynced data is still unsynced, locks are free, faults are off. After a failed sync it is
    /// as Linux leaves it: some of the unsynced data is clean and readable but not on the disk, so
    /// that no later sync writes it.
    pub fn process_killed(&self) -> SimVfs {
        SimVfs::with(self.disk.lock().process_killed())
    }

    /// From now on the files together hold at most this many bytes; growing further is ENOSPC.
    pub fn set_capacity(&self, bytes: u64) {
        self.disk.lock().set_capacity(bytes);
    }

    /// The next `calls` calls find space. Of the later calls that write, grow, reserve or create,
    /// the first `times` return ENOSPC. Half of such a write may be in the file.
    pub fn full_after(&self, calls: u64, times: u64) {
        self.disk.lock().full_after(calls, times);
    }

    /// Drops all from memory, and from now on maps say what is not there: all but what was read since.
    /// With `false`, they say again that everything is.
    pub fn set_cold(&self, cold: bool) {
        self.disk.lock().set_cold(cold);
    }

    /// Number of calls that returned ENOSPC because of `full_after`.
    pub fn times_full(&self) -> u64 {
        self.disk.lock().times_full()
    }

    /// Flips one bit of a file, unseen: bit rot.
    pub fn flip(&self, path: &Path, bit: u64) {
        let mut disk = self.disk.lock();
        let id = disk.find(path).expect("flip: no such file");
        disk.flip(id, bit);
    }

    /// Changes one byte of a file on the disk by `mask`, unseen. Pages that this process has read
    /// through a map stay in memory as they were, and so does what is not synced; everything else
    /// is read anew. False if the byte is not on the disk yet.
    pub fn rot(&self, path: &Path, offset: u64, mask: u8) -> bool {
        let mut disk = self.disk.lock();
        let id = disk.find(path).expect("rot: no such file");
        disk.rot(id, offset, mask)
    }

    /// The files with rotten bytes on the disk, by the names that they have now: a file that is used
    /// again under another name keeps what is not overwritten.
    pub fn rotted(&self) -> Vec<PathBuf> {
        self.disk.lock().rotted()
    }

    /// The files, with their lengths on the disk.
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        self.disk.lock().files()
    }

    /// A file's bytes on the disk: what a power cut leaves for certain.
    pub fn on_disk(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = self.disk.lock();
        disk.find(path).map(|id| disk.durable(id).to_vec())
    }

    /// A file's bytes as a reader sees them now.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let disk = self.disk.lock();
        disk.find(path).map(|id| disk.bytes(id).to_vec())
    }

    /// Installs a durable file, replacing an old one: damage by hand.
    pub fn install(&self, path: &Path, bytes: &[u8]) {
        self.disk.lock().install(path, bytes);
    }

    fn with(disk: Disk) -> SimVfs {
        SimVfs {
            disk: Arc::new(Mutex::new(disk)),
        }
    }

    fn file(&self, id: InodeId) -> SimFile {
        SimFile {
            vfs: self.clone(),
            id,
        }
    }
}

impl Vfs for SimVfs {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        let id = match how {
            Open::Existing => self.disk.lock().existing(path)?,
            Open::New => self.disk.lock().create(path)?,
        };
        Ok(Arc::new(self.file(id)))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let disk = self.disk.lock();
        disk.alive()?;
        Ok(disk.find(path).is_some() || disk.has_dir(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.lock().list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.lock().create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.lock().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.lock().remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.lock().sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.disk.lock().lock(path)?;
        Ok(Box::new(SimLock {
            vfs: self.clone(),
            path: path.to_owned(),
        }))
    }

    fn space(&self, _dir: &Path) -> io::Result<DiskSpace> {
        self.disk.lock().space()
    }
}

#[derive(Debug)]
struct SimLock {
    vfs: SimVfs,
    path: PathBuf,
}

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.vfs.disk.lock().unlock(&self.path);
    }
}

#[derive(Clone, Debug)]
struct SimFile {
    vfs: SimVfs,
    id: InodeId,
}

impl File for SimFile {
    fn len(&self) -> io::Result<u64> {
        let disk = self.vfs.disk.lock();
        disk.alive()?;
        Ok(disk.bytes(self.id).len() as u64)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut disk = self.vfs.disk.lock();
        buf.copy_from_slice(disk.read(self.id, offset, buf.len(), false)?);
        Ok(())
    }
}

impl FileMut for SimFile {
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.vfs.disk.lock().write(self.id, buf, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.vfs.disk.lock().set_len(self.id, len)
    }

    fn reserve(&self, _from: u64, to: u64) -> io::Result<()> {
        self.vfs.disk.lock().reserve(self.id, to)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.vfs.disk.lock().sync_data(self.id)
    }

    fn begin_write_out(&self) {}

    fn forget(&self) {}

    fn map(&self, len: u64) -> io::Result<Arc<dyn Map>> {
        self.vfs.disk.lock().begin_read()?;
        Ok(Arc::new(SimMap {
            file: self.clone(),
            len,
        }))
    }
}

#[derive(Debug)]
struct SimMap {
    file: SimFile,
    len: u64,
}

impl Map for SimMap {
    fn read(&self, offset: u64, len: usize) -> io::Result<Cow<'_, [u8]>> {
        if offset.saturating_add(len as u64) > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut disk = self.file.vfs.disk.lock();
        Ok(Cow::Owned(
            disk.read(self.file.id, offset, len, true)?.to_vec(),
        ))
    }

    fn will_need(&self, offset: u64, len: u64) {
        let mut disk = self.file.vfs.disk.lock();
        disk.announce(offset, len);
    }

    fn is_resident(&self, offset: u64, len: u64) -> bool {
        let mut disk = self.file.vfs.disk.lock();
        disk.is_resident(self.file.id, offset, len)
    }

    /// The simulated disk is always in memory.
    fn lock(&self, offset: u64, len: u64) -> io::Result<()> {
        if offset.saturating_add(len) <= self.len {
            Ok(())
        } else {
            Err(io::ErrorKind::InvalidInput.into())
        }
    }

    fn unlock(&self, _: u64, _: u64) {}
}

#[cfg(test)]
mod tests;
