//! The configuration of a member: etcd's flags, environment variables and file, parsed by etcd's
//! rules.
//!
//! Reads no clock and opens no file: the command line, the environment and a file reader are passed
//! in, and a value is returned.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

mod args;
mod build;
mod discovery;
mod flags;
mod help;
mod host;
pub(crate) mod keys;
mod log;
pub(crate) mod subcommand;
mod tls;
mod url;

#[cfg(test)]
mod tests;

pub(crate) use build::streams;
pub use discovery::{Discovery, Registry, RegistryTls};
pub use go_text::duration;
pub(crate) use go_text::parse_duration;
pub use tls::{TlsFiles, TlsVersion};
pub(crate) use url::compare_lists;
pub use url::{Scheme, Url};

use crate::basics::memory;
use crate::config::keys::KeySource;
use args::{BadVariable, Stop, Values};

/// The etcd version that this server reports in Status, `/version` and `--version`.
pub const ETCD_VERSION: &str = "3.7.3";

/// The cluster version that corresponds to [`ETCD_VERSION`].
pub const CLUSTER_VERSION: &str = "3.7.0";

/// The oldest cluster version that members can speak.
pub const MIN_CLUSTER_VERSION: &str = "3.0.0";

/// Bytes that a message may have beyond `--max-request-bytes`; gRPC refuses larger ones.
pub const GRPC_OVERHEAD_BYTES: usize = 512 * 1024;

/// Unless a flag says another number, changed pages may have one part in so many of the memory that
/// there is, within these bounds. More makes puts hardly cheaper: a checkpoint comes by the length of
/// the log then.
const MEMORY_PARTS: u64 = 64;
const MEMORY_BUDGETS: RangeInclusive<u64> = 32 << 20..=160 << 20;

