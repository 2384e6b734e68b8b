//! Objects within objects have a type, and metadata that is valid.

use serde_json::{Map, Value};

use super::errors::shown;
use crate::custom::structural::causes::Causes;
use crate::custom::structural::node::Node;
use crate::custom::structural::path::Path;
use crate::custom::structural::walk::walk;
use crate::schema;
use crate::status::Cause;
use crate::strict;
use crate::values::name;

/// What is wrong with the types and the metadata of the objects within a value.
pub(in crate::custom::structural) fn check(
    node: &Node,
    value: &Value,
    at: &Path,
    causes: &mut Causes,
) {
    walk(node, value, at, &mut |node, value, at| {
        if node.embedded {
            check_whole(value, at, causes);
        }
    });
}

/// The same for a value that is an object as a whole.
pub(in crate::custom::structural) fn check_whole(value: &Value, at: &Path, causes: &mut Causes) {
    if let Value::Object(fields) = value
        && !causes.is_full()
    {
        check_object(fields, at, causes);
    }
}

/// Why the type or the metadata of an object within a value cannot be decoded; the first reason.
pub(in crate::custom::structural) fn undecodable(
    node: &Node,
    value: &Value,
    at: &Path,
) -> Option<String> {
    let mut found = None;
    walk(node, value, at, &mut |node, value, at| {
        if let (true, None, Value::Object(fields)) = (node.embedded, &found, value) {
            found = undecodable_object(fields, at);
        }
    });
    found
}

fn undecodable_object(fields: &Map<String, Value>, at: &Path) -> Option<String> {
    let told = |name: &str, value: &Value, why: &str| {
        format!("{}: Invalid value: {}: {why}", at.field(name), shown(value))
    };
    for name in ["apiVersion", "kind"] {
        match fields.get(name) {
            None | Some(Value::String(_)) => {}
            Some(other) => return Some(told(name, other, "must be a string")),
        }
    }
    let metadata = fields.get("metadata")?;
    let kind = schema::kind("", "v1", "ConfigMap")?;
    let message = kind.message().field("metadata")?.message()?;
    let wrong = strict::prune(metadata, message).err()?;
    Some(told("metadata", metadata, &wrong.to_string()))
}

fn check_object(fields: &Map<String, Value>, at: &Path, causes: &mut Causes) {
    check_text(fields, "apiVersion", at, causes, |version| {
        let slashes = version.matches('/').count();
        (slashes > 1).then(|| format!("unexpected GroupVersion string: {version}"))
    });
    check_text(fields, "kind", at, causes, |kind| {
        let wrong = name::dns1035_label(&kind.to_lowercase()).join(",");
        let why = format!("may have mixed case, but should otherwise match: {wrong}");
        (!wrong.is_empty()).then_some(why)
    });
    let at = at.field("metadata");
    match fields.get("metadata") {
        None | Some(Value::Null) => {}
        Some(Value::Object(metadata)) => check_metadata(metadata, &at, causes),
        Some(other) => {
            causes.push(Cause::invalid_shown(
                &at.to_string(),
                &shown(other),
                "must be an object",
            ));
        }
    }
}

/// Checks a required text; `wrong` says why a text is.
fn check_text(
    fields: &Map<String, Value>,
    name: &str,
    at: &Path,
    causes: &mut Causes,
    wrong: impl Fn(&str) -> Option<String>,
) {
    let field = || at.field(name).to_string();
    let why = match fields.get(name) {
        None => {
            causes.push(Cause::required(&field(), ""));
            return;
        }
        Some(Value::String(text)) if text.is_empty() => Some("must not be empty".to_owned()),
        Some(Value::String(text)) => wrong(text),
        Some(_) => Some("must be a string".to_owned()),
    };
    let shown = || fields.get(name).map(shown).unwrap_or_default();
    causes.extend(why.map(|why| Cause::invalid_shown(&field(), &shown(), &why)));
}

fn check_metadata(metadata: &Map<String, Value>, at: &Path, causes: &mut Causes) {
    let mut invalid = |field: &str, value: &Value, wrong: Vec<String>| {
        if wrong.is_empty() || causes.is_full() {
            return;
        }
        let field = at.field(field).to_string();
        let all = wrong.iter();
        causes.extend(all.map(|why| Cause::invalid_shown(&field, &shown(value), why)));
    };
    for key in ["name", "generateName", "namespace"] {
        let wrong = match metadata.get(key) {
            None | Some(Value::Null) => continue,
            Some(Value::String(text)) if text.is_empty() => continue,
            Some(Value::String(text)) if key == "namespace" => name::dns1123_label(text),
            Some(Value::String(text)) => name::path_segment(text),
            Some(_) => vec!["must be a string".to_owned()],
        };
        invalid(key, &metadata[key], wrong);
    }
    for key in ["labels", "annotations"] {
        match metadata.get(key) {
            None | Some(Value::Null) => {}
            Some(Value::Object(entries)) => {
                for (entry, value) in entries {
                    let Value::String(text) = value else {
                        invalid(key, value, vec!["must be a string".to_owned()]);
                        continue;
                    };
                    if key == "labels" {
                        invalid(key, &entry.as_str().into(), name::qualified_name(entry));
                        invalid(key, value, name::label_value(text));
                    } else {
                        let entry = entry.to_lowercase();
                        invalid(key, &entry.as_str().into(), name::qualified_name(&entry));
                    }
                }
            }
            Some(other) => invalid(key, other, vec!["must be an object".to_owned()]),
        }
    }
}

#[test]
fn objects_within_objects_that_are_none_cannot_be_decoded() {
    let embedded = serde_json::json!({
        "type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true,
    });
    let schema = serde_json::json!({"type": "object", "properties": {"inner": embedded}});
    let schema = crate::custom::structural::Schema::parse(&schema).unwrap();
    let why = |inner: Value| schema.undecodable(&serde_json::json!({"inner": inner}));
    assert_eq!(
        why(serde_json::json!({"kind": "A", "metadata": {"name": "a"}})),
        None
    );
    let said = "inner.kind: Invalid value: 7: must be a string";
    assert_eq!(why(serde_json::json!({"kind": 7})).unwrap(), said);
    let said = "inner.metadata: Invalid value: {\"name\":7}: json: cannot unmarshal number into Go \
                struct field ObjectMeta.name of type string";
    let metadata = serde_json::json!({"metadata": {"name": 7}});
    assert_eq!(why(metadata).unwrap(), said);
}
