//! From values to field sets and back: which fields a value has, and a value without some of them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map as Object, Value};

use super::check::{Form, Misfits, Trail, as_list, as_map, deduced, element_of};
use super::fields::{Element, Set};
use super::typing::{Identity, List, Typing};

/// Every leaf that a value has, and every item of its lists.
pub fn fields_of(typing: &dyn Typing, value: &Value) -> Result<Set, Misfits> {
    collected(typing, value, false)
}

/// The same of an object that was converted: Go shows some missing values as null, and a null is a
/// field.
pub(super) fn fields_with_nulls(typing: &dyn Typing, value: &Value) -> Result<Set, Misfits> {
    collected(typing, value, true)
}

fn collected(typing: &dyn Typing, value: &Value, nulls: bool) -> Result<Set, Misfits> {
    let mut collector = Collector {
        trail: Trail::default(),
        is_field: false,
        below: Set::default(),
        nulls,
    };
    collector.collect(typing, value);
    collector.trail.result(collector.below)
}

/// The value without these fields and items. A map or list that loses all it has becomes null.
pub(super) fn remove(typing: &dyn Typing, value: &Value, fields: &Set) -> Value {
    match deduced(typing.forms(), Some(value)).deciding() {
        Form::Map(map) => match value {
            Value::Object(all) if !map.atomic => {
                let mut kept = Object::new();
                for (key, value) in all {
                    let element = Element::from(key.as_str());
                    if fields.members.contains(&element) {
                        continue;
                    }
                    let below = fields.below(&element).filter(|below| !below.is_empty());
                    let member = typing.field(key).map(|member| member.typing);
                    let value = match (below, member.or(map.other)) {
                        (None, _) => value.clone(),
                        (Some(below), Some(typing)) => remove(typing, value, below),
                        (Some(_), None) => Value::Null,
                    };
                    kept.insert(key.clone(), value);
                }
                or_null(kept.is_empty(), Value::Object(kept))
            }
            _ => Value::Null,
        },
        Form::List(list) => match value {
            Value::Array(items) if list.identity != Identity::Atomic => {
                let kept = items.iter().filter_map(|item| kept(&list, item, fields));
                let kept: Vec<Value> = kept.collect();
                or_null(kept.is_empty(), Value::Array(kept))
            }
            _ => Value::Null,
        },
        Form::Scalar(_) => value.clone(),
        Form::None => Value::Null,
    }
}

/// An item without some fields; `None` if the item itself is removed.
fn kept(list: &List<'_>, item: &Value, fields: &Set) -> Option<Value> {
    let Ok(element) = element_of(list, item) else {
        return Some(item.clone());
    };
    if fields.members.contains(&element) {
        return None;
    }
    let below = fields.below(&element).filter(|below| !below.is_empty());
    Some(below.map_or_else(|| item.clone(), |below| remove(list.item, item, below)))
}

fn or_null(is_empty: bool, value: Value) -> Value {
    if is_empty { Value::Null } else { value }
}

/// The set with the declared fields that lead to its members: a struct is there as long as a field
/// of it is. A map is not.
#[must_use]
pub(super) fn with_structs(set: &Set, typing: Option<&dyn Typing>) -> Set {
    let forms = typing.map(|typing| typing.forms()).unwrap_or_default();
    let mut members = set.members.clone();
    let mut children = BTreeMap::new();
    for (element, child) in &set.children {
        let below = match element {
            Element::Field(name) if forms.map.is_some() => {
                let member = typing.and_then(|typing| typing.field(name));
                if member.is_some() {
                    members.insert(element.clone());
                }
                let other = forms.map.and_then(|map| map.other);
                member.map(|member| member.typing).or(other)
            }
            Element::Key(_) => forms.list.as_ref().map(|list| list.item),
            _ => None,
        };
        children.insert(element.clone(), with_structs(child, below));
    }
    Set { members, children }
}

/// Adapts a set to a type in which more is owned as a whole than when the set was made. `None` if
/// the set fits.
pub(super) fn reconciled(set: &Set, typing: &dyn Typing) -> Option<Set> {
    let (_, wholes) = wholes(Some(set), typing, false);
    (!wholes.is_empty()).then(|| set.without(&wholes).union(&wholes))
}

