//! Builds a [`Config`] from flag values.

mod rules;

use std::path::PathBuf;
use std::time::Duration;

use super::args::Values;
use super::flags::{self, Effect, GATES, INITIAL_CLUSTER_DEFAULT, MISSING_GATES};
use super::{
    AutoCompaction, ClusterState, Config, FoundingMember, Gate, Invalid, Keepalive, TracingConfig,
    discovery, host, log, tls,
};
use rules::{advertise_urls, encryption, listen_urls, timing, verify};

/// etcd's description of a valid advertised client URL.
const CLIENT_URL_FORM: &str =
    "in the format \"host:port\", \"unix:/path/to/socket\" or \"unixs:/path/to/socket\"";

/// The quota for `--quota-backend-bytes=0`.
const QUOTA_BYTES_DEFAULT: u64 = 2 << 30;

/// With less, most puts would wait for pages to be written.
const MEMORY_BUDGET_MIN: u64 = 16 << 20;

/// grpc-go's keep-alive settings when a server sets none.
const GRPC_INTERVAL_DEFAULT: Duration = Duration::from_secs(2 * 3600);
const GRPC_TIMEOUT_DEFAULT: Duration = Duration::from_secs(20);
const GRPC_MIN_TIME_DEFAULT: Duration = Duration::from_secs(5 * 60);

/// The limit for `--warning-unary-request-duration=0`.
const SLOW_CALL_DEFAULT: Duration = Duration::from_millis(300);
const TOKEN_TTL_DEFAULT: Duration = Duration::from_secs(300);
const BCRYPT_COSTS: std::ops::RangeInclusive<u32> = 4..=31;
const BCRYPT_COST_DEFAULT: u32 = 10;
const PROGRESS_INTERVAL_DEFAULT: Duration = Duration::from_secs(600);

