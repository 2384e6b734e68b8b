//! Access checks and path normalization for HTTP requests on a client port, before any page is
//! served.

use http::header::{HOST, HeaderMap, HeaderValue, LOCATION, ORIGIN};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Uri};
use tonic::body;

use super::HTML;
use crate::api::calls::caller::Caller;
use crate::api::page::{Page, page, text};
use crate::config::Config;
use crate::runtime::etcd_server::EtcdServer;

/// Path prefix of the gateway.
pub(super) const GATEWAY: &str = "/v3/";

/// Former path prefix of the gateway.
const GATEWAY_BETA: &str = "/v3beta/";

/// Rewrites the former prefix to the current one.
pub(super) fn rewrite<B>(request: &mut Request<B>) {
    let uri = request.uri();
    let Some(rest) = uri.path().strip_prefix(GATEWAY_BETA) else {
        return;
    };
    let path = with_query(format!("{GATEWAY}{rest}"), uri);
    let mut parts = uri.clone().into_parts();
    if let Ok(path) = PathAndQuery::try_from(path) {
        parts.path_and_query = Some(path);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
}

const NAMED: &str = "CommonName of client sending a request against gateway will be ignored and not \
     used as expected";

/// The response to a request that is refused.
pub(super) fn refused<B>(
    config: &Config,
    server: &EtcdServer,
    request: &Request<B>,
) -> Option<Page> {
    let caller = request.extensions().get::<Caller>();
    let Some(caller) = caller.filter(|caller| caller.tls) else {
        return unknown_host(config, request);
    };
    // Calls through the gateway act for the user of a token only. A client whose certificate names
    // a user would not act as that user, so it is refused.
    let name = caller.common_name.as_deref().unwrap_or_default();
    let misnamed = !name.is_empty()
        && config.enable_grpc_gateway
        && request.uri().path().starts_with(GATEWAY)
        && server.is_auth_enabled();
    misnamed.then(|| text(StatusCode::BAD_REQUEST, NAMED))
}

/// Checks `Host` on connections without TLS, where no certificate identifies the server. Protects
/// against DNS rebinding: a web page can make its own name resolve to this server.
fn unknown_host<B>(config: &Config, request: &Request<B>) -> Option<Page> {
    let allowed = &config.host_whitelist;
    let host = host(request);
    if allowed.is_empty() || allowed.iter().any(|name| name == "*" || name == host) {
        return None;
    }
    tracing::warn!(
        host,
        "rejecting HTTP request to prevent DNS rebinding attacks"
    );
    let body = format!(
        "
etcd received your request, but the Host header was unrecognized.

To fix this, choose one of the following options:
- Enable TLS, then any HTTPS request will be allowed.
- Add the hostname you want to use to the whitelist in settings.
  - e.g. etcd --host-whitelist {host:?}

This requirement has been added to help prevent \"DNS Rebinding\" attacks (CVE-2018-5702).
"
    );
    Some(text(StatusCode::MISDIRECTED_REQUEST, body))
}

/// The value of `Access-Control-Allow-Origin`: the request's origin if the flags allow it.
pub(super) fn origin(config: &Config, asked: &HeaderMap) -> Option<HeaderValue> {
    let allowed = &config.cors;
    if allowed.is_empty() || allowed.iter().any(|origin| origin == "*") {
        return Some(HeaderValue::from_static("*"));
    }
    let origin = asked.get(ORIGIN)?;
    allowed
        .iter()
        .any(|allowed| allowed == origin)
        .then(|| origin.clone())
}

pub(super) fn allow(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(
        "access-control-allow-methods",
        HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE"),
    );
    headers.insert("access-control-allow-origin", origin);
    headers.insert(
        "access-control-allow-headers",
        HeaderValue::from_static("accept, content-type, authorization"),
    );
}

/// As Go's mux does, redirects paths that are not clean, and the gateway's prefix without its
/// slash.
pub(super) fn moved<B>(request: &Request<B>, gateway: bool) -> Option<Page> {
    let uri = request.uri();
    let mut path = clean(uri.path());
    if gateway && path == GATEWAY.trim_end_matches('/') {
        path.push('/');
    }
    if path == uri.path() || request.method() == Method::CONNECT {
        return None;
    }
    let target = with_query(path, uri);
    let location = HeaderValue::from_str(&target).ok()?;
    let status = StatusCode::TEMPORARY_REDIRECT;
    let mut response = match *request.method() {
        Method::GET | Method::HEAD => {
            let target = target
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;")
                .replace('"', "&#34;")
                .replace('\'', "&#39;");
            page(
                status,
                HTML,
                format!("<a href=\"{target}\">Temporary Redirect</a>.\n\n"),
            )
        }
        _ => {
            let mut response = Response::new(body::Body::empty());
            *response.status_mut() = status;
            response
        }
    };
    response.headers_mut().insert(LOCATION, location);
    Some(response)
}

fn with_query(path: String, uri: &Uri) -> String {
    match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path,
    }
}

/// Removes `.`, `..` and empty segments from a path.
fn clean(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let mut cleaned = format!("/{}", segments.join("/"));
    if path.ends_with('/') && !segments.is_empty() {
        cleaned.push('/');
    }
    cleaned
}

/// The host that the request names, without its port.
fn host<B>(request: &Request<B>) -> &str {
    let header = request.headers().get(HOST);
    let header = header.and_then(|host| host.to_str().ok());
    let host = match request.uri().authority() {
        Some(authority) => authority.as_str(),
        None => header.unwrap_or_default(),
    };
    // If Go finds no port, the whole value is the host.
    match host.rsplit_once(':') {
        Some((name, _)) if name.starts_with('[') && name.ends_with(']') => &name[1..name.len() - 1],
        Some((name, _)) if !name.contains([':', '[', ']']) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_as_go_cleans_them() {
        for (path, want) in [
            ("/", "/"),
            ("//v3/kv/range", "/v3/kv/range"),
            ("/v3/kv/../kv/./range", "/v3/kv/range"),
            ("/v3//", "/v3/"),
            ("/../..", "/"),
            ("/health", "/health"),
        ] {
            assert_eq!(clean(path), want, "{path}");
        }
    }

    #[test]
    fn a_host_is_named_without_its_port() {
        for (header, want) in [
            ("localhost:2379", "localhost"),
            ("localhost", "localhost"),
            ("[::1]:2379", "::1"),
            ("[::1]", "[::1]"),
            ("::1", "::1"),
        ] {
            let request = Request::builder().header(HOST, header).body(()).unwrap();
            assert_eq!(host(&request), want, "{header}");
        }
    }
}
