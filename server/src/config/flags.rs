//! The table of etcd's flags: name, kind, default, and their effect in Stele.
//!
//! Every flag of etcd 3.7 is listed, so every etcd command line can be parsed.

use super::url::Url;

/// The value of `--initial-cluster` for a member without a name.
pub(super) const INITIAL_CLUSTER_DEFAULT: &str = "default=http://localhost:2380";

/// The type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Bool,
    Int,
    Uint,
    Uint32,
    Duration,
    /// One or more URLs.
    Urls,
    /// Zero or more URLs.
    OptionalUrls,
    /// `*`, nothing, or URLs.
    Origins,
    Choice(&'static [&'static str]),
    Level,
    Gates,
}

/// The effect of a flag in Stele.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Has the same effect as in etcd.
    Used,
    /// Tunes a part of etcd that Stele does not have; any value is accepted.
    Moot,
    /// etcd itself accepts and ignores it.
    Ignored,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Flag {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) default: &'static str,
    pub(super) effect: Effect,
    pub(super) help: &'static str,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Text(String),
    Bool(bool),
    Int(i128),
    /// Nanoseconds.
    Duration(i64),
    Urls(Vec<Url>),
}

const fn flag(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    effect: Effect,
    help: &'static str,
) -> Flag {
    Flag {
        name,
        kind,
        default,
        effect,
        help,
    }
}

const LEVELS: &[&str] = &["debug", "info", "warn", "error", "panic", "fatal"];

/// Feature gates: name, stage, default.
pub(super) const GATES: &[(&str, &str, bool)] = &[
    ("AllAlpha", "ALPHA", false),
    ("AllBeta", "BETA", false),
    ("CompactHashCheck", "ALPHA", false),
    ("FastLeaseKeepAlive", "BETA", true),
    ("InitialCorruptCheck", "ALPHA", false),
    ("LeaseCheckpoint", "ALPHA", false),
    ("LeaseCheckpointPersist", "ALPHA", false),
    ("PriorityRequest", "ALPHA", false),
    ("SetMemberLocalAddr", "ALPHA", false),
    ("StopGRPCServiceOnDefrag", "ALPHA", false),
    ("TxnModeWriteWithSharedBuffer", "BETA", true),
];

/// Gates of missing features, with the feature: turning them on is refused. Four other gates have
/// no effect. `FastLeaseKeepAlive` and `TxnModeWriteWithSharedBuffer` select between two
/// implementations in etcd; there is only one here. `LeaseCheckpoint` and `LeaseCheckpointPersist`
/// turn on what Stele always does while every member is Stele.
pub(super) const MISSING_GATES: &[(&str, &str)] = &[(
    "SetMemberLocalAddr",
    "choosing the local address of connections to peers",
)];

use Effect::{Ignored, Moot, Used};
use Kind::{
    Bool, Choice, Duration, Gates, Int, Level, OptionalUrls, Origins, Text, Uint, Uint32, Urls,
};