/// Shortest interval of progress notifications.
const PROGRESS_INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Builds the configuration from `values`. `flagged` is false if they come from a configuration
/// file.
#[expect(
    clippy::too_many_lines,
    reason = "a table: one entry for each field of the configuration"
)]
pub(super) fn build(values: &Values, flagged: bool) -> Result<Config, Invalid> {
    verify(values, flagged)?;
    let name = values.text("name").to_string();
    let data_dir = match values.text("data-dir") {
        "" => PathBuf::from(format!("{name}.etcd")),
        dir => PathBuf::from(dir),
    };
    let (heartbeat, election) = timing(values)?;
    let initial_cluster_is_implied = cluster_is_implied(values, &name, flagged);
    let members = members(values, &name, flagged)?;
    let discovery = discovery::discovery(values, flagged)?;
    let (tls_min_version, tls_max_version) = tls::versions(values)?;
    let mut config = Config {
        data_dir,
        wal_dir: match values.text("wal-dir") {
            "" => None,
            dir => Some(PathBuf::from(dir)),
        },
        encryption: encryption(values)?,
        listen_peer_urls: listen_urls(values, "listen-peer-urls")?,
        listen_client_urls: listen_urls(values, "listen-client-urls")?,
        listen_client_http_urls: listen_urls(values, "listen-client-http-urls")?,
        listen_metrics_urls: listen_urls(values, "listen-metrics-urls")?,
        initial_advertise_peer_urls: advertise_urls(
            values,
            "initial-advertise-peer-urls",
            "\"host:port\"",
        )?,
        advertise_client_urls: advertise_urls(values, "advertise-client-urls", CLIENT_URL_FORM)?,
        initial_cluster: members,
        initial_cluster_is_implied,
        founding_error: None,
        discovery,
        initial_cluster_token: values.text("initial-cluster-token").into(),
        initial_cluster_state: match values.text("initial-cluster-state") {
            "existing" => ClusterState::Existing,
            _ => ClusterState::New,
        },
        strict_reconfig_check: values.bool("strict-reconfig-check"),
        max_learners: whole(values, "max-learners") as usize,
        force_new_cluster: values.bool("force-new-cluster"),
        unsafe_no_fsync: values.bool("unsafe-no-fsync"),
        heartbeat_interval: heartbeat,
        election_timeout: election,
        pre_vote: values.bool("pre-vote"),
        snapshot_count: whole(values, "snapshot-count"),
        checkpoint_entries: values
            .given("snapshot-count")
            .then(|| whole(values, "snapshot-count").max(1)),
        snapshot_catchup_entries: whole(values, "snapshot-catchup-entries"),
        wal_keep_bytes: whole(values, "wal-keep-bytes"),
        memory_budget_bytes: memory_budget(whole(values, "memory-budget-bytes"))?,
        quota_backend_bytes: match values.int("quota-backend-bytes") {
            0 => Some(QUOTA_BYTES_DEFAULT),
            bytes if bytes < 0 => None,
            bytes => Some(bytes as u64),
        },
        auto_disarm_nospace: values.bool("auto-disarm-nospace"),
        auth_token: values.text("auth-token").to_owned(),
        auth_token_ttl: token_ttl(whole(values, "auth-token-ttl")),
        bcrypt_cost: bcrypt_cost(whole(values, "bcrypt-cost")),
        client_cert_auth: values.bool("client-cert-auth"),
        max_txn_ops: whole(values, "max-txn-ops") as usize,
        max_request_bytes: whole(values, "max-request-bytes") as usize,
        max_concurrent_streams: streams(whole(values, "max-concurrent-streams") as u32),
        keepalive: keepalive(values),
        reuse_port: values.bool("socket-reuse-port"),
        client_tls: tls::client(values),
        peer_tls: tls::peer(values),
        auto_tls: values.bool("auto-tls"),
        peer_auto_tls: values.bool("peer-auto-tls"),
        self_signed_cert_validity: match whole(values, "self-signed-cert-validity") {
            // A file may omit it; the flag refuses 0 when a certificate is to be made.
            0 if !flagged => 1,
            years => years,
        },
        cipher_suites: tls::cipher_suites(values),
        tls_min_version,
        tls_max_version,
        auto_compaction: auto_compaction(values)?,
        compaction_batch_limit: usize::try_from(whole(values, "compaction-batch-limit"))
            .ok()
            .filter(|limit| *limit > 0),
        compaction_sleep_interval: nonzero(values.timer("compaction-sleep-interval")),
        memory_mlock: values.bool("memory-mlock"),
        tracing: tracing(values),
        bootstrap_defrag_bytes: match whole(values, "bootstrap-defrag-threshold-megabytes") {
            0 => None,
            megabytes => Some(megabytes.saturating_mul(1 << 20)),
        },
        watch_progress_notify_interval: nonzero(values.timer("watch-progress-notify-interval"))
            .map_or(PROGRESS_INTERVAL_DEFAULT, |interval| {
                interval.max(PROGRESS_INTERVAL_MIN)
            }),
        warning_apply_duration: values.timer("warning-apply-duration"),
        warning_unary_request_duration: nonzero(values.timer("warning-unary-request-duration"))
            .unwrap_or(SLOW_CALL_DEFAULT),
        enable_grpc_gateway: values.bool("enable-grpc-gateway"),
        cors: list(values.text("cors")),
        host_whitelist: list(values.text("host-whitelist")),
        pprof: values.bool("enable-pprof") || values.text("log-level") == "debug",
        extensive_metrics: values.text("metrics") == "extensive",
        corrupt_check_time: nonzero(values.timer("corrupt-check-time")),
        compact_hash_check_time: values.timer("compact-hash-check-time"),
        feature_gates: gates(values)?,
        log: log::config(values)?,
        without_effect: without_effect(values),
        args: Vec::new(),
        notes: Vec::new(),
        name,
    };
    config.founding_error = host::founding_error(&config);
    Ok(config)
}

/// The flags that were set but have no effect in Stele.
fn without_effect(values: &Values) -> Vec<&'static str> {
    let moot = flags::all().filter(|flag| flag.effect == Effect::Moot);
    let changed = moot.filter(|flag| {
        let default = flag.parse(flag.default).ok();
        Some(values.value(flag.name)) != default.as_ref()
    });
    changed.map(|flag| flag.name).collect()
}

/// As in etcd, zeros are replaced by gRPC's own values.
fn keepalive(values: &Values) -> Keepalive {
    let interval = nonzero(values.timer("grpc-keepalive-interval"));
    let timeout = nonzero(values.timer("grpc-keepalive-timeout"));
    let (interval, timeout) = interval
        .zip(timeout)
        .unwrap_or((GRPC_INTERVAL_DEFAULT, GRPC_TIMEOUT_DEFAULT));
    Keepalive {
        interval,
        timeout,
        min_time: nonzero(values.timer("grpc-keepalive-min-time")).unwrap_or(GRPC_MIN_TIME_DEFAULT),
    }
}

