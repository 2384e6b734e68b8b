//! The rules that values must keep, alone and with each other, with etcd's messages.

use std::time::Duration;

use super::whole;
use crate::config::args::Values;
use crate::config::keys::KeySource;
use crate::config::{Invalid, Url};

/// Longest election timeout.
const ELECTION_TIMEOUT_MS_MAX: u64 = 50_000;

/// An election timeout must be at least this many heartbeats.
const HEARTBEATS_PER_ELECTION: u64 = 5;

/// `--distributed-tracing-sampling-rate` is the number of traces out of this many.
const SAMPLING_RATE_MAX: i128 = 1_000_000;

/// Checks that need only the values themselves.
pub(super) fn verify(values: &Values, flagged: bool) -> Result<(), Invalid> {
    let set = |name| values.given(name);
    if flagged && set("listen-client-urls") && !set("advertise-client-urls") {
        return Err(Invalid::flags(
            "--advertise-client-urls is required when --listen-client-urls is set explicitly",
        ));
    }
    // etcd's sample file has this value, and etcd does not check it in files.
    if flagged && values.text("discovery-fallback") == "proxy" {
        return Err(Invalid::flags(
            "v2 proxy is deprecated, and --discovery-fallback can't be configured as \"proxy\"",
        ));
    }
    if values.duration("compact-hash-check-time") <= 0 {
        return Err(Invalid::flags(format!(
            "--compact-hash-check-time must be >0 (set to {})",
            crate::config::duration(values.timer("compact-hash-check-time"))
        )));
    }
    let rate = values.int("distributed-tracing-sampling-rate");
    let bad_rate = match rate {
        ..0 => Some("tracing sampling rate must be positive"),
        0..=SAMPLING_RATE_MAX => None,
        _ => Some("tracing sampling rate must be less than 1000000"),
    };
    match bad_rate.filter(|_| values.bool("enable-distributed-tracing")) {
        // etcd's spelling.
        Some(text) => Err(Invalid::flags(format!(
            "distributed tracing configurition is not valid: ({text})"
        ))),
        None => Ok(()),
    }
}

pub(super) fn timing(values: &Values) -> Result<(Duration, Duration), Invalid> {
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

pub(super) fn listen_urls(values: &Values, name: &str) -> Result<Vec<Url>, Invalid> {
    for url in values.urls(name) {
        if url.is_unix() {
            continue;
        }
        let host = url.host();
        if host != "localhost" && host.parse::<std::net::IpAddr>().is_err() {
            return Err(Invalid::flags(format!(
                "expected IP in URL for binding ({url})"
            )));
        }
    }
    Ok(values.urls(name).to_vec())
}

pub(super) fn advertise_urls(values: &Values, name: &str, form: &str) -> Result<Vec<Url>, Invalid> {
    let urls = values.urls(name);
    let all: Vec<&str> = urls.iter().map(Url::as_str).collect();
    let is_hostless = |url: &&Url| !url.is_unix() && url.host().is_empty();
    match urls.iter().find(is_hostless) {
        None => Ok(urls.to_vec()),
        Some(url) => Err(Invalid::flags(format!(
            "--{name} {:?} must be {form} (unexpected empty host ({url}))",
            all.join(",")
        ))),
    }
}

pub(super) fn encryption(values: &Values) -> Result<Option<KeySource>, Invalid> {
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