/// Sections in the order of `--help`.
#[rustfmt::skip]
pub(super) const SECTIONS: &[(&str, &[Flag])] = &[
    ("Member", &[
        flag("name", Text, "default", Used, "Name of this member, for people."),
        flag("data-dir", Text, "", Used, "Directory of the data; empty means NAME.etcd."),
        flag("wal-dir", Text, "", Used, "Directory of the log, if apart from the data."),
        flag("snapshot-count", Uint, "10000", Used, "Most entries between two checkpoints; unless it is given, checkpoints go by bytes."),
        flag("snapshot-catchup-entries", Uint, "5000", Used, "Log entries kept in memory for a member that lags."),
        flag("wal-keep-bytes", Uint, "1073741824", Used, "Bytes of the log kept on disk for members that were away, at most an eighth of what is free there, nothing in a cluster of one; 0 means that they get a snapshot."),
        flag("memory-budget-bytes", Uint, "0", Used, "Changed pages in memory: more are written at once. Decrypted pages may have a fifth as much. 0 means one part in 64 of the memory of machine or control group, 32 to 160 MiB."),
        flag("heartbeat-interval", Uint, "100", Used, "Milliseconds between two heartbeats."),
        flag("election-timeout", Uint, "1000", Used, "Milliseconds without a leader before an election."),
        flag("initial-election-tick-advance", Bool, "true", Moot, "Shorten the first election."),
        flag("listen-peer-urls", Urls, "http://localhost:2380", Used, "Where to listen for other members."),
        flag("listen-client-urls", Urls, "http://localhost:2379", Used, "Where to listen for clients: gRPC and HTTP."),
        flag("listen-client-http-urls", OptionalUrls, "", Used, "Where to serve HTTP; --listen-client-urls is gRPC only then."),
        flag("max-snapshots", Uint, "5", Moot, "Snapshot files etcd keeps. Deprecated by etcd."),
        flag("max-wals", Uint, "5", Moot, "Log files etcd keeps; Stele drops what checkpoints cover."),
        flag("memory-mlock", Bool, "false", Used, "Lock the page file in memory; what RLIMIT_MEMLOCK does not allow ends the server."),
        flag("quota-backend-bytes", Int, "0", Used, "Size of the data in use that raises the space alarm; 0 means 2 GiB, negative means none."),
        flag("auto-disarm-nospace", Bool, "true", Used, "Take the space alarm back that this member has raised, once a tenth of the quota is free and the disk has room; etcd waits for somebody to disarm it."),
        flag("backend-bbolt-freelist-type", Text, "map", Moot, "Free list of etcd's database file."),
        flag("backend-batch-interval", Duration, "0", Moot, "Longest time between two commits of etcd's database file."),
        flag("backend-batch-limit", Int, "0", Moot, "Most operations between two commits of etcd's database file."),
        flag("max-txn-ops", Uint, "128", Used, "Most operations of a transaction."),
        flag("max-request-bytes", Uint, "1572864", Used, "Most bytes of a request."),
        flag("max-concurrent-streams", Uint32, "4294967295", Used, "Most open streams of a client connection."),
        flag("grpc-keepalive-min-time", Duration, "5s", Used, "Shortest time between two pings of a client; 0 means 5m. Who pings more is sent away."),
        flag("grpc-keepalive-interval", Duration, "2h", Used, "Time between two pings to a client; 0 means gRPC's own, 2h and 20s."),
        flag("grpc-keepalive-timeout", Duration, "20s", Used, "Time a client has to answer a ping; 0 means gRPC's own, 2h and 20s."),
        flag("socket-reuse-port", Bool, "false", Used, "Set SO_REUSEPORT on listeners."),
        flag("socket-reuse-address", Bool, "false", Moot, "Set SO_REUSEADDR on listeners; they always have it."),
        flag("enable-grpc-gateway", Bool, "true", Used, "Serve the JSON gateway under /v3/."),
        flag("raft-read-timeout", Duration, "5s", Moot, "Read timeout of connections between members."),
        flag("raft-write-timeout", Duration, "5s", Moot, "Write timeout of connections between members."),
        flag("feature-gates", Gates, "", Used, "NAME=true|false, comma separated."),
    ]),
    ("Clustering", &[
        flag("initial-advertise-peer-urls", Urls, "http://localhost:2380", Used, "Peer URLs to tell the cluster."),
        flag("initial-cluster", Text, INITIAL_CLUSTER_DEFAULT, Used, "Members of a new cluster: NAME=URL, comma separated."),
        flag("initial-cluster-state", Choice(&["new", "existing"]), "new", Used, "Found a cluster (new) or join one (existing)."),
        flag("initial-cluster-token", Text, "etcd-cluster", Used, "Tells clusters apart: ids are computed from it."),
        flag("advertise-client-urls", Urls, "http://localhost:2379", Used, "Client URLs to tell the cluster."),
        flag("discovery-token", Text, "", Used, "Discovery: token of the cluster, whose founders find each other by keys under /_etcd/registry/TOKEN of another cluster."),
        flag("discovery-endpoints", Text, "", Used, "Discovery: client URLs of that other cluster, comma separated."),
        flag("discovery-dial-timeout", Duration, "2s", Used, "Discovery: time to connect."),
        flag("discovery-request-timeout", Duration, "5s", Used, "Discovery: time for a request."),
        flag("discovery-keepalive-time", Duration, "2s", Used, "Discovery: keep-alive time."),
        flag("discovery-keepalive-timeout", Duration, "6s", Used, "Discovery: keep-alive timeout."),
        flag("discovery-insecure-transport", Bool, "true", Used, "Discovery: no transport security."),
        flag("discovery-insecure-skip-tls-verify", Bool, "false", Used, "Discovery: no check of certificates."),
        flag("discovery-cert", Text, "", Used, "Discovery: client certificate."),
        flag("discovery-key", Text, "", Used, "Discovery: client key."),
        flag("discovery-cacert", Text, "", Used, "Discovery: certificate authority."),
        flag("discovery-user", Text, "", Used, "Discovery: user."),
        flag("discovery-password", Text, "", Used, "Discovery: password."),
        flag("discovery-fallback", Choice(&["exit", "proxy"]), "exit", Used, "What to do when discovery fails."),
        flag("discovery-srv", Text, "", Used, "DNS domain with SRV records of the founders: _etcd-server-ssl._tcp and _etcd-server._tcp."),
        flag("discovery-srv-name", Text, "", Used, "End of the name of that DNS service, after a dash."),
        flag("strict-reconfig-check", Bool, "true", Used, "Refuse membership changes that would cost the quorum."),
        flag("pre-vote", Bool, "true", Used, "Ask before an election."),
        flag("auto-compaction-retention", Text, "0", Used, "History to keep: a duration (bare number: hours) or a number of revisions; 0 means all."),
        flag("auto-compaction-mode", Text, "periodic", Used, "How to read the retention: periodic or revision."),
        flag("v2-deprecation", Choice(&["write-only", "write-only-skip-check", "write-only-drop-data", "gone"]), "write-only", Ignored, "etcd's old store. Deprecated by etcd."),
    ]),
    ("Security", &[
        flag("cert-file", Text, "", Used, "Certificate for clients."),
        flag("key-file", Text, "", Used, "Key for clients."),
        flag("client-cert-auth", Bool, "false", Used, "Ask clients for a certificate; its common name is the user's name."),
        flag("client-cert-file", Text, "", Used, "Checked at start, as in etcd, whose gateway shows it."),
        flag("client-key-file", Text, "", Used, "Key of --client-cert-file."),
        flag("client-crl-file", Text, "", Used, "Revoked client certificates: a list in DER."),
        flag("client-cert-allowed-cn", Text, "", Used, "Common names allowed in client certificates, comma separated; etcd takes them from its configuration file alone."),
        flag("client-cert-allowed-hostname", Text, "", Used, "Host names allowed in client certificates, comma separated."),
        flag("trusted-ca-file", Text, "", Used, "Authority of client certificates; clients must show one when it is given."),
        flag("auto-tls", Bool, "false", Used, "Make a certificate for clients."),
        flag("peer-cert-file", Text, "", Used, "Certificate for members."),
        flag("peer-key-file", Text, "", Used, "Key for members."),
        flag("peer-client-cert-auth", Bool, "false", Used, "Ask members for a certificate."),
        flag("peer-client-cert-file", Text, "", Used, "Client certificate towards members."),
        flag("peer-client-key-file", Text, "", Used, "Client key towards members."),
        flag("peer-trusted-ca-file", Text, "", Used, "Authority of members' certificates."),
        flag("peer-cert-allowed-cn", Text, "", Used, "Common names allowed in members' certificates, comma separated."),
        flag("peer-cert-allowed-hostname", Text, "", Used, "Host names allowed in members' certificates, comma separated."),
        flag("peer-auto-tls", Bool, "false", Used, "Make a certificate for members."),
        flag("peer-crl-file", Text, "", Used, "Revoked certificates of members: a list in DER."),
        flag("peer-skip-client-san-verification", Bool, "false", Used, "No check of names in members' certificates."),
        flag("self-signed-cert-validity", Uint, "1", Used, "Years a made certificate is valid."),
        flag("cipher-suites", Text, "", Used, "Cipher suites of TLS 1.2 by Go's names, comma separated."),
        flag("tls-min-version", Text, "TLS1.2", Used, "Oldest TLS version."),
        flag("tls-max-version", Text, "", Used, "Newest TLS version."),
        flag("cors", Origins, "*", Used, "Origins allowed in browsers; * or nothing means all."),
        flag("host-whitelist", Text, "*", Used, "Host names allowed in HTTP requests; * or nothing means all."),
    ]),
    ("Encryption at rest", &[
        flag("encryption-key-file", Text, "", Used, "Keys, a line each: id, then 64 hex digits; the first one is for new data, `clear` in its place for none. Read again when it changes."),
        flag("encryption-key-command", Text, "", Used, "Command that prints what would be in the key file, instead of one."),
    ]),
    ("Auth", &[
        flag("auth-token", Text, "simple", Used, "Kind of token: simple, jwt,sign-method=..,pub-key=..,priv-key=..,ttl=.., or nothing for none."),
        flag("auth-token-ttl", Uint, "300", Used, "Seconds a token lives."),
        flag("bcrypt-cost", Uint, "10", Used, "Cost of a password hash."),
    ]),
    ("Profiling and monitoring", &[
        flag("enable-pprof", Bool, "false", Used, "Serve /debug/pprof/: threads and command line; profiles are taken with perf."),
        flag("metrics", Text, "basic", Used, "basic, or extensive to add histograms of gRPC calls."),
        flag("listen-metrics-urls", OptionalUrls, "", Used, "Where to serve metrics and health only."),
    ]),
    ("Logging", &[
        flag("logger", Text, "zap", Used, "Only zap, etcd's log format."),
        flag("log-outputs", Text, "default", Used, "default, stderr, stdout, systemd/journal or files, comma separated."),
        flag("log-level", Level, "info", Used, "debug, info, warn, error, panic or fatal."),
        flag("log-format", Text, "json", Used, "json or console."),
        flag("enable-log-rotation", Bool, "false", Used, "Rotate the log file."),
        flag("log-rotation-config-json", Text, r#"{"maxsize": 100, "maxage": 0, "maxbackups": 0, "localtime": false, "compress": false}"#, Used, "How to rotate: maxsize in MB, maxage in days, maxbackups, localtime, compress."),
        flag("warning-unary-request-duration", Duration, "300ms", Used, "Log a call that takes longer."),
    ]),
    ("Distributed tracing", &[
        flag("enable-distributed-tracing", Bool, "false", Used, "Send a span of each gRPC call to an OpenTelemetry collector."),
        flag("distributed-tracing-address", Text, "localhost:4317", Used, "Host and port of the collector: OTLP over gRPC, without TLS."),
        flag("distributed-tracing-service-name", Text, "etcd", Used, "Name of the service in traces."),
        flag("distributed-tracing-instance-id", Text, "", Used, "Name of this process in traces; empty means none."),
        flag("distributed-tracing-sampling-rate", Int, "0", Used, "Traces taken of a million, of those that begin here; others are taken if their client takes them."),
    ]),
    ("Features", &[
        flag("corrupt-check-time", Duration, "0s", Used, "Time between two comparisons of all members' data by the leader; 0 means none."),
        flag("compact-hash-check-time", Duration, "1m", Used, "Time between two comparisons of members' data at compactions; wants the feature gate CompactHashCheck."),
        flag("compaction-batch-limit", Int, "0", Used, "Rows removed at a time; 0 means as the store finds best."),
        flag("compaction-sleep-interval", Duration, "0", Used, "Pause between two batches; 0 means none."),
        flag("watch-progress-notify-interval", Duration, "0", Used, "Time between two progress notifications; 0 means 10 minutes."),
        flag("warning-apply-duration", Duration, "100ms", Used, "Log an entry that takes longer to apply."),
        flag("bootstrap-defrag-threshold-megabytes", Uint, "0", Used, "Free space in the page file, in MB, that a start gives back before it serves; 0 means none."),
        flag("max-learners", Int, "1", Used, "Most learners of a cluster."),
        flag("downgrade-check-time", Duration, "5s", Moot, "Time between two checks of a downgrade."),
    ]),
    ("Unsafe features", &[
        flag("force-new-cluster", Bool, "false", Used, "Make a cluster of one out of a member."),
        flag("unsafe-no-fsync", Bool, "false", Used, "Sync nothing to the disk and reserve no space on it: a power cut may lose everything. For tests."),
    ]),
];

/// Flags that etcd accepts and ignores with any value. The second field: true if boolean.
#[rustfmt::skip]
const IGNORED: &[(&str, bool)] = &[
    ("cluster-active-size", false), ("cluster-remove-delay", false), ("cluster-sync-interval", false),
    ("config", false), ("force", true), ("max-result-buffer", false), ("max-retry-attempts", false),
    ("peer-heartbeat-interval", false), ("peer-election-timeout", false), ("retry-interval", false),
    ("snapshot", true), ("v", true), ("vv", true), ("test.coverprofile", false), ("test.outputdir", false),
];

pub(super) fn all() -> impl Iterator<Item = &'static Flag> {
    SECTIONS.iter().flat_map(|(_, flags)| flags.iter())
}

