//! Files that are read again after a change.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// What a file holds.
pub(super) type Contents = Arc<[u8]>;

/// File systems have coarse clocks, so a file changed this recently may change again without a new
/// time stamp. Until it is this old, its bytes are compared instead.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// A file and its last content. Two reads return the same `Arc` exactly if no byte has changed in
/// between. Clones share it.
#[derive(Clone)]
pub(super) struct Watched(Arc<Inner>);

struct Inner {
    path: PathBuf,
    last: Mutex<Option<Seen>>,
    /// The device and the inode that were read aside last, and the turn of those who read them.
    turn: Mutex<((u64, u64), Turn)>,
}

/// Held by the thread that reads a file aside, until it has: those who wait for a disk occupy one
/// thread and not each, even if they wait no longer.
type Turn = Arc<tokio::sync::Mutex<()>>;

struct Seen {
    stamp: Stamp,
    is_settled: bool,
    bytes: Contents,
}

/// Metadata that changes when a file is modified or replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Watched {
    pub(super) fn new(path: &str) -> Watched {
        Watched(Arc::new(Inner {
            path: path.into(),
            last: Mutex::new(None),
            turn: Mutex::default(),
        }))
    }

    /// The file's current content. The error is Go's and names the file.
    pub(super) fn read(&self) -> Result<Contents, String> {
        self.0.read().map_err(|error| self.0.told(&error))
    }

    /// The same for tasks. A file that has changed is read on a thread that may wait: a slow disk, or
    /// a pipe in the file's place, keeps nobody else from a handshake.
    pub(super) async fn current(&self) -> Result<Contents, String> {
        let stamp = self.0.stamp().map_err(|error| self.0.told(&error))?;
        if let Some(bytes) = self.0.unchanged(stamp) {
            return Ok(bytes);
        }
        let turn = self.0.turn_of(stamp).lock_owned().await;
        let reading = self.clone();
        let read = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            reading.read()
        });
        read.await.map_err(|error| error.to_string())?
    }
}

impl Inner {
    fn told(&self, error: &io::Error) -> String {
        let reason = match error.kind() {
            io::ErrorKind::NotFound => "no such file or directory".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        format!("open {}: {reason}", self.path.display())
    }

    fn stamp(&self) -> io::Result<Stamp> {
        Ok(Stamp::of(&std::fs::metadata(&self.path)?))
    }

    /// The turn of those who read this file. What came in its place has another: who reads that
    /// need not wait for a thread that is stuck.
    fn turn_of(&self, stamp: Stamp) -> Turn {
        let file = (stamp.device, stamp.inode);
        let mut turn = self.turn.lock();
        if turn.0 != file {
            *turn = (file, Turn::default());
        }
        Arc::clone(&turn.1)
    }

    /// The last content, if the file certainly still has it.
    fn unchanged(&self, stamp: Stamp) -> Option<Contents> {
        let last = self.last.lock();
        let seen = last.as_ref()?;
        (seen.is_settled && seen.stamp == stamp).then(|| Arc::clone(&seen.bytes))
    }

    fn read(&self) -> io::Result<Contents> {
        let stamp = self.stamp()?;
        if let Some(bytes) = self.unchanged(stamp) {
            return Ok(bytes);
        }
        let now = crate::basics::clock::unix_time();
        #[expect(
            clippy::disallowed_methods,
            reason = "certificates are no files of the store"
        )]
        let bytes = std::fs::read(&self.path)?;
        let rested = u64::try_from(stamp.changed.0).map_or(Duration::MAX, |changed| {
            now.saturating_sub(Duration::from_secs(changed))
        });
        // Not locked before: reading may take as long as it likes.
        let mut last = self.last.lock();
        let bytes = match &*last {
            Some(seen) if *seen.bytes == *bytes => Arc::clone(&seen.bytes),
            _ => bytes.into(),
        };
        *last = Some(Seen {
            stamp,
            is_settled: rested > SETTLED_AFTER,
            bytes: Arc::clone(&bytes),
        });
        Ok(bytes)
    }
}

/// All certificates of a PEM file.
pub(super) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| error.to_string())?;
    if all.is_empty() {
        return Err("tls: failed to find any PEM data in certificate input".to_owned());
    }
    Ok(all)
}

pub(super) fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(pem)
        .map_err(|_| "tls: failed to find any PEM data in key input".to_owned())
}

/// True if no file was read again.
pub(super) fn files_equal(a: &[Contents], b: &[Contents]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use tokio::time::timeout;

    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a file of the test's")]
    fn a_change_is_seen_at_once_and_what_is_the_same_stays_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cert.pem");
        std::fs::write(&path, "one").unwrap();
        let watched = Watched::new(path.to_str().unwrap());
        let first = watched.read().unwrap();
        assert!(Arc::ptr_eq(&first, &watched.read().unwrap()));
        // Same length, same file, and too soon for the time stamp to change.
        for text in ["two", "six", "ten"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(&*watched.read().unwrap(), text.as_bytes());
        }
        std::fs::remove_file(&path).unwrap();
        let error = watched.read().unwrap_err();
        assert!(
            error.ends_with("cert.pem: no such file or directory"),
            "{error}"
        );
    }

    fn make_pipe(path: &Path) {
        mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap();
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "a file of the test's")]
    async fn those_who_wait_no_longer_for_a_pipe_leave_one_thread_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("cert.pem");
        make_pipe(&path);
        let watched = Watched::new(path.to_str().unwrap());
        for _ in 0..3 {
            let waiting = timeout(Duration::from_millis(50), watched.current()).await;
            assert!(waiting.is_err(), "{waiting:?}");
        }
        let threads = || Arc::strong_count(&watched.0) - 1;
        let left = threads();
        // A writer lets go whoever has opened the pipe by then, before anything can fail.
        while threads() > 0 {
            let mut writer = std::fs::OpenOptions::new();
            drop(writer.read(true).write(true).open(&path).unwrap());
            tokio::task::yield_now().await;
        }
        assert_eq!(left, 1);
    }

    #[tokio::test]
    #[expect(clippy::disallowed_methods, reason = "a file of the test's")]
    async fn whoever_waits_for_a_pipe_in_its_place_holds_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let (path, pipe) = (dir.path().join("cert.pem"), dir.path().join("pipe"));
        std::fs::write(&path, "one").unwrap();
        let watched = Watched::new(path.to_str().unwrap());
        let first = watched.current().await.unwrap();
        std::fs::remove_file(&path).unwrap();
        make_pipe(&path);
        // Nobody writes to it.
        let waiting = timeout(Duration::from_millis(50), watched.current()).await;
        assert!(waiting.is_err(), "{waiting:?}");
        std::fs::rename(&path, &pipe).unwrap();
        std::fs::write(&path, "one").unwrap();
        let again = timeout(Duration::from_secs(60), watched.current()).await;
        // A writer lets the thread go that still waits, before anything can fail.
        let mut writer = std::fs::OpenOptions::new();
        drop(writer.read(true).write(true).open(&pipe).unwrap());
        assert!(Arc::ptr_eq(&first, &again.unwrap().unwrap()));
    }
}
