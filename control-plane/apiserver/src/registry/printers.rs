//! The columns of built-in resources, and the cells of an object: what `kubectl get` prints.

pub(crate) mod cluster;
pub(crate) mod config;
pub(crate) mod descriptions;
pub(crate) mod devices;
pub(crate) mod pod;
pub(crate) mod storage;
pub(crate) mod workload;

use machinery::object;
use machinery::time::Timestamp;
use serde_json::Value;

use crate::storage::cells::Cell;

/// The column of the name, as it is everywhere or where only wide output shows it.
pub(crate) const NAME: &str = "Name";
pub(crate) const NAME_LATER: &str = "Name*";
/// What is shown for nothing.
const NONE: &str = "<none>";
pub(crate) const UNKNOWN: &str = "<unknown>";
const UNSET: &str = "<unset>";
/// How Go writes a time that is not set.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

/// The columns of a kind and the cells of an object; its name comes before them, unless it is among
/// them.
pub(crate) struct Layout {
    /// A star marks columns that only wide output shows; a hash numbers, a question mark what is
    /// true or false, an at sign
    /// times, an equals sign names.
    pub(crate) columns: &'static [&'static str],
    pub(crate) cells: fn(&Value) -> Vec<Cell>,
}

/// The layout of a resource that has none of its own.
pub(crate) const DEFAULT: Layout = Layout {
    columns: &["Age"],
    cells: |object| vec![age(object)],
};

/// The layout of a custom resource whose definition names no columns.
pub(crate) const CUSTOM: Layout = Layout {
    columns: &["Age@"],
    cells: |object| vec![age(object)],
};

/// The layout of a resource that Kubernetes has no printer for.
pub(crate) const CREATED_AT: Layout = Layout {
    columns: &["Created At@"],
    cells: |object| vec![created_at(object)],
};

impl Layout {
    /// Some kinds have their name elsewhere: what an event is called tells nobody anything. Others
    /// show more with it.
    pub(crate) fn begins_with_name(&self) -> bool {
        ![NAME, NAME_LATER]
            .iter()
            .any(|name| self.columns.contains(name))
    }

    /// All cells of an object, the name included.
    pub(crate) fn all_cells(&self, object: &Value) -> Vec<Cell> {
        let first = self.begins_with_name().then(|| object::name(object).into());
        let mut cells = Vec::from_iter(first);
        cells.extend((self.cells)(object));
        cells
    }
}

/// How old an object is, such as `5m`.
pub(crate) fn age(object: &Value) -> Cell {
    since(object::creation_timestamp(object))
}

/// When an object was made; Go's zero time for one that never was.
fn created_at(object: &Value) -> Cell {
    text_or(object, &["metadata", "creationTimestamp"], ZERO_TIME)
}

/// The name, and whether an annotation makes the object the default of its kind.
fn name_of_default(object: &Value, annotations: &[&str]) -> Cell {
    let name = object::name(object);
    let set = |key: &&str| object::text(object, &["metadata", "annotations", key]) == "true";
    if annotations.iter().any(set) {
        format!("{name} (default)").into()
    } else {
        name.into()
    }
}

/// Whether a field is true; it is `missing` without one.
fn flag_or(object: &Value, path: &[&str], missing: bool) -> bool {
    let flag = object::at(object, path).and_then(Value::as_bool);
    flag.unwrap_or(missing)
}

/// How long ago a time was.
fn since(text: &str) -> Cell {
    match Timestamp::parse(text) {
        Some(then) => Cell::ago(then),
        None => UNKNOWN.into(),
    }
}

/// An integer of the object; 0 when there is none.
fn number(object: &Value, path: &[&str]) -> Cell {
    count(object, path).into()
}

/// The same as a part of a text.
fn count(object: &Value, path: &[&str]) -> i64 {
    object::integer(object, path).unwrap_or(0)
}

/// A text of the object, or what stands for none.
fn text_or(object: &Value, path: &[&str], none: &str) -> Cell {
    match object::text(object, path) {
        "" => none.into(),
        text => text.into(),
    }
}

/// Anything as a cell: numbers and text as they are.
fn any_or(object: &Value, path: &[&str], none: &str) -> Cell {
    match object::at(object, path) {
        None | Some(Value::Null) => none.into(),
        Some(value @ Value::String(_)) => value.clone().into(),
        Some(value) => value.to_string().into(),
    }
}

/// The names and the images of the containers below a path, joined by commas.
fn containers(object: &Value, path: &[&str]) -> [Cell; 2] {
    let all = object::items(object, path);
    ["name", "image"].map(|key| {
        let texts: Vec<&str> = all.iter().map(|one| object::text(one, &[key])).collect();
        texts.join(",").into()
    })
}

/// A label selector as text.
fn selector(object: &Value, path: &[&str]) -> Cell {
    selector_or(object, path, NONE)
}

/// The same, with another text for a selector without conditions.
fn selector_or(object: &Value, path: &[&str], none: &str) -> Cell {
    let Some(found) = object::at(object, path) else {
        return none.into();
    };
    match machinery::selector::LabelSelector::from_object(found) {
        Ok(selector) if !selector.is_empty() => selector.to_string().into(),
        _ => none.into(),
    }
}

/// A plain map of labels as text.
fn labels(object: &Value, path: &[&str]) -> Cell {
    let map = object::at(object, path).and_then(Value::as_object);
    let pairs = map.into_iter().flatten();
    let pairs: Vec<String> = pairs
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if pairs.is_empty() {
        NONE.into()
    } else {
        pairs.join(",").into()
    }
}

/// The first few of a list, and how many more there are.
fn shortened(texts: &[String], most: usize) -> Cell {
    match texts.len() {
        0 => NONE.into(),
        count if count > most => {
            format!("{} + {} more...", texts[..most].join(","), count - most).into()
        }
        _ => texts.join(",").into(),
    }
}
