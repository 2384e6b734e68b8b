//! Changes of names, which become durable on their own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::InodeId;

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
