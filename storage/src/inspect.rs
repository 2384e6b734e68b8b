//! Inspects the files of a member while no server runs on them: reads and verifies everything,
//! changes nothing. Knows the files as log and store do, not their meaning to users.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::encryption::{DataKeys, KeyFile};
use crate::mvcc::{Applied, Options, Store, TreeFound};
use crate::vfs::Vfs;
use crate::vfs::dry_run::DryRun;
use crate::wal::{self, LogFound};
use crate::{Error, Result};

/// The lock file, beside the keys; held while a server runs.
const LOCK: &str = "lock";

/// Paths of a member's files.
#[derive(Clone, Debug)]
pub struct Places {
    pub keys: PathBuf,
    pub store: PathBuf,
    pub log: PathBuf,
}

/// The findings, as far as the files could be read.
#[derive(Debug, Default)]
pub struct Inspection {
    /// The active key and the keys that older data may use; `None` if nothing is sealed.
    pub keys: Option<(u32, Vec<u32>)>,
    pub store: Option<StoreFound>,
    pub log: Option<LogFound>,
    /// Files that a server does not use: left by interrupted work, or foreign. Not read.
    pub others: Vec<PathBuf>,
    /// All damage. Each error names its file and place.
    pub damage: Vec<Error>,
}

#[derive(Clone, Debug)]
pub struct StoreFound {
    pub revision: i64,
    /// -1 if never compacted.
    pub compacted: i64,
    pub applied: Applied,
    pub file_bytes: u64,
    pub in_use_bytes: u64,
    pub trees: Vec<TreeFound>,
}

impl Inspection {
    /// True if nothing is damaged.
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty()
    }
}

/// Reads everything. An error says why nothing could be inspected: missing keys, or a failing disk.
/// Damage is part of the result.
pub fn inspect(vfs: Arc<dyn Vfs>, places: &Places, keys: Option<&KeyFile>) -> Result<Inspection> {
    let vfs: Arc<dyn Vfs> = Arc::new(DryRun(vfs));
    let mut found = Inspection::default();
    let Some(data_keys) = found.take(DataKeys::open(vfs.clone(), &places.keys, keys, false))?
    else {
        return Ok(found);
    };
    found.keys = data_keys
        .as_ref()
        .map(|data_keys| (data_keys.active(), data_keys.others()));
    let store = inspect_store(&vfs, &places.store, data_keys.clone(), &mut found)?;
    found.store = store;
    if !vfs
        .exists(&places.log)
        .map_err(Error::io("look for", &places.log))?
    {
        found
            .damage
            .push(Error::corrupt(&places.log, 0, "there is no log"));
        return Ok(found);
    }
    let log = wal::inspect(&*vfs, &places.log, data_keys);
    found.log = found.take(log)?;
    found.others = others(&*vfs, places)?;
    Ok(found)
}

/// Other files beside those of log and store, and beside the keys and the lock above them.
fn others(vfs: &dyn Vfs, places: &Places) -> Result<Vec<PathBuf>> {
    let page_file = Store::path_in(&places.store);
    let above = places.keys.parent().unwrap_or(Path::new("."));
    let mut others = Vec::new();
    for dir in [above, &places.store, &places.log] {
        if !vfs.exists(dir).map_err(Error::io("look for", dir))? {
            // Missing files of it are damage, and told as such.
            continue;
        }
        let names = vfs.list(dir).map_err(Error::io("list", dir))?;
        others.extend(names.iter().map(|name| dir.join(name)).filter(|path| {
            let is_known = *path == places.keys
                || *path == page_file
                || *path == above.join(LOCK)
                || (dir == places.log && wal::is_of_log(path));
            !is_known
        }));
    }
    Ok(others)
}

impl Inspection {
    /// Notes damage; any other error ends the inspection.
    fn take<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(found) => Ok(Some(found)),
            Err(error @ Error::Corrupt { .. }) => {
                self.damage.push(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

fn inspect_store(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    data_keys: Option<Arc<DataKeys>>,
    found: &mut Inspection,
) -> Result<Option<StoreFound>> {
    let path = Store::path_in(dir);
    if !vfs.exists(&path).map_err(Error::io("look for", &path))? {
        found
            .damage
            .push(Error::corrupt(&path, 0, "there is no page file"));
        return Ok(None);
    }
    let Some(store) = found.take(Store::open(vfs.clone(), dir, Options { data_keys }))? else {
        return Ok(None);
    };
    if let Some(flaw) = store.unusable_meta() {
        found.damage.push(Error::corrupt(&path, 0, flaw));
    }
    let surveyed = found.take(store.survey())?;
    let (trees, damage) = surveyed.unwrap_or_default();
    found.damage.extend(damage);
    let (root, stats) = (store.root(), store.stats());
    Ok(Some(StoreFound {
        revision: root.revision(),
        compacted: root.compacted(),
        applied: root.applied(),
        file_bytes: stats.file_bytes,
        in_use_bytes: stats.in_use_bytes,
        trees,
    }))
}
