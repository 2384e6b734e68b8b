//! Decodes JSON bodies the way Kubernetes does: driven by the table, dropping unknown fields, and
//! reporting unknown and duplicate fields.
//!
//! It is one pass over the text, in its order, because the order of the problems is part of the
//! response. serde_json bounds the nesting (128).

mod read;
#[cfg(test)]
mod tests;

use serde::de::DeserializeSeed;
use serde_json::Value;

use crate::schema::Message;
use crate::schema::zero;
use read::{Context, Expected, Seed};

/// Maximum number of problems reported for one body.
const PROBLEMS_MAX: usize = 100;

/// Go looks for the type of a body first, so its error for invalid JSON begins like this.
const NO_TYPE: &str = "couldn't get version/kind; json parse error: ";

/// A decoded body.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The object with only the fields of its kind, in the form Go would write them, but without
    /// nulls.
    pub object: Value,
    /// The problems that `fieldValidation` is about, each such as `unknown field "spec.foo"`.
    pub problems: Vec<String>,
}

/// Why a body could not be decoded, in the words of Go's decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error(pub String);

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Parses any JSON. Also returns the duplicate fields; the last one wins.
pub fn parse(body: &[u8]) -> Result<(Value, Vec<String>), Error> {
    // This caller does not look for a type, so that part of the message goes.
    let decoded =
        from_text(body, Expected::Any).map_err(|Error(text)| match text.strip_prefix(NO_TYPE) {
            Some(rest) => Error(rest.to_owned()),
            None => Error(text),
        })?;
    Ok((decoded.object, decoded.problems))
}

/// The name of this JSON type in Go's decoder.
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

/// Decodes a body as this message.
pub fn decode(body: &[u8], message: &'static Message) -> Result<Decoded, Error> {
    from_text(body, Expected::Message(message))
}

/// Converts a value to the form of its message: checks types, drops unknown fields, and adds or
/// drops empty ones as Go would.
pub fn prune(value: &Value, message: &'static Message) -> Result<Decoded, Error> {
    from_value(value, message, Context::default())
}

/// Like [`prune`], with errors as Go has them where it makes an object of a tree of values, after a
/// strategic merge and after an apply: a type that reads itself cannot tell where it is.
pub fn restore(value: &Value, message: &'static Message) -> Result<Decoded, Error> {
    from_value(value, message, Context::restoring())
}

/// Like [`prune`], in the form that Go's store returns: it does not distinguish an empty list
/// from a missing one.
pub fn as_stored(value: &Value, message: &'static Message) -> Result<Decoded, Error> {
    let mut decoded = prune(value, message)?;
    forget_empty(&mut decoded.object, message);
    Ok(decoded)
}

/// Removes empty lists and maps from an object of this message, as Go's store does.
pub fn forget_empty(object: &mut Value, message: &'static Message) {
    if let Value::Object(map) = object {
        zero::forget_empty(message, map);
    }
}

/// Removes from an object of this message the empty lists that Go tells from missing ones, but does
/// not write.
pub fn as_written(object: &mut Value, message: &'static Message) {
    if let Value::Object(map) = object {
        zero::forget_kept(message, map);
    }
}

/// Adds the nulls that Go writes for missing values of this message. Nobody reads them, but people
/// see them.
pub fn show_nulls(object: &mut Value, message: &'static Message) {
    if let Value::Object(map) = object {
        zero::show_nulls(message, map);
    }
}

/// `strict decoding error: a, b`, the error of `fieldValidation=Strict`.
pub fn strict_error(problems: &[String]) -> String {
    format!("strict decoding error: {}", problems.join(", "))
}

/// What `fieldValidation` says of fields at these paths.
pub fn unknown_fields(paths: &[String]) -> Vec<String> {
    let told = paths.iter().map(|path| format!("unknown field {path:?}"));
    told.collect()
}

fn from_text(body: &[u8], expected: Expected) -> Result<Decoded, Error> {
    let context = Context::default();
    let mut text = serde_json::Deserializer::from_slice(body);
    let seed = Seed {
        context: &context,
        expected,
    };
    let result = seed.deserialize(&mut text);
    let result = result.and_then(|object| text.end().map(|()| object));
    finish(result, context, body)
}

fn from_value(
    value: &Value,
    message: &'static Message,
    context: Context,
) -> Result<Decoded, Error> {
    let seed = Seed {
        context: &context,
        expected: Expected::Message(message),
    };
    let result = seed.deserialize(value);
    finish(result, context, &[])
}

/// `body` is the text that was decoded; empty if the input was a value.
fn finish(
    result: Result<Value, serde_json::Error>,
    context: Context,
    body: &[u8],
) -> Result<Decoded, Error> {
    let (problems, failure) = context.finish();
    match (result, failure) {
        (result, Some(failure)) => {
            let written = result.as_ref().err().and_then(|error| number(body, error));
            Err(Error(failure.told(written)))
        }
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

/// The number at the position of an error, as the text has it.
fn number<'b>(body: &'b [u8], error: &serde_json::Error) -> Option<&'b str> {
    let mut lines = body.split(|byte| *byte == b'\n');
    let line = lines.nth(error.line().checked_sub(1)?)?;
    let (before, after) = line.split_at_checked(error.column())?;
    let is_part = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
    let read = before.iter().rev().take_while(|byte| is_part(byte)).count();
    let rest = after.iter().take_while(|byte| is_part(byte)).count();
    let number = &line[before.len() - read..before.len() + rest];
    std::str::from_utf8(number)
        .ok()
        .filter(|text| !text.is_empty())
}

/// The character at the position of an error, in Go's quotes.
fn at(body: &[u8], error: &serde_json::Error) -> String {
    let line = body
        .split(|byte| *byte == b'\n')
        .nth(error.line().saturating_sub(1));
    let byte = line.and_then(|line| line.get(error.column().saturating_sub(1)));
    format!("{:?}", char::from(byte.copied().unwrap_or_default()))
}
