//! From flag values to a [`Config`]: everything that must hold between flags.

use std::path::PathBuf;
use std::time::Duration;

use super::args::Values;
use super::flags::{self, Effect, GATES};
use super::url::{Scheme, Url};
use super::{
    AutoCompaction, ClusterState, Config, Gate, Invalid, Keepalive, LogConfig, LogFormat, Member,
    go,
};
use crate::keys::KeySource;

/// Longest election timeout.
const ELECTION_TIMEOUT_MS_MAX: u64 = 50_000;

/// An election timeout must leave room for that many heartbeats.
const HEARTBEATS_PER_ELECTION: u64 = 5;

/// Quota that `--quota-backend-bytes=0` stands for.
const QUOTA_BYTES_DEFAULT: u64 = 2 << 30;

const COMPACTION_BATCH_DEFAULT: usize = 1000;
const COMPACTION_PAUSE_DEFAULT: Duration = Duration::from_millis(10);
const PROGRESS_INTERVAL_DEFAULT: Duration = Duration::from_secs(600);

/// Shortest interval of progress notifications.
const PROGRESS_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// What `values` ask for. `flagged` is false when they come from a configuration file.
pub(super) fn build(values: &Values, flagged: bool) -> Result<Config, Invalid> {
    verify(values, flagged)?;
    let name = values.text("name").to_string();
    let data_dir = match values.text("data-dir") {
        "" => PathBuf::from(format!("{name}.etcd")),
        dir => PathBuf::from(dir),
    };
    let (heartbeat, election) = timing(values)?;
    let members = members(values, &name)?;
    let founding_error = founding_error(values, &name, &members);
    Ok(Config {
        data_dir,
        encryption: encryption(values)?,
        listen_peer_urls: listen_urls(values, "listen-peer-urls")?,
        listen_client_urls: listen_urls(values, "listen-client-urls")?,
        listen_client_http_urls: listen_urls(values, "listen-client-http-urls")?,
        listen_metrics_urls: listen_urls(values, "listen-metrics-urls")?,
        initial_advertise_peer_urls: values.urls("initial-advertise-peer-urls").to_vec(),
        advertise_client_urls: values.urls("advertise-client-urls").to_vec(),
        initial_cluster: members,
        founding_error,
        initial_cluster_token: values.text("initial-cluster-token").into(),
        initial_cluster_state: match values.text("initial-cluster-state") {
            "existing" => ClusterState::Existing,
            _ => ClusterState::New,
        },
        strict_reconfig_check: values.bool("strict-reconfig-check"),
        max_learners: whole(values, "max-learners") as usize,
        force_new_cluster: values.bool("force-new-cluster"),
        heartbeat_interval: heartbeat,
        election_timeout: election,
        pre_vote: values.bool("pre-vote"),
        snapshot_count: whole(values, "snapshot-count"),
        snapshot_catchup_entries: whole(values, "snapshot-catchup-entries"),
        quota_backend_bytes: match values.int("quota-backend-bytes") {
            0 => Some(QUOTA_BYTES_DEFAULT),
            bytes if bytes < 0 => None,
            bytes => Some(bytes as u64),
        },
        auto_disarm_nospace: values.bool("auto-disarm-nospace"),
        max_txn_ops: whole(values, "max-txn-ops") as usize,
        max_request_bytes: whole(values, "max-request-bytes") as usize,
        max_concurrent_streams: whole(values, "max-concurrent-streams") as u32,
        keepalive: Keepalive {
            interval: nonzero(nanos(values, "grpc-keepalive-interval")),
            timeout: nanos(values, "grpc-keepalive-timeout"),
        },
        reuse_port: values.bool("socket-reuse-port"),
        reuse_address: values.bool("socket-reuse-address"),
        auto_compaction: auto_compaction(values)?,
        compaction_batch_limit: match whole(values, "compaction-batch-limit") {
            0 => COMPACTION_BATCH_DEFAULT,
            limit => limit as usize,
        },
        compaction_sleep_interval: nonzero(nanos(values, "compaction-sleep-interval"))
            .unwrap_or(COMPACTION_PAUSE_DEFAULT),
        watch_progress_notify_interval: nonzero(nanos(values, "watch-progress-notify-interval"))
            .map_or(PROGRESS_INTERVAL_DEFAULT, |interval| {
                interval.max(PROGRESS_INTERVAL_MIN)
            }),
        warning_apply_duration: nanos(values, "warning-apply-duration"),
        warning_unary_request_duration: nanos(values, "warning-unary-request-duration"),
        cors: list(values.text("cors")),
        host_whitelist: list(values.text("host-whitelist")),
        extensive_metrics: values.text("metrics") == "extensive",
        feature_gates: gates(values)?,
        log: log_config(values)?,
        args: Vec::new(),
        notes: Vec::new(),
        name,
    })
}

