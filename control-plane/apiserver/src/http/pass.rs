//! Passes a request on to another server, and its answer back, without holding either.

#[cfg(test)]
mod tests;
pub(crate) mod tunnel;

use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use futures_util::{StreamExt as _, stream};
use http::header::{
    AUTHORIZATION, CONNECTION, EXPECT, HOST, HeaderName, LOCATION, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use machinery::object;
use machinery::status::Status;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use crate::auth::User;
use crate::auth::authenticate::front_proxy::FrontProxy;
use crate::auth::authenticate::web_socket;
use crate::http::aggregation::{self, Aggregator, name_user};
use crate::http::answer::reply;
use crate::http::api::Api;
use crate::http::question::request::{Query, Remote};
use tunnel::Tunnel;

/// Headers for one connection alone.
const OF_CONNECTION: [HeaderName; 8] = [
    CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    EXPECT,
];
/// The addresses that a request came by, the nearest last.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Beginnings of headers that say who a user is. Those of the client count for nothing.
const ABOUT_USERS: [&str; 2] = ["x-remote-", "impersonate-"];
/// Characters of a path segment that stand for themselves.
const IN_PATHS: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':');

/// Marks a response that another server gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed;

/// An APIService that a request is for.
pub(crate) struct Destination {
    service: Arc<Value>,
}

impl Destination {
    /// Finds where a request for this path is passed on to, if anywhere.
    pub(crate) fn of(api: &Api, method: &Method, segments: &[String]) -> Option<Destination> {
        let (group, version) = match &words(segments)[..] {
            ["apis", group, version, ..] => (*group, *version),
            // What another server serves, it also describes, if it can.
            ["openapi", "v3", "apis", group, version] if method == Method::GET => {
                let converted = api.0.aggregator.converted(api.reader(), group, version);
                if converted.is_some() {
                    return None;
                }
                (*group, *version)
            }
            _ => return None,
        };
        let service = Aggregator::service(api.reader(), group, version)?;
        Some(Destination { service })
    }

    /// Passes on a request that its user may send. It is authorized by the same path and
    /// parameters: both are written anew from what authorization saw, so that nobody can read them
    /// another way. The answer's body may take until `limit`, if there is one.
    pub(crate) async fn pass(
        self,
        api: &Api,
        (parts, segments, query): (&Parts, &[String], &Query),
        user: &User,
        body: Body,
        limit: Option<Duration>,
    ) -> Result<Response<Body>, Status> {
        let Some(service) = self.available(api).await? else {
            return Ok(unavailable("service unavailable"));
        };
        // Another server might read such a path as one that was not authorized.
        if segments.iter().any(|one| ["", ".", ".."].contains(&&**one)) {
            return Err(Status::bad_request("the path leads elsewhere"));
        }
        let mut request = Request::new(body);
        *request.method_mut() = parts.method.clone();
        let uri = target(segments, query);
        *request.uri_mut() = uri
            .parse()
            .map_err(|_| Status::bad_request("the path cannot be passed on"))?;
        let proxies = api.0.registry.settings.proxies.as_deref();
        *request.headers_mut() = headers(&parts.headers, user, proxies)?;
        if let Some(protocol) = parts.headers.get(UPGRADE) {
            ask_for(request.headers_mut(), protocol);
        }
        if let Some(Remote(client)) = parts.extensions.get() {
            add_forwarded(request.headers_mut(), *client)?;
        }
        let sent = api.0.aggregator.send(api.reader(), &service, request);
        match sent.await {
            Ok(answer) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => {
                Ok(switched(answer.map(Body::new)))
            }
            Ok(answer) => Ok(back(api, answer.map(Body::new), limit)),
            Err(why) => {
                let name = object::name(&service);
                tracing::warn!(name, why, "an aggregated server cannot be reached");
                Ok(unavailable(&format!(
                    "error trying to reach service: {why}"
                )))
            }
        }
    }

    /// The APIService if its server is there, and nothing if it is not.
    async fn available(self, api: &Api) -> Result<Option<Arc<Value>>, Status> {
        if aggregation::is_available(&self.service) {
            return Ok(Some(self.service));
        }
        // Whoever read in the store that it is there must not be told otherwise by an older cache.
        api.reader().fresh().await?;
        let text = |key: &str| object::text(&self.service, &["spec", key]);
        let newer = Aggregator::service(api.reader(), text("group"), text("version"));
        Ok(newer.filter(|service| aggregation::is_available(service)))
    }
}

fn words(segments: &[String]) -> Vec<&str> {
    segments.iter().map(String::as_str).collect()
}

/// The path and query to ask for.
fn target(segments: &[String], query: &Query) -> String {
    let mut target = String::new();
    for segment in segments {
        target.push('/');
        target.extend(utf8_percent_encode(segment, IN_PATHS));
    }
    let mut mark = '?';
    for (key, value) in query.pairs() {
        target.push(mark);
        target.extend(utf8_percent_encode(key, NON_ALPHANUMERIC));
        target.push('=');
        target.extend(utf8_percent_encode(value, NON_ALPHANUMERIC));
        mark = '&';
    }
    target
}

