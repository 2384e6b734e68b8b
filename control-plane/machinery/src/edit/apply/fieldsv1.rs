//! `FieldsV1`: a field set as JSON. Each key is an element, and its value what is below it:
//! `f:name` is a field, `k:{...}` the keys of an item, `v:...` an item of a set, `i:0` an index,
//! and `.` says that the element above is a member, too.

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value};

use super::fields::{Element, Set};

/// What is wrong with the text of a field set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(String);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

/// A field set as JSON, written in Kubernetes' order: numbers by their values, and keys of items
/// before items of sets.
pub struct InOrder<'a>(pub &'a Value);

impl Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Value::Object(fields) = self.0 else {
            return self.0.serialize(serializer);
        };
        let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
        // Names of fields are in order already.
        if fields.iter().any(|(key, _)| !key.starts_with(['.', 'f'])) {
            fields.sort_by_cached_key(|(key, _)| element_of(key).ok().flatten());
        }
        let mut map = serializer.serialize_map(Some(fields.len()))?;
        for (key, value) in fields {
            map.serialize_entry(key, &InOrder(value))?;
        }
        map.end()
    }
}

impl Set {
    /// Reads a set. Elements of an unknown kind are dropped: a later version may know them.
    pub fn from_fields_v1(fields: &Value) -> Result<Set, Malformed> {
        let (set, _) = read(fields)?;
        Ok(set.unwrap_or_default())
    }

    /// The set as JSON.
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(self.write(false))
    }

    fn write(&self, is_member: bool) -> Map<String, Value> {
        let mut map = Map::new();
        if is_member {
            map.insert(".".into(), Value::Object(Map::new()));
        }
        for element in &self.members {
            if !self.children.contains_key(element) {
                map.insert(key_of(element), Value::Object(Map::new()));
            }
        }
        for (element, child) in &self.children {
            let inner = child.write(self.members.contains(element));
            map.insert(key_of(element), Value::Object(inner));
        }
        map
    }
}

/// Returns what is below an element, and whether the element itself is a member.
fn read(fields: &Value) -> Result<(Option<Set>, bool), Malformed> {
    let fields = match fields {
        Value::Object(fields) => fields,
        Value::Null => return Ok((None, true)),
        _ => return Err(Malformed("expected an object".to_owned())),
    };
    let mut is_member = false;
    let mut set: Option<Set> = None;
    for (key, value) in fields {
        if key == "." {
            is_member = true;
            continue;
        }
        let Some(element) = element_of(key)? else {
            continue;
        };
        let (below, child_is_member) = read(value)?;
        let set = set.get_or_insert_default();
        if child_is_member {
            set.members.insert(element.clone());
        }
        if let Some(below) = below {
            set.children.insert(element, below);
        }
    }
    // Nothing below an element means that the element is what is owned.
    is_member |= set.is_none();
    Ok((set, is_member))
}

fn key_of(element: &Element) -> String {
    match element {
        Element::Field(name) => format!("f:{name}"),
        Element::Key(fields) => {
            let mut text = String::from("k:{");
            for (at, (name, value)) in fields.iter().enumerate() {
                let separator = if at > 0 { "," } else { "" };
                let name = Value::String(name.clone());
                text.push_str(&format!("{separator}{name}:{value}"));
            }
            text + "}"
        }
        Element::Value(value) => format!("v:{value}"),
        Element::Index(index) => format!("i:{index}"),
    }
}

/// Reads a key; `None` for an element of an unknown kind.
fn element_of(key: &str) -> Result<Option<Element>, Malformed> {
    let malformed = |why: &dyn std::fmt::Display| Malformed(format!("{key:?}: {why}"));
    let (kind, text) = key
        .split_once(':')
        .filter(|(kind, _)| kind.len() == 1)
        .ok_or_else(|| malformed(&"must begin with a letter and a colon"))?;
    Ok(Some(match kind {
        "f" => Element::Field(text.to_owned()),
        "v" => Element::Value(serde_json::from_str(text).map_err(|why| malformed(&why))?),
        "k" => {
            // A map of JSON values is sorted by its keys.
            let fields: Map<String, Value> =
                serde_json::from_str(text).map_err(|why| malformed(&why))?;
            Element::Key(fields.into_iter().collect())
        }
        "i" => Element::Index(text.parse().map_err(|why| malformed(&why))?),
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client may send any, and the order of its numbers must not contradict itself: a sort may
    /// panic then.
    #[test]
    fn sets_of_large_numbers_are_written() {
        for count in 1..120_i64 {
            let numbers = (0..count).flat_map(|at| {
                let number = (1_i64 << 53) + 4 * at;
                [
                    format!("v:-{number}"),
                    format!("v:-{number}.0"),
                    format!("v:-{}", number + 1),
                ]
            });
            let fields: Map<String, Value> = numbers
                .map(|key| (key, Value::Object(Map::new())))
                .collect();
            let fields = Value::Object(fields);
            let text = serde_json::to_string(&InOrder(&fields)).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), fields);
        }
    }
}
