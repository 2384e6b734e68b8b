//! Reads what servers behind the apiserver may answer, such as metrics: up to a size, and with the
//! errors that Go's client makes of answers without a Status. Conditions and Events quote them.

use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use kube::core::response;
use machinery::object::{self, Object};
use machinery::status::Status;

/// Longest answer that is read. The metrics of one pod take about half a kilobyte.
const ANSWER_MAX: usize = 8 << 20;
/// How much of an answer without a Status an error quotes, as in Go's client.
const QUOTED_MAX: usize = 2048;
/// Longest message of an error: in Kubernetes, a condition has room for no more. What a server says
/// beyond that would make a status that the store does not take.
const MESSAGE_MAX: usize = 32 << 10;

/// Makes the request; `what` is what it is for.
pub(super) async fn read(
    kube: &kube::Client,
    request: Request<Vec<u8>>,
    what: &str,
) -> Result<Object, Status> {
    let answer = kube.send(request.map(Body::from)).await;
    let answer = answer.map_err(super::status)?;
    let (code, is_text) = (answer.status(), is_text(answer.headers()));
    let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await;
    let body = body.map_err(|error| unreadable(what, &error.to_string()))?;
    let body = body.to_bytes();
    let read = serde_json::from_slice::<Object>(&body);
    if code.is_success() {
        return read.map_err(|error| unreadable(what, &error.to_string()));
    }
    let told = read.ok().filter(|one| object::kind(one) == "Status");
    let told = told.and_then(|one| serde_json::from_value::<response::Status>(one).ok());
    let mut error = match told {
        Some(status) => super::of_answer(&status),
        None if is_text => {
            let quoted = &body[..body.len().min(QUOTED_MAX)];
            unexplained(code, what, &String::from_utf8_lossy(quoted))
        }
        None => unexplained(code, what, "unknown"),
    };
    let end = error.message.floor_char_boundary(MESSAGE_MAX);
    error.message.truncate(end);
    Err(error)
}

/// True if an answer is said to be text, or is not said to be anything.
fn is_text(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_none_or(|kind| {
        let beginning = kind.as_bytes().get(..5);
        beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(b"text/"))
    })
}

fn unreadable(what: &str, why: &str) -> Status {
    Status::unavailable(format!("the answer about {what} cannot be read: {why}"))
}

/// The error for an answer that is no Status, in the words of Go's client.
fn unexplained(code: StatusCode, what: &str, text: &str) -> Status {
    let text = text.trim();
    let (reason, message) = match code.as_u16() {
        400 => (
            "BadRequest",
            "the server rejected our request for an unknown reason",
        ),
        401 => (
            "Unauthorized",
            "the server has asked for the client to provide credentials",
        ),
        403 => ("Forbidden", text),
        404 => (
            "NotFound",
            "the server could not find the requested resource",
        ),
        405 => (
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => (
            "ServiceUnavailable",
            "the server is currently unable to handle the request",
        ),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be \
             processing the request",
        ),
        _ => ("", ""),
    };
    let message = match (message, code.is_server_error()) {
        ("", true) => {
            format!("an error on the server ({text:?}) has prevented the request from succeeding")
        }
        ("", false) => format!(
            "the server responded with the status code {} but did not return more information",
            code.as_u16()
        ),
        (message, _) => message.to_owned(),
    };
    Status::new(code.as_u16(), reason, format!("{message} (get {what})"))
}
