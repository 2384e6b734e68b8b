//! The crate's one error type: what went wrong, in which file, at which byte.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug)]
pub enum Error {
    /// The operating system refused `op` on `path`. After a failed write or sync the caller must
    /// stop using the store: its content on disk is unknown until it is opened again.
    Io {
        op: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The bytes on disk are not those that were written there.
    Corrupt {
        path: PathBuf,
        offset: u64,
        what: String,
    },
    /// Data is sealed, and the given keys do not open it. Nothing was changed.
    Encryption { path: PathBuf, what: String },
}

impl Error {
    pub fn io(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Io {
            op,
            path: path.to_owned(),
            source,
        }
    }

    /// True if the disk is full. The operation may then be tried again, except on the log. A sync
    /// of the page file never fails with this reason.
    pub fn is_full(&self) -> bool {
        matches!(self, Error::Io { source, .. } if crate::vfs::is_full(source))
    }

    /// The error of a failed sync, which must not be tried again, not even after a full disk: what
    /// it lost is unknown.
    pub(crate) fn unsynced(path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| {
            let source = if crate::vfs::is_full(&source) {
                io::Error::other(source.to_string())
            } else {
                source
            };
            Error::io("sync", path)(source)
        }
    }

    pub fn corrupt(path: &Path, offset: u64, what: impl Into<String>) -> Error {
        Error::Corrupt {
            path: path.to_owned(),
            offset,
            what: what.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { op, path, source } => write!(f, "{op} {}: {source}", path.display()),
            Error::Corrupt { path, offset, what } => {
                write!(f, "{} is damaged at byte {offset}: {what}", path.display())
            }
            Error::Encryption { path, what } => write!(f, "{}: {what}", path.display()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Corrupt { .. } | Error::Encryption { .. } => None,
        }
    }
}
