//! `application/vnd.kubernetes.protobuf`, both ways, for every kind of the table.

use serde_json::Value;

use crate::schema::Message;

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// The media type of a watch.
pub const WATCH_MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";
/// What each body begins with.
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// Why bytes or an object could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Reads a body with its envelope; the kind is the one the envelope names.
pub fn decode(_body: &[u8]) -> Result<Value, Error> {
    unimplemented!()
}

/// Reads the apiVersion and kind a body's envelope names.
pub fn decode_type(_body: &[u8]) -> Result<(String, String), Error> {
    unimplemented!()
}

/// Reads a body with its envelope as this message, whatever the envelope names.
pub fn decode_as(_body: &[u8], _message: &'static Message) -> Result<Value, Error> {
    unimplemented!()
}

/// Writes an object, its kind as the object says, with the envelope.
pub fn encode(_object: &Value) -> Result<Vec<u8>, Error> {
    unimplemented!()
}

/// Writes one event of a watch: its length, then the event around the encoded object.
pub fn watch_frame(_event: &str, _encoded: &[u8]) -> Vec<u8> {
    unimplemented!()
}
