//! `/health`, `/livez` and `/readyz`.

use std::borrow::Cow;
use std::fmt::Write as _;

use etcd_api::etcdserverpb::AlarmType;
use http::StatusCode;
use percent_encoding::percent_decode_str;
use storage::mvcc::KeyRange;

use crate::api::page::{Page, TEXT, page, text};
use crate::runtime::etcd_server::EtcdServer;
use crate::telemetry::metrics::Metrics;

/// Checks of each probe, in the order in which they are reported.
const LIVEZ: &[&str] = &["serializable_read"];
const READYZ: &[&str] = &[
    "non_learner",
    "data_corruption",
    "serializable_read",
    "linearizable_read",
];

/// A probe, or one of its checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    name: &'static str,
    checks: &'static [&'static str],
    /// The check that has a page of its own under this path.
    only: Option<&'static str>,
}

/// Resolves a path to a probe. `None` also for a check that the probe does not have.
pub(super) fn probe(path: &str) -> Option<Probe> {
    let path = path.strip_prefix('/')?;
    let (name, check) = match path.split_once('/') {
        Some((name, check)) => (name, Some(check)),
        None => (path, None),
    };
    let (name, checks) = match name {
        "livez" => ("livez", LIVEZ),
        "readyz" => ("readyz", READYZ),
        _ => return None,
    };
    let only = match check {
        None => None,
        Some(check) => Some(*checks.iter().find(|known| **known == check)?),
    };
    Some(Probe { name, checks, only })
}

pub(super) async fn health(server: &EtcdServer, metrics: &Metrics, query: &str) -> Page {
    let excluded: Vec<Cow<'_, str>> = values(query, "exclude").collect();
    // As in Go, the first of several values counts.
    let serializable = values(query, "serializable").next();
    let serializable = serializable.is_some_and(|value| value == "true");
    let reason = unhealthy(server, &excluded, serializable).await;
    let body = |healthy: bool, reason: &str| {
        let reason = serde_json::to_string(reason).unwrap_or_default();
        format!("{{\"health\":\"{healthy}\",\"reason\":{reason}}}")
    };
    match reason {
        None => {
            metrics.health_success.inc();
            tracing::debug!("status-code" = 200, "/health OK");
            page(StatusCode::OK, TEXT, body(true, ""))
        }
        Some(reason) => {
            metrics.health_failures.inc();
            let body = body(false, &reason);
            tracing::warn!(output = body, "status-code" = 503, "/health error");
            text(StatusCode::SERVICE_UNAVAILABLE, body)
        }
    }
}

