//! Fills in defaults, and checks that they are valid values themselves.

use serde_json::Value;

use super::causes::Causes;
use super::check::errors::{self, Base, shown};
use super::check::{embedded, validate};
use super::node::Node;
use super::path::Path;
use super::prune::{self, META_FIELDS};
use crate::basics::budget::{Budget, Room};
use crate::status::Cause;

/// Removes nulls from fields that allow none and have no default.
pub(super) fn drop_nulls(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| {
                let of_field = node.of_field(name);
                !of_field.is_some_and(|of_field| {
                    value.is_null() && !of_field.nullable && of_field.default.is_none()
                })
            });
            for (name, value) in fields {
                if let Some(of_field) = node.of_field(name) {
                    drop_nulls(of_field, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(of_items) = &node.items {
                items.iter_mut().for_each(|item| drop_nulls(of_items, item));
            }
        }
        _ => {}
    }
}

/// Whether the budget has room for all that [`fill`] fills in: a list of small items may get a
/// large default in each.
pub(super) fn fit(node: &Node, value: &Value, budget: &mut Budget) -> bool {
    match value {
        Value::Object(fields) => {
            let properties = node.properties.iter();
            let mut missing = properties.filter(|(name, _)| !fields.contains_key(*name));
            missing.all(|(_, property)| default_fits(property, budget))
                && fields.iter().all(|(name, value)| {
                    let of_field = node.of_field(name);
                    of_field.is_none_or(|of_field| fit_or_default(of_field, value, budget))
                })
        }
        Value::Array(items) => node.items.as_ref().is_none_or(|of_items| {
            let mut items = items.iter();
            items.all(|item| fit_or_default(of_items, item, budget))
        }),
        _ => true,
    }
}

fn fit_or_default(node: &Node, value: &Value, budget: &mut Budget) -> bool {
    if value.is_null() && !node.nullable {
        default_fits(node, budget)
    } else {
        fit(node, value, budget)
    }
}

/// The default may itself lack fields that have defaults.
fn default_fits(node: &Node, budget: &mut Budget) -> bool {
    let default = node.default.as_ref();
    default.is_none_or(|default| budget.value(default) && fit(node, default, budget))
}

/// Fills in what is missing, and what is null but must not be.
pub(super) fn fill(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &node.properties {
                if let Some(default) = &property.default
                    && !fields.contains_key(name)
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, value) in fields {
                if let Some(of_field) = node.of_field(name) {
                    fill_or_replace(of_field, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(of_items) = &node.items {
                let items = items.iter_mut();
                items.for_each(|item| fill_or_replace(of_items, item));
            }
        }
        _ => {}
    }
}

fn fill_or_replace(node: &Node, value: &mut Value) {
    if let Some(default) = &node.default
        && value.is_null()
        && !node.nullable
    {
        *value = default.clone();
    }
    fill(node, value);
}

/// What is wrong with the defaults of a schema.
pub(super) fn check(root: &Node, at: &Path, causes: &mut Causes) {
    walk(root, at, true, false, causes);
}

/// `in_meta` says whether the schema is one of type or metadata: they keep fields that no schema
/// has.
fn walk(node: &Node, at: &Path, is_resource: bool, in_meta: bool, causes: &mut Causes) {
    if causes.is_full() {
        return;
    }
    let is_resource = is_resource || node.embedded;
    let in_meta = in_meta && !node.embedded;
    if let Some(default) = &node.default {
        let at = at.field("default");
        check_default(node, default, &at, (is_resource, in_meta), causes);
    }
    // There are no defaults to check in `additionalProperties`: Kubernetes follows only these two.
    if let Some(of_items) = &node.items {
        walk(of_items, &at.field("items"), false, in_meta, causes);
    }
    let properties = at.field("properties");
    for (name, property) in &node.properties {
        let in_meta = in_meta || is_resource && META_FIELDS.contains(&name.as_str());
        walk(property, &properties.key(name), false, in_meta, causes);
    }
}

fn check_default(
    node: &Node,
    default: &Value,
    at: &Path,
    (is_resource, in_meta): (bool, bool),
    causes: &mut Causes,
) {
    let field = at.to_string();
    if !in_meta {
        let gone = prune::prune(node, &mut default.clone(), is_resource, Room::default());
        if !gone.is_empty() {
            let why = "must not have unknown fields";
            causes.push(Cause::invalid_shown(&field, &shown(default), why));
        }
        let mut of_objects = Causes::default();
        embedded::check(node, default, at, &mut of_objects);
        if is_resource && !node.embedded {
            embedded::check_whole(default, at, &mut of_objects);
        }
        if !of_objects.is_empty() {
            causes.extend(of_objects);
            return;
        }
    }
    let found = validate::validate(node, default, None);
    causes.extend(errors::causes(found, &Base::Field(&field)));
}
