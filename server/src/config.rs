//! The configuration of a member: etcd's flags, variables and file, read by etcd's rules.
//!
//! Reads no clock and opens no file: the command line, the environment and the file reader come
//! in as values, the outcome goes out as one.

use std::path::PathBuf;
use std::time::Duration;

mod args;
mod build;
mod flags;
mod help;
mod host;
pub mod keys;
mod log;
mod tls;
mod url;

#[cfg(test)]
mod tests;

pub use go_text::duration;
pub(crate) use go_text::parse_duration;
pub use tls::{TlsFiles, TlsVersion};
pub use url::{Scheme, Url};

use crate::config::keys::KeySource;
use args::{BadVariable, Stop, Values};

/// The API level: what etcd this server answers as, in Status, `/version` and `--version`.
pub const ETCD_VERSION: &str = "3.7.3";

/// The cluster version that belongs to [`ETCD_VERSION`].
pub const CLUSTER_VERSION: &str = "3.7.0";

/// The oldest version that members can speak together.
pub const MIN_CLUSTER_VERSION: &str = "3.0.0";

/// Room a message has beyond `--max-request-bytes`: gRPC refuses what is larger.
pub const GRPC_OVERHEAD_BYTES: usize = 512 * 1024;

/// Everything a member is told when it starts.
#[derive(Clone, Debug)]
pub struct Config {
    pub name: String,
    pub data_dir: PathBuf,
    /// The log's own directory; None: inside `data_dir`.
    pub wal_dir: Option<PathBuf>,
    /// None: data at rest is not sealed.
    pub encryption: Option<KeySource>,
    pub listen_peer_urls: Vec<Url>,
    pub listen_client_urls: Vec<Url>,
    /// When not empty, HTTP is served here and `listen_client_urls` speak gRPC only.
    pub listen_client_http_urls: Vec<Url>,
    /// Metrics and health, nothing else.
    pub listen_metrics_urls: Vec<Url>,
    pub initial_advertise_peer_urls: Vec<Url>,
    pub advertise_client_urls: Vec<Url>,
    pub initial_cluster: Vec<Member>,
    /// `initial_cluster` follows from the member's name and advertised URLs.
    initial_cluster_is_implied: bool,
    /// Why no cluster can be founded so. It is of no matter once there is a log, which says who the
    /// members are: they may have moved since.
    pub founding_error: Option<String>,
    pub initial_cluster_token: String,
    pub initial_cluster_state: ClusterState,
    pub strict_reconfig_check: bool,
    pub max_learners: usize,
    pub force_new_cluster: bool,
    pub heartbeat_interval: Duration,
    pub election_timeout: Duration,
    pub pre_vote: bool,
    /// As etcd would count; see `checkpoint_entries`.
    pub snapshot_count: u64,
    /// Upper bound of the entries between two checkpoints. None: bytes alone decide.
    pub checkpoint_entries: Option<u64>,
    pub snapshot_catchup_entries: u64,
    /// None: no limit.
    pub quota_backend_bytes: Option<u64>,
    /// The space alarm goes by itself once there is space.
    pub auto_disarm_nospace: bool,
    /// What `--auth-token` says.
    pub auth_token: String,
    /// Of a simple token that nobody uses.
    pub auth_token_ttl: Duration,
    pub bcrypt_cost: u32,
    /// The common name of a client's certificate is its user.
    pub client_cert_auth: bool,
    pub max_txn_ops: usize,
    pub max_request_bytes: usize,
    pub max_concurrent_streams: u32,
    pub keepalive: Keepalive,
    pub reuse_port: bool,
    pub client_tls: TlsFiles,
    pub peer_tls: TlsFiles,
    /// Make the certificate for clients, unless one is given.
    pub auto_tls: bool,
    pub peer_auto_tls: bool,
    /// In years.
    pub self_signed_cert_validity: u64,
    /// Go's names; empty: all that are safe.
    pub cipher_suites: Vec<String>,
    pub tls_min_version: TlsVersion,
    /// None: the newest there is.
    pub tls_max_version: Option<TlsVersion>,
    pub auto_compaction: AutoCompaction,
    /// None: as the store finds best.
    pub compaction_batch_limit: Option<usize>,
    pub compaction_sleep_interval: Option<Duration>,
    /// Lock the page file in memory.
    pub memory_mlock: bool,
    /// `None`: no spans are made.
    pub tracing: Option<TracingConfig>,
    /// Free bytes that a start gives back first. None: that is left to the running server.
    pub bootstrap_defrag_bytes: Option<u64>,
    pub watch_progress_notify_interval: Duration,
    pub warning_apply_duration: Duration,
    pub warning_unary_request_duration: Duration,
    /// The JSON gateway under `/v3/`.
    pub enable_grpc_gateway: bool,
    /// Origins; `*` is all.
    pub cors: Vec<String>,
    /// Host names; `*` is all.
    pub host_whitelist: Vec<String>,
    pub extensive_metrics: bool,
    /// Serve `/debug/pprof/`; a log level of debug does as well.
    pub pprof: bool,
    /// `None`: the leader does not compare members by time.
    pub corrupt_check_time: Option<Duration>,
    pub compact_hash_check_time: Duration,
    /// All gates, by name.
    pub feature_gates: Vec<Gate>,
    pub log: LogConfig,
    /// Flags that were given and that change nothing here, for the log.
    pub without_effect: Vec<&'static str>,
    /// The command line, for the log.
    pub args: Vec<String>,
    /// Warnings about the configuration, to be logged once logging is up.
    pub notes: Vec<Note>,
}

