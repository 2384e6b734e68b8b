//! `/health`, `/livez` and `/readyz`.

use std::fmt::Write as _;

use etcd_api::etcdserverpb::AlarmType;
use http::StatusCode;
use storage::mvcc::KeyRange;

use crate::api::page::{Page, TEXT, not_found, page, text};
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

/// Resolves a path to a probe: its name, its checks, and the single check it asks for, if any.
pub(super) fn probe(path: &str) -> Option<(&'static str, &'static [&'static str], Option<&str>)> {
    let path = path.strip_prefix('/')?;
    let (name, check) = match path.split_once('/') {
        Some((name, check)) => (name, Some(check)),
        None => (path, None),
    };
    match name {
        "livez" => Some(("livez", LIVEZ, check)),
        "readyz" => Some(("readyz", READYZ, check)),
        _ => None,
    }
}

pub(super) async fn health(server: &EtcdServer, metrics: &Metrics, query: &str) -> Page {
    let excluded: Vec<&str> = values(query, "exclude").collect();
    let serializable = values(query, "serializable").any(|value| value == "true");
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

async fn unhealthy(server: &EtcdServer, excluded: &[&str], serializable: bool) -> Option<String> {
    let alarms = match server.alarms() {
        Ok(alarms) => alarms,
        Err(error) => return Some(format!("RANGE ERROR:{error}")),
    };
    for alarm in alarms {
        let name = AlarmType::try_from(alarm.alarm).map_or("UNKNOWN", |kind| kind.as_str_name());
        if !excluded.contains(&name) {
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

pub(super) async fn checks(
    server: &EtcdServer,
    metrics: &Metrics,
    path: &str,
    query: &str,
) -> Page {
    let Some((probe, all, asked)) = probe(path) else {
        return not_found();
    };
    let excluded: Vec<&str> = values(query, "exclude").collect();
    let chosen: Vec<&'static str> = match asked {
        Some(name) => all.iter().copied().filter(|check| *check == name).collect(),
        None => all
            .iter()
            .copied()
            .filter(|check| !excluded.contains(check))
            .collect(),
    };
    if asked.is_some() && chosen.is_empty() {
        return not_found();
    }
    let strange: Vec<String> = excluded
        .iter()
        .filter(|name| asked.is_none() && !name.is_empty() && !all.contains(name))
        .map(|name| format!("{name:?}"))
        .collect();
    if !strange.is_empty() {
        let names = strange.join(",");
        tracing::warn!(
            "missing-health-checks" = names,
            "some health checks cannot be excluded"
        );
    }
    let (mut lines, mut failed) = (String::new(), false);
    for check in chosen {
        let error = run(server, check).await.err();
        metrics.health_check(probe, check, error.is_none());
        failed |= error.is_some();
        let _ = match error {
            None => writeln!(lines, "[+]{check} ok"),
            Some(error) => writeln!(lines, "[-]{check} failed: {error}"),
        };
    }
    if failed {
        tracing::error!(
            path = format!("/{probe}"),
            reason = lines.trim_end(),
            "status-code" = 503,
            "Health check error"
        );
        return text(StatusCode::SERVICE_UNAVAILABLE, lines.trim_end());
    }
    let verbose = query
        .split('&')
        .any(|pair| pair == "verbose" || pair.starts_with("verbose="));
    let mut response = if verbose {
        text(StatusCode::OK, format!("{lines}ok"))
    } else {
        text(StatusCode::OK, "ok")
    };
    if !verbose {
        response.headers_mut().insert(
            "x-content-type-options",
            http::HeaderValue::from_static("nosniff"),
        );
    }
    response
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

/// Values of a parameter in a query. Names of checks and alarms need no decoding.
fn values<'a>(query: &'a str, name: &'a str) -> impl Iterator<Item = &'a str> {
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .filter_map(move |(key, value)| (key == name).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_probes_and_checks() {
        assert_eq!(probe("/livez"), Some(("livez", LIVEZ, None)));
        assert_eq!(probe("/readyz/x"), Some(("readyz", READYZ, Some("x"))));
        assert_eq!(probe("/livezz"), None);
        assert_eq!(probe("/"), None);
        assert_eq!(probe(""), None, "of a request of the method CONNECT");
        assert_eq!(probe("*"), None);
    }

    #[test]
    fn parameters_may_repeat() {
        let query = "exclude=NOSPACE&serializable=true&exclude=CORRUPT&verbose";
        assert_eq!(
            values(query, "exclude").collect::<Vec<_>>(),
            ["NOSPACE", "CORRUPT"]
        );
    }
}
