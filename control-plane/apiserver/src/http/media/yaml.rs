//! YAML in requests and responses: bodies are converted to JSON first, and responses are written in
//! YAML if the client asks. The parser's budget bounds the cost of a body, and what its aliases
//! make of it.

mod error;
mod scalar;
#[cfg(test)]
mod tests;

use serde_json::Value;
use serde_saphyr::Budget;
use serde_saphyr::options::{DuplicateKeyPolicy, Options};

/// Upper bound of the texts of a document, in bytes, with those that aliases repeat. Without them
/// it has no more than a body.
const TEXTS_BYTES_MAX: usize = 8 << 20;

/// Why a body cannot be parsed.
#[derive(Debug)]
pub(crate) enum Error {
    /// It is not YAML.
    Malformed(String),
    /// A key is duplicated, which `strict` forbids.
    Twice(String),
}

/// Parses a document; `None` if it is no YAML.
pub(crate) fn to_value(bytes: &[u8]) -> Option<Value> {
    serde_json::from_slice(&to_json(bytes, false).ok()?).ok()
}

/// Converts a body to JSON. The last of duplicated keys counts, unless `strict`. What comes after the
/// first document is not looked at, as in Go.
pub(crate) fn to_json(bytes: &[u8], strict: bool) -> Result<Vec<u8>, Error> {
    let text = std::str::from_utf8(bytes)
        .map_err(|_| Error::Malformed("invalid leading UTF-8 octet".to_owned()))?;
    let read = |duplicate_keys| {
        let options = || {
            let mut options = Options::default();
            options.duplicate_keys = duplicate_keys;
            options.with_snippet = false;
            let mut budget = Budget::default();
            budget.max_total_scalar_bytes = TEXTS_BYTES_MAX;
            options.budget = Some(budget);
            options
        };
        let whole = serde_saphyr::from_str_with_options::<Value>(text, options());
        whole.or_else(|error| {
            let mut reader = bytes;
            let mut documents = serde_saphyr::read_with_options(&mut reader, options());
            let first = documents.next().and_then(Result::ok);
            first.ok_or(error)
        })
    };
    let value = read(DuplicateKeyPolicy::LastWins);
    let value = value.map_err(|why| Error::Malformed(error::in_go(text, &why.to_string())))?;
    if strict && let Err(error) = read(DuplicateKeyPolicy::Error) {
        return Err(Error::Twice(twice(error.without_snippet())));
    }
    Ok(value.to_string().into_bytes())
}

/// Go's message for a duplicated key.
fn twice(error: &serde_saphyr::Error) -> String {
    match error {
        serde_saphyr::Error::DuplicateMappingKey {
            key: Some(key),
            location,
        } => format!(
            "unmarshal errors:\n  line {}: key {key:?} already set in map",
            location.line()
        ),
        other => other.to_string(),
    }
}

/// Writes a value as YAML, in the layout of Go's encoder.
pub(crate) fn write(value: &Value) -> String {
    let mut out = String::new();
    block(&mut out, value, 0, 2);
    out
}

/// Writes an item of a list that is a field of a document.
pub(crate) fn write_item(out: &mut String, value: &Value) {
    out.push_str("- ");
    block(out, value, 2, 2);
}

/// Writes a value at the start of a line. `inner` is the indent of folded lines of a text.
fn block(out: &mut String, value: &Value, indent: usize, inner: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (at, (key, value)) in map.iter().enumerate() {
                if at > 0 {
                    margin(out, indent);
                }
                scalar::key(out, key);
                out.push(':');
                below(out, value, indent);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (at, value) in list.iter().enumerate() {
                if at > 0 {
                    margin(out, indent);
                }
                out.push_str("- ");
                block(out, value, indent + 2, indent + 2);
            }
        }
        Value::String(text) => scalar::value(out, text, inner),
        value => {
            out.push_str(&value.to_string());
            out.push('\n');
        }
    }
}

/// Writes the value of a key. Lists have the indent of the key.
fn below(out: &mut String, value: &Value, indent: usize) {
    let inner = indent + 2;
    let indent = match value {
        Value::Object(map) if !map.is_empty() => inner,
        Value::Array(list) if !list.is_empty() => indent,
        value => {
            out.push(' ');
            return block(out, value, indent, inner);
        }
    };
    out.push('\n');
    margin(out, indent);
    block(out, value, indent, inner);
}

fn margin(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}
