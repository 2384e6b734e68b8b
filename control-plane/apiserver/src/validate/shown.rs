//! Objects as Go shows its structs in errors: each field by its name in Go, in the order of its
//! declaration, those that are not given too. What lies deeper is shown as it was written.

use serde_json::Value;

/// A field: its name in Go, its name in JSON, and what is shown when it is not given.
pub(super) type Field = (&'static str, &'static str, &'static str);

pub(super) fn as_go(value: &Value, fields: &[Field]) -> String {
    let shown = fields.iter().map(|(go, key, zero)| match value.get(key) {
        Some(given) => format!("{go:?}:{given}"),
        None => format!("{go:?}:{zero}"),
    });
    format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
}
