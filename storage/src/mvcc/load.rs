//! Fills a store with another store's history, beside the one in use: rows keep their revisions.
//! One rename puts the result in the place of a store.
//!
//! The file is made under a name that no store is opened by. A crash at any moment leaves the old
//! store, or the whole new one; the next load removes the half-made file.

#[cfg(test)]
mod tests;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::chores::compact::Compaction;
use super::chores::reencrypt::Walk;
use super::key::{HEAD, Stamp, TOMBSTONE};
use super::store::SPILL_BYTES_PER_STEP;
use super::{Applied, Bucket, Change, Item, Options, Revision, Root, Store};
use crate::btree::META_SLOTS;
use crate::encryption::Kept;
use crate::vfs::Vfs;
use crate::{Error, Result};

/// The name of the page file while it is being filled.
pub(super) const FILE_NAME: &str = "pages.incoming";

/// Bytes of changed pages in memory, history excluded, above which a checkpoint comes first.
pub(super) const DIRTY_BYTES_MAX: u64 = 48 << 20;

/// Rows between two checks of the memory in use. Their history is then written, and synced in small
/// pieces: a burst of many megabytes would delay every log on the disk. A check comes sooner if the
/// rows have as many bytes as it writes: 256 values of a megabyte are far more than
/// [`DIRTY_BYTES_MAX`].
const ROWS_PER_LOOK: u64 = 256;

/// A store being filled.
#[derive(Debug)]
pub struct Loader {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    store: Store,
    newest: Revision,
    /// Rows since the last check of the memory in use, and their bytes.
    rows: u64,
    bytes: usize,
    /// Re-encryption looks only at the store in use. Until that is this one, it must not forget the
    /// keys of these pages.
    kept: Option<Kept>,
}

/// The part of a state that its rows do not contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub revision: i64,
    /// -1 if never compacted.
    pub compacted: i64,
    /// The compaction up to which everything it drops is removed; below `compacted` if the newest
    /// one was interrupted.
    pub removed_through: i64,
    pub applied: Applied,
}

/// A filled store, durable, but not installed yet.
#[derive(Debug)]
pub struct Incoming {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    store: Store,
    /// See [`Loader`].
    kept: Option<Kept>,
}

impl Loader {
    /// Creates an empty store in `dir`, beside an existing one.
    pub fn create(vfs: Arc<dyn Vfs>, dir: &Path, options: Options) -> Result<Loader> {
        vfs.create_dir_all(dir)
            .map_err(Error::io("create directory", dir))?;
        clear_incoming(&*vfs, dir)?;
        // Before anything is sealed.
        let kept = options.data_keys.as_ref().map(|data_keys| data_keys.keep());
        Ok(Loader {
            store: Store::open_file(vfs.clone(), &dir.join(FILE_NAME), options)?,
            vfs,
            dir: dir.to_owned(),
            newest: Revision::default(),
            rows: 0,
            bytes: 0,
            kept,
        })
    }

    /// Takes the next row of history. Refuses one that cannot follow the rows before it.
    pub fn push(&mut self, change: Change<'_>) -> Result<()> {
        let (revision, key, value) = match change {
            Change::Put { revision, item } => (revision, item.key, item.value),
            Change::Delete { revision, key } => (revision, key, &b""[..]),
        };
        let in_order = revision > self.newest && revision.main > 0;
        if !in_order || !(0..Revision::MAX.sub).contains(&revision.sub) {
            return Err(self.refused(format!("revision {revision:?} after {:?}", self.newest)));
        }
        self.newest = revision;
        match change {
            Change::Put { item, .. } if !is_possible(&item, revision) => {
                return Err(self.refused(format!("impossible numbers at revision {revision:?}")));
            }
            Change::Put { item, .. } => {
                let stamp = Stamp {
                    flags: HEAD,
                    size: Some(item.value.len() as u64),
                    create_revision: item.create_revision,
                    version: item.version,
                    lease: item.lease,
                };
                self.store.load_change(key, item.value, revision, stamp)?;
            }
            Change::Delete { .. } => {
                let stamp = Stamp {
                    flags: HEAD | TOMBSTONE,
                    ..Stamp::default()
                };
                self.store.load_change(key, b"", revision, stamp)?;
            }
        }
        self.rows += 1;
        self.bytes += key.len() + value.len();
        if self.rows >= ROWS_PER_LOOK || self.bytes >= SPILL_BYTES_PER_STEP {
            (self.rows, self.bytes) = (0, 0);
            self.look()?;
        }
        Ok(())
    }

