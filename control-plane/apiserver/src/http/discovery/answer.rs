//! Answers to requests for discovery, in the form that the client accepts.

use aws_lc_rs::digest::{SHA512, digest};
use axum::body::Body;
use bytes::Bytes;
use data_encoding::HEXUPPER;
use http::header::{CACHE_CONTROL, ETAG, HOST, IF_NONE_MATCH, VARY};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use machinery::status::Status;
use machinery::{object, protobuf, schema};
use serde::Serialize;

use super::documents::AllGroups;
use super::remote;
use crate::http::answer::reply;
use crate::http::api::Api;
use crate::http::media::{self, Accept, Encoding};
use crate::registry::strategy;
use crate::resources::catalogue::Catalogue;

/// What follows the encoding in the media type of the new form.
const NEW_FORM: &str = ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers a request for a path below `/api` or `/apis`; `None` if there is no such path.
pub(crate) fn answer(
    api: &Api,
    parts: &Parts,
    catalogue: &Catalogue,
    words: &[&str],
) -> Result<Option<Response<Body>>, Status> {
    let headers = &parts.headers;
    let remotes = || api.0.aggregator.all(api.reader());
    let response = match *words {
        ["api"] => match media::aggregated(headers) {
            Some(encoding) => aggregated(headers, encoding, &super::aggregated(catalogue, true)),
            None => document(headers, &super::core_versions(&address(api, parts))),
        },
        ["apis"] => match media::aggregated(headers) {
            Some(encoding) => {
                let mut list = super::aggregated(catalogue, false);
                remote::add_aggregated(&mut list, &remotes());
                aggregated(headers, encoding, &list)
            }
            None => {
                let mut list = super::groups(catalogue);
                remote::add_groups(&mut list, &remotes());
                document(headers, &list)
            }
        },
        ["apis", name] => {
            let ours = super::group(catalogue, name);
            match remote::with_versions(ours, name, &remotes()) {
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
    list: &AllGroups,
) -> Result<Response<Body>, Status> {
    let tag = tag(list)?;
    let media_type = format!("{}{NEW_FORM}", encoding.media_type());
    let media_type = HeaderValue::from_str(&media_type).map_err(internal)?;
    let is_known = headers.get(IF_NONE_MATCH) == Some(&tag);
    let mut response = if is_known {
        reply::with_body(StatusCode::NOT_MODIFIED, media_type, Body::empty())
    } else {
        let mut body = Vec::from(written(list, encoding)?);
        if encoding == Encoding::Json {
            body.push(b'\n');
        }
        reply::with_body(StatusCode::OK, media_type, Body::from(body))
    };
    let answered = response.headers_mut();
    answered.insert(ETAG, tag);
    answered.insert(VARY, HeaderValue::from_static("Accept"));
    answered.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    Ok(response)
}

/// The same in all encodings, as Kubernetes': a hash of the JSON text without its type.
fn tag(list: &AllGroups) -> Result<HeaderValue, Status> {
    let text = serde_json::to_vec(&list.content).map_err(internal)?;
    let hash = digest(&SHA512, &text);
    let digits = HEXUPPER.encode(hash.as_ref());
    HeaderValue::from_str(&format!("\"{digits}\"")).map_err(internal)
}

/// The text of a document. JSON keeps the order of the fields.
fn written(document: &impl Serialize, encoding: Encoding) -> Result<Bytes, Status> {
    if encoding == Encoding::Json {
        return Ok(serde_json::to_vec(document).map_err(internal)?.into());
    }
    let value = serde_json::to_value(document).map_err(internal)?;
    if encoding == Encoding::Yaml {
        return reply::encode(&value, encoding);
    }
    let version = match object::api_version(&value) {
        "" => "v1",
        version => version,
    };
    let (group, version) = schema::split_api_version(version);
    let message = schema::body(group, version, object::kind(&value));
    let message =
        message.ok_or_else(|| internal("a document of discovery has no protobuf form"))?;
    Ok(protobuf::encode_as(&value, message)
        .map_err(internal)?
        .into())
}

fn internal(error: impl std::fmt::Display) -> Status {
    Status::internal(&error.to_string())
}

/// The advertised address. A server without one shows the address that the client used.
fn address(api: &Api, parts: &Parts) -> String {
    if let Some(advertised) = api.0.registry.settings.advertised {
        return advertised.to_string();
    }
    let host = || parts.headers.get(HOST)?.to_str().ok();
    let authority = parts.uri.authority().map(|authority| authority.as_str());
    authority.or_else(host).unwrap_or_default().to_owned()
}
