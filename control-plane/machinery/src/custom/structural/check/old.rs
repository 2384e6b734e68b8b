//! The value that another one replaces: what did not change may stay invalid.

use std::cell::RefCell;
use std::collections::HashMap;

use serde_json::Value;

use crate::custom::structural::node::{List, Node};

/// An old value, with the schema that says which of its parts correspond to parts of the new one.
#[derive(Clone, Copy)]
pub(in crate::custom::structural) struct Old<'a> {
    pub(in crate::custom::structural) value: &'a Value,
    pub(in crate::custom::structural) node: &'a Node,
    pub(in crate::custom::structural) compared: &'a Compared,
}

/// The new objects and lists that were compared with their old ones, and whether they are the same.
/// Where one is in the whole value says what it was compared with. Each level of a deep value asks
/// about all that is below it, so nothing below is compared again.
#[derive(Default)]
pub(in crate::custom::structural) struct Compared(RefCell<HashMap<*const Value, bool>>);

/// The items of an old list by the values of their keys.
pub(in crate::custom::structural) struct OldItems<'a> {
    by_key: HashMap<String, &'a Value>,
    keys: &'a [String],
    of_items: &'a Node,
    compared: &'a Compared,
}

impl<'a> Old<'a> {
    /// The old value of this field; `None` if there is none, or nothing describes it.
    pub(in crate::custom::structural) fn field(self, name: &str) -> Option<Old<'a>> {
        Some(Old {
            value: self.value.get(name)?,
            node: self.node.of_field(name)?,
            compared: self.compared,
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
            compared: self.compared,
        })
    }

    /// Whether `new` is the old value. The order of items that have keys does not count.
    ///
    /// Kubernetes does not recognise objects with fields that no schema describes as unchanged;
    /// here they are.
    pub(in crate::custom::structural) fn is(self, new: &Value) -> bool {
        if !matches!(new, Value::Object(_) | Value::Array(_)) {
            return self.value == new;
        }
        let place = std::ptr::from_ref(new);
        let known = self.compared.0.borrow().get(&place).copied();
        known.unwrap_or_else(|| {
            let is_same = self.compare(new);
            self.compared.0.borrow_mut().insert(place, is_same);
            is_same
        })
    }

    fn compare(self, new: &Value) -> bool {
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
            compared: self.compared,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::values::pattern::Patterns;

    #[test]
    fn what_was_compared_is_not_compared_again() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "object"}}});
        let node = Node::read(&schema, &mut Patterns::within(0));
        let value = json!({"a": {"b": 1}, "c": 2});
        let new = value.clone();
        let is_same = |compared: &Compared| {
            let old = Old {
                value: &value,
                node: &node,
                compared,
            };
            old.is(&new)
        };
        let compared = Compared::default();
        assert!(is_same(&compared));
        assert_eq!(compared.0.borrow().len(), 2);
        // A wrong answer shows that it is taken.
        let compared = Compared::default();
        let part = std::ptr::from_ref(&new["a"]);
        compared.0.borrow_mut().insert(part, false);
        assert!(!is_same(&compared));
        compared.0.borrow_mut().insert(part, true);
        assert!(!is_same(&compared));
    }
}
