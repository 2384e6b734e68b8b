//! Reads JSON bodies the way Kubernetes does: by the table, dropping what the kind does not have,
//! and telling what was dropped or written twice.
//!
//! It is one pass over the text, in its order, because the order of the complaints is part of the
//! answer. Nesting is bounded by serde_json (128).

mod read;
#[cfg(test)]
mod tests;

use serde::de::DeserializeSeed;
use serde_json::Value;

use crate::schema::Message;
use crate::zero;
use read::{Context, Place, Seed};

/// The most problems that are told of one body.
const PROBLEMS_MAX: usize = 100;

/// Go looks for the type of a body before anything else, and tells so of what is no JSON.
const NO_TYPE: &str = "couldn't get version/kind; json parse error: ";

/// A body that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The object, with only the fields its kind has, in the form Go would write them but that
    /// nulls are left out.
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

/// Reads any JSON, with what was written twice (the last one wins).
pub fn parse(body: &[u8]) -> Result<(Value, Vec<String>), Error> {
    // A type is what nobody looks for here.
    let decoded =
        from_text(body, Place::Any).map_err(|Error(text)| match text.strip_prefix(NO_TYPE) {
            Some(rest) => Error(rest.to_owned()),
            None => Error(text),
        })?;
    Ok((decoded.object, decoded.problems))
}

/// What Go's decoder calls a value of this sort.
pub fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Reads a body as this message.
pub fn decode(body: &[u8], message: &'static Message) -> Result<Decoded, Error> {
    from_text(body, Place::Message(message))
}

/// Brings a value into the form its message has: checks types, drops unknown fields, and writes
/// or leaves out empty ones as Go would.
pub fn conform(value: &Value, message: &'static Message) -> Result<Decoded, Error> {
    let context = Context::default();
    let seed = Seed {
        context: &context,
        place: Place::Message(message),
    };
    let result = seed.deserialize(value);
    finish(result, context, &[])
}

/// The same in the form that comes back from Go's store, which does not tell empty lists from
/// none.
pub fn as_stored(value: &Value, message: &'static Message) -> Result<Decoded, Error> {
    let mut decoded = conform(value, message)?;
    if let Value::Object(map) = &mut decoded.object {
        zero::forget_empty(message, map);
    }
    Ok(decoded)
}

/// `strict decoding error: a, b`, as `fieldValidation=Strict` answers.
pub fn strict_error(problems: &[String]) -> String {
    format!("strict decoding error: {}", problems.join(", "))
}

fn from_text(body: &[u8], place: Place) -> Result<Decoded, Error> {
    let context = Context::default();
    let mut text = serde_json::Deserializer::from_slice(body);
    let seed = Seed {
        context: &context,
        place,
    };
    let result = seed.deserialize(&mut text);
    let result = result.and_then(|object| text.end().map(|()| object));
    finish(result, context, body)
}

/// `body` is the text that was read, if it was one.
fn finish(
    result: Result<Value, serde_json::Error>,
    context: Context,
    body: &[u8],
) -> Result<Decoded, Error> {
    let (problems, failure) = context.finish();
    match (result, failure) {
        (_, Some(text)) => Err(Error(text)),
        (Ok(object), None) => Ok(Decoded { object, problems }),
        (Err(error), None) => {
            let text = error.to_string();
            let text = match error.is_eof() {
                true => "unexpected end of JSON input".to_owned(),
                false if text.starts_with("trailing characters") => {
                    format!(
                        "invalid character {} after top-level value",
                        at(body, &error)
                    )
                }
                false => text,
            };
            Err(Error(format!("{NO_TYPE}{text}")))
        }
    }
}

/// The letter an error points to, in Go's quotes.
fn at(body: &[u8], error: &serde_json::Error) -> String {
    let line = body
        .split(|byte| *byte == b'\n')
        .nth(error.line().saturating_sub(1));
    let byte = line.and_then(|line| line.get(error.column().saturating_sub(1)));
    format!("{:?}", char::from(byte.copied().unwrap_or_default()))
}
