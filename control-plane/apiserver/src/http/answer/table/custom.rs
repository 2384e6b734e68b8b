//! The columns of custom resources, as their definitions name them.

use machinery::object;
use machinery::schema::Kind;
use machinery::time::Timestamp;
use serde_json::{Value, json};

use super::column;
use crate::registry::printers::NAME;
use crate::resources::custom::Column;
use crate::resources::json_path::JsonPath;
use crate::storage::cells::Cell;

/// What is shown for a date that is none.
const INVALID: &str = "<invalid>";

/// The columns, with the name before them.
pub(super) fn definitions(kind: &Kind, columns: &[(Column, JsonPath)]) -> Vec<Value> {
    let more = columns.iter().map(|(column, _)| {
        json!({
            "name": column.name, "type": column.kind, "format": column.format,
            "description": column.description, "priority": column.priority,
        })
    });
    [column(kind, NAME)].into_iter().chain(more).collect()
}

/// The cells of an object.
pub(super) fn cells(columns: &[(Column, JsonPath)], object: &Value) -> Vec<Cell> {
    let more = columns
        .iter()
        .map(|(column, path)| match path.first(object) {
            Some(value) => cell(&column.kind, value),
            None => Value::Null.into(),
        });
    [object::name(object).into()]
        .into_iter()
        .chain(more)
        .collect()
}

/// A value as its column shows it; nothing if it is of another type.
fn cell(kind: &str, value: &Value) -> Cell {
    match (kind, value) {
        ("string", Value::String(text)) => text.as_str().into(),
        ("string", Value::Null) => Value::Null.into(),
        ("string", value) => value.to_string().into(),
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => number.into(),
            (None, number) => number
                .map_or(Value::Null, |number| (number as i64).into())
                .into(),
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone().into(),
        ("date", Value::String(text)) => match Timestamp::parse(text) {
            Some(then) => Cell::ago(then),
            None => INVALID.into(),
        },
        _ => Value::Null.into(),
    }
}
