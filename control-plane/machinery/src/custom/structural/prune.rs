//! Removes fields that a schema does not have.

use serde_json::{Map, Value};

use super::node::{Additional, Node};
use super::path::Path;

/// The fields that every whole object has.
pub(super) const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Prunes a value and returns the paths that are gone, in order. A resource keeps its type and
/// metadata whatever its schema says.
pub(super) fn prune(node: &Node, value: &mut Value, is_resource: bool) -> Vec<String> {
    let mut gone = Vec::new();
    let start = Path::root();
    match value {
        Value::Object(fields) if is_resource => {
            prune_fields(node, fields, true, &start, &mut gone);
        }
        value => prune_value(node, value, &start, &mut gone),
    }
    gone.sort();
    gone
}

fn prune_value(node: &Node, value: &mut Value, at: &Path, gone: &mut Vec<String>) {
    match value {
        Value::Object(fields) => prune_fields(node, fields, node.embedded, at, gone),
        Value::Array(items) => match &node.items {
            Some(of_items) if node.preserve => {
                // The items of a list whose unknown fields stay keep theirs too.
                for (index, item) in items.iter_mut().enumerate() {
                    prune_preserved(of_items, item, &at.index(index), gone);
                }
            }
            None if node.preserve => {}
            Some(of_items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    prune_value(of_items, item, &at.index(index), gone);
                }
            }
            None => empty(items, &at.to_string(), gone),
        },
        _ => {}
    }
}

/// Like `prune_value`, for a value whose parent keeps unknown fields.
fn prune_preserved(node: &Node, value: &mut Value, at: &Path, gone: &mut Vec<String>) {
    match value {
        Value::Object(fields) => prune_known(node, fields, node.embedded, at, gone),
        Value::Array(items) => {
            if let Some(of_items) = &node.items {
                for (index, item) in items.iter_mut().enumerate() {
                    prune_preserved(of_items, item, &at.index(index), gone);
                }
            }
        }
        _ => {}
    }
}

fn prune_fields(
    node: &Node,
    fields: &mut Map<String, Value>,
    is_resource: bool,
    at: &Path,
    gone: &mut Vec<String>,
) {
    prune_known(node, fields, is_resource, at, gone);
    let is_open = node.preserve || !matches!(node.additional, Additional::Unset);
    if is_open {
        return;
    }
    fields.retain(|name, _| {
        let stays = node.properties.contains_key(name)
            || is_resource && META_FIELDS.contains(&name.as_str());
        if !stays {
            gone.push(at.field(name).to_string());
        }
        stays
    });
}

/// Prunes within the fields that the schema has.
fn prune_known(
    node: &Node,
    fields: &mut Map<String, Value>,
    is_resource: bool,
    at: &Path,
    gone: &mut Vec<String>,
) {
    for (name, value) in fields.iter_mut() {
        if is_resource && META_FIELDS.contains(&name.as_str()) {
            continue;
        }
        let at = at.field(name);
        match (node.of_field(name), &node.additional) {
            (Some(of_field), _) => prune_value(of_field, value, &at, gone),
            (None, Additional::Any | Additional::Denied) => empty_value(value, &at, gone),
            (None, _) => {}
        }
    }
}

/// Removes all fields of a value without a schema.
fn empty_value(value: &mut Value, at: &Path, gone: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            gone.extend(fields.keys().map(|name| at.field(name).to_string()));
            fields.clear();
        }
        Value::Array(items) => empty(items, &at.to_string(), gone),
        _ => {}
    }
}

/// Removes all fields of objects in lists without a schema. It is a loop, because here no schema
/// bounds the depth.
fn empty(items: &mut [Value], at: &str, gone: &mut Vec<String>) {
    let mut lists: Vec<(String, &mut [Value])> = vec![(at.to_owned(), items)];
    while let Some((at, items)) = lists.pop() {
        for (index, item) in items.iter_mut().enumerate() {
            match item {
                Value::Object(fields) => {
                    gone.extend(fields.keys().map(|name| format!("{at}[{index}].{name}")));
                    fields.clear();
                }
                Value::Array(inner) => lists.push((format!("{at}[{index}]"), inner)),
                _ => {}
            }
        }
    }
}
