//! The events of a watch as bytes: an object or an error in a frame of JSON or protobuf.

use bytes::{BufMut, Bytes, BytesMut};
use machinery::protobuf;
use machinery::status::Status;

use crate::http::answer::reply;
use crate::http::media::Encoding;
use crate::storage::change::Change;
use crate::storage::decoded::to_json;

/// One event around an encoded object.
pub(super) fn frame_of(verb: &str, body: &[u8], encoding: Encoding) -> Bytes {
    match encoding {
        Encoding::Json | Encoding::Yaml => json_frame(verb, body),
        Encoding::Protobuf => protobuf::watch_frame(verb, body).into(),
    }
}

pub(super) fn json_frame(verb: &str, object: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(object.len() + 32);
    frame.put_slice(b"{\"type\":\"");
    frame.put_slice(verb.as_bytes());
    frame.put_slice(b"\",\"object\":");
    frame.put_slice(object);
    frame.put_slice(b"}\n");
    frame.freeze()
}

/// An event with an error, which ends a watch.
pub(crate) fn error_frame(status: &Status, encoding: Encoding) -> Bytes {
    let object = status.to_object();
    match (encoding, reply::encode(&object, encoding)) {
        (Encoding::Protobuf, Ok(body)) => protobuf::watch_frame("ERROR", &body).into(),
        _ => json_frame("ERROR", &to_json(&object)),
    }
}

pub(super) fn verb(change: &Change) -> &'static str {
    match (change.deleted, &change.before) {
        (true, _) => "DELETED",
        (false, Some(_)) => "MODIFIED",
        (false, None) => "ADDED",
    }
}
