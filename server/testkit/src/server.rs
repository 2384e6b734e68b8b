//! A server as a child process: started on free loopback ports and its own directory, its log kept,
//! killed by its pid when dropped.
//!
//! etcd and Stele take the same flags and log the same line when they are ready, so one type serves
//! both.
#![expect(
    clippy::disallowed_methods,
    reason = "a test tool: runs processes and waits for them"
)]

use std::fmt;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::process::Usage;
use crate::{Tools, ports};

/// The part of the log line that says that clients will be served.
pub const READY_LINE: &str = "ready to serve client requests";

/// Time that a start may take. Real etcd on a busy machine needs a few seconds for its election.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// Time that a clean stop may take before the test fails.
const STOP_WITHIN: Duration = Duration::from_secs(30);
/// Attempts to start: a port can be taken between our check and the server's bind.
const START_ATTEMPTS: u32 = 3;
/// How much of its log a server shows, from the end, when its test fails.
const SHOWN_LOG_BYTES: usize = 16 << 10;

/// What to run. `start` may be called any number of times.
#[derive(Clone, Debug)]
pub struct Launch {
    program: PathBuf,
    subcommand: Option<String>,
    data_dir: Option<PathBuf>,
    flags: Vec<String>,
    ready_within: Duration,
}

impl Launch {
    /// Real etcd.
    pub fn etcd(tools: &Tools) -> Launch {
        Launch::program(&tools.etcd)
    }

    /// Any program that takes etcd's flags: in tests `env!("CARGO_BIN_EXE_stele")`.
    pub fn program(path: impl AsRef<Path>) -> Launch {
        Launch {
            program: path.as_ref().to_path_buf(),
            subcommand: None,
            data_dir: None,
            flags: Vec::new(),
            ready_within: READY_WITHIN,
        }
    }

    /// The time that a start may take: a member that joins serves clients when it has the state.
    pub fn ready_within(mut self, limit: Duration) -> Launch {
        self.ready_within = limit;
        self
    }

    /// The word before the flags, for a program with several commands.
    pub fn subcommand(mut self, name: &str) -> Launch {
        self.subcommand = Some(name.to_owned());
        self
    }

    /// The data directory; without one each start gets a fresh temporary directory.
    pub fn data_dir(mut self, dir: impl AsRef<Path>) -> Launch {
        self.data_dir = Some(dir.as_ref().to_path_buf());
        self
    }

    /// One more flag, as `--name=value`. The last flag of a name wins.
    pub fn flag(mut self, flag: impl Into<String>) -> Launch {
        self.flags.push(flag.into());
        self
    }

    pub fn flags<F: ToString>(mut self, flags: &[F]) -> Launch {
        self.flags.extend(flags.iter().map(ToString::to_string));
        self
    }

    /// Runs the program and waits until it serves clients.
    pub fn start(&self) -> Result<Server, StartError> {
        let mut attempt = 1;
        loop {
            match self.start_once() {
                Err(error)
                    if attempt < START_ATTEMPTS && error.log.contains("address already in use") =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    fn start_once(&self) -> Result<Server, StartError> {
        let (dir, own_dir) = match &self.data_dir {
            Some(dir) => (dir.clone(), None),
            None => {
                let own = tempfile::Builder::new().prefix("server-").tempdir();
                let own = own.expect("a temporary directory can be made");
                (own.path().join("data"), Some(own))
            }
        };
        let (client_port, peer_port) = (ports::free(), ports::free());
        let mut flags: Vec<String> = self.subcommand.iter().cloned().collect();
        flags.extend([
            format!("--data-dir={}", dir.display()),
            format!("--listen-client-urls=http://127.0.0.1:{client_port}"),
            format!("--listen-peer-urls=http://127.0.0.1:{peer_port}"),
            // Ids are hashes of the advertised URLs: the same for every server started here.
            "--advertise-client-urls=http://127.0.0.1:2379".to_string(),
            "--initial-advertise-peer-urls=http://127.0.0.1:2380".to_string(),
            "--initial-cluster=default=http://127.0.0.1:2380".to_string(),
        ]);
        flags.extend(self.flags.iter().cloned());
        let mut server = Server {
            program: self.program.clone(),
            flags,
            data_dir: dir,
            client_port,
            peer_port,
            ready_within: self.ready_within,
            log: Log::default(),
            child: None,
            _own_dir: own_dir,
        };
        server.start()?;
        Ok(server)
    }
}

/// A server that did not start: its log and its exit status.
#[derive(Debug)]
pub struct StartError {
    pub status: Option<ExitStatus>,
    pub log: String,
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the server did not start (exit: {:?}); its log:\n{}",
            self.status, self.log
        )
    }
}

impl std::error::Error for StartError {}

/// A running server (or one stopped by the test, to be started again on the same data).
pub struct Server {
    program: PathBuf,
    flags: Vec<String>,
    data_dir: PathBuf,
    client_port: u16,
    peer_port: u16,
    ready_within: Duration,
    log: Log,
    child: Option<Child>,
    _own_dir: Option<TempDir>,
}

impl Server {
    /// Real etcd on a fresh directory; panics with the log if it does not start.
    pub fn start_etcd(tools: &Tools, flags: &[&str]) -> Server {
        started(Launch::etcd(tools).flags(flags))
    }

