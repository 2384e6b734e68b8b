//! Files that are complete or do not exist.

use std::path::Path;

use crate::vfs::{Open, Vfs};
use crate::{Error, Result};

/// Makes `path` hold `bytes`, durably. A crash leaves the old content, or all of the new.
pub(crate) fn write(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension("new");
    if vfs
        .exists(&temporary)
        .map_err(Error::io("look for", &temporary))?
    {
        vfs.remove(&temporary)
            .map_err(Error::io("remove", &temporary))?;
    }
    let file = vfs
        .open(&temporary, Open::New)
        .map_err(Error::io("create", &temporary))?;
    file.write_at(bytes, 0)
        .map_err(Error::io("write", &temporary))?;
    file.sync_data().map_err(Error::io("sync", &temporary))?;
    drop(file);
    vfs.rename(&temporary, path)
        .map_err(Error::io("rename", &temporary))?;
    sync_name(vfs, path)
}

/// Makes the existence, or absence, of the name `path` durable.
pub(crate) fn sync_name(vfs: &dyn Vfs, path: &Path) -> Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    vfs.sync_dir(dir).map_err(Error::io("sync", dir))
}
