//! Lists: of an object, or made by an expression.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::Value as Json;

use super::{Key, Value, Why, not_comparable, read};
use crate::custom::cel::types::shape::{Identity, Shape};

#[derive(Debug, Clone)]
pub(crate) struct List<'a> {
    items: Items<'a>,
    /// What makes items the same; `None` for a list without a schema.
    pub(in crate::custom::cel) identity: Option<&'a Identity>,
}

#[derive(Debug, Clone)]
enum Items<'a> {
    Json(&'a [Json], &'a Shape),
    Made(Rc<Vec<Value<'a>>>),
}

impl<'a> List<'a> {
    pub(in crate::custom::cel) fn json(
        items: &'a [Json],
        shape: &'a Shape,
        identity: Option<&'a Identity>,
    ) -> List<'a> {
        List {
            items: Items::Json(items, shape),
            identity,
        }
    }

    pub(in crate::custom::cel) fn made(
        items: Vec<Value<'a>>,
        identity: Option<&'a Identity>,
    ) -> List<'a> {
        List {
            items: Items::Made(Rc::new(items)),
            identity,
        }
    }

    pub(in crate::custom::cel) fn len(&self) -> usize {
        match &self.items {
            Items::Json(items, _) => items.len(),
            Items::Made(items) => items.len(),
        }
    }

    pub(in crate::custom::cel) fn get(&self, at: usize) -> Option<Result<Value<'a>, Why>> {
        match &self.items {
            Items::Json(items, shape) => Some(read::value(items.get(at)?, shape)),
            Items::Made(items) => items.get(at).cloned().map(Ok),
        }
    }

    pub(in crate::custom::cel) fn iter(
        &self,
    ) -> impl Iterator<Item = Result<Value<'a>, Why>> + use<'a> {
        let list = self.clone();
        (0..self.len()).map_while(move |at| list.get(at))
    }

    /// The items; the first that cannot be read is an error.
    pub(in crate::custom::cel) fn items(&self) -> Result<Vec<Value<'a>>, Why> {
        self.iter().collect()
    }

    /// The items of a list that an expression made.
    pub(super) fn shared(&self) -> Option<&Rc<Vec<Value<'a>>>> {
        match &self.items {
            Items::Json(..) => None,
            Items::Made(items) => Some(items),
        }
    }

    /// How many of its own items are copied when it grows.
    pub(in crate::custom::cel) fn copies_to_grow(&self) -> usize {
        match &self.items {
            Items::Made(items) if Rc::strong_count(items) == 1 => 0,
            _ => self.len(),
        }
    }

    /// The list with these items after its own. Sets and lists with keys keep each item once.
    pub(in crate::custom::cel) fn plus(self, other: &List<'a>) -> Result<List<'a>, Why> {
        let identity = self.identity;
        let list = match (self.items, identity) {
            (Items::Made(mut ours), None | Some(Identity::Atomic)) => {
                Rc::make_mut(&mut ours).extend(other.items()?);
                return Ok(List {
                    items: Items::Made(ours),
                    identity,
                });
            }
            (items, identity) => List { items, identity },
        };
        let mut items = list.items()?;
        match identity {
            None | Some(Identity::Atomic) => items.extend(other.items()?),
            Some(identity) => {
                let mut places = HashMap::new();
                for (at, item) in items.iter().enumerate() {
                    places.insert(identity_of(item, identity), at);
                }
                for item in other.iter() {
                    let item = item?;
                    let key = identity_of(&item, identity);
                    match places.get(&key) {
                        Some(at) if *identity != Identity::Set => items[*at] = item,
                        Some(_) => {}
                        None => {
                            places.insert(key, items.len());
                            items.push(item);
                        }
                    }
                }
            }
        }
        Ok(List::made(items, identity))
    }

    pub(super) fn equals(&self, other: &Value<'a>) -> Result<bool, Why> {
        let Value::List(other) = other else {
            return not_comparable(self.identity.is_some());
        };
        if self.len() != other.len() {
            return Ok(false);
        }
        let identity = match self.identity {
            None | Some(Identity::Atomic) => {
                for (one, other) in self.iter().zip(other.iter()) {
                    if !one?.equals(&other?)? {
                        return Ok(false);
                    }
                }
                return Ok(true);
            }
            Some(identity) => identity,
        };
        let mut ours = HashMap::new();
        for item in self.iter() {
            let item = item?;
            ours.insert(identity_of(&item, identity), item);
        }
        for item in other.iter() {
            let item = item?;
            match ours.get(&identity_of(&item, identity)) {
                Some(own) if own.equals(&item)? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// What of an item makes it the same as another.
fn identity_of(item: &Value, identity: &Identity) -> Vec<Option<Key>> {
    match (identity, item) {
        (Identity::Map(keys), Value::Map(map)) => keys
            .iter()
            .map(|key| map.json_field(key).and_then(|value| value.key()))
            .collect(),
        _ => vec![item.key()],
    }
}
