//! The items of sets and of lists with keys are unique.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::errors::shown;
use crate::custom::structural::node::{List, Node};
use crate::custom::structural::path::Path;
use crate::custom::structural::walk::walk;
use crate::status::Cause;

/// The duplicates within a value.
pub(in crate::custom::structural) fn check(node: &Node, value: &Value, at: &Path) -> Vec<Cause> {
    let mut causes = Vec::new();
    walk(node, value, at, &mut |node, value, at| {
        let Value::Array(items) = value else { return };
        match &node.list {
            List::Atomic => {}
            List::Set => check_set(items, at, &mut causes),
            List::Map(keys) => check_keys(items, keys, at, &mut causes),
        }
    });
    causes
}

fn check_set(items: &[Value], at: &Path, causes: &mut Vec<Cause>) {
    for index in repeated(items) {
        causes.push(duplicate(at, index, &items[index]));
    }
}

fn check_keys(items: &[Value], keys: &[String], at: &Path, causes: &mut Vec<Cause>) {
    let no_object = |item: &Value| !item.is_object() && !item.is_null();
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
    for index in repeated(&keyed) {
        causes.push(duplicate(at, index, &keyed[index]));
    }
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

fn duplicate(at: &Path, index: usize, value: &Value) -> Cause {
    Cause::duplicate_shown(&at.index(index).to_string(), &shown(value), "")
}