/// Finds a flag in the table, or among those that etcd ignores.
pub(super) fn find(name: &str) -> Option<Flag> {
    if let Some(found) = all().find(|flag| flag.name == name) {
        return Some(*found);
    }
    let (name, boolean) = IGNORED.iter().find(|(ignored, _)| *ignored == name)?;
    Some(flag(
        name,
        if *boolean { Bool } else { Text },
        "",
        Ignored,
        "",
    ))
}

impl Flag {
    /// Parses a value of the flag's kind; the error is the reason that etcd prints.
    pub(super) fn parse(&self, text: &str) -> Result<Value, String> {
        let bad = || "parse error".to_string();
        match self.kind {
            Kind::Text => Ok(Value::Text(text.into())),
            Kind::Bool => go_text::parse_bool(text).map(Value::Bool).ok_or_else(bad),
            Kind::Int => integer(text, i64::MIN.into(), i64::MAX.into()),
            Kind::Uint => integer(text, 0, u64::MAX.into()),
            Kind::Uint32 => match text.parse::<u32>() {
                Ok(number) => Ok(Value::Int(number.into())),
                Err(_) => Err(format!(
                    "strconv.ParseUint: parsing {text:?}: invalid syntax"
                )),
            },
            Kind::Duration => go_text::parse_duration(text)
                .map(Value::Duration)
                .map_err(|_| bad()),
            Kind::Urls => match text {
                // etcd's own tests leave a list unset by setting it to nothing.
                "" => Ok(Value::Urls(Vec::new())),
                _ => Url::parse_list(text).map(Value::Urls),
            },
            Kind::OptionalUrls if text.is_empty() => Ok(Value::Urls(Vec::new())),
            Kind::OptionalUrls => Url::parse_list(text).map(Value::Urls),
            Kind::Origins => {
                if !matches!(text, "" | "*") {
                    Url::parse_list(text)?;
                }
                Ok(Value::Text(text.into()))
            }
            Kind::Choice(choices) if choices.contains(&text) => Ok(Value::Text(text.into())),
            Kind::Choice(_) if self.name == "v2-deprecation" => {
                Err(format!("invalid value {text:?}"))
            }
            Kind::Choice(_) => Err("invalid value".into()),
            Kind::Level if level(text).is_some() => Ok(Value::Text(text.into())),
            Kind::Level => Err(format!("unrecognized level: {text:?}")),
            Kind::Gates => parse_gates(text).map(|_| Value::Text(text.into())),
        }
    }
}