    /// Stele on a fresh directory, or on `data_dir`; panics with the log if it does not start.
    pub fn start_stele(binary: &str, flags: &[&str], data_dir: Option<&Path>) -> Server {
        let launch = Launch::program(binary).flags(flags);
        started(match data_dir {
            Some(dir) => launch.data_dir(dir),
            None => launch,
        })
    }

    /// The client URL, `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.client_port)
    }

    pub fn client_port(&self) -> u16 {
        self.client_port
    }

    pub fn peer_port(&self) -> u16 {
        self.peer_port
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The pid of the running process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("the server is running").id()
    }

    pub fn usage(&self) -> std::io::Result<Usage> {
        Usage::of(self.pid())
    }

    /// Everything logged by this start of the server so far.
    pub fn log(&self) -> String {
        self.log.lock().text.clone()
    }

    /// True while the process runs.
    pub fn is_alive(&mut self) -> bool {
        self.child
            .as_mut()
            .is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// kill -9, and waits until the process is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Fails only if the process is gone already, which is the goal.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// SIGTERM, and waits for a clean stop.
    pub fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait_exit(STOP_WITHIN)
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("pids are positive"), signal).expect("the process takes signals");
    }

    /// Waits for the process to end by itself.
    pub fn wait_exit(&mut self, within: Duration) -> ExitStatus {
        let mut child = self.child.take().expect("the server is running");
        let until = Instant::now() + within;
        loop {
            if let Some(status) = child.try_wait().expect("a child can be waited for") {
                return status;
            }
            if Instant::now() > until {
                let _ = child.kill();
                let _ = child.wait();
                panic!(
                    "the server did not stop within {within:?}; its log:\n{}",
                    self.log()
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Starts the stopped server again: same flags, ports and data; waits until it serves.
    pub fn start(&mut self) -> Result<(), StartError> {
        assert!(
            self.child.is_none(),
            "stop the server before starting it again"
        );
        let mut child = Command::new(&self.program)
            .args(&self.flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("cannot run {}: {e}", self.program.display()));
        self.log = Log::default();
        let stderr = child.stderr.take().expect("stderr is piped");
        let log = self.log.clone();
        std::thread::spawn(move || log.fill(stderr));
        if self.log.wait_for(READY_LINE, self.ready_within) {
            self.child = Some(child);
            return Ok(());
        }
        let status = child.try_wait().ok().flatten().or_else(|| {
            // It closed its stderr or it hangs: either way this start failed.
            let ended = self.log.lock().ended;
            if !ended {
                let _ = child.kill();
            }
            let status = child.wait().ok();
            status.filter(|_| ended)
        });
        Err(StartError {
            status,
            log: self.log(),
        })
    }

    /// kill -9 and start again on the same data.
    pub fn kill_and_restart(&mut self) {
        self.kill();
        self.start().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Waits until the log of this start holds `text`.
    pub fn wait_for_log(&self, text: &str, within: Duration) -> bool {
        self.log.wait_for(text, within)
    }
}

impl Drop for Server {
    /// A test that fails shows how its servers fared.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ended = self.child.as_mut().map(Child::try_wait);
            let log = self.log();
            let shown = log.floor_char_boundary(log.len().saturating_sub(SHOWN_LOG_BYTES));
            eprintln!(
                "the server at {} (ended: {ended:?}) logged, at last:\n{}",
                self.url(),
                &log[shown..]
            );
        }
        self.kill();
    }
}

fn started(launch: Launch) -> Server {
    launch.start().unwrap_or_else(|error| panic!("{error}"))
}

/// The log of one start, filled by a thread that ends with the process.
#[derive(Clone, Default)]
struct Log(Arc<(Mutex<LogText>, Condvar)>);

#[derive(Default)]
struct LogText {
    text: String,
    /// The process has closed its stderr.
    ended: bool,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, LogText> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fill(&self, stderr: ChildStderr) {
        let mut lines = BufReader::new(stderr);
        let mut line = Vec::new();
        while lines
            .read_until(b'\n', &mut line)
            .is_ok_and(|read| read > 0)
        {
            self.lock().text.push_str(&String::from_utf8_lossy(&line));
            self.0.1.notify_all();
            line.clear();
        }
        self.lock().ended = true;
        self.0.1.notify_all();
    }

    fn wait_for(&self, text: &str, within: Duration) -> bool {
        let waiting = |log: &mut LogText| !log.text.contains(text) && !log.ended;
        let waited = self.0.1.wait_timeout_while(self.lock(), within, waiting);
        let (log, _) = waited.unwrap_or_else(PoisonError::into_inner);
        log.text.contains(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etcd_starts_survives_a_kill_and_stops_on_sigterm() {
        let Some(tools) = Tools::or_skip("etcd as a child process") else {
            return;
        };
        let mut server = Server::start_etcd(&tools, &["--log-level=info"]);
        assert!(server.is_alive() && server.usage().unwrap().resident_bytes > 0);
        server.kill_and_restart();
        assert!(server.log().contains(READY_LINE));
        let status = server.terminate();
        assert!(!status.success(), "etcd ends by the signal it was sent");
    }

    #[test]
    fn a_failed_start_tells_the_log_and_the_status() {
        let Some(tools) = Tools::or_skip("etcd refusing a flag") else {
            return;
        };
        let error = Launch::etcd(&tools)
            .flag("--no-such-flag")
            .start()
            .err()
            .unwrap();
        assert_eq!(error.status.and_then(|status| status.code()), Some(2));
        assert!(
            error.log.contains("flag provided but not defined"),
            "{error}"
        );
    }
}