/// The headers to pass on: without those for this connection, and about this user alone. What the
/// headers of `proxies` say about users counts for other servers, too.
fn headers(
    given: &HeaderMap,
    user: &User,
    proxies: Option<&FrontProxy>,
) -> Result<HeaderMap, Status> {
    let mut headers = lasting(given);
    headers.remove(AUTHORIZATION);
    headers.remove(HOST);
    let about_users: Vec<HeaderName> = headers
        .keys()
        .filter(|name| {
            let name = name.as_str();
            ABOUT_USERS.iter().any(|one| name.starts_with(one))
                || proxies.is_some_and(|proxies| proxies.reads(name))
        })
        .cloned()
        .collect();
    for name in about_users {
        headers.remove(name);
    }
    name_user(&mut headers, user)?;
    Ok(headers)
}

/// Adds the address that a request came from behind those that it came by before.
fn add_forwarded(headers: &mut HeaderMap, client: IpAddr) -> Result<(), Status> {
    let mut all = Vec::new();
    for one in headers.get_all(FORWARDED_FOR) {
        all.extend_from_slice(one.as_bytes());
        all.extend_from_slice(b", ");
    }
    all.extend_from_slice(client.to_canonical().to_string().as_bytes());
    let all = HeaderValue::from_bytes(&all)
        .map_err(|_| Status::bad_request("the addresses in X-Forwarded-For fit into no header"))?;
    headers.insert(FORWARDED_FOR, all);
    Ok(())
}

/// Headers without those for one connection alone, and without those that `Connection` names.
fn lasting(given: &HeaderMap) -> HeaderMap {
    let mut headers = given.clone();
    for value in given.get_all(CONNECTION) {
        let names = value.to_str().unwrap_or_default().split(',');
        for name in names {
            if let Ok(name) = name.trim().parse::<HeaderName>() {
                headers.remove(name);
            }
        }
    }
    for name in OF_CONNECTION {
        headers.remove(name);
    }
    for name in ["keep-alive", "proxy-connection"] {
        headers.remove(name);
    }
    headers
}

/// Asks for another protocol. A token among the names of protocols is for this server alone.
fn ask_for(headers: &mut HeaderMap, protocol: &HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, protocol.clone());
    let names = web_socket::protocols(headers);
    headers.remove(SEC_WEBSOCKET_PROTOCOL);
    headers.extend(names.map(|names| (SEC_WEBSOCKET_PROTOCOL, names)));
}

/// The answer of a server that takes another protocol, with its end of the connection.
fn switched(mut answer: Response<Body>) -> Response<Body> {
    let other = hyper::upgrade::on(&mut answer);
    let mut response = Response::new(Body::empty());
    *response.status_mut() = answer.status();
    *response.headers_mut() = lasting(answer.headers());
    let head = response.headers_mut();
    head.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    if let Some(protocol) = answer.headers().get(UPGRADE) {
        head.insert(UPGRADE, protocol.clone());
    }
    response.extensions_mut().insert(Passed);
    response.extensions_mut().insert(Tunnel::new(other));
    response
}

/// The answer as the client gets it. It ends when this server stops, and after `limit`: with an
/// error if it has a limit, because it must not look whole then.
fn back(api: &Api, answer: Response<Body>, limit: Option<Duration>) -> Response<Body> {
    let (parts, body) = answer.into_parts();
    if parts.status.is_redirection() && parts.headers.contains_key(LOCATION) {
        let why = "the backend attempted to redirect this request, which is not permitted\n";
        return reply::text(StatusCode::BAD_GATEWAY, why);
    }
    let mut stopping = api.0.stopping.subscribe();
    let over = async move {
        tokio::select! {
            // An error means that the server is dropped, which is a stop too.
            _ = stopping.wait_for(|stop| *stop) => {}
            () = tokio::time::sleep(limit.unwrap_or_default()), if limit.is_some() => {}
        }
    };
    let pieces = (body.into_data_stream(), Box::pin(over));
    let pieces = stream::unfold(Some(pieces), move |pieces| async move {
        let (mut pieces, mut over) = pieces?;
        tokio::select! {
            piece = pieces.next() => {
                let piece = piece?;
                let rest = piece.is_ok().then_some((pieces, over));
                Some((piece, rest))
            }
            () = &mut over => {
                let late = axum::Error::new(std::io::Error::from(ErrorKind::TimedOut));
                limit.map(|_| (Err(late), None))
            }
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    *response.status_mut() = parts.status;
    *response.headers_mut() = lasting(&parts.headers);
    response.extensions_mut().insert(Passed);
    response
}

fn unavailable(why: &str) -> Response<Body> {
    reply::text(StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
}
