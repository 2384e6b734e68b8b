//! Clusters for the tests of operators: each is one process of `stele-kube test`, which keeps
//! everything in a temporary directory.
//!
//! ```no_run
//! let cluster = stele_test::Cluster::start(&["--scheduler"])?;
//! println!("{}", cluster.kubeconfig().display());
//! # Ok::<(), stele_test::StartError>(())
//! ```

#![expect(
    clippy::disallowed_methods,
    reason = "a library for the tests of others, which waits for a process"
)]

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::NamedTempFile;

/// How long a cluster may take to stop before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often it looks whether a cluster has stopped.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A running cluster. It stops when this is dropped, and when this process ends.
#[derive(Debug)]
pub struct Cluster {
    child: Child,
    log: NamedTempFile,
    kubeconfig: PathBuf,
}

/// A cluster could not be started.
#[derive(Debug)]
pub enum StartError {
    /// The program could not be run.
    Program(OsString, io::Error),
    /// It ended before its API answered, and said this.
    Ended(String),
}

impl Cluster {
    /// Starts a cluster with these flags of `stele-kube test`, and returns when its API answers. The
    /// program is the one that the variable `STELE_KUBE` names, or `stele-kube` in `PATH`.
    pub fn start<F: AsRef<OsStr>>(flags: &[F]) -> Result<Cluster, StartError> {
        let named = std::env::var_os("STELE_KUBE").filter(|named| !named.is_empty());
        let program = named.unwrap_or_else(|| "stele-kube".into());
        Cluster::start_program(&program, flags)
    }

    /// Starts a cluster with the program at this path.
    pub fn start_program<F: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        flags: &[F],
    ) -> Result<Cluster, StartError> {
        let program = program.as_ref();
        let not_run = |error| StartError::Program(program.to_owned(), error);
        let log = NamedTempFile::new().map_err(not_run)?;
        let mut child = Command::new(program)
            .arg("test")
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.reopen().map_err(not_run)?)
            .spawn()
            .map_err(not_run)?;
        let mut line = String::new();
        let read = match child.stdout.take() {
            Some(out) => BufReader::new(out).read_line(&mut line),
            None => Ok(0),
        };
        let cluster = Cluster {
            child,
            log,
            kubeconfig: line.trim_end().into(),
        };
        match read {
            Ok(bytes) if bytes > 0 => Ok(cluster),
            Ok(_) => Err(StartError::Ended(cluster.log().map_err(not_run)?)),
            Err(error) => Err(not_run(error)),
        }
    }

    /// The path of a kubeconfig with all rights.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// What the cluster has logged so far.
    pub fn log(&self) -> io::Result<String> {
        let said = std::fs::read(self.log.path())?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // It may have ended already.
        let id = self.child.id().cast_signed();
        if let Some(pid) = Pid::from_raw(id) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let end = Instant::now() + PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Program(program, error) => {
                let program = program.display();
                write!(
                    f,
                    "cannot run {program} (set STELE_KUBE to its path): {error}"
                )
            }
            StartError::Ended(said) => {
                write!(f, "stele-kube test ended before its API answered: {said}")
            }
        }
    }
}

impl Error for StartError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            StartError::Program(_, error) => Some(error),
            StartError::Ended(_) => None,
        }
    }
}
