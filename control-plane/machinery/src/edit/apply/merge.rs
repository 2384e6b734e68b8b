//! Merges an applied configuration into a live object.

use std::collections::BTreeMap;

use serde_json::{Map as Object, Value};

use super::check::{Form, Misfits, Trail, as_list, as_map, deduced, element_of, misfit};
use super::fields::Element;
use super::typing::{Forms, Identity, List, Map, Typing};

/// Merges the configuration into the live object: where both have a leaf, the configuration wins,
/// and nothing is removed. Items of lists are in the order of the configuration, with the others
/// where they were before.
pub fn merge(typing: &dyn Typing, live: &Value, config: &Value) -> Result<Value, Misfits> {
    let mut trail = Trail::default();
    let merged = walk(typing, Some(live), Some(config), &mut trail);
    trail.result(merged.unwrap_or(Value::Null))
}

/// The merge of two values; `None` if nothing is left.
fn walk(
    typing: &dyn Typing,
    live: Option<&Value>,
    config: Option<&Value>,
    trail: &mut Trail,
) -> Option<Value> {
    let of_live = deduced(typing.forms(), live);
    let of_config = deduced(typing.forms(), config);
    if config.is_none() {
        return form(typing, of_live, live, config, trail);
    }
    if live.is_some() && of_live.kinds() != of_config.kinds() {
        // Only for what it finds wrong: the value takes the configuration's form.
        form(typing, of_live, live, config, trail);
    }
    form(typing, of_config, live, config, trail)
}

fn form(
    typing: &dyn Typing,
    forms: Forms<'_>,
    live: Option<&Value>,
    config: Option<&Value>,
    trail: &mut Trail,
) -> Option<Value> {
    match forms.deciding() {
        Form::Map(map) => maps(typing, map, live, config, trail),
        Form::List(list) => lists(&list, live, config, trail),
        Form::Scalar(scalar) => match (misfit(scalar, live), misfit(scalar, config)) {
            (Some(of_live), Some(of_config)) => {
                trail.wrong(format!("lhs: {of_live}"));
                trail.wrong(format!("rhs: {of_config}"));
                None
            }
            _ => leaf(live, config),
        },
        Form::None => {
            trail.wrong("schema error: invalid atom: inlined");
            None
        }
    }
}

fn leaf(live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    config.or(live).cloned()
}

fn maps(
    typing: &dyn Typing,
    map: Map<'_>,
    live: Option<&Value>,
    config: Option<&Value>,
    trail: &mut Trail,
) -> Option<Value> {
    let of_live = live.and_then(|one| as_map(one).ok().flatten());
    let of_config = config.and_then(|one| as_map(one).ok().flatten());
    let is_empty =
        |fields: Option<&Object<String, Value>>| fields.is_none_or(|fields| fields.is_empty());
    if map.atomic || is_empty(of_live) && is_empty(of_config) {
        return leaf(live, config);
    }
    let keys = [of_live, of_config]
        .into_iter()
        .flatten()
        .flat_map(Object::keys);
    let mut keys: Vec<&String> = keys.collect();
    keys.sort_unstable();
    keys.dedup();
    let mut merged = Object::new();
    for key in keys {
        let (live, config) = (
            of_live.and_then(|fields| fields.get(key)),
            of_config.and_then(|fields| fields.get(key)),
        );
        let member = typing.field(key).map(|member| member.typing);
        let value = trail.below(Element::from(key.as_str()), |trail| {
            match member.or(map.other) {
                Some(typing) => walk(typing, live, config, trail),
                None => {
                    trail.wrong("schema error: invalid atom: inlined");
                    None
                }
            }
        });
        merged.extend(value.map(|value| (key.clone(), value)));
    }
    (!merged.is_empty()).then_some(Value::Object(merged))
}