/// Checks that need no more than the values themselves.
fn verify(values: &Values, flagged: bool) -> Result<(), Invalid> {
    for flag in flags::all() {
        let Effect::Missing(feature) = flag.effect else {
            continue;
        };
        let default = flag.parse(flag.default).ok();
        if Some(values.value(flag.name)) != default.as_ref() {
            return Err(Invalid::flags(format!(
                "--{}: {feature} is not supported by Stele yet",
                flag.name
            )));
        }
    }
    let set = |name| values.given(name);
    if flagged && set("listen-client-urls") && !set("advertise-client-urls") {
        return Err(Invalid::flags(
            "--advertise-client-urls is required when --listen-client-urls is set explicitly",
        ));
    }
    if values.text("discovery-fallback") == "proxy" {
        return Err(Invalid::flags(
            "v2 proxy is deprecated, and --discovery-fallback can't be configured as \"proxy\"",
        ));
    }
    match values.text("logger") {
        "zap" => Ok(()),
        other => Err(Invalid::flags(format!("unknown logger option {other:?}"))),
    }
}

fn encryption(values: &Values) -> Result<Option<KeySource>, Invalid> {
    match (
        values.text("encryption-key-file"),
        values.text("encryption-key-command"),
    ) {
        ("", "") => Ok(None),
        (path, "") => Ok(Some(KeySource::File(path.into()))),
        ("", command) => Ok(Some(KeySource::Command(command.into()))),
        _ => Err(Invalid::flags(
            "--encryption-key-file and --encryption-key-command exclude each other",
        )),
    }
}

fn timing(values: &Values) -> Result<(Duration, Duration), Invalid> {
    let heartbeat = whole(values, "heartbeat-interval");
    let election = whole(values, "election-timeout");
    if heartbeat == 0 {
        return Err(Invalid::flags(
            "--heartbeat-interval must be >0 (set to 0ms)",
        ));
    }
    if election == 0 {
        return Err(Invalid::flags("--election-timeout must be >0 (set to 0ms)"));
    }
    if heartbeat.saturating_mul(HEARTBEATS_PER_ELECTION) > election {
        return Err(Invalid::flags(format!(
            "--election-timeout[{election}ms] should be at least as 5 times as --heartbeat-interval[{heartbeat}ms]"
        )));
    }
    if election > ELECTION_TIMEOUT_MS_MAX {
        return Err(Invalid::flags(format!(
            "--election-timeout[{election}ms] is too long, and should be set less than {ELECTION_TIMEOUT_MS_MAX}ms"
        )));
    }
    Ok((
        Duration::from_millis(heartbeat),
        Duration::from_millis(election),
    ))
}

fn listen_urls(values: &Values, name: &str) -> Result<Vec<Url>, Invalid> {
    for url in values.urls(name) {
        let missing = match url.scheme() {
            Scheme::Http => None,
            Scheme::Https => Some("TLS"),
            Scheme::Unix | Scheme::Unixs => Some("a unix socket"),
        };
        if let Some(feature) = missing {
            return Err(Invalid::flags(format!(
                "--{name}: {url}: {feature} is not supported by Stele yet"
            )));
        }
        let host = url.host();
        if !host.is_empty() && host != "localhost" && host.parse::<std::net::IpAddr>().is_err() {
            return Err(Invalid::flags(format!(
                "expected IP in URL for binding ({url})"
            )));
        }
    }
    Ok(values.urls(name).to_vec())
}

/// The founding members.
fn members(values: &Values, name: &str) -> Result<Vec<Member>, Invalid> {
    let advertised = values.urls("initial-advertise-peer-urls");
    // etcd's rule: with a name of its own and no --initial-cluster, a member founds a cluster of
    // one at its advertised URLs.
    if name != "default" && !values.given("initial-cluster") {
        return Ok(vec![Member {
            name: name.into(),
            peer_urls: advertised.to_vec(),
        }]);
    }
    let text = match values.text("initial-cluster") {
        "" => "default=http://localhost:2380",
        text => text,
    };
    let mut members: Vec<Member> = Vec::new();
    for pair in text
        .split(',')
        .map(str::trim)
        .filter(|pair| !pair.is_empty())
    {
        let (member, url) = pair.split_once('=').unwrap_or((pair, ""));
        let url = Url::parse(url)
            .map_err(|e| Invalid::start(format!("error setting up initial cluster: {e}")))?;
        match members.iter_mut().find(|known| known.name == member) {
            Some(known) => known.peer_urls.push(url),
            None => members.push(Member {
                name: member.into(),
                peer_urls: vec![url],
            }),
        }
    }
    for member in &mut members {
        member.peer_urls.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    }
    Ok(members)
}

