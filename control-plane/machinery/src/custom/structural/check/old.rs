//! The value that another one replaces: what did not change may stay invalid.

use std::collections::HashMap;

use serde_json::Value;

use crate::custom::structural::node::{List, Node};

/// An old value, with the schema that says which of its parts correspond to parts of the new one.
#[derive(Clone, Copy)]
pub(in crate::custom::structural) struct Old<'a> {
    pub(in crate::custom::structural) value: &'a Value,
    pub(in crate::custom::structural) node: &'a Node,
}

/// The items of an old list by the values of their keys.
pub(in crate::custom::structural) struct OldItems<'a> {
    by_key: HashMap<String, &'a Value>,
    keys: &'a [String],
    of_items: &'a Node,
}

impl<'a> Old<'a> {
    /// The old value of this field; `None` if there is none, or nothing describes it.
    pub(in crate::custom::structural) fn field(self, name: &str) -> Option<Old<'a>> {
        Some(Old {
            value: self.value.get(name)?,
            node: self.node.of_field(name)?,
        })
    }

    /// The old items, if the items of this list have keys. Items of other lists have no identity.
    pub(in crate::custom::structural) fn items(self) -> Option<OldItems<'a>> {
        let (List::Map(keys), Some(of_items)) = (&self.node.list, &self.node.items) else {
            return None;
        };
        let items = self.value.as_array()?;
        let mut by_key = HashMap::new();
        for item in items {
            if let Some(key) = key_of(item, keys) {
                by_key.entry(key).or_insert(item);
            }
        }
        Some(OldItems {
            by_key,
            keys,
            of_items,
        })
    }

    /// Whether `new` is the old value. The order of items that have keys does not count.
    ///
    /// Kubernetes does not recognise objects with fields that no schema describes as unchanged;
    /// here they are.
    pub(in crate::custom::structural) fn is(self, new: &Value) -> bool {
        match (self.value, new) {
            (Value::Object(old), Value::Object(new)) => {
                let same = |(name, new): (&String, &Value)| match self.field(name) {
                    Some(old) => old.is(new),
                    None => old.get(name) == Some(new),
                };
                old.len() == new.len() && new.iter().all(same)
            }
            (Value::Array(old), Value::Array(new)) if old != new => {
                let found = |items: &OldItems| {
                    let same = |new| items.find(new).is_some_and(|old| old.is(new));
                    new.iter().all(same)
                };
                old.len() == new.len() && self.items().as_ref().is_some_and(found)
            }
            (old, new) => old == new,
        }
    }
}

impl<'a> OldItems<'a> {
    /// The old item with the keys of this new one.
    pub(in crate::custom::structural) fn find(&self, new: &Value) -> Option<Old<'a>> {
        let value = self.by_key.get(&key_of(new, self.keys)?)?;
        Some(Old {
            value,
            node: self.of_items,
        })
    }
}

/// The values of an item's keys as one text; `None` unless it has all of them, each a scalar.
fn key_of(item: &Value, keys: &[String]) -> Option<String> {
    let mut text = String::new();
    for key in keys {
        match item.get(key)? {
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
            scalar => {
                text.push_str(&scalar.to_string());
                text.push('\0');
            }
        }
    }
    Some(text)
}
