//! The probes `/healthz`, `/livez` and `/readyz`, and each of their checks by itself. Checks have the
//! names of those in Kubernetes, as far as something here corresponds to them.

#[cfg(test)]
mod tests;

use std::time::Duration;

use axum::body::Body;
use http::request::Parts;
use http::{Response, StatusCode};

use crate::basics::steps::Step;
use crate::http::answer::reply;
use crate::http::api::{Api, Core};
use crate::http::limits::StoreAnswer;
use crate::http::question::request::Query;

/// What the names of [`HOOKS`] begin with.
const HOOK: &str = "poststarthook/";

/// Checks of all probes that come before [`HOOKS`].
const FIRST: [(&str, Check); 3] = [
    ("ping", Check::Answers),
    ("log", Check::Answers),
    (
        "etcd",
        Check::Store(|core| (core.store_checks.health, &core.store_answers.health)),
    ),
];
/// Further ones of `/readyz`, before and after those of the plugins for encryption.
const STORE_IS_READY: (&str, Check) = (
    "etcd-readiness",
    Check::Store(|core| (core.store_checks.readiness, &core.store_answers.readiness)),
);
const CACHES_ARE_READY: (&str, Check) = ("informer-sync", Check::Start(Step::Caches));
/// What a server does after its start.
const HOOKS: [(&str, Step); 21] = [
    ("generic-apiserver-start-informers", Step::Caches),
    ("priority-and-fairness-config-consumer", Step::Caches),
    ("start-apiextensions-informers", Step::Caches),
    ("start-apiextensions-controllers", Step::Definitions),
    ("crd-informer-synced", Step::Definitions),
    ("start-system-namespaces-controller", Step::Namespaces),
    (
        "start-cluster-authentication-info-controller",
        Step::Authorities,
    ),
    ("storage-readiness", Step::Caches),
    (
        "start-legacy-token-tracking-controller",
        Step::TokensRecorded,
    ),
    ("start-service-ip-repair-controllers", Step::Addresses),
    ("rbac/bootstrap-roles", Step::Roles),
    (
        "scheduling/bootstrap-system-priority-classes",
        Step::PriorityClasses,
    ),
    ("priority-and-fairness-config-producer", Step::FlowControl),
    ("bootstrap-controller", Step::OwnService),
    (
        "start-kubernetes-service-cidr-controller",
        Step::ServiceRange,
    ),
    ("start-kube-aggregator-informers", Step::Caches),
    (
        "apiservice-status-local-available-controller",
        Step::Registration,
    ),
    (
        "apiservice-status-remote-available-controller",
        Step::Aggregation,
    ),
    ("apiservice-registration-controller", Step::Aggregation),
    ("apiservice-discovery-controller", Step::Aggregation),
    ("kube-apiserver-autoregistration", Step::Registration),
];
/// The check of all probes that comes after [`HOOKS`].
const LAST: (&str, Check) = ("autoregister-completion", Check::Start(Step::Registration));
/// The last check of `/readyz`.
const LAST_OF_READY: (&str, Check) = ("shutdown", Check::Stays);

/// What a check looks at.
#[derive(Clone, Copy)]
enum Check {
    /// Always passes: the server answers.
    Answers,
    /// The store answers within a time, or has just done so.
    Store(fn(&Core) -> (Duration, &StoreAnswer)),
    /// All plugins for encryption work, or this one.
    Kms(Option<usize>),
    /// A part of the start is done.
    Start(Step),
    /// The server is not about to stop.
    Stays,
}

/// The names of the probes.
pub(super) const PROBES: [&str; 3] = ["healthz", "livez", "readyz"];

/// Answers `/PROBE` or `/PROBE/CHECK`; `None` if there is no such check.
pub(super) async fn answer(api: &Api, parts: &Parts, words: &[&str]) -> Option<Response<Body>> {
    let (probe, check) = words.split_first()?;
    let all = checks(api, probe);
    if check.is_empty() {
        return Some(whole(api, parts, probe, &all).await);
    }
    let name = check.join("/");
    let (_, check) = all.into_iter().find(|(known, _)| *known == name)?;
    Some(match passes(api, check).await {
        Ok(()) => reply::text(StatusCode::OK, "ok"),
        Err(why) => {
            let why = format!("internal server error: {why}\n");
            reply::text(StatusCode::INTERNAL_SERVER_ERROR, why)
        }
    })
}