fn lists(
    list: &List<'_>,
    live: Option<&Value>,
    config: Option<&Value>,
    trail: &mut Trail,
) -> Option<Value> {
    let of_live = live.and_then(|one| as_list(one).ok()).unwrap_or_default();
    let of_config = config.and_then(|one| as_list(one).ok()).unwrap_or_default();
    if list.identity == Identity::Atomic || of_live.is_empty() && of_config.is_empty() {
        return leaf(live, config);
    }
    let known = trail.wrongs();
    let config = Items::read(list, of_config, false, trail);
    let live = Items::read(list, of_live, true, trail);
    if trail.wrongs() > known {
        return None;
    }
    let merged = interleave(list, &live, &config, trail);
    (!merged.is_empty()).then_some(Value::Array(merged))
}

/// The items of a list with their identities.
struct Items<'a> {
    items: Vec<(Element, &'a Value)>,
    /// The item with an identity; null if there are several, which are not merged.
    by_element: BTreeMap<Element, &'a Value>,
}

impl<'a> Items<'a> {
    fn read(list: &List<'_>, items: &'a [Value], duplicates: bool, trail: &mut Trail) -> Items<'a> {
        const SEVERAL: &Value = &Value::Null;
        let mut read = Items {
            items: Vec::with_capacity(items.len()),
            by_element: BTreeMap::new(),
        };
        for (index, item) in items.iter().enumerate() {
            let element = match element_of(list, item) {
                Ok(element) => element,
                Err(why) => {
                    trail.wrong(format!("element {index}: {why}"));
                    continue;
                }
            };
            let is_known = read.by_element.contains_key(&element);
            if is_known && !duplicates {
                trail.wrong(format!("duplicate entries for key {element}"));
                continue;
            }
            let found = if is_known { SEVERAL } else { item };
            read.by_element.insert(element.clone(), found);
            read.items.push((element, item));
        }
        read
    }

    fn get(&self, element: &Element) -> Option<&'a Value> {
        self.by_element.get(element).copied()
    }
}

/// Merges two lists. The items that both have are in the order of the configuration. Between them,
/// the items that only the live list has come first.
fn interleave(
    list: &List<'_>,
    live: &Items<'_>,
    config: &Items<'_>,
    trail: &mut Trail,
) -> Vec<Value> {
    let shared = config.items.iter().map(|(element, _)| element);
    let mut shared = shared.filter(|element| live.get(element).is_some());
    let mut next_shared = shared.next();
    let mut taken: std::collections::BTreeSet<&Element> = std::collections::BTreeSet::new();
    let mut merged = Vec::new();
    let mut take = |element: &Element, of_live: Option<&Value>, of_config: Option<&Value>| {
        let value = trail.below(element.clone(), |trail| {
            walk(list.item, of_live, of_config, trail)
        });
        merged.extend(value);
    };
    let (mut l, mut c) = (0, 0);
    while l < live.items.len() || c < config.items.len() {
        if let (Some((of_live, _)), Some((of_config, _))) = (live.items.get(l), config.items.get(c))
        {
            if of_live == of_config {
                taken.insert(of_config);
                take(of_live, live.get(of_live), config.get(of_live));
                (l, c) = (l + 1, c + 1);
                next_shared = shared.next();
                continue;
            }
            let waits = next_shared.is_some_and(|next| next != of_live);
            if config.get(of_live).is_some() && waits {
                // It comes where the configuration has it.
                l += 1;
                continue;
            }
        }
        if let Some((of_live, item)) = live.items.get(l) {
            if config.get(of_live).is_none() {
                take(of_live, Some(item), None);
                l += 1;
                continue;
            } else if taken.contains(of_live) {
                l += 1;
            }
        }
        if let Some((of_config, _)) = config.items.get(c) {
            taken.insert(of_config);
            take(of_config, live.get(of_config), config.get(of_config));
            c += 1;
            if next_shared == Some(of_config) {
                next_shared = shared.next();
            }
        }
    }
    merged
}
