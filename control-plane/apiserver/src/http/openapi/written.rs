//! Documents as text, written piece by piece: as values, they would take ten times the memory.

use std::io::Write as _;

use serde_json::Value;

/// Begins an object with these fields. It goes on with [`put_fields`] and ends with [`end`].
pub(super) fn begin(fields: &Value) -> Vec<u8> {
    let mut out = fields.to_string().into_bytes();
    // Without its last brace.
    out.pop();
    out
}

/// Adds a field with an object of these fields. The object before it is not empty.
pub(super) fn put_fields(
    out: &mut Vec<u8>,
    name: &str,
    fields: impl IntoIterator<Item = (String, Value)>,
) {
    // Writing into memory does not fail.
    let _ = write!(out, ",\"{name}\":{{");
    for (at, (key, value)) in fields.into_iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(out, "{comma}{}:{value}", Value::from(key));
    }
    out.push(b'}');
}

/// Ends an object.
pub(super) fn end(mut out: Vec<u8>) -> Vec<u8> {
    out.push(b'}');
    out
}
