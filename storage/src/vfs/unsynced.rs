//! A file system that syncs nothing: what is written reaches the disk when the system finds time for
//! it. A killed process loses nothing; a power cut loses what it likes, and may leave files that no
//! longer open. For stores whose content nobody needs after a power cut. Only a new directory is still
//! synced, by the file system that makes it.
//!
//! It reserves no space either: space is reserved so that a sync changes no more than data and a full
//! disk shows before a write depends on it. Such stores are small and many, often in a file system
//! that is kept in memory, and there each reserved byte is one of memory.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{DiskSpace, File, FileMut, Lock, Map, Open, Vfs};

/// Another file system without its syncs.
#[derive(Clone, Debug)]
pub struct Unsynced(pub Arc<dyn Vfs>);

impl Vfs for Unsynced {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(UnsyncedFile(self.0.open(path, how)?)))
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.exists(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.0.create_dir_all(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.0.lock(path)
    }

    fn space(&self, dir: &Path) -> io::Result<DiskSpace> {
        self.0.space(dir)
    }
}

#[derive(Debug)]
struct UnsyncedFile(Arc<dyn File>);

impl File for UnsyncedFile {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buf, offset)
    }
}

impl FileMut for UnsyncedFile {
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_at(buf, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len <= self.0.len()? {
            return self.0.set_len(len);
        }
        // Growing leaves a hole.
        self.0.write_at(&[0], len - 1)
    }

    fn reserve(&self, _from: u64, _to: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn begin_write_out(&self) {
        self.0.begin_write_out();
    }

    fn forget(&self) {
        self.0.forget();
    }

    fn map(&self, len: u64) -> io::Result<Arc<dyn Map>> {
        self.0.map(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::os::OsVfs;
    use crate::vfs::sim::SimVfs;

    #[test]
    fn nothing_is_synced_and_a_killed_process_loses_nothing() {
        let (dir, path) = (Path::new("d"), Path::new("d/f"));
        let write = |vfs: &dyn Vfs| {
            let file = vfs.open(path, Open::New).unwrap();
            file.write_at(b"written", 0).unwrap();
            file.sync_data().unwrap();
            vfs.sync_dir(dir).unwrap();
        };
        let disk = SimVfs::new(7);
        disk.create_dir_all(dir).unwrap();
        write(&Unsynced(Arc::new(disk.clone())));
        assert_eq!(disk.process_killed().contents(path).unwrap(), b"written");
        let is_whole =
            |disk: &SimVfs, seed| disk.power_cut(seed).contents(path) == Some(b"written".into());
        assert!(!(0..20).all(|seed| is_whole(&disk, seed)));

        let synced = SimVfs::new(7);
        synced.create_dir_all(dir).unwrap();
        write(&synced);
        assert!((0..20).all(|seed| is_whole(&synced, seed)));
    }

    #[test]
    fn a_file_grows_without_blocks_of_the_disk() {
        use std::os::unix::fs::MetadataExt as _;

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        let file = Unsynced(Arc::new(OsVfs)).open(&path, Open::New).unwrap();
        file.write_at(b"written", 0).unwrap();
        file.set_len(64 << 20).unwrap();
        file.reserve(0, 128 << 20).unwrap();
        let found = std::fs::metadata(&path).unwrap();
        assert_eq!(found.len(), 64 << 20);
        assert!(found.blocks() < 1024, "{} blocks", found.blocks());

        let mut read = [0; 8];
        file.read_at(&mut read, 0).unwrap();
        assert_eq!(&read, b"written\0");
        file.set_len(3).unwrap();
        assert_eq!(file.len().unwrap(), 3);
    }
}
