//! Keys for tests and fuzzers: on a simulated disk with a key ring, files are sealed.

use std::path::Path;
use std::sync::Arc;

use super::{DataKeys, KeyFile};
use crate::vfs::Vfs;
use crate::vfs::sim::SimVfs;
use crate::{Error, Result};

const PATH: &str = "/member/keys";

/// A key file with these keys, the first one first; 0 means `clear`.
pub(crate) fn key_file(ids: &[u32]) -> KeyFile {
    let line = |id: &u32| match id {
        0 => "clear".to_owned(),
        id => format!("{id} {}", format!("{id:02x}").repeat(32)),
    };
    let lines: Vec<String> = ids.iter().map(line).collect();
    KeyFile::parse("keys.txt", &lines.join("\n")).expect("a good file")
}

pub(crate) fn open(vfs: &SimVfs, ids: &[u32], is_new: bool) -> Result<Option<Arc<DataKeys>>> {
    if vfs.contents(Path::new(PATH)).is_none() {
        let dir = Path::new("/member");
        vfs.create_dir_all(dir).map_err(Error::io("create", dir))?;
    }
    let shared = Arc::new(vfs.clone());
    DataKeys::open(shared, Path::new(PATH), Some(&key_file(ids)), is_new)
}

/// From now on the tests' data on this disk is sealed.
pub(crate) fn give_key(vfs: &SimVfs) {
    open(vfs, &[1], true).expect("a disk without faults");
}

/// The keys of this disk, if it has any.
pub(crate) fn keys_of(vfs: &SimVfs) -> Result<Option<Arc<DataKeys>>> {
    match vfs.contents(Path::new(PATH)) {
        None => Ok(None),
        Some(_) => open(vfs, &[1], true),
    }
}
