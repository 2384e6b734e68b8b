//! A file system on which nothing is written: changes are accepted and discarded, so that an
//! inspector can use code that tidies up as it opens. Knows nothing of the stored content.

use std::io;
use std::path::Path;
use std::sync::Arc;

use super::{DiskSpace, File, FileMut, Lock, Map, Open, Vfs};

/// Reads from another file system and leaves it unchanged.
#[derive(Clone, Debug)]
pub(crate) struct DryRun(pub(crate) Arc<dyn Vfs>);

impl Vfs for DryRun {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn File>> {
        match how {
            Open::Existing => {
                let file = self.0.open(path, how)?;
                Ok(Arc::new(DryRunFile(Some(file))))
            }
            Open::New => Ok(Arc::new(DryRunFile(None))),
        }
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.0.exists(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.0.list(dir)
    }

    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        Ok(())
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

/// `None` for a new file, which nobody will ever see.
#[derive(Debug)]
struct DryRunFile(Option<Arc<dyn File>>);

impl DryRunFile {
    fn file(&self) -> io::Result<&dyn File> {
        let file = self.0.as_deref();
        file.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))
    }
}

impl File for DryRunFile {
    fn len(&self) -> io::Result<u64> {
        self.file().map_or(Ok(0), File::len)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file()?.read_at(buf, offset)
    }
}

impl FileMut for DryRunFile {
    fn write_at(&self, _buf: &[u8], _offset: u64) -> io::Result<()> {
        Ok(())
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn reserve(&self, _from: u64, _to: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn begin_write_out(&self) {}

    fn forget(&self) {}

    fn map(&self, len: u64) -> io::Result<Arc<dyn Map>> {
        self.file()?.map(len)
    }
}
