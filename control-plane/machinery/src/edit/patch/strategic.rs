//! The strategic merge patch: a merge patch that knows which lists to merge and by which key.
//!
//! Directives, all beginning with `$`:
//!
//! | in a patch | means |
//! |---|---|
//! | `$patch: replace` in a map | the map is what the patch says |
//! | `$patch: delete` in a map | the map becomes empty, or is not added |
//! | `$patch: replace` in an item of a merged list | the list is the patch's other items |
//! | `$patch: delete` in an item of a merged list | the item with that key is removed |
//! | `$retainKeys: [..]` in a map | every other key is removed first |
//! | `$deleteFromPrimitiveList/f: [..]` | these values are removed from the list `f` |
//! | `$setElementOrder/f: [..]` | the list `f` gets this order; items not named keep their place |

mod order;

use serde_json::{Map, Value};

use super::{DEPTH_MAX, Error, TOO_DEEP};
use crate::schema::{Field, Message, Type};
use order::{arrange, order_lists};

/// The error for a list inside a list, which no patch can merge.
pub const LISTS_OF_LISTS: &str = "lists of lists are not supported";
const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ELEMENT_ORDER: &str = "$setElementOrder/";

/// Maximum number of pairs of items compared for one list: enough for lists of 5,000 items.
const COMPARISONS_MAX: usize = 25_000_000;

type Object = Map<String, Value>;

/// What the table knows about the map that is merged.
#[derive(Clone, Copy)]
pub(super) enum Known {
    /// A message with these fields.
    Message(&'static Message),
    /// A map with free keys, or of unknown type.
    Free,
}

impl Known {
    fn field(self, key: &str) -> Result<&'static Field, Error> {
        let Known::Message(message) = self else {
            return Err(unfit(
                "merging an object in json but data type is not struct, instead is: map",
            ));
        };
        message.field(key).ok_or_else(|| {
            let name = message.short_name();
            unfit(format!(
                "unable to find api field in struct {name} for the json field {key:?}"
            ))
        })
    }

    fn below(field: &'static Field) -> Known {
        match field.message() {
            Some(message) if matches!(field.kind, Type::Message(_) | Type::List(_)) => {
                Known::Message(message)
            }
            _ => Known::Free,
        }
    }
}

/// Merges a patch into a map.
pub(super) fn merge_map(
    mut original: Object,
    mut patch: Object,
    known: Known,
    depth: usize,
) -> Result<Object, Error> {
    if depth > DEPTH_MAX {
        return Err(Error::Malformed(TOO_DEEP.into()));
    }
    match patch.remove(DIRECTIVE) {
        None => {}
        Some(Value::String(word)) if word == "replace" => return Ok(patch),
        Some(Value::String(word)) if word == "delete" => return Ok(Object::new()),
        Some(other) => {
            let word = shown(&other);
            patch.insert(DIRECTIVE.into(), other);
            return Err(unknown_directive(&word, patch));
        }
    }
    retain_keys(&mut original, &mut patch)?;
    order_lists(&mut original, &mut patch, known, depth)?;
    // Deletions come first, so a value that the patch both deletes and adds is present in the end.
    for delete in [true, false] {
        let keys = patch
            .keys()
            .filter(|key| key.starts_with(DELETE_FROM) == delete);
        for key in keys.cloned().collect::<Vec<_>>() {
            if let Some(value) = patch.remove(&key) {
                let name = key.strip_prefix(DELETE_FROM).unwrap_or(&key);
                merge_field(&mut original, name, value, delete, (known, depth))?;
            }
        }
    }
    Ok(original)
}

fn merge_field(
    original: &mut Object,
    key: &str,
    mut value: Value,
    delete: bool,
    (known, depth): (Known, usize),
) -> Result<(), Error> {
    if value.is_null() {
        original.remove(key);
        return Ok(());
    }
    let merged = match (original.remove(key), value) {
        (Some(Value::Object(ours)), Value::Object(theirs)) => {
            let field = known.field(key)?;
            if field.patch.replace {
                theirs.into()
            } else {
                merge_map(ours, theirs, Known::below(field), depth + 1)?.into()
            }
        }
        (Some(Value::Array(ours)), Value::Array(theirs)) => {
            let field = known.field(key)?;
            if field.patch.merge || delete {
                merge_list(ours, theirs, field, delete, depth)?.into()
            } else {
                Value::Array(theirs)
            }
        }
        (Some(ours), _) if delete => ours,
        (None, _) if delete => return Ok(()),
        (_, theirs) => {
            value = theirs;
            without_nulls(&mut value);
            match without_directives(value) {
                Some(value) => value,
                None => return Ok(()),
            }
        }
    };
    original.insert(key.to_owned(), merged);
    Ok(())
}

fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    field: &'static Field,
    delete: bool,
    depth: usize,
) -> Result<Vec<Value>, Error> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    comparable(&original, &patch)?;
    let key = field.patch.merge_key;
    let maps = holds_maps(&original, &patch)?;
    if !maps && delete {
        let kept = original.into_iter().filter(|value| !patch.contains(value));
        return Ok(kept.collect());
    }
    if !maps {
        let mut merged = original.clone();
        for value in &patch {
            if !merged.contains(value) {
                merged.push(value.clone());
            }
        }
        return arrange(merged, &patch, &original, "");
    }
    if key.is_empty() {
        let name = field.name;
        return Err(unfit(format!(
            "cannot merge lists without merge key for {name}"
        )));
    }
    let (original, patch) = special_items(original, patch, key)?;
    let mut merged = original.clone();
    let order = patch.clone();
    for item in patch {
        let Value::Object(theirs) = item else {
            continue;
        };
        let at = find(&merged, key, key_of(&theirs, key)?)?;
        match at {
            Some(at) => {
                let ours = match merged[at].take() {
                    Value::Object(ours) => ours,
                    _ => Object::new(),
                };
                merged[at] = merge_map(ours, theirs, Known::below(field), depth + 1)?.into();
            }
            None => merged.push(theirs.into()),
        }
    }
    arrange(merged, &order, &original, key)
}

