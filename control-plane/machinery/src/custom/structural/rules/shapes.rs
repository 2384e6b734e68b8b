//! What schemas say about values, for expressions.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::custom::cel::{Identity, Shape};
use crate::custom::structural::node::{Additional, Kind, List, Node};

/// The shape of a schema's values. `name` names the type of an object; `is_root` says whether it is
/// a whole object, which has a type and a name.
pub(super) fn of(node: &Node, name: &str, is_root: bool) -> Shape {
    let checks = node.checks.as_deref();
    let length_max = checks.and_then(|checks| checks.max_length);
    let shape = match node.kind {
        None => Shape::hidden(),
        Some(Kind::IntOrString) => Shape::int_or_string(length_max),
        Some(Kind::Boolean) => Shape::boolean(),
        Some(Kind::Integer) => Shape::integer(),
        Some(Kind::Number) => Shape::number(),
        Some(Kind::String) => {
            let format = checks.and_then(|checks| checks.format.as_ref());
            let format = format.map_or("", |format| format.name());
            let allowed = checks.map_or(&[][..], |checks| &checks.allowed);
            let texts: Vec<&str> = allowed.iter().filter_map(|one| one.as_str()).collect();
            Shape::string(format, length_max, &texts)
        }
        Some(Kind::Array) => list(node, name),
        Some(Kind::Object) => match &node.additional {
            Additional::Each(each) => {
                let values = of(each, &format!("{name}.@elem"), each.embedded);
                if values.is_hidden() {
                    Shape::hidden()
                } else {
                    let entries_max = checks.and_then(|checks| checks.max_properties);
                    Shape::map(Arc::new(values), entries_max)
                }
            }
            _ => object(node, name, is_root),
        },
    };
    shape.or_null(node.nullable)
}

fn list(node: &Node, name: &str) -> Shape {
    let Some(items) = &node.items else {
        return Shape::hidden();
    };
    let items = of(items, &format!("{name}.@idx"), items.embedded);
    if items.is_hidden() {
        return Shape::hidden();
    }
    let identity = match &node.list {
        List::Atomic => Identity::Atomic,
        List::Set => Identity::Set,
        List::Map(keys) => Identity::Map(keys.clone()),
    };
    let checks = node.checks.as_deref();
    let items_max = checks.and_then(|checks| checks.max_items);
    Shape::list(Arc::new(items), identity, items_max)
}

fn object(node: &Node, name: &str, is_root: bool) -> Shape {
    let mut fields = BTreeMap::new();
    for (field, property) in &node.properties {
        let shape = of(property, &format!("{name}.{field}"), property.embedded);
        fields.insert(field.clone(), Arc::new(shape));
    }
    if is_root && !has_type_and_names(node) {
        let text = || Arc::new(Shape::string("", None, &[]));
        let names = ["name", "generateName"].map(|field| (field.to_owned(), text()));
        let metadata = Shape::object(&format!("{name}.metadata"), BTreeMap::from(names), &|_| {
            false
        });
        fields.insert("apiVersion".to_owned(), text());
        fields.insert("kind".to_owned(), text());
        fields.insert("metadata".to_owned(), Arc::new(metadata));
    }
    let checks = node.checks.as_deref();
    let required = |field: &str| {
        let is_named = checks.is_some_and(|checks| checks.required.iter().any(|one| one == field));
        let has_default = |property: &Node| property.default.is_some();
        is_named && !node.properties.get(field).is_some_and(has_default)
    };
    Shape::object(name, fields, &required)
}

/// Whether a schema has the fields that every whole object has.
fn has_type_and_names(node: &Node) -> bool {
    let is_text = |node: Option<&Node>| node.is_some_and(|node| node.kind == Some(Kind::String));
    let field = |name: &str| node.properties.get(name);
    is_text(field("kind"))
        && is_text(field("apiVersion"))
        && field("metadata").is_some_and(|metadata| {
            metadata.kind == Some(Kind::Object)
                && is_text(metadata.properties.get("name"))
                && is_text(metadata.properties.get("generateName"))
        })
}
