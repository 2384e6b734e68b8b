//! Goes through a value together with its schema.

use serde_json::Value;

use super::node::{Additional, Node};
use super::path::Path;

/// Calls `visit` for a value that the schema describes, and then for all values within it.
pub(super) fn walk(
    node: &Node,
    value: &Value,
    at: &Path,
    visit: &mut dyn FnMut(&Node, &Value, &Path),
) {
    visit(node, value, at);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (node.properties.get(name), &node.additional) {
                    (Some(property), _) => walk(property, value, &at.field(name), visit),
                    (None, Additional::Each(each)) => walk(each, value, &at.key(name), visit),
                    (None, _) => {}
                }
            }
        }
        Value::Array(items) => {
            if let Some(of_items) = &node.items {
                for (index, item) in items.iter().enumerate() {
                    walk(of_items, item, &at.index(index), visit);
                }
            }
        }
        _ => {}
    }
}
