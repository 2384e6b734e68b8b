//! Removes fields that a schema does not have.

use serde_json::{Map, Value};

use super::node::{Additional, Node};
use super::path::Path;
use crate::basics::budget::Room;

/// The fields that every whole object has.
pub(super) const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The paths that are gone, as many as there is room for.
struct Gone {
    paths: Vec<String>,
    room: Room,
}

impl Gone {
    fn tell(&mut self, path: impl FnOnce() -> String) {
        if self.room.is_left() {
            let path = path();
            self.room.take(path.len());
            self.paths.push(path);
        }
    }
}

/// Prunes a value and returns the paths that are gone, in order. A resource keeps its type and
/// metadata whatever its schema says.
pub(super) fn prune(node: &Node, value: &mut Value, is_resource: bool, room: Room) -> Vec<String> {
    let mut gone = Gone {
        paths: Vec::new(),
        room,
    };
    let start = Path::root();
    match value {
        Value::Object(fields) if is_resource => {
            prune_fields(node, fields, true, &start, &mut gone);
        }
        value => prune_value(node, value, &start, &mut gone),
    }
    gone.paths.sort();
    gone.paths
}

fn prune_value(node: &Node, value: &mut Value, at: &Path, gone: &mut Gone) {
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
            None => empty(items, at, gone),
        },
        _ => {}
    }
}

/// Like `prune_value`, for a value whose parent keeps unknown fields.
fn prune_preserved(node: &Node, value: &mut Value, at: &Path, gone: &mut Gone) {
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
    gone: &mut Gone,
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
            gone.tell(|| at.field(name).to_string());
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
    gone: &mut Gone,
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
fn empty_value(value: &mut Value, at: &Path, gone: &mut Gone) {
    match value {
        Value::Object(fields) => {
            for name in fields.keys() {
                gone.tell(|| at.field(name).to_string());
            }
            fields.clear();
        }
        Value::Array(items) => empty(items, at, gone),
        _ => {}
    }
}

/// Removes all fields of objects in lists without a schema. It is a loop, because here no schema
/// bounds the depth. A list is known by the indexes that lead to it, which become text only for
/// what is told.
fn empty(items: &mut [Value], at: &Path, gone: &mut Gone) {
    let mut lists: Vec<(Vec<usize>, &mut [Value])> = vec![(Vec::new(), items)];
    while let Some((indexes, items)) = lists.pop() {
        for (index, item) in items.iter_mut().enumerate() {
            let indexes = || indexes.iter().copied().chain([index]);
            match item {
                Value::Object(fields) => {
                    for name in fields.keys() {
                        gone.tell(|| {
                            let indexes: String = indexes().map(|at| format!("[{at}]")).collect();
                            format!("{at}{indexes}.{name}")
                        });
                    }
                    fields.clear();
                }
                Value::Array(inner) => lists.push((indexes().collect(), inner)),
                _ => {}
            }
        }
    }
}
