//! The names of files. Changes of names become durable on their own, when their directory is
//! synced.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::inode::Inode;
use super::{Disk, InodeId, eio, end_call, enospc};

impl Disk {
    pub(in crate::vfs::sim) fn find(&self, path: &Path) -> Option<InodeId> {
        self.names.get(path).copied()
    }

    pub(in crate::vfs::sim) fn has_dir(&self, path: &Path) -> bool {
        self.dirs.contains(path)
    }

    pub(in crate::vfs::sim) fn existing(&self, path: &Path) -> io::Result<InodeId> {
        self.alive()?;
        self.find(path).ok_or(io::ErrorKind::NotFound.into())
    }

    pub(in crate::vfs::sim) fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.alive()?;
        if !dir.as_os_str().is_empty() && !self.has_dir(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = self.names.keys().filter(|p| p.parent() == Some(dir));
        Ok(inside
            .filter_map(|p| Some(p.file_name()?.to_string_lossy().into_owned()))
            .collect())
    }

    pub(in crate::vfs::sim) fn create_dir_all(&mut self, dir: &Path) -> io::Result<()> {
        self.alive()?;
        if self.has_dir(dir) {
            return Ok(());
        }
        let cut = self.begin_call()?;
        self.dirs
            .extend(dir.ancestors().map(Path::to_owned).collect::<Vec<_>>());
        end_call(cut)
    }

    pub(in crate::vfs::sim) fn create(&mut self, path: &Path) -> io::Result<InodeId> {
        self.alive()?;
        if self.find(path).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let cut = self.begin_call()?;
        if self.is_full_now() {
            return Err(enospc());
        }
        let id = InodeId(self.inodes.len());
        self.inodes.push(Inode::default());
        self.names.insert(path.to_owned(), id);
        let path = path.to_owned();
        self.unsynced_names.push(NameChange::Create { path, id });
        end_call(cut)?;
        Ok(id)
    }

    pub(in crate::vfs::sim) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let id = self.existing(from)?;
        let cut = self.begin_call()?;
        self.names.remove(from);
        self.names.insert(to.to_owned(), id);
        let (from, to) = (from.to_owned(), to.to_owned());
        self.unsynced_names
            .push(NameChange::Rename { from, to, id });
        end_call(cut)
    }

    pub(in crate::vfs::sim) fn remove(&mut self, path: &Path) -> io::Result<()> {
        let id = self.existing(path)?;
        let cut = self.begin_call()?;
        self.names.remove(path);
        let path = path.to_owned();
        self.unsynced_names.push(NameChange::Remove { path, id });
        end_call(cut)
    }

    pub(in crate::vfs::sim) fn sync_dir(&mut self, dir: &Path) -> io::Result<()> {
        if self.begin_call()? {
            return Err(eio());
        }
        let all = std::mem::take(&mut self.unsynced_names);
        let (synced, rest) = all.into_iter().partition(|c: &NameChange| c.touches(dir));
        self.unsynced_names = rest;
        for change in synced {
            change.apply(&mut self.durable_names);
        }
        Ok(())
    }

    pub(in crate::vfs::sim) fn lock(&mut self, path: &Path) -> io::Result<()> {
        self.alive()?;
        if self.locks.contains(path) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if self.find(path).is_none() {
            self.create(path)?;
        }
        self.locks.insert(path.to_owned());
        Ok(())
    }

    pub(in crate::vfs::sim) fn unlock(&mut self, path: &Path) {
        self.locks.remove(path);
    }

    pub(in crate::vfs::sim) fn install(&mut self, path: &Path, bytes: &[u8]) {
        let id = InodeId(self.inodes.len());
        self.inodes.push(Inode::durable(bytes.to_vec()));
        self.names.insert(path.to_owned(), id);
        self.durable_names.insert(path.to_owned(), id);
        let parents = path.ancestors().skip(1).map(Path::to_owned);
        self.dirs.extend(parents.collect::<Vec<_>>());
    }
}

/// A change of names that no `sync_dir` has made durable yet.
#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Create {
        path: PathBuf,
        id: InodeId,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        id: InodeId,
    },
    Remove {
        path: PathBuf,
        id: InodeId,
    },
}

impl NameChange {
    pub(super) fn touches(&self, dir: &Path) -> bool {
        match self {
            NameChange::Create { path, .. } | NameChange::Remove { path, .. } => {
                path.parent() == Some(dir)
            }
            NameChange::Rename { from, to, .. } => {
                from.parent() == Some(dir) || to.parent() == Some(dir)
            }
        }
    }

    /// Does nothing if the file or name it needs did not survive.
    pub(super) fn apply(&self, names: &mut BTreeMap<PathBuf, InodeId>) {
        match self {
            NameChange::Create { path, id } => {
                names.entry(path.clone()).or_insert(*id);
            }
            NameChange::Rename { from, to, id } => {
                if names.get(from) == Some(id) {
                    names.remove(from);
                    names.insert(to.clone(), *id);
                }
            }
            NameChange::Remove { path, id } => {
                if names.get(path) == Some(id) {
                    names.remove(path);
                }
            }
        }
    }
}
