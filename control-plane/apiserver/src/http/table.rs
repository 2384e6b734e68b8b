//! Objects as rows and columns: what `kubectl get` prints.

mod cluster;
mod config;
mod custom;
mod pod;
mod workload;

use std::sync::Arc;

use machinery::object;
use machinery::time::Timestamp;
use serde_json::{Value, json};

use crate::http::reply::{Include, only_metadata};
use crate::resources::catalogue::Resource;
use crate::resources::custom::Column;
use crate::resources::json_path::JsonPath;
use crate::storage::cells::{Cell, Cells};

/// The column of the name, as it is everywhere or where only wide output shows it.
const NAME: &str = "Name";
const NAME_LATER: &str = "Name*";
/// What is shown for nothing.
const NONE: &str = "<none>";
const UNKNOWN: &str = "<unknown>";

/// The columns of a kind and the cells of an object; its name comes before them, unless it is among
/// them.
struct Layout {
    /// A star marks columns that only wide output shows, a hash numbers.
    columns: &'static [&'static str],
    cells: fn(&Value) -> Vec<Cell>,
}

/// A table of objects in the served version.
pub(crate) fn of(
    resource: &Resource,
    objects: &[Arc<Value>],
    include: Include,
    metadata: Value,
    now: Timestamp,
) -> Value {
    let rows = objects.iter().map(|object| {
        let cells = all_cells(resource, object);
        let cells: Vec<Value> = cells.iter().map(|cell| cell.at(now)).collect();
        let shown = match include {
            Include::None => Value::Null,
            Include::Metadata => only_metadata(object),
            Include::Object => Value::clone(object),
        };
        json!({"cells": cells, "object": shown})
    });
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "rows": rows.collect::<Vec<_>>(), "columnDefinitions": columns(resource),
    })
}

/// What the columns of a resource are.
pub(crate) fn columns(resource: &Resource) -> Vec<Value> {
    match own_columns(resource) {
        Some(columns) => custom::definitions(columns),
        None => layout(resource).definitions(),
    }
}

/// The cells of an object in the served version.
pub(crate) fn cells(resource: &Resource, object: &Value) -> Cells {
    Cells::new(&all_cells(resource, object))
}

fn all_cells(resource: &Resource, object: &Value) -> Vec<Cell> {
    match own_columns(resource) {
        Some(columns) => custom::cells(columns, object),
        None => layout(resource).all_cells(object),
    }
}

/// The columns that the definition of a custom resource names.
fn own_columns(resource: &Resource) -> Option<&[(Column, JsonPath)]> {
    resource.custom.as_ref()?.columns.as_deref()
}

impl Layout {
    /// Some kinds have their name elsewhere: what an event is called tells nobody anything.
    fn begins_with_name(&self) -> bool {
        !self.columns.contains(&NAME_LATER)
    }

    fn definitions(&self) -> Vec<Value> {
        let first = self.begins_with_name().then_some(NAME).into_iter();
        let columns = first.chain(self.columns.iter().copied());
        columns.map(column).collect()
    }

    fn all_cells(&self, object: &Value) -> Vec<Cell> {
        let first = self.begins_with_name().then(|| object::name(object).into());
        let mut cells = Vec::from_iter(first);
        cells.extend((self.cells)(object));
        cells
    }
}

fn column(name: &str) -> Value {
    let is_name = [NAME, NAME_LATER].contains(&name);
    let wide = name.contains('*');
    let number = name.contains('#');
    json!({
        "name": name.trim_end_matches(['*', '#']),
        "type": if number { "integer" } else { "string" },
        "format": if is_name { "name" } else { "" },
        "description": "",
        "priority": i32::from(wide),
    })
}

fn layout(resource: &Resource) -> Layout {
    let builtin = || builtin(resource.kind.group(), resource.kind.plural());
    let found = match resource.custom {
        None => builtin(),
        Some(_) => None,
    };
    found.unwrap_or(Layout {
        columns: &["Age"],
        cells: |object| vec![age(object)],
    })
}

fn builtin(group: &str, plural: &str) -> Option<Layout> {
    let found = match group {
        "" | "events.k8s.io" => pod::layout(plural)
            .or_else(|| cluster::layout(group, plural))
            .or_else(|| workload::layout(plural)),
        "apps" | "batch" | "autoscaling" | "policy" => workload::layout(plural),
        _ => cluster::layout(group, plural),
    };
    found.or_else(|| config::layout(group, plural))
}

/// How old an object is, such as `5m`.
fn age(object: &Value) -> Cell {
    since(object::creation_timestamp(object))
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
    let Some(found) = object::at(object, path) else {
        return NONE.into();
    };
    match machinery::selector::LabelSelector::from_object(found) {
        Ok(selector) if !selector.is_empty() => selector.to_string().into(),
        _ => NONE.into(),
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
