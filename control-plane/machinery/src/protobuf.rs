//! Encodes and decodes `application/vnd.kubernetes.protobuf`, for every kind of the table.
//!
//! A body is `k8s\0` and a `runtime.Unknown`: the apiVersion and kind, then the bytes of that
//! message. A decoded object looks as if Go had decoded it and written JSON, except that nulls are
//! left out; an encoded object is byte for byte what Go writes. Decoding is bounded in depth and in
//! the number of messages, so a small body cannot become a large object.

mod canonical;
mod decode;
mod encode;
pub mod splice;
#[cfg(test)]
mod tests;
mod wire;

use serde_json::Value;

pub use wire::{put_bytes, put_fixed64, put_number};

use crate::object;
use crate::schema::{self, Message};

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The media type of a watch stream.
pub const WATCH_MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";
/// The first bytes of each body.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// The reason why bytes or an object could not be decoded or encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl Error {
    fn new(text: impl Into<String>) -> Error {
        Error(text.into())
    }
}

/// Decodes a body with its envelope; the envelope names the kind.
pub fn decode(body: &[u8]) -> Result<Value, Error> {
    let envelope = wire::Envelope::read(body)?;
    decode::Decoder::new().named(&envelope)
}

/// Reads the apiVersion and kind in a body's envelope; both may be empty.
pub fn decode_type(body: &[u8]) -> Result<(String, String), Error> {
    let envelope = wire::Envelope::read(body)?;
    Ok((envelope.api_version.to_owned(), envelope.kind.to_owned()))
}

/// Decodes a body with its envelope as this message; the kind in the envelope is ignored.
pub fn decode_as(body: &[u8], message: &'static Message) -> Result<Value, Error> {
    let envelope = wire::Envelope::read(body)?;
    decode::Decoder::new().enveloped(&envelope, message)
}

/// Decodes the bytes of a message without an envelope.
pub fn decode_message(bytes: &[u8], message: &'static Message) -> Result<Value, Error> {
    decode::Decoder::new().message(message, bytes)
}

/// Encodes an object with the envelope; the object names its kind.
pub fn encode(object: &Value) -> Result<Vec<u8>, Error> {
    let (api_version, kind) = (object::api_version(object), object::kind(object));
    let (group, version) = schema::split_api_version(api_version);
    let message = schema::body(group, version, kind)
        .ok_or_else(|| Error::new(format!("no protobuf form of {kind:?} in {api_version:?}")))?;
    encode_as(object, message)
}

/// Encodes an object with the envelope as this message; the object may be without an apiVersion.
pub fn encode_as(object: &Value, message: &'static Message) -> Result<Vec<u8>, Error> {
    let raw = encode_message(object, message)?;
    let envelope = wire::Envelope {
        api_version: object::api_version(object),
        kind: object::kind(object),
        raw: &raw,
    };
    Ok(envelope.write())
}

/// Encodes a message without an envelope.
pub fn encode_message(object: &Value, message: &'static Message) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    encode::message(message, object, &mut out, 0)?;
    Ok(out)
}

/// Encodes one watch event: its length, then the event around the encoded object.
pub fn watch_frame(event: &str, encoded: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(encoded.len() + 8);
    wire::put_bytes(&mut raw, 1, encoded);
    let mut frame = vec![0; 4];
    wire::put_bytes(&mut frame, 1, event.as_bytes());
    wire::put_bytes(&mut frame, 2, &raw);
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}