fn tracing(values: &Values) -> Option<TracingConfig> {
    let text = |name| values.text(name).to_owned();
    let rate = values.int("distributed-tracing-sampling-rate");
    let enabled = values.bool("enable-distributed-tracing");
    enabled.then(|| TracingConfig {
        address: text("distributed-tracing-address"),
        service_name: text("distributed-tracing-service-name"),
        instance_id: text("distributed-tracing-instance-id"),
        // `verify` has checked the range.
        sampling_rate: u32::try_from(rate).unwrap_or_default(),
    })
}

/// etcd's rule: a member with a name of its own and without --initial-cluster bootstraps a cluster
/// of one at its advertised URLs.
fn cluster_is_implied(values: &Values, name: &str, flagged: bool) -> bool {
    let is_registered = values.given("discovery-endpoints");
    is_registered
        || name != "default"
            && !values.given("initial-cluster")
            && !discovery::replaces_initial_cluster(values, flagged)
}

/// The founding members.
fn members(values: &Values, name: &str, flagged: bool) -> Result<Vec<FoundingMember>, Invalid> {
    let advertised = values.urls("initial-advertise-peer-urls");
    if cluster_is_implied(values, name, flagged) {
        return Ok(vec![FoundingMember {
            name: name.into(),
            peer_urls: advertised.to_vec(),
        }]);
    }
    let text = match values.text("initial-cluster") {
        _ if discovery::replaces_initial_cluster(values, flagged) => "",
        "" => INITIAL_CLUSTER_DEFAULT,
        text => text,
    };
    FoundingMember::parse_list(text)
        .map_err(|error| Invalid::start(format!("error setting up initial cluster: {error}")))
}

fn auto_compaction(values: &Values) -> Result<AutoCompaction, Invalid> {
    let text = values.text("auto-compaction-retention");
    let bad = |error: String| Invalid::start(format!("error parsing CompactionRetention: {error}"));
    // A plain number means hours in one mode and revisions in the other.
    let number = text.parse::<u32>().ok();
    let periodic = match values.text("auto-compaction-mode") {
        "periodic" => true,
        "revision" => false,
        "" => return Err(Invalid::flags("undefined auto-compaction-mode")),
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
        (None, _) => go_text::parse_duration(text).map_err(bad)?,
    };
    Ok(match nanos {
        ..=0 => AutoCompaction::Off,
        // As in etcd, a duration in revision mode counts as its number of nanoseconds.
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
    if let Some((name, feature)) = MISSING_GATES.iter().find(|(missing, _)| {
        gates
            .iter()
            .any(|gate| gate.name == *missing && gate.enabled)
    }) {
        return Err(Invalid::flags(format!(
            "feature gate {name}: {feature} is not supported by Stele yet"
        )));
    }
    let on = |name: &str| gates.iter().any(|gate| gate.name == name && gate.enabled);
    if on("LeaseCheckpointPersist") && !on("LeaseCheckpoint") {
        return Err(Invalid::flags(
            "enabling feature gate LeaseCheckpointPersist requires enabling feature gate LeaseCheckpoint",
        ));
    }
    Ok(gates)
}

/// As in gRPC for Go, 0 means no limit.
pub(crate) fn streams(most: u32) -> u32 {
    if most == 0 { u32::MAX } else { most }
}

/// 0 means that it goes by the memory that there is.
fn memory_budget(bytes: u64) -> Result<Option<u64>, Invalid> {
    match bytes {
        0 => Ok(None),
        bytes if bytes < MEMORY_BUDGET_MIN => Err(Invalid::flags(format!(
            "--memory-budget-bytes is {bytes}; it must be 0 or at least {MEMORY_BUDGET_MIN}"
        ))),
        bytes => Ok(Some(bytes)),
    }
}

/// 0 means etcd's default.
fn token_ttl(seconds: u64) -> Duration {
    match seconds {
        0 => TOKEN_TTL_DEFAULT,
        // Longer values would overflow a duration in Go.
        seconds => Duration::from_secs(seconds.min(i64::MAX as u64 / 1_000_000_000)),
    }
}

/// An invalid bcrypt cost is replaced by the default.
fn bcrypt_cost(cost: u64) -> u32 {
    match u32::try_from(cost) {
        Ok(cost) if BCRYPT_COSTS.contains(&cost) => cost,
        _ => BCRYPT_COST_DEFAULT,
    }
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

fn nonzero(duration: Duration) -> Option<Duration> {
    (!duration.is_zero()).then_some(duration)
}
