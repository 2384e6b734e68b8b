//! What requests count, under Kubernetes' names.

use std::time::Duration;

use axum::body::Body;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Response, StatusCode};
use http_body::Body as _;
use tokio::time::Instant;

use crate::auth::Attributes;
use crate::basics::metrics::Family;
use crate::http::question::request::{Info, Query};

const APPLY: &str = "application/apply-patch";
const COMPONENT: &str = "apiserver";
/// Subresources whose requests are connections.
const CONNECTIONS: [&str; 4] = ["attach", "exec", "portforward", "proxy"];

/// What most families tell requests apart by.
const LABELS: [&str; 7] = [
    "verb",
    "group",
    "version",
    "resource",
    "subresource",
    "scope",
    "component",
];

/// Connections that made room for others.
pub(crate) static ENDED: Family = Family::counter(
    "stele_apiserver_ended_connections_total",
    "Connections ended because there were too many, by what they were doing.",
    &["doing"],
);

static REQUESTS: Family = Family::counter(
    "apiserver_request_total",
    "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, \
     version, resource, scope, component, and HTTP response code.",
    &[
        "verb",
        "dry_run",
        "group",
        "version",
        "resource",
        "subresource",
        "scope",
        "component",
        "code",
    ],
);
static SECONDS: Family = Family::histogram(
    "apiserver_request_duration_seconds",
    "[STABLE] Response latency distribution in seconds for each verb, dry run value, group, \
     version, resource, subresource, scope and component.",
    &[
        "verb",
        "dry_run",
        "group",
        "version",
        "resource",
        "subresource",
        "scope",
        "component",
    ],
    &[
        0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0,
        10.0, 15.0, 20.0, 30.0, 45.0, 60.0,
    ],
);
static OWN_SECONDS: Family = Family::histogram(
    "apiserver_request_sli_duration_seconds",
    "[ALPHA] Response latency distribution (not counting webhook duration and priority & fairness \
     queue wait times) in seconds for each verb, group, version, resource, subresource, scope and \
     component.",
    &LABELS,
    &[
        0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
        20.0, 30.0, 45.0, 60.0,
    ],
);
static SIZES: Family = Family::histogram(
    "apiserver_response_sizes",
    "[STABLE] Response size distribution in bytes for each group, version, verb, resource, \
     subresource, scope and component.",
    &LABELS,
    &[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9],
);
static TERMINATIONS: Family = Family::counter(
    "apiserver_request_terminations_total",
    "[ALPHA] Number of requests which apiserver terminated in self-defense.",
    &[
        "verb",
        "group",
        "version",
        "resource",
        "subresource",
        "scope",
        "component",
        "code",
    ],
);

/// All families.
pub(crate) static ALL: [&Family; 6] = [
    &REQUESTS,
    &SECONDS,
    &OWN_SECONDS,
    &SIZES,
    &TERMINATIONS,
    &ENDED,
];

/// A request by its labels.
pub(crate) struct Counted {
    begin: Instant,
    verb: &'static str,
    dry_run: &'static str,
    group: String,
    version: String,
    resource: String,
    subresource: String,
    scope: &'static str,
    /// A handler got it: before that, only what the server refuses to protect itself counts.
    is_served: bool,
}

impl Counted {
    /// A request that has just been received.
    pub(crate) fn of(parts: &Parts, info: &Info, query: &Query) -> Counted {
        let asked = &info.attributes;
        let is_resource = info.is_resource();
        Counted {
            begin: Instant::now(),
            verb: verb(parts, asked),
            dry_run: if query.text("dryRun") == "All" {
                "All"
            } else {
                ""
            },
            group: asked.api_group.clone(),
            version: info.version.clone(),
            resource: asked.resource.clone(),
            subresource: if is_resource {
                asked.subresource.clone()
            } else {
                asked.path.clone()
            },
            scope: match asked {
                _ if !asked.name.is_empty() || asked.verb == "create" => "resource",
                _ if !asked.namespace.is_empty() => "namespace",
                _ if is_resource => "cluster",
                _ => "",
            },
            is_served: false,
        }
    }

    /// A handler gets the request.
    pub(crate) fn serve(&mut self) {
        self.is_served = true;
    }

    /// Counts the response. `waited` is what the request has waited for others than this server.
    pub(crate) fn end(&self, response: &Response<Body>, waited: Duration) {
        let (Counted { verb, scope, .. }, code) = (self, response.status());
        let place = [
            self.group.as_str(),
            &self.version,
            &self.resource,
            &self.subresource,
        ];
        let [group, version, resource, subresource] = place;
        let number = code.as_u16().to_string();
        let labels = [
            verb,
            group,
            version,
            resource,
            subresource,
            scope,
            COMPONENT,
        ];
        let refused = [StatusCode::TOO_MANY_REQUESTS, StatusCode::GATEWAY_TIMEOUT];
        if refused.contains(&code) {
            TERMINATIONS.count(&[&labels[..], &[&number]].concat());
        }
        // Anybody may ask for any path: those that are nowhere have no series.
        let is_nowhere = self.resource.is_empty() && code == StatusCode::NOT_FOUND;
        if !self.is_served || is_nowhere {
            return;
        }
        let dry_run = [&labels[..1], &[self.dry_run], &labels[1..]].concat();
        let took = self.begin.elapsed();
        REQUESTS.count(&[&dry_run[..], &[&number]].concat());
        SECONDS.took(&dry_run, took);
        // A watch ends when its client likes.
        if *verb != "WATCH" {
            OWN_SECONDS.took(&labels, took.saturating_sub(waited));
        }
        if ["GET", "LIST"].contains(verb)
            && let Some(size) = response.body().size_hint().exact()
        {
            SIZES.observe(&labels, size as f64);
        }
    }
}

/// The verb as metrics name it.
fn verb(parts: &Parts, asked: &Attributes) -> &'static str {
    if asked.is_resource() && CONNECTIONS.contains(&asked.subresource.as_str()) {
        return "CONNECT";
    }
    let is_apply = || {
        let media_type = parts.headers.get(CONTENT_TYPE);
        media_type.is_some_and(|value| value.as_bytes().starts_with(APPLY.as_bytes()))
    };
    match asked.verb.as_str() {
        "get" | "head" => "GET",
        "list" => "LIST",
        "watch" => "WATCH",
        "create" | "post" => "POST",
        "update" | "put" => "PUT",
        "patch" if is_apply() => "APPLY",
        "patch" => "PATCH",
        "delete" => "DELETE",
        "deletecollection" => "DELETECOLLECTION",
        "proxy" => "CONNECT",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_watches_nor_waits_count_as_this_servers_own_time() {
        let ended = |verb: &'static str| {
            let counted = Counted {
                begin: Instant::now(),
                verb,
                dry_run: "",
                group: String::new(),
                version: "v1".into(),
                resource: "tests".into(),
                subresource: String::new(),
                scope: "cluster",
                is_served: true,
            };
            // It has waited since before it began, so nothing is left.
            counted.end(&Response::new(Body::empty()), Duration::MAX);
        };
        ended("LIST");
        ended("WATCH");
        let mut text = String::new();
        OWN_SECONDS.write(&mut text);
        let mut lines = text.lines().filter(|line| line.contains("\"tests\""));
        assert!(lines.clone().all(|line| line.contains("verb=\"LIST\"")));
        let sum = lines.find(|line| line.contains("_sum{"));
        assert!(sum.is_some_and(|sum| sum.ends_with("} 0")), "{text}");
    }
}
