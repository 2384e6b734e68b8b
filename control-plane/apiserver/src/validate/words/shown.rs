//! Objects as Go prints its structs in errors: each field with its Go name, in the order of
//! declaration, missing fields included. Values inside fields are printed as JSON.

use serde_json::Value;

/// A field: its name in Go, its name in JSON, and the text for a missing one.
pub(crate) type Field = (&'static str, &'static str, &'static str);

pub(crate) fn as_go(value: &Value, fields: &[Field]) -> String {
    let shown = fields.iter().map(|(go, key, zero)| match value.get(key) {
        Some(given) => format!("{go:?}:{given}"),
        None => format!("{go:?}:{zero}"),
    });
    format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
}

/// Texts as Go prints a list of them: each in quotes.
pub(crate) fn quoted(texts: &[&str]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", quoted.join(" "))
}
