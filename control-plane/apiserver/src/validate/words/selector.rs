//! The selectors of workloads: printed as in Go, and immutable.

use machinery::status::Cause;
use machinery::{name, object};
use serde_json::Value;

/// True if it has no conditions.
pub(crate) fn is_empty(selector: &Value) -> bool {
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    labels.is_none_or(|labels| labels.is_empty())
        && object::items(selector, &["matchExpressions"]).is_empty()
}

/// True if one of its conditions has a value that no label can have. Terms of node selectors are
/// alike.
pub(crate) fn has_wrong_values(selector: &Value) -> bool {
    let conditions = object::items(selector, &["matchExpressions"]).iter();
    let mut values = conditions.flat_map(|one| object::items(one, &["values"]));
    values.any(|value| !name::label_value(value.as_str().unwrap_or_default()).is_empty())
}

/// The same of a selector in the old state of an object.
pub(crate) fn had_wrong_values(old: Option<&Value>, path: &[&str]) -> bool {
    let selector = old.and_then(|old| object::at(old, path));
    selector.is_some_and(has_wrong_values)
}

/// A selector in the order of Go's fields.
pub(crate) fn shown(selector: Option<&Value>) -> String {
    let Some(selector) = selector else {
        return "null".into();
    };
    let parts = ["matchLabels", "matchExpressions"].into_iter();
    let parts = parts.filter_map(|key| Some(format!("{key:?}:{}", selector.get(key)?)));
    format!("{{{}}}", parts.collect::<Vec<_>>().join(","))
}

/// The selector of an object must not change.
pub(crate) fn unchanged(old: &Value, new: &Value) -> Option<Cause> {
    let path = ["spec", "selector"];
    let (before, after) = (object::at(old, &path), object::at(new, &path));
    (before != after)
        .then(|| Cause::invalid_shown("spec.selector", &shown(after), "field is immutable"))
}
