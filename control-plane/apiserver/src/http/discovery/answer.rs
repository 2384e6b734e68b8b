//! Answers to requests for discovery, in the form that the client accepts.

use std::sync::Arc;

use axum::body::Body;
use http::header::{CACHE_CONTROL, ETAG, HOST, IF_NONE_MATCH, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use machinery::status::Status;
use serde::Serialize;

use super::documents::{internal, written};
use super::latest::{Document, Latest};
use super::remote;
use crate::http::aggregation::Aggregator;
use crate::http::answer::reply;
use crate::http::media::{self, Accept, Encoding};
use crate::registry::{Registry, strategy};
use crate::resources::catalogue::Catalogue;

/// What follows the encoding in the media type of the new form.
const NEW_FORM: &str = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// What discovery is about, and what is kept of it.
pub(crate) struct Sources<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) aggregator: &'a Aggregator,
    pub(crate) catalogue: &'a Arc<Catalogue>,
    pub(crate) latest: &'a Latest,
}

/// Answers a request for a path below `/api` or `/apis`; `None` if there is no such path.
pub(crate) fn answer(
    sources: &Sources<'_>,
    parts: &Parts,
    words: &[&str],
) -> Result<Option<Response<Body>>, Status> {
    let Sources {
        registry,
        aggregator,
        catalogue,
        latest,
    } = *sources;
    let headers = &parts.headers;
    let remotes = || aggregator.all(&registry.reader);
    let response = match *words {
        ["api"] => match media::aggregated(headers) {
            Some(encoding) => {
                let latest = latest.core(catalogue)?;
                aggregated(headers, encoding, &latest)
            }
            None => document(headers, &super::core_versions(&address(registry, parts))),
        },
        ["apis"] => match media::aggregated(headers) {
            Some(encoding) => {
                let latest = latest.named(catalogue, remotes())?;
                aggregated(headers, encoding, &latest)
            }
            None => {
                let mut list = super::groups(catalogue);
                remote::add_groups(&mut list, catalogue, &remotes());
                document(headers, &list)
            }
        },
        ["apis", name] => {
            let ours = super::group(catalogue, name);
            match remote::with_versions(ours, name, catalogue, &remotes()) {
                Some(group) => document(headers, &group),
                None => return Ok(None),
            }
        }
        ["api", version] if catalogue.serves_version("", version) => {
            document(headers, &super::resources(catalogue, "", version))
        }
        ["apis", group, version] if catalogue.serves_version(group, version) => {
            document(headers, &super::resources(catalogue, group, version))
        }
        ["api", _] => Err(Status::unknown_path()),
        ["apis", group, _] if is_builtin(group) => Err(Status::unknown_path()),
        _ => return Ok(None),
    };
    response.map(Some)
}

/// True if this server has kinds of a group, whatever is defined beside them.
fn is_builtin(group: &str) -> bool {
    strategy::builtin()
        .iter()
        .any(|one| one.kind.group() == group)
}

/// A document of the old form.
fn document(headers: &HeaderMap, document: &impl Serialize) -> Result<Response<Body>, Status> {
    let encoding = Accept::negotiate(headers, false)?.encoding;
    let body = written(document, encoding)?;
    Ok(reply::bytes(StatusCode::OK, encoding.media_type(), body))
}

/// A document of the new form. Clients keep it as long as its ETag stays the same.
fn aggregated(
    headers: &HeaderMap,
    encoding: Encoding,
    document: &Document,
) -> Result<Response<Body>, Status> {
    let media_type = format!("{}{NEW_FORM}", encoding.media_type());
    let media_type = HeaderValue::from_str(&media_type).map_err(internal)?;
    let is_known = headers.get(IF_NONE_MATCH) == Some(&document.tag);
    let mut response = if is_known {
        reply::with_body(StatusCode::NOT_MODIFIED, media_type, Body::empty())
    } else {
        let body = Body::from(document.encoded(encoding)?);
        reply::with_body(StatusCode::OK, media_type, body)
    };
    let answered = response.headers_mut();
    answered.insert(ETAG, document.tag.clone());
    answered.insert(VARY, HeaderValue::from_static("Accept"));
    answered.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    Ok(response)
}

/// The advertised address. A server without one shows the address that the client used.
fn address(registry: &Registry, parts: &Parts) -> String {
    if let Some(advertised) = registry.settings.advertised {
        return advertised.to_string();
    }
    let host = || parts.headers.get(HOST)?.to_str().ok();
    let authority = parts.uri.authority().map(|authority| authority.as_str());
    authority.or_else(host).unwrap_or_default().to_owned()
}
