//! Answers to a watch whose next changes are no longer remembered.

use axum::body::Body;
use http::{HeaderValue, Response, StatusCode};
use machinery::status::Status;

use super::frames::error_frame;
use crate::http::answer::reply;
use crate::http::answer::shown::Shown;
use crate::http::media::Encoding;
use crate::storage::change::Missed;
use crate::storage::reader::Reader;

/// The response to a watch that cannot begin where it was asked to.
pub(super) fn ended(
    missed: Missed,
    revision: i64,
    reader: &Reader,
    shown: &Shown,
) -> Result<Response<Body>, Status> {
    match missed {
        Missed::TooOld => Ok(too_old(revision, shown.accept.encoding)),
        // If the definition has only changed, the client begins anew.
        Missed::Closed => {
            reader.resource_of(&shown.resource.kind)?;
            Ok(too_old(revision, shown.accept.encoding))
        }
    }
}

/// A watch from a revision that is no longer remembered: one error, then the end.
pub(crate) fn too_old(revision: i64, encoding: Encoding) -> Response<Body> {
    let status = Status::expired(format!("too old resource version: {revision}"));
    let frame = error_frame(&status, encoding);
    let media_type = HeaderValue::from_static(encoding.watch_media_type());
    reply::with_body(StatusCode::OK, media_type, Body::from(frame))
}

/// The error of a watcher that was too slow.
pub(crate) fn fell_behind() -> Status {
    Status::expired("The resourceVersion for the provided watch is too old.")
}