/// This member has to be among the founders, where it says that it is.
fn founding_error(values: &Values, name: &str, members: &[Member]) -> Option<String> {
    let Some(own) = members.iter().find(|member| member.name == name) else {
        return Some(format!(
            "couldn't find local name {name:?} in the initial cluster configuration"
        ));
    };
    // One that joins has told its URLs to the cluster before it starts.
    let joins = values.text("initial-cluster-state") == "existing";
    let advertised = values.urls("initial-advertise-peer-urls");
    if joins || own.peer_urls == advertised {
        return None;
    }
    let all = |urls: &[Url]| urls.iter().map(Url::as_str).collect::<Vec<_>>().join(",");
    let (listed, advertised) = (all(&own.peer_urls), all(advertised));
    Some(format!(
        "--initial-cluster has {name}={listed} but missing from --initial-advertise-peer-urls={advertised} (resolved urls: {advertised:?} != {listed:?})"
    ))
}

fn auto_compaction(values: &Values) -> Result<AutoCompaction, Invalid> {
    let text = values.text("auto-compaction-retention");
    let bad = |error: String| Invalid::start(format!("error parsing CompactionRetention: {error}"));
    // A bare number counts hours in one mode and revisions in the other.
    let number = text.parse::<u32>().ok();
    let periodic = match values.text("auto-compaction-mode") {
        "periodic" => true,
        "revision" => false,
        other => {
            return Err(Invalid::flags(format!(
                "unknown auto-compaction-mode {other:?}"
            )));
        }
    };
    let nanos = match (number, periodic) {
        (Some(0), _) => 0,
        (Some(hours), true) => i64::from(hours) * 3_600_000_000_000,
        (Some(revisions), false) => i64::from(revisions),
        (None, _) if text.is_empty() => 0,
        (None, _) => go::parse_duration(text).map_err(bad)?,
    };
    Ok(match nanos {
        ..=0 => AutoCompaction::Off,
        // etcd reads a duration in revision mode as its nanoseconds; so be it.
        revisions if !periodic => AutoCompaction::Revision(revisions),
        nanos => AutoCompaction::Periodic(Duration::from_nanos(nanos as u64)),
    })
}

fn gates(values: &Values) -> Result<Vec<Gate>, Invalid> {
    let chosen = flags::parse_gates(values.text("feature-gates")).map_err(Invalid::flags)?;
    let pick = |name: &str| {
        chosen
            .iter()
            .rev()
            .find(|gate| gate.0 == name)
            .map(|gate| gate.1)
    };
    let gates: Vec<Gate> = GATES
        .iter()
        .map(|&(name, stage, default)| {
            let all = match stage {
                "ALPHA" => pick("AllAlpha"),
                _ => pick("AllBeta"),
            };
            Gate {
                name,
                stage,
                enabled: pick(name).or(all).unwrap_or(default),
            }
        })
        .collect();
    let on = |name: &str| gates.iter().any(|gate| gate.name == name && gate.enabled);
    if on("LeaseCheckpointPersist") && !on("LeaseCheckpoint") {
        return Err(Invalid::flags(
            "enabling feature gate LeaseCheckpointPersist requires enabling feature gate LeaseCheckpoint",
        ));
    }
    Ok(gates)
}

fn log_config(values: &Values) -> Result<LogConfig, Invalid> {
    let format = match values.text("log-format") {
        "json" => LogFormat::Json,
        "console" => LogFormat::Console,
        other => {
            return Err(Invalid::flags(format!(
                "unknown log format: {other}, supported values json, console"
            )));
        }
    };
    let mut outputs: Vec<String> = values
        .text("log-outputs")
        .split(',')
        .map(|output| output.trim().into())
        .collect();
    outputs.sort();
    outputs.dedup();
    if outputs.iter().any(|output| output.starts_with("systemd/")) {
        return Err(Invalid::flags(
            "--log-outputs: the systemd journal is not supported by Stele yet",
        ));
    }
    if outputs.len() > 1 && outputs.iter().any(|output| output == "default") {
        return Err(Invalid::flags(
            "multi logoutput for \"default\" is not supported, use \"stderr\" or \"stdout\"",
        ));
    }
    Ok(LogConfig {
        level: values.text("log-level").into(),
        format,
        outputs,
    })
}

fn list(text: &str) -> Vec<String> {
    match text {
        "" => vec!["*".into()],
        text => text.split(',').map(|item| item.trim().into()).collect(),
    }
}

fn whole(values: &Values, name: &str) -> u64 {
    u64::try_from(values.int(name)).unwrap_or(0)
}

/// Negative durations mean none, as a timer that long past would fire at once.
fn nanos(values: &Values, name: &str) -> Duration {
    Duration::from_nanos(u64::try_from(values.duration(name)).unwrap_or(0))
}

fn nonzero(duration: Duration) -> Option<Duration> {
    (!duration.is_zero()).then_some(duration)
}