/// A founding member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub peer_urls: Vec<Url>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterState {
    New,
    Existing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoCompaction {
    Off,
    /// Keep the history of this long.
    Periodic(Duration),
    /// Keep this many revisions.
    Revision(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Time between two pings of the server to a client.
    pub interval: Duration,
    /// Time a client has to answer.
    pub timeout: Duration,
    /// Shortest time between two pings of a client.
    pub min_time: Duration,
}

/// Where spans of calls are sent, and of which ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingConfig {
    /// Host and port.
    pub address: String,
    pub service_name: String,
    /// Empty: none.
    pub instance_id: String,
    /// Of a million traces that begin here.
    pub sampling_rate: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    pub name: &'static str,
    pub stage: &'static str,
    pub enabled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Json,
    Console,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// One of debug, info, warn, error, panic, fatal.
    pub level: String,
    pub format: LogFormat,
    pub outputs: Vec<LogOutput>,
    /// None: files grow.
    pub rotation: Option<Rotation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogOutput {
    Stderr,
    Stdout,
    /// systemd's; stderr when a line cannot be sent there.
    Journal,
    File(PathBuf),
}

/// How a log file is rotated: the keys of `--log-rotation-config-json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    pub file_bytes: u64,
    /// Older files are removed. None: age is no reason.
    pub max_age: Option<Duration>,
    /// Rotated files kept; 0: all.
    pub max_backups: usize,
    /// Rotated files are named by local time, not UTC.
    pub local_time: bool,
    pub compress: bool,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            level: "info".into(),
            format: LogFormat::Json,
            outputs: vec![LogOutput::Stderr],
            rotation: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A message of its own.
    Text(String),
    UnknownVariable(String),
}

/// Why a configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// True when etcd finds it out only while starting ("discovery failed").
    pub starting: bool,
    pub reason: String,
}

impl Invalid {
    /// Refused before anything starts ("failed to verify flags").
    pub fn flags(reason: impl Into<String>) -> Invalid {
        Invalid {
            starting: false,
            reason: reason.into(),
        }
    }

    fn start(reason: impl Into<String>) -> Invalid {
        Invalid {
            starting: true,
            reason: reason.into(),
        }
    }
}

/// What a command line comes to when it does not start a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Print and leave with `code`.
    Print {
        stdout: String,
        stderr: String,
        code: u8,
    },
    /// Log "failed to verify flags" or "discovery failed" and leave with 1.
    Invalid(Invalid),
    /// A variable and its flag are both set: log it and leave with 1.
    Shadowed { variable: String },
}