async fn unhealthy(
    server: &EtcdServer,
    excluded: &[Cow<'_, str>],
    serializable: bool,
) -> Option<String> {
    let alarms = match server.alarms() {
        Ok(alarms) => alarms,
        Err(error) => return Some(format!("RANGE ERROR:{error}")),
    };
    for alarm in alarms {
        let name = AlarmType::try_from(alarm.alarm).map_or("UNKNOWN", |kind| kind.as_str_name());
        if !excluded.iter().any(|excluded| excluded == name) {
            let alarm = format!("memberID:{} alarm:{name} ", alarm.member_id);
            tracing::warn!(alarm, "serving /health false due to an alarm");
            return Some(format!("ALARM {name}"));
        }
    }
    if !serializable && !server.has_leader() {
        tracing::warn!("serving /health false; no leader");
        return Some("RAFT NO LEADER".into());
    }
    let error = read(server, serializable).await.err()?;
    tracing::warn!(error, "serving /health false; Range fails");
    Some(format!("RANGE ERROR:{error}"))
}

/// Logs a request whose method is not `GET`.
pub(super) fn log_refused(path: &str) {
    const CODE: u16 = StatusCode::METHOD_NOT_ALLOWED.as_u16();
    match path {
        "/health" => tracing::warn!("status-code" = CODE, "/health error"),
        _ => tracing::warn!(path, "status-code" = CODE, "Health request error"),
    }
}

/// Runs the checks of the page at `path`, all but those that the query excludes.
pub(super) async fn checks(
    server: &EtcdServer,
    metrics: &Metrics,
    (path, probe): (&str, Probe),
    query: &str,
) -> Page {
    let chosen = match probe.only {
        Some(check) => vec![check],
        None => chosen(probe.checks, query),
    };
    let (mut lines, mut failed) = (String::new(), false);
    for check in chosen {
        let error = run(server, check).await.err();
        metrics.health_check(probe.name, check, error.is_none());
        failed |= error.is_some();
        let _ = match error {
            None => writeln!(lines, "[+]{check} ok"),
            Some(error) => writeln!(lines, "[-]{check} failed: {error}"),
        };
    }
    if failed {
        tracing::error!(
            path,
            reason = lines,
            "status-code" = 503,
            "Health check error"
        );
        return text(StatusCode::SERVICE_UNAVAILABLE, lines);
    }
    tracing::debug!(path, reason = lines, "status-code" = 200, "Health check OK");
    match values(query, "verbose").next() {
        Some(_) => text(StatusCode::OK, format!("{lines}ok")),
        None => text(StatusCode::OK, "ok"),
    }
}

/// The checks that the query does not exclude. Logs what it excludes in vain.
fn chosen(checks: &[&'static str], query: &str) -> Vec<&'static str> {
    let mut excluded: Vec<Cow<'_, str>> = values(query, "exclude").collect();
    let chosen = checks.iter().copied();
    let chosen = chosen.filter(|check| !excluded.iter().any(|excluded| excluded == check));
    let chosen: Vec<&'static str> = chosen.collect();
    excluded.retain(|name| !name.is_empty() && !checks.iter().any(|check| name == check));
    excluded.sort();
    excluded.dedup();
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
        tracing::warn!(
            "missing-health-checks" = names.join(","),
            "some health checks cannot be excluded"
        );
    }
    chosen
}

async fn run(server: &EtcdServer, check: &str) -> Result<(), String> {
    match check {
        "serializable_read" => read(server, true).await,
        "linearizable_read" => read(server, false).await,
        "data_corruption" => {
            let corrupt = AlarmType::Corrupt as i32;
            let alarms = server.alarms().map_err(|error| error.to_string())?;
            if alarms.iter().any(|alarm| alarm.alarm == corrupt) {
                Err("alarm activated: CORRUPT".into())
            } else {
                Ok(())
            }
        }
        "non_learner" if server.is_learner() => Err("not supported for learner".into()),
        _ => Ok(()),
    }
}

/// Reads one key, as etcd's own checks do.
async fn read(server: &EtcdServer, serializable: bool) -> Result<(), String> {
    if !serializable {
        server
            .linearizable()
            .await
            .map_err(|error| error.to_string())?;
    }
    let view = server.view();
    let range = KeyRange::from_wire(b"\0", b"");
    view.count(range, 0)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// Values of a parameter in a query. A parameter without `=` has an empty value.
fn values<'a>(query: &'a str, name: &'a str) -> impl Iterator<Item = Cow<'a, str>> {
    let decoded = |text: &'a str| percent_decode_str(text).decode_utf8_lossy();
    query
        .split('&')
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .filter(move |(key, _)| decoded(key) == name)
        .map(move |(_, value)| decoded(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_probes_and_checks() {
        let named = |path: &str| probe(path).map(|probe| (probe.name, probe.only));
        assert_eq!(named("/livez"), Some(("livez", None)));
        assert_eq!(named("/readyz"), Some(("readyz", None)));
        assert_eq!(
            named("/readyz/linearizable_read"),
            Some(("readyz", Some("linearizable_read")))
        );
        // Of the other probe, of none, and what is no path.
        for path in [
            "/livez/linearizable_read",
            "/readyz/x",
            "/readyz/",
            "/livezz",
            "/",
            "",
            "*",
        ] {
            assert_eq!(named(path), None, "{path}");
        }
    }

    #[test]
    fn parameters_may_repeat_be_escaped_and_lack_a_value() {
        let query = "exclude=NOSPACE&serializable=true&e%78clude=CORRUP%54&verbose&exclude=";
        let of = |name| values(query, name).collect::<Vec<_>>();
        assert_eq!(of("exclude"), ["NOSPACE", "CORRUPT", ""]);
        assert_eq!(of("serializable"), ["true"]);
        assert_eq!(of("verbose"), [""]);
        assert_eq!(of("x"), [""; 0]);
    }

    #[test]
    fn what_a_query_excludes_is_not_checked() {
        let of = |query| chosen(READYZ, query);
        assert_eq!(of(""), READYZ);
        assert_eq!(of("exclude=&exclude=x&verbose"), READYZ);
        assert_eq!(
            of("exclude=non_learner&exclude=serializable%5Fread&exclude=non_learner"),
            ["data_corruption", "linearizable_read"]
        );
    }
}