/// Whether a value is owned as a whole and the set has parts of it, and the places below it of
/// which that is true.
fn wholes(set: Option<&Set>, typing: &dyn Typing, is_leaf: bool) -> (bool, Set) {
    let mut found = Set::default();
    let elements: BTreeSet<&Element> = set
        .into_iter()
        .flat_map(|set| set.children.keys().chain(&set.members))
        .collect();
    let mut find = |element: &Element, typing: &dyn Typing| {
        let child = set.and_then(|set| set.below(element));
        // All elements are of the set, so one without a child is a member.
        let (is_whole, below) = wholes(child, typing, child.is_none());
        found.put(element, is_whole, below);
    };
    match typing.forms().deciding() {
        Form::Map(map) if map.deduced => {}
        Form::Map(map) if map.atomic && !is_leaf => {
            return (set.is_some_and(|set| !set.is_empty()), found);
        }
        Form::Map(map) => {
            for element in elements {
                let member = match element {
                    Element::Field(name) => typing.field(name).map(|member| member.typing),
                    _ => None,
                };
                if let Some(typing) = member.or(map.other) {
                    find(element, typing);
                }
            }
        }
        Form::List(list) if list.identity == Identity::Atomic && !is_leaf => return (true, found),
        Form::List(list) => elements.into_iter().for_each(|one| find(one, list.item)),
        Form::Scalar(_) | Form::None => {}
    }
    (false, found)
}

/// Collects the fields of a value.
struct Collector {
    trail: Trail,
    /// The value at the end of the trail is a field.
    is_field: bool,
    /// The fields below it.
    below: Set,
    /// With those that Go shows as null if they are missing.
    nulls: bool,
}

impl Collector {
    fn collect(&mut self, typing: &dyn Typing, value: &Value) {
        match deduced(typing.forms(), Some(value)).deciding() {
            Form::Scalar(_) => self.insert(),
            Form::None => self.trail.wrong("schema error: invalid atom: inlined"),
            Form::Map(map) if map.atomic => self.insert(),
            Form::Map(map) => {
                let fields = as_map(value).ok().flatten();
                for (name, value) in fields.into_iter().flatten() {
                    let member = typing.field(name).map(|member| member.typing);
                    let is_declared = member.is_some();
                    self.below(Element::from(name.as_str()), |collector| {
                        match member.or(map.other) {
                            Some(typing) => collector.collect(typing, value),
                            None => collector.trail.wrong("schema error: invalid atom: inlined"),
                        }
                        let is_empty =
                            value.is_null() || value.as_object().is_some_and(Object::is_empty);
                        if is_empty || !is_declared {
                            collector.insert();
                        }
                    });
                }
                let nulls = if self.nulls {
                    typing.nulls()
                } else {
                    Vec::new()
                };
                let missing =
                    |name: &&str| fields.is_some_and(|fields| !fields.contains_key(*name));
                for name in nulls.into_iter().filter(missing) {
                    self.below(Element::from(name), Collector::insert);
                }
            }
            Form::List(list) if list.identity == Identity::Atomic => self.insert(),
            Form::List(list) => self.collect_items(&list, value),
        }
    }

    fn collect_items(&mut self, list: &List<'_>, value: &Value) {
        let items = as_list(value).unwrap_or_default();
        let elements = items.iter().filter_map(|item| element_of(list, item).ok());
        let mut times: BTreeMap<Element, usize> = BTreeMap::new();
        for element in elements {
            *times.entry(element).or_default() += 1;
        }
        for item in items {
            let Ok(element) = element_of(list, item) else {
                continue;
            };
            let once = times.get(&element) == Some(&1);
            self.below(element, |collector| {
                // Items with one identity are owned together, as one value.
                if once {
                    collector.collect(list.item, item);
                }
                collector.insert();
            });
        }
    }

    /// The value at the end of the trail is a field.
    fn insert(&mut self) {
        self.is_field = true;
    }

    fn below(&mut self, element: Element, work: impl FnOnce(&mut Collector)) {
        let around = (self.is_field, std::mem::take(&mut self.below));
        self.is_field = false;
        self.trail.path.push(element);
        work(self);
        let found = (self.is_field, std::mem::take(&mut self.below));
        (self.is_field, self.below) = around;
        if let Some(element) = self.trail.path.pop() {
            self.below.put(&element, found.0, found.1);
        }
    }
}