/// Reads the words after the program's name, `ETCD_*` variables, and the file they may name.
pub fn parse(
    args: &[String],
    variables: &[(String, String)],
    read_file: &dyn Fn(&str) -> std::io::Result<String>,
) -> Result<Config, Exit> {
    let usage = |message: String| Exit::Print {
        stdout: String::new(),
        stderr: format!("{message}\n{}", help::USAGE),
        code: 2,
    };
    let mut values = Values::defaults();
    let line = args::command_line(args, &mut values).map_err(|stop| match stop {
        Stop::Usage(message) => usage(message),
        Stop::Help => Exit::Print {
            stdout: help::flags(),
            stderr: help::USAGE.to_string(),
            code: 0,
        },
    })?;
    if line.version {
        return Err(Exit::Print {
            stdout: help::version(),
            stderr: String::new(),
            code: 0,
        });
    }
    if let Some(word) = line.stray {
        return Err(Exit::Invalid(Invalid::flags(match word.as_str() {
            "gateway" | "grpc-proxy" => format!("etcd {word} is not supported by Stele yet"),
            _ => format!("{word:?} is not a valid flag"),
        })));
    }
    let mut notes = Vec::new();
    let from_variable = || {
        variables
            .iter()
            .find(|(name, _)| name == "ETCD_CONFIG_FILE")
    };
    let path = line
        .config_file
        .or_else(|| from_variable().map(|(_, path)| path.clone()));
    let flagged = match path.filter(|path| !path.is_empty()) {
        Some(path) => {
            let text = read_file(&path)
                .map_err(|error| Exit::Invalid(Invalid::flags(format!("open {path}: {error}"))))?;
            values = Values::defaults();
            args::file(&text, &mut values).map_err(|e| Exit::Invalid(Invalid::flags(e)))?;
            false
        }
        None => {
            let unknown = args::environment(variables, &mut values).map_err(|bad| match bad {
                BadVariable::Shadowed(variable) => Exit::Shadowed { variable },
                BadVariable::Invalid(reason) => Exit::Invalid(Invalid::flags(reason)),
            })?;
            notes.extend(unknown.into_iter().map(Note::UnknownVariable));
            true
        }
    };
    let mut config = build::build(&values, flagged).map_err(Exit::Invalid)?;
    if values.given("max-snapshots") {
        notes.push(Note::Text(
            "--max-snapshots is deprecated in 3.6 and will be decommissioned in 3.8.".into(),
        ));
    }
    if values.given("v2-deprecation") {
        notes.push(Note::Text(
            "--v2-deprecation is deprecated and scheduled for removal in v3.8. The default value is enforced, ignoring user input.".into(),
        ));
    }
    config.notes = notes;
    config.args = args.to_vec();
    Ok(config)
}

impl Config {
    /// Most bytes of one gRPC message.
    pub fn max_message_bytes(&self) -> usize {
        self.max_request_bytes.saturating_add(GRPC_OVERHEAD_BYTES)
    }

    /// Where the log's files are.
    pub fn log_dir(&self) -> PathBuf {
        match &self.wal_dir {
            Some(dir) => dir.clone(),
            None => self.data_dir.join("member").join("log"),
        }
    }

    /// How long a silent leader is trusted: three heartbeats may get lost or be late. That others
    /// are asked so soon is harmless when it lives.
    pub fn suspicion(&self) -> Option<Duration> {
        const HEARTBEATS: u32 = 3;
        Some(self.heartbeat_interval.saturating_mul(HEARTBEATS))
    }

    /// Whether a feature gate is on.
    pub fn gate(&self, name: &str) -> bool {
        let mut gates = self.feature_gates.iter();
        gates.any(|gate| gate.name == name && gate.enabled)
    }

    /// Applied entries kept in memory for members that were away.
    pub fn kept_entries(&self) -> usize {
        usize::try_from(self.snapshot_catchup_entries).unwrap_or(usize::MAX)
    }
}
