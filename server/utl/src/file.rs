//! Database files by their path.

use std::io;
use std::path::Path;
use std::sync::Arc;

use etcd_files::bbolt::read::{Database, Source};
use storage::vfs::os::OsVfs;
use storage::vfs::{File, Open, Vfs};

use crate::Failure;
use crate::status::Fault;

#[derive(Debug)]
pub(crate) struct FileSource(Arc<dyn File>);

impl Source for FileSource {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_at(buf, offset)
    }
}

pub(crate) fn open_database(path: &Path) -> Result<Database<FileSource>, Failure> {
    let file = OsVfs.open(path, Open::Existing).map_err(|error| {
        let what = match error.kind() {
            io::ErrorKind::NotFound => "no such file or directory".to_owned(),
            _ => error.to_string(),
        };
        Failure::error(format!("stat {}: {what}", path.display()))
    })?;
    Database::open(FileSource(file)).map_err(|error| Failure::error(Fault::from(error).0))
}
