//! Reads what servers behind the apiserver may answer, such as metrics: up to a size, and with the
//! errors that Go's client makes of answers without a Status. Conditions and Events quote them.

use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use kube::client::Body;
use kube::core::response;
use machinery::object::{self, Object};
use machinery::status::Status;

/// Longest answer that is read. The metrics of one pod take about half a kilobyte.
const ANSWER_MAX: usize = 8 << 20;

/// Makes the request; `what` is what it is for.
pub(super) async fn read(
    kube: &kube::Client,
    request: Request<Vec<u8>>,
    what: &str,
) -> Result<Object, Status> {
    let answer = kube.send(request.map(Body::from)).await;
    let answer = answer.map_err(super::status)?;
    let code = answer.status();
    let body = Limited::new(answer.into_body(), ANSWER_MAX).collect().await;
    let body = body.map_err(|error| unreadable(what, &error.to_string()))?;
    let body = body.to_bytes();
    let read = serde_json::from_slice::<Object>(&body);
    if code.is_success() {
        return read.map_err(|error| unreadable(what, &error.to_string()));
    }
    let told = read.ok().filter(|one| object::kind(one) == "Status");
    let told = told.and_then(|one| serde_json::from_value::<response::Status>(one).ok());
    Err(match told {
        Some(status) => super::of_answer(&status),
        None => unexplained(code, what, &String::from_utf8_lossy(&body)),
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
