//! HTTP pages: how a text becomes a response.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use tonic::body;

pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

pub(crate) type Page = Response<body::Body>;

pub(crate) fn page(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Page {
    let mut response = Response::new(body::Body::new(Full::new(body.into())));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A page as Go's `http.Error` writes it: text, a newline, `nosniff`.
pub(crate) fn text(status: StatusCode, body: impl std::fmt::Display) -> Page {
    let mut response = page(status, TEXT, format!("{body}\n"));
    response.headers_mut().insert(
        "x-content-type-options",
        HeaderValue::from_static("nosniff"),
    );
    response
}

pub(crate) fn not_found() -> Page {
    text(StatusCode::NOT_FOUND, "404 page not found")
}

pub(crate) fn not_allowed() -> Page {
    let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    response
        .headers_mut()
        .insert(ALLOW, HeaderValue::from_static("GET"));
    response
}