/// Refuses lists that are too long: items are found by linear search.
fn comparable(left: &[Value], right: &[Value]) -> Result<(), Error> {
    let longer = left.len().max(right.len());
    let text = "the lists of the patch and the object are too long to be merged";
    if longer * right.len() > COMPARISONS_MAX {
        Err(Error::Malformed(text.into()))
    } else {
        Ok(())
    }
}

/// Carries out the directives in a list patch. Returns the list and the patch's remaining items.
fn special_items(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let mut plain = Vec::new();
    let mut replace = false;
    for item in patch {
        let word = match item.get(DIRECTIVE) {
            None => {
                plain.push(item);
                continue;
            }
            Some(word) => word.as_str().unwrap_or_default(),
        };
        let Value::Object(item) = &item else { continue };
        match word {
            "delete" => {
                let value = key_of(item, key)?;
                while let Some(at) = find(&original, key, value)? {
                    original.remove(at);
                }
            }
            "replace" => replace = true,
            "merge" => return Err(unfit("merging lists cannot yet be specified in the patch")),
            other => return Err(unknown_directive(other, item.clone())),
        }
    }
    Ok(if replace {
        (plain, Vec::new())
    } else {
        (original, plain)
    })
}

/// Removes all keys that `$retainKeys` does not name; it must name every key that the patch sets.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), Error> {
    let Some(retain) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let malformed = || Error::Malformed("invalid patch format of retainKeys".into());
    let Value::Array(retain) = retain else {
        return Err(malformed());
    };
    let keys = original.len() + patch.len();
    if keys * retain.len() > COMPARISONS_MAX {
        return Err(malformed());
    }
    let retained = |key: &str| retain.iter().any(|one| one == key);
    let other = |key: &str| key.starts_with(DELETE_FROM) || key.starts_with(ELEMENT_ORDER);
    if patch
        .iter()
        .any(|(key, value)| !value.is_null() && !other(key) && !retained(key))
    {
        return Err(malformed());
    }
    original.retain(|key, _| retained(key));
    Ok(())
}

/// True if the lists hold maps. All items must have one type, and no item may be a list.
fn holds_maps(original: &[Value], patch: &[Value]) -> Result<bool, Error> {
    let mut all = original.iter().chain(patch);
    let Some(first) = all.next() else {
        return Err(unfit("no elements in any of the given slices"));
    };
    if first.is_array() {
        return Err(unfit(LISTS_OF_LISTS));
    }
    if all.any(|one| std::mem::discriminant(one) != std::mem::discriminant(first)) {
        let lists = format!("[{} {}]", show_list(original), show_list(patch));
        return Err(unfit(format!(
            "list element types are not identical: {lists}"
        )));
    }
    Ok(first.is_object())
}

fn find(list: &[Value], key: &str, value: &Value) -> Result<Option<usize>, Error> {
    for (at, item) in list.iter().enumerate() {
        let Value::Object(item) = item else {
            return Err(unfit(format!("value for key {at} is not a map")));
        };
        if item.get(key) == Some(value) {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn member<'a>(item: &'a Value, key: &str) -> Result<&'a Value, Error> {
    match item {
        Value::Object(map) => key_of(map, key),
        other => Err(unfit(format!(
            "expected a map, but received {}",
            shown(other)
        ))),
    }
}

fn key_of<'a>(item: &'a Object, key: &str) -> Result<&'a Value, Error> {
    item.get(key).ok_or_else(|| {
        let item = show_map(item);
        unfit(format!(
            "map: {item} does not contain declared merge key: {key}"
        ))
    })
}

fn list(value: Value) -> Result<Vec<Value>, Error> {
    let found = match value {
        Value::Array(list) => return Ok(list),
        Value::Null => "%!s(<nil>)",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Object(_) => "map[string]interface {}",
    };
    Err(unfit(format!(
        "expected a []interface {{}}, but received a {found}"
    )))
}

/// Removes nulls from a value that is added: there is nothing for them to delete.
fn without_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(without_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(without_nulls),
        _ => {}
    }
}

/// Removes maps with directives from a value that is added.
fn without_directives(value: Value) -> Option<Value> {
    Some(match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => return None,
        Value::Object(map) => map
            .into_iter()
            .filter_map(|(key, value)| Some((key, without_directives(value)?)))
            .collect(),
        Value::Array(list) => list.into_iter().filter_map(without_directives).collect(),
        plain => plain,
    })
}

fn unknown_directive(word: &str, patch: Object) -> Error {
    let patch = show_map(&patch);
    unfit(format!("unknown patch type: {word} in map: {patch}"))
}

fn unfit(text: impl Into<String>) -> Error {
    Error::Unprocessable(text.into())
}

/// A value in the form Go prints in messages.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(list) => show_list(list),
        Value::Object(map) => show_map(map),
        plain => plain.to_string(),
    }
}

fn show_list(list: &[Value]) -> String {
    format!("[{}]", list.iter().map(shown).collect::<Vec<_>>().join(" "))
}

fn show_map(map: &Object) -> String {
    let entries = map
        .iter()
        .map(|(key, value)| format!("{key}:{}", shown(value)));
    format!("map[{}]", entries.collect::<Vec<_>>().join(" "))
}
