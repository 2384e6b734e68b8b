//! The formats of texts and numbers in schemas.

use std::fmt;

use serde_json::Value;

use super::Kind;
use crate::values::text_format::{self, Accepts};

/// A format that is checked.
#[derive(Clone)]
pub(in crate::custom::structural) struct Format {
    /// The name as the schema has it.
    name: String,
    /// `None` for a format of numbers.
    accepts: Option<Accepts>,
}

impl Format {
    pub(in crate::custom::structural) fn name(&self) -> &str {
        &self.name
    }

    pub(in crate::custom::structural) fn is_of_text(&self) -> bool {
        self.accepts.is_some()
    }

    /// Whether a text has the format.
    pub(in crate::custom::structural) fn accepts(&self, text: &str) -> bool {
        self.accepts.is_none_or(|accepts| accepts(text))
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The format with this name for values of a type; `None` if it is ignored.
pub(in crate::custom::structural) fn find(name: &str, kind: Option<Kind>) -> Option<Format> {
    let format = |accepts| Format {
        name: name.to_owned(),
        accepts,
    };
    match kind {
        None | Some(Kind::String | Kind::IntOrString) => {
            text_format::find(name).map(|accepts| format(Some(accepts)))
        }
        Some(Kind::Integer) => matches!(name, "int32" | "int64").then(|| format(None)),
        Some(Kind::Number) => matches!(name, "float" | "double").then(|| format(None)),
        Some(Kind::Object | Kind::Array | Kind::Boolean) => None,
    }
}

/// The formats in a document that are ignored.
pub(in crate::custom::structural) fn unrecognized(
    schema: &Value,
    depth: usize,
    found: &mut Vec<String>,
) {
    let text = |keyword: &str| {
        schema
            .get(keyword)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (name, kind) = (text("format"), text("type"));
    let known = match Kind::read(kind) {
        None if !kind.is_empty() => false,
        kind => find(name, kind).is_some(),
    };
    if !name.is_empty() && !known {
        found.push(name.to_owned());
    }
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    let single = ["items", "not", "additionalProperties", "additionalItems"].into_iter();
    let lists = ["allOf", "anyOf", "oneOf"].into_iter();
    let maps = ["properties", "patternProperties", "definitions"].into_iter();
    let single = single.filter_map(|keyword| schema.get(keyword));
    let lists = lists.filter_map(|keyword| schema.get(keyword)?.as_array());
    let maps = maps.filter_map(|keyword| schema.get(keyword)?.as_object());
    let below = single
        .chain(lists.flatten())
        .chain(maps.flat_map(|map| map.values()));
    for schema in below.filter(|schema| schema.is_object()) {
        unrecognized(schema, depth, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_formats_are_found_wherever_they_are() {
        let mut found = Vec::new();
        let schema = serde_json::json!({
            "type": "object", "format": "a",
            "properties": {
                "b": {"type": "string", "format": "date"},
                "c": {"type": "array", "items": {"type": "integer", "format": "date"}},
                "d": {"anyOf": [{"format": "e"}]},
            },
        });
        unrecognized(&schema, 8, &mut found);
        assert_eq!(found, ["a", "date", "e"]);
    }

    #[test]
    fn other_formats_are_ignored() {
        let known = |name, kind| find(name, kind).is_some();
        assert!(known("date", None) && known("int32", Some(Kind::Integer)));
        assert!(known("double", Some(Kind::Number)) && known("ipv4", Some(Kind::IntOrString)));
        assert!(!known("int32", Some(Kind::String)) && !known("date", Some(Kind::Integer)));
        assert!(!known("binary", Some(Kind::String)) && !known("date", Some(Kind::Object)));
    }
}
