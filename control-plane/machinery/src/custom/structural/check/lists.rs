//! The items of sets and of lists with keys are unique.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::errors::shown;
use crate::custom::structural::causes::Causes;
use crate::custom::structural::node::{List, Node};
use crate::custom::structural::path::Path;
use crate::custom::structural::walk::walk;
use crate::status::Cause;

/// The duplicates within a value.
pub(in crate::custom::structural) fn check(
    node: &Node,
    value: &Value,
    at: &Path,
    causes: &mut Causes,
) {
    walk(node, value, at, &mut |node, value, at| {
        let Value::Array(items) = value else { return };
        match &node.list {
            List::Atomic => {}
            List::Set => check_unique(items, at, causes),
            List::Map(keys) => check_keys(items, keys, at, causes),
        }
    });
}

/// True if there are none.
pub(in crate::custom::structural) fn are_unique(node: &Node, value: &Value) -> bool {
    let mut causes = Causes::default();
    check(node, value, &Path::root(), &mut causes);
    causes.is_empty()
}

fn check_unique(items: &[Value], at: &Path, causes: &mut Causes) {
    for index in repeated(items) {
        if causes.is_full() {
            return;
        }
        let field = at.index(index).to_string();
        causes.push(Cause::duplicate_shown(&field, &shown(&items[index]), ""));
    }
}

fn check_keys(items: &[Value], keys: &[String], at: &Path, causes: &mut Causes) {
    let no_object = |item: &Value| !item.is_object() && !item.is_null();
    if causes.is_full() {
        return;
    }
    if let Some(index) = items.iter().position(no_object) {
        let why = "must be an object for an array of list-type map";
        let field = at.index(index).to_string();
        causes.push(Cause::invalid_shown(&field, &shown(&items[index]), why));
        return;
    }
    let keys_of = |item: &Value| {
        let fields = keys.iter().filter_map(|key| {
            let value = item.get(key)?;
            Some((key.clone(), value.clone()))
        });
        Value::Object(fields.collect::<Map<String, Value>>())
    };
    let keyed: Vec<Value> = items.iter().map(keys_of).collect();
    check_unique(&keyed, at, causes);
}

/// The places of the first repetitions: a value that occurs three times is reported once.
fn repeated(values: &[Value]) -> Vec<usize> {
    let mut times: HashMap<String, usize> = HashMap::new();
    let mut repeated = Vec::new();
    for (index, value) in values.iter().enumerate() {
        let times = times.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            repeated.push(index);
        }
    }
    repeated
}
