//! Reads JSON bodies the way Kubernetes does: by the table, dropping what the kind does not have,
//! and telling what was dropped or written twice.

use serde_json::Value;

use crate::schema::Message;

/// A body that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The object, with only the fields its kind has and nothing that is null or empty by `omitempty`.
    pub object: Value,
    /// What `fieldValidation` is about, each such as `unknown field "spec.foo"`.
    pub problems: Vec<String>,
}

/// A body that could not be read; the text Go's decoder gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Reads any JSON, with the paths of keys that were written twice (the last one wins).
pub fn parse(_body: &[u8]) -> Result<(Value, Vec<String>), Error> {
    unimplemented!()
}

/// Reads a body as this message.
pub fn decode(_body: &[u8], _message: &'static Message) -> Result<Decoded, Error> {
    unimplemented!()
}

/// Brings a value into the form its message has: checks types, drops unknown fields and empty
/// ones.
pub fn conform(_value: Value, _message: &'static Message) -> Result<Decoded, Error> {
    unimplemented!()
}

/// `strict decoding error: a, b`, as `fieldValidation=Strict` answers.
pub fn strict_error(problems: &[String]) -> String {
    format!("strict decoding error: {}", problems.join(", "))
}