fn integer(text: &str, min: i128, max: i128) -> Result<Value, String> {
    let number = go_text::parse_int(text).ok_or("parse error")?;
    if number < min && min == 0 {
        return Err("parse error".into());
    }
    if number < min || number > max {
        return Err("value out of range".into());
    }
    Ok(Value::Int(number))
}

/// The log level that zap, the library of etcd's log, reads in a value of `--log-level`.
pub(super) fn level(text: &str) -> Option<&'static str> {
    match text.to_ascii_lowercase().as_str() {
        "" => Some("info"),
        // A panic in development; no line has this level.
        "dpanic" => Some("panic"),
        name => LEVELS.iter().copied().find(|level| *level == name),
    }
}

/// The gates in a `--feature-gates` value.
pub(super) fn parse_gates(text: &str) -> Result<Vec<(&'static str, bool)>, String> {
    let mut gates = Vec::new();
    for pair in text
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
    {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("missing bool value for {pair}"))?;
        let (name, value) = (name.trim(), value.trim());
        let gate = GATES
            .iter()
            .find(|gate| gate.0 == name)
            .ok_or_else(|| format!("unrecognized feature gate: {name}"))?;
        let on = go_text::parse_bool(value).ok_or_else(|| {
            format!("invalid value of {name}={value}, err: strconv.ParseBool: parsing {value:?}: invalid syntax")
        })?;
        gates.push((gate.0, on));
    }
    Ok(gates)
}
