//! What a webhook answered, and what it means if it is no review.

#[cfg(test)]
mod tests;

use machinery::object;
use serde_json::Value;

/// Reads an answer; the error is what Kubernetes' client makes of it.
pub(crate) fn read(code: u16, bytes: &[u8]) -> Result<Value, String> {
    let value: Result<Value, _> = serde_json::from_slice(bytes);
    if let Ok(status) = &value
        && object::kind(status) == "Status"
        && object::text(status, &["status"]) != "Success"
    {
        return Err(object::text(status, &["message"]).to_owned());
    }
    if (200..=206).contains(&code) {
        return value
            .map_err(|error| format!("couldn't get version/kind; json parse error: {error}"));
    }
    Err(meaning(code, &String::from_utf8_lossy(bytes)))
}

/// The words of Kubernetes' client for an answer of another code.
fn meaning(code: u16, body: &str) -> String {
    let body = body.trim();
    match code {
        400 => "the server rejected our request for an unknown reason".into(),
        401 => "the server has asked for the client to provide credentials".into(),
        403 => "forbidden".into(),
        404 => "the server could not find the requested resource".into(),
        405 => "the server does not allow this method on the requested resource".into(),
        406 => {
            "the server was unable to respond with a content type that the client supports".into()
        }
        409 => "the server reported a conflict".into(),
        415 => "the server was unable to process the request with its content type".into(),
        422 => "the server rejected our request due to an error in our request".into(),
        429 => {
            "the server has received too many requests and has asked us to try again later".into()
        }
        503 => "the server is currently unable to handle the request".into(),
        504 => "the server was unable to return a response in the time allotted, but may still be \
                processing the request"
            .into(),
        500.. => {
            format!("an error on the server ({body:?}) has prevented the request from succeeding")
        }
        _ => format!(
            "the server responded with the status code {code} but did not return more information"
        ),
    }
}
