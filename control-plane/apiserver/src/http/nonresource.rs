//! Paths that are not objects: health, version, discovery, OpenAPI, and the public keys of tokens.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, ETAG, EXPIRES, IF_NONE_MATCH, LOCATION, VARY};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};
use machinery::status::Status;
use serde::Serialize;
use serde_json::{Value, json};

use crate::auth;
use crate::basics::{clock, reloads};
use crate::flow::FlowControl;
use crate::http::answer::reply;
use crate::http::api::Api;
use crate::http::discovery::{self, remote};
use crate::http::health;
use crate::http::media::{self, JSON};
use crate::http::metrics as request_metrics;
use crate::http::openapi;
use crate::http::openapi::v2::Sources;
use crate::http::question::request::{self, Query};
use crate::registry::strategy;
use crate::resources::catalogue::Catalogue;
use crate::storage::at_rest;

/// The first words of paths that have no further slash at either end.
const EXACT: [&str; 7] = [
    "debug", "healthz", "livez", "metrics", "openapi", "readyz", "openid",
];

/// What Kubernetes says of a path that it may serve a moment later.
const NOT_YET: &str =
    "the request has been made before all known HTTP paths have been installed, please try again";
/// How many seconds later it may be asked for again, as in Kubernetes.
const NOT_YET_RETRY_SECONDS: u32 = 5;

/// How long clients may keep an OpenAPI document that they asked for by its hash, as in Kubernetes.
const KEPT_FOR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The Kubernetes release of this API.
const MINOR: &str = "36";
const RELEASE: &str = "v1.36.3";

/// Answers a request for a path. Before the custom resources are known, the answer to what is not
/// there is that it may come: a client that is told that a path is not served takes its objects for
/// gone, and deletes what they own. `all_known` is from before the request was routed.
pub(crate) async fn answer(
    api: &Api,
    parts: &Parts,
    segments: &[String],
    all_known: bool,
) -> Result<Response<Body>, Status> {
    let found = find(api, parts, segments).await?;
    if found.status() == StatusCode::NOT_FOUND && !all_known {
        let mut not_yet = Status::unavailable(NOT_YET);
        not_yet.details.retry_after_seconds = NOT_YET_RETRY_SECONDS;
        return Err(not_yet);
    }
    Ok(found)
}

/// What is at a path; a response that says so if there is nothing.
async fn find(api: &Api, parts: &Parts, segments: &[String]) -> Result<Response<Body>, Status> {
    // Authorization was about this path, not about that of a probe or of the metrics.
    let mut first = segments.iter().take(1);
    let is_exact = first.any(|word| EXACT.contains(&word.as_str()));
    let path = request::decoded(parts.uri.path()).unwrap_or_default();
    if is_exact && path.strip_prefix('/') != Some(segments.join("/").as_str()) {
        return Ok(nowhere());
    }
    let catalogue = &api.reader().reflector.catalogue();
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    if parts.method != Method::GET && is_route(api, catalogue, parts.uri.path(), &words) {
        return Err(Status::method_not_allowed());
    }
    let found = match words.as_slice() {
        [] => return reply::indented(&paths(api, catalogue)),
        ["version"] => {
            media::check_only(&parts.headers, JSON)?;
            return reply::indented(&Version::this());
        }
        [probe, ..] if health::PROBES.contains(probe) => {
            let found = health::answer(api, parts, &words).await;
            return Ok(found.unwrap_or_else(nowhere));
        }
        ["metrics"] => return Ok(reply::text(StatusCode::OK, metrics(api))),
        ["debug", "api_priority_and_fairness", "dump_priority_levels"] => {
            let dump = api.0.flow.as_ref().map(FlowControl::dump_levels);
            return Ok(dump.map_or_else(nowhere, |dump| reply::text(StatusCode::OK, dump)));
        }
        ["api" | "apis", ..] => {
            let sources = discovery::Sources {
                registry: &api.0.registry,
                aggregator: &api.0.aggregator,
                catalogue,
                latest: &api.0.discovery,
            };
            let found = discovery::answer(&sources, parts, &words)?;
            return Ok(found.unwrap_or_else(nowhere));
        }
        ["openapi", "v2"] => return old_document(api, parts, catalogue).await,
        ["openapi", "v3"] => {
            let mut index = openapi::index(&*api.0.custom_documents.made(catalogue).await?);
            remote::add_documents(&mut index, &api.0.aggregator.all(api.reader()));
            index
        }
        ["openapi", "v3", path @ ..] => {
            let custom = api.0.custom_documents.made(catalogue).await?;
            let converted = converted(api, path);
            let path = path.join("/");
            let found = openapi::document(&custom, &path).or(converted.as_ref());
            return Ok(schema(parts, &path, found));
        }
        _ => match published_keys(api, parts.uri.path()) {
            Some(document) => document,
            None => return Ok(nowhere()),
        },
    };
    Ok(reply::value(StatusCode::OK, &found))
}

/// The OpenAPI v2 document, with those of aggregated servers.
async fn old_document(
    api: &Api,
    parts: &Parts,
    catalogue: &Arc<Catalogue>,
) -> Result<Response<Body>, Status> {
    let others = api.0.aggregator.all(api.reader()).into_iter();
    let sources = Sources {
        catalogue: Arc::clone(catalogue),
        foreign: others.filter_map(|one| one.old_document).collect(),
    };
    let document = &api.0.old_document;
    document.answer(parts.headers.clone(), sources).await
}

/// The document of an aggregated server that has only one of v2.
fn converted(api: &Api, path: &[&str]) -> Option<openapi::Document> {
    let aggregator = &api.0.aggregator;
    match *path {
        ["apis", group, version] => aggregator.converted(api.reader(), group, version),
        _ => None,
    }
}

