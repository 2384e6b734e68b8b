//! The directory of a cluster for tests. Whoever uses one holds a lock on it, so that a later start
//! can tell the directories of killed processes from those in use and remove them: nothing else
//! would, and tests are often ended by a SIGKILL of all their processes.

use std::fs::{self, DirEntry, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use tempfile::TempDir;

const PREFIX: &str = "stele-kube-test-";

/// A new directory, removed when this is dropped.
#[derive(Debug)]
pub(super) struct Directory {
    /// Fields are dropped in their order: it is removed while it is locked.
    directory: TempDir,
    /// None where a directory cannot be locked; nobody takes it for a left one there either.
    _lock: Option<File>,
}

impl Directory {
    pub(super) fn new(parent: &Path) -> io::Result<Self> {
        loop {
            let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            let lock = match try_lock(directory.path()) {
                Ok(lock) => Some(lock),
                // Another start found it before it was locked, and removes it.
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::NotFound => {
                    continue;
                }
                Err(TryLockError::Error(_)) => None,
            };
            // It may have been removed between its opening and the lock.
            if directory.path().exists() {
                return Ok(Self {
                    directory,
                    _lock: lock,
                });
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Removes the directories in `parent` that processes of this user left behind, and returns how
/// many. What cannot be removed stays.
pub(super) fn remove_left(parent: &Path) -> usize {
    let Ok(entries) = fs::read_dir(parent) else {
        return 0;
    };
    entries
        .flatten()
        .filter(|entry| is_ours(entry) && remove_if_left(&entry.path()))
        .count()
}

fn is_ours(entry: &DirEntry) -> bool {
    let user = rustix::process::geteuid().as_raw();
    entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
        // Neither follows a link.
        && entry.metadata().is_ok_and(|found| found.is_dir() && found.uid() == user)
}

fn remove_if_left(directory: &Path) -> bool {
    let Ok(_lock) = try_lock(directory) else {
        return false;
    };
    fs::remove_dir_all(directory).is_ok()
}

/// Holds `directory` until the file is closed, also by the end of the process.
#[expect(
    clippy::disallowed_methods,
    reason = "the store's file system locks files, not directories"
)]
fn try_lock(directory: &Path) -> Result<File, TryLockError> {
    let file = File::open(directory).map_err(TryLockError::Error)?;
    file.try_lock()?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_processes_left_is_removed_and_what_is_in_use_stays() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::create_dir(path.join("inner")).unwrap();
            path
        };
        let (left, other) = (make("stele-kube-test-left"), make("other"));
        let link = parent.path().join("stele-kube-test-link");
        std::os::unix::fs::symlink(&other, &link).unwrap();
        let in_use = Directory::new(parent.path()).unwrap();

        assert_eq!(remove_left(parent.path()), 1);
        assert!(!left.exists());
        assert!(in_use.path().exists() && other.join("inner").exists() && link.exists());

        let path = in_use.path().to_owned();
        drop(in_use);
        assert!(!path.exists());
        assert_eq!(remove_left(parent.path()), 0);
        assert_eq!(remove_left(&parent.path().join("missing")), 0);
    }
}