/// All settings of a member.
#[derive(Clone, Debug)]
pub struct Config {
    pub name: String,
    pub data_dir: PathBuf,
    /// Directory of the log; `None`: inside `data_dir`.
    pub wal_dir: Option<PathBuf>,
    /// `None`: data at rest is not encrypted.
    pub encryption: Option<KeySource>,
    pub listen_peer_urls: Vec<Url>,
    pub listen_client_urls: Vec<Url>,
    /// If not empty, HTTP is served here, and `listen_client_urls` serve only gRPC.
    pub listen_client_http_urls: Vec<Url>,
    /// Only metrics and health are served here.
    pub listen_metrics_urls: Vec<Url>,
    pub initial_advertise_peer_urls: Vec<Url>,
    pub advertise_client_urls: Vec<Url>,
    pub initial_cluster: Vec<FoundingMember>,
    /// True if `initial_cluster` was derived from the member's name and advertised URLs.
    initial_cluster_is_implied: bool,
    /// Why these flags cannot bootstrap a cluster. Ignored when a log exists: the log contains the
    /// members, which may have changed since.
    pub founding_error: Option<String>,
    pub discovery: Discovery,
    pub initial_cluster_token: String,
    pub initial_cluster_state: ClusterState,
    pub strict_reconfig_check: bool,
    pub max_learners: usize,
    pub force_new_cluster: bool,
    /// Sync nothing to the disk.
    pub unsafe_no_fsync: bool,
    pub heartbeat_interval: Duration,
    pub election_timeout: Duration,
    pub pre_vote: bool,
    /// etcd's setting; see `checkpoint_entries`.
    pub snapshot_count: u64,
    /// Upper bound of the entries between two checkpoints. `None`: only their bytes count.
    pub checkpoint_entries: Option<u64>,
    pub snapshot_catchup_entries: u64,
    /// Limit of the log kept on disk for members that were away. 0: they get a snapshot.
    pub wal_keep_bytes: u64,
    /// Limit of changed pages in memory. `None`: it goes by the memory that there is.
    pub memory_budget_bytes: Option<u64>,
    /// `None`: no limit.
    pub quota_backend_bytes: Option<u64>,
    /// The space alarm is cleared automatically when there is space again.
    pub auto_disarm_nospace: bool,
    /// The value of `--auth-token`.
    pub auth_token: String,
    /// Lifetime of an unused simple token.
    pub auth_token_ttl: Duration,
    pub bcrypt_cost: u32,
    /// The common name of a client's certificate names its user.
    pub client_cert_auth: bool,
    pub max_txn_ops: usize,
    pub max_request_bytes: usize,
    pub max_concurrent_streams: u32,
    pub keepalive: Keepalive,
    pub reuse_port: bool,
    pub client_tls: TlsFiles,
    pub peer_tls: TlsFiles,
    /// Create a self-signed certificate for clients, unless one is given.
    pub auto_tls: bool,
    pub peer_auto_tls: bool,
    /// In years.
    pub self_signed_cert_validity: u64,
    /// Go's names; if empty, all secure suites are allowed.
    pub cipher_suites: Vec<String>,
    pub tls_min_version: TlsVersion,
    /// `None`: the newest supported version.
    pub tls_max_version: Option<TlsVersion>,
    pub auto_compaction: AutoCompaction,
    /// `None`: the store decides.
    pub compaction_batch_limit: Option<usize>,
    pub compaction_sleep_interval: Option<Duration>,
    /// Lock the page file in memory (mlock).
    pub memory_mlock: bool,
    /// `None`: tracing is off.
    pub tracing: Option<TracingConfig>,
    /// Defragment at start if at least this many bytes are free. `None`: never.
    pub bootstrap_defrag_bytes: Option<u64>,
    pub watch_progress_notify_interval: Duration,
    pub warning_apply_duration: Duration,
    pub warning_unary_request_duration: Duration,
    /// Serve the JSON gateway under `/v3/`.
    pub enable_grpc_gateway: bool,
    /// Allowed origins; `*` allows all.
    pub cors: Vec<String>,
    /// Allowed host names; `*` allows all.
    pub host_whitelist: Vec<String>,
    pub extensive_metrics: bool,
    /// Serve `/debug/pprof/`; log level debug also turns this on.
    pub pprof: bool,
    /// `None`: no periodic corruption check.
    pub corrupt_check_time: Option<Duration>,
    pub compact_hash_check_time: Duration,
    /// All feature gates, by name.
    pub feature_gates: Vec<Gate>,
    pub log: LogConfig,
    /// Flags that were set but have no effect in Stele, for the log.
    pub without_effect: Vec<&'static str>,
    /// The command line, for the log.
    pub args: Vec<String>,
    /// Warnings about the configuration, to be logged once logging has started.
    pub notes: Vec<Warning>,
}

/// A founding member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundingMember {
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
    /// Keep the history of this period.
    Periodic(Duration),
    /// Keep this many revisions.
    Revision(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Time between two pings of the server to a client.
    pub interval: Duration,
    /// Time that a client has to answer a ping.
    pub timeout: Duration,
    /// Shortest time between two pings of a client.
    pub min_time: Duration,
}

/// Where spans are sent, and which calls are traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingConfig {
    /// Host and port.
    pub address: String,
    pub service_name: String,
    /// Empty: no instance id.
    pub instance_id: String,
    /// Traces sampled per million of those that begin here.
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
    /// `None`: no rotation.
    pub rotation: Option<Rotation>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogOutput {
    Stderr,
    Stdout,
    /// The systemd journal; a line that cannot be sent there goes to stderr.
    Journal,
    File(PathBuf),
}

/// How a log file is rotated: the keys of `--log-rotation-config-json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    pub file_bytes: u64,
    /// Older files are removed. `None`: files are not removed by age.
    pub max_age: Option<Duration>,
    /// Number of rotated files to keep; 0: all.
    pub max_backups: usize,
    /// Rotated files are named by local time instead of UTC.
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
pub enum Warning {
    /// A complete message.
    Text(String),
    UnknownVariable(String),
}

/// Why a configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// True if etcd detects the problem only while starting ("discovery failed").
    pub starting: bool,
    pub reason: String,
}