    /// Writes history, and everything if there is too much in memory.
    fn look(&mut self) -> Result<()> {
        if let Some(job) = self.store.spill()? {
            job.run()?;
        }
        if self.store.stats().dirty_bytes >= DIRTY_BYTES_MAX {
            self.store.touch();
            self.checkpoint()?;
        }
        Ok(())
    }

    /// Sets a row of a side table, except `LeaseKeys`, which the keys determine.
    pub fn set(&mut self, bucket: Bucket, key: &[u8], value: &[u8]) -> Result<()> {
        assert!(bucket != Bucket::LeaseKeys, "kept by the store itself");
        self.store.set_side(bucket, key, value)
    }

    /// Makes everything durable.
    pub fn finish(mut self, position: Position) -> Result<Incoming> {
        let Position {
            revision,
            compacted,
            removed_through,
            applied,
        } = position;
        if revision < self.newest.main.max(1) || compacted > revision || removed_through > compacted
        {
            return Err(self.refused(format!("{position:?} after {:?}", self.newest)));
        }
        let root = &mut self.store.root;
        root.revision = revision;
        root.compacted = compacted;
        root.applied = applied;
        root.compaction = Compaction {
            next: Revision {
                main: removed_through.max(0),
                sub: 0,
            },
            done: removed_through == compacted,
        };
        // Both metas must hold the whole, whichever is opened.
        self.store.touch();
        for _ in 0..META_SLOTS {
            self.checkpoint()?;
        }
        Ok(Incoming {
            vfs: self.vfs,
            dir: self.dir,
            store: self.store,
            kept: self.kept,
        })
    }

    fn checkpoint(&mut self) -> Result<()> {
        let full = || Error::io("write", &self.dir.join(FILE_NAME))(ErrorKind::StorageFull.into());
        if self.store.checkpoint_alone()? {
            Ok(())
        } else {
            Err(full())
        }
    }

    fn refused(&self, what: String) -> Error {
        Error::corrupt(&self.dir.join(FILE_NAME), 0, what)
    }
}

impl Incoming {
    /// Its content.
    pub fn root(&self) -> &Root {
        self.store.root()
    }

    /// Removes an unwanted store.
    pub fn discard(self) -> Result<()> {
        let Incoming {
            vfs,
            dir,
            store,
            kept: _kept,
        } = self;
        drop(store);
        clear_incoming(&*vfs, &dir)
    }

    /// Replaces the store in its directory, if there is one, by this file, and opens it. That store
    /// must not be open: use [`Store::replace`] for one in use.
    pub fn install(self) -> Result<Store> {
        let mut store = self.store;
        store.take_place(&*self.vfs, &self.dir)?;
        Ok(store)
    }
}

impl Store {
    /// Switches to another state at once: readers see the old one until this returns and the new
    /// one from then on. Views of the old one stay valid, and [`Store::take_retired`] returns the rest
    /// of it. No checkpoint may be running.
    pub fn replace(&mut self, incoming: Incoming) -> Result<()> {
        assert!(
            !self.file.checkpoint_running(),
            "the checkpoint would be of a file that is gone"
        );
        let Incoming {
            vfs,
            dir,
            mut store,
            kept: _kept,
        } = incoming;
        store.take_place(&*vfs, &dir)?;
        if self.file.is_locked_in_memory() {
            store.lock_in_memory()?;
        }
        store.root.generation = self.root.generation + 1;
        std::mem::swap(&mut self.root, &mut store.root);
        std::mem::swap(&mut self.file, &mut store.file);
        self.file.bound_decrypted(self.decrypted_bytes_max);
        self.batch = None;
        self.oldest_removed = None;
        self.deletion_spills_at = 0;
        self.unsaved = store.unsaved;
        self.unsized_from = store.unsized_from.take();
        self.releasing = store.releasing;
        // If its pages are sealed under another key, re-encryption begins again.
        self.walk = Walk::default();
        self.relocation = None;
        self.merged = 0;
        self.publish();
        self.replaced = Some(Box::new(store));
        Ok(())
    }
}

/// Removes the file of a load in `dir` that was never installed.
pub fn clear_incoming(vfs: &dyn Vfs, dir: &Path) -> Result<()> {
    let path = dir.join(FILE_NAME);
    if vfs.exists(&path).map_err(Error::io("look for", &path))? {
        vfs.remove(&path).map_err(Error::io("remove", &path))?;
    }
    Ok(())
}

/// True if the encoding on disk can hold these numbers.
fn is_possible(item: &Item<'_>, revision: Revision) -> bool {
    (0..=revision.main).contains(&item.create_revision) && item.version >= 0
}