/// True for a path that Kubernetes routes by method. It answers the other paths here to any method.
fn is_route(api: &Api, catalogue: &Catalogue, path: &str, words: &[&str]) -> bool {
    match *words {
        ["version"] | ["api"] => true,
        ["api", version] => catalogue.serves_version("", version),
        ["apis", group, version] => {
            let mut builtin = strategy::builtin().iter();
            builtin.any(|one| (one.kind.group(), one.kind.version()) == (group, version))
        }
        _ => published_keys(api, path).is_some(),
    }
}

/// The documents that publish the keys of tokens.
fn published_keys(api: &Api, path: &str) -> Option<Value> {
    api.0.registry.issuer.as_ref()?.document(path)
}

fn nowhere() -> Response<Body> {
    reply::text(StatusCode::NOT_FOUND, "404 page not found\n")
}

/// The document at a path. Its hash is in the index, so clients keep it as long as it stays the
/// same: those that ask by another hash are sent to this one.
fn schema(parts: &Parts, path: &str, found: Option<&openapi::Document>) -> Response<Body> {
    let Some(document) = found else {
        return nowhere();
    };
    let names = media::accepted_names(&parts.headers);
    let takes_json = |name: &&str| [JSON, "*/*", "application/*"].contains(name);
    if !names.is_empty() && !names.iter().any(takes_json) {
        return reply::text(StatusCode::NOT_ACCEPTABLE, "");
    }
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let hash = query.given("hash").filter(|hash| !hash.is_empty());
    let tag = format!("\"{}\"", document.hash);
    let known = parts.headers.get(IF_NONE_MATCH);
    let mut added = vec![
        (ETAG, tag.clone()),
        (VARY, "Accept-Encoding, Accept".to_owned()),
    ];
    let mut response = match hash {
        Some(hash) if hash != document.hash => {
            added.push((LOCATION, openapi::url(path, document)));
            reply::verbatim(StatusCode::MOVED_PERMANENTLY, JSON, Bytes::new())
        }
        _ if known.is_some_and(|known| known == tag.as_str()) => {
            reply::verbatim(StatusCode::NOT_MODIFIED, JSON, Bytes::new())
        }
        _ => document.text.answer(&parts.headers, JSON),
    };
    if hash == Some(document.hash.as_str()) {
        added.push((CACHE_CONTROL, "public, immutable".to_owned()));
        added.push((EXPIRES, clock::now().plus(KEPT_FOR).to_http()));
    }
    for (name, value) in added {
        if let Ok(value) = HeaderValue::try_from(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// The requests in progress, flow control and the audit log, under Kubernetes' names.
fn metrics(api: &Api) -> String {
    let (reads, writes) = api.0.slots.busy();
    let watchers = api.reader().reflector.watchers();
    let metrics = [
        ("apiserver_registered_watchers", "", watchers),
        (
            "apiserver_current_inflight_requests",
            "{request_kind=\"readOnly\"}",
            reads,
        ),
        (
            "apiserver_current_inflight_requests",
            "{request_kind=\"mutating\"}",
            writes,
        ),
    ];
    let mut told = "";
    let mut text = String::new();
    for (name, labels, value) in metrics {
        if name != told {
            text.push_str(&format!("# TYPE {name} gauge\n"));
            told = name;
        }
        text.push_str(&format!("{name}{labels} {value}\n"));
    }
    let families = auth::metrics::ALL.iter().chain(&at_rest::metrics::ALL);
    let families = families.chain(&request_metrics::ALL);
    families.for_each(|family| family.write(&mut text));
    let reloads = reloads::ALL.iter();
    reloads.for_each(|one| one.write(&mut text));
    if let Some(flow) = &api.0.flow {
        text.push_str(&flow.metrics());
    }
    if let Some(audit) = &api.0.audit {
        text.push_str(&audit.metrics());
    }
    if let Some(faults) = &api.0.faults {
        text.push_str(&faults.metrics());
    }
    text
}

/// What `GET /version` shows, in Kubernetes' order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    major: &'static str,
    minor: &'static str,
    emulation_major: &'static str,
    emulation_minor: &'static str,
    min_compatibility_major: &'static str,
    min_compatibility_minor: &'static str,
    git_version: String,
    git_commit: &'static str,
    git_tree_state: &'static str,
    build_date: &'static str,
    go_version: &'static str,
    compiler: &'static str,
    platform: String,
}

impl Version {
    fn this() -> Version {
        let arch = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Version {
            major: "1",
            minor: MINOR,
            emulation_major: "1",
            emulation_minor: MINOR,
            min_compatibility_major: "1",
            min_compatibility_minor: "35",
            git_version: format!("{RELEASE}+stele"),
            git_commit: "",
            git_tree_state: "clean",
            build_date: "1970-01-01T00:00:00Z",
            go_version: "",
            compiler: "rustc",
            platform: format!("{}/{arch}", std::env::consts::OS),
        }
    }
}

fn paths(api: &Api, catalogue: &Catalogue) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".into(), "/apis".into()];
    for (group, versions) in discovery::versions_by_group(catalogue) {
        if group.is_empty() {
            continue;
        }
        paths.push(format!("/apis/{group}"));
        paths.extend(
            versions
                .iter()
                .map(|version| format!("/apis/{group}/{version}")),
        );
    }
    let others = ["/metrics", "/openapi/v2", "/openapi/v3", "/version"];
    paths.extend(others.map(str::to_owned));
    paths.extend(health::paths(api));
    paths.sort();
    json!({ "paths": paths })
}