/// The paths of the probes and of their checks.
pub(super) fn paths(api: &Api) -> Vec<String> {
    let of_probe = |probe: &&str| {
        let checks = checks(api, probe).into_iter();
        let mut paths: Vec<String> = checks.map(|(name, _)| format!("/{probe}/{name}")).collect();
        paths.push(format!("/{probe}"));
        paths
    };
    PROBES.iter().flat_map(of_probe).collect()
}

/// The checks of a probe, in their order.
fn checks(api: &Api, probe: &str) -> Vec<(String, Check)> {
    let is_ready = probe == "readyz";
    let named = |(name, check): (&str, Check)| (name.to_owned(), check);
    let mut all: Vec<_> = FIRST.into_iter().map(named).collect();
    all.extend(is_ready.then_some(STORE_IS_READY).map(named));
    // A restart mends no plugin, so these do not say whether the server is alive.
    if probe != "livez" {
        all.extend(of_plugins(api));
    }
    all.extend(is_ready.then_some(CACHES_ARE_READY).map(named));
    let hooks = HOOKS.iter();
    all.extend(hooks.map(|(name, step)| (format!("{HOOK}{name}"), Check::Start(*step))));
    let last = [LAST].into_iter().chain(is_ready.then_some(LAST_OF_READY));
    all.extend(last.map(named));
    all
}

/// The checks of the plugins for encryption: one for all of them if plugins may come and go with a
/// configuration that is read again, otherwise one for each.
fn of_plugins(api: &Api) -> Vec<(String, Check)> {
    let at_rest = api.reader().store.at_rest();
    if at_rest.is_read_again() {
        return vec![("kms-providers".into(), Check::Kms(None))];
    }
    let all = 0..at_rest.plugins_health().len();
    all.map(|at| (format!("kms-provider-{at}"), Check::Kms(Some(at))))
        .collect()
}

/// Runs all checks that the query does not exclude.
async fn whole(
    api: &Api,
    parts: &Parts,
    probe: &str,
    checks: &[(String, Check)],
) -> Response<Body> {
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let mut excluded: Vec<&str> = query.all("exclude").collect();
    let (mut text, mut failed) = (String::new(), false);
    for (name, check) in checks {
        if excluded.contains(&name.as_str()) {
            excluded.retain(|one| one != name);
            text += &format!("[+]{name} excluded: ok\n");
        } else if let Err(why) = passes(api, *check).await {
            tracing::debug!(
                probe,
                check = name,
                why,
                "a check of the server's health fails"
            );
            failed = true;
            text += &format!("[-]{name} failed: reason withheld\n");
        } else {
            text += &format!("[+]{name} ok\n");
        }
    }
    if !excluded.is_empty() {
        let names: Vec<String> = excluded.iter().map(|one| format!("{one:?}")).collect();
        let names = names.join(",");
        text += &format!("warn: some health checks cannot be excluded: no matches for {names}\n");
    }
    if failed {
        let text = format!("{text}{probe} check failed\n");
        return reply::text(StatusCode::INTERNAL_SERVER_ERROR, text);
    }
    if query.given("verbose").is_none() {
        return reply::text(StatusCode::OK, "ok");
    }
    reply::text(StatusCode::OK, format!("{text}{probe} check passed\n"))
}

/// Runs a check; the error says what is wrong.
async fn passes(api: &Api, check: Check) -> Result<(), String> {
    let reader = api.reader();
    match check {
        Check::Answers => Ok(()),
        Check::Store(which) => {
            let (within, last) = which(&api.0);
            let ask = async {
                let asked = tokio::time::timeout(within, reader.store.revision()).await;
                let failed = |why: &str| format!("error getting data from etcd: {why}");
                let answered = asked.map_err(|_| failed("context deadline exceeded"))?;
                answered.map(drop).map_err(|error| failed(&error.message))
            };
            last.or_ask(ask).await
        }
        Check::Kms(which) => {
            let all = reader.store.at_rest().plugins_health().into_iter();
            let (first, count) = which.map_or((0, usize::MAX), |at| (at, 1));
            all.skip(first).take(count).collect()
        }
        Check::Start(step) if api.0.registry.steps.has(step) => Ok(()),
        Check::Start(_) => Err("not finished".into()),
        Check::Stays if *api.0.stopping.borrow() => Err("process is shutting down".into()),
        Check::Stays => Ok(()),
    }
}
