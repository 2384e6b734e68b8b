//! The three patches: JSON patch, merge patch and strategic merge patch.

use serde_json::Value;

use crate::schema::Message;

/// Why a patch does not apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The patch itself is malformed: 400.
    Malformed(String),
    /// It is well-formed but does not fit the object: 422.
    Unprocessable(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Malformed(text) | Error::Unprocessable(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

/// Applies a list of operations (RFC 6902).
pub fn json(_object: &Value, _patch: &Value) -> Result<Value, Error> {
    unimplemented!()
}

/// Lays a document over the object; null takes away (RFC 7386).
pub fn merge(_object: &Value, _patch: &Value) -> Value {
    unimplemented!()
}

/// Applies a strategic merge patch to an object of this message.
pub fn strategic(
    _object: &Value,
    _patch: &Value,
    _message: &'static Message,
) -> Result<Value, Error> {
    unimplemented!()
}