impl Invalid {
    /// A problem detected before starting ("failed to verify flags").
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

/// The result of a command line that does not start a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Print and exit with `code`.
    Print {
        stdout: String,
        stderr: String,
        code: u8,
    },
    /// Log "failed to verify flags" or "discovery failed" and exit with 1.
    Invalid(Invalid),
    /// A variable and its flag are both set: log it and exit with 1.
    Shadowed { variable: String },
}

/// The `ETCD_*` variables of this process. Those that are not UTF-8 are left out.
pub fn variables() -> Vec<(String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| name.starts_with("ETCD_"))
        .collect()
}

/// Parses the command line (without the program's name), the `ETCD_*` variables, and the file that
/// they may name.
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
        let what = format!("{word:?} is not a valid flag");
        return Err(Exit::Invalid(Invalid::flags(what)));
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
            notes.extend(unknown.into_iter().map(Warning::UnknownVariable));
            true
        }
    };
    let mut config = build::build(&values, flagged).map_err(Exit::Invalid)?;
    notes.extend(deprecated(&values));
    notes.extend(cap_request_bytes(&mut config));
    config.notes = notes;
    config.args = args.to_vec();
    Ok(config)
}

fn deprecated(values: &Values) -> Vec<Warning> {
    let notes = [
        (
            "max-snapshots",
            "--max-snapshots is deprecated in 3.6 and will be decommissioned in 3.8.",
        ),
        (
            "v2-deprecation",
            "--v2-deprecation is deprecated and scheduled for removal in v3.8. The default value is enforced, ignoring user input.",
        ),
    ];
    let given = notes.iter().filter(|(flag, _)| values.given(flag));
    given
        .map(|(_, note)| Warning::Text((*note).into()))
        .collect()
}

/// A larger request would be an entry that no member's log takes.
fn cap_request_bytes(config: &mut Config) -> Option<Warning> {
    let most = raft::ENTRY_BYTES_MAX;
    (config.max_request_bytes > most).then(|| {
        config.max_request_bytes = most;
        let text = format!(
            "--max-request-bytes is more than the log takes in one entry: the limit is {most} bytes"
        );
        Warning::Text(text)
    })
}

impl Config {
    /// Limit for the bytes of one gRPC message.
    pub fn max_message_bytes(&self) -> usize {
        self.max_request_bytes.saturating_add(GRPC_OVERHEAD_BYTES)
    }

    /// The directory of the log.
    pub fn log_dir(&self) -> PathBuf {
        match &self.wal_dir {
            Some(dir) => dir.clone(),
            None => self.data_dir.join("member").join("log"),
        }
    }

    /// How long a follower trusts a silent leader: up to three heartbeats may be lost or late.
    /// Asking the other members this early is harmless if the leader is alive.
    pub fn suspicion(&self) -> Option<Duration> {
        const HEARTBEATS: u32 = 3;
        Some(self.heartbeat_interval.saturating_mul(HEARTBEATS))
    }

    /// True if the feature gate is on.
    pub fn gate(&self, name: &str) -> bool {
        let mut gates = self.feature_gates.iter();
        gates.any(|gate| gate.name == name && gate.enabled)
    }

    pub fn raft_limits(&self) -> raft::Limits {
        let usual = raft::Limits::default();
        raft::Limits {
            kept_entries: self.kept_entries(),
            fetches: if self.wal_keep_bytes == 0 {
                0
            } else {
                usual.fetches
            },
            ..usual
        }
    }

    /// Limit of the bytes of changed pages in memory.
    pub fn memory_budget(&self) -> u64 {
        self.memory_budget_bytes.unwrap_or_else(|| {
            let part = memory::available_bytes().map(|bytes| bytes / MEMORY_PARTS);
            let (least, most) = MEMORY_BUDGETS.into_inner();
            part.map_or(most, |part| part.clamp(least, most))
        })
    }

    /// Number of applied entries kept in memory for members that were away.
    pub fn kept_entries(&self) -> usize {
        usize::try_from(self.snapshot_catchup_entries).unwrap_or(usize::MAX)
    }
}
