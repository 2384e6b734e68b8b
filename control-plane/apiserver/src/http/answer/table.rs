//! Objects as rows and columns: what `kubectl get` prints.

mod custom;

use machinery::schema::Kind;
use machinery::time::Timestamp;
use serde_json::{Value, json};

use crate::http::answer::shown::{Include, only_metadata};
use crate::registry::printers::{Layout, NAME, NAME_LATER, descriptions};
use crate::registry::strategy;
use crate::resources::catalogue::Resource;
use crate::resources::custom::Column;
use crate::resources::json_path::JsonPath;
use crate::storage::cells::{Cell, Cells};

/// A table of these rows.
pub(crate) fn of(resource: &Resource, rows: Vec<Value>, metadata: Value) -> Value {
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "rows": rows, "columnDefinitions": columns(resource),
    })
}

/// The row of an object in the served version.
pub(crate) fn row(resource: &Resource, object: &Value, include: Include, now: Timestamp) -> Value {
    let cells = all_cells(resource, object);
    let cells: Vec<Value> = cells.iter().map(|cell| cell.at(now)).collect();
    let shown = match include {
        Include::None => Value::Null,
        Include::Metadata => only_metadata(resource, object),
        Include::Object => object.clone(),
    };
    let mut row = json!({"cells": cells});
    if let Some(conditions) = conditions(resource, object) {
        row["conditions"] = conditions;
    }
    row["object"] = shown;
    row
}

/// What the columns of a resource are.
pub(crate) fn columns(resource: &Resource) -> Vec<Value> {
    match own_columns(resource) {
        Some(columns) => custom::definitions(&resource.kind, columns),
        None => definitions(&resource.kind, strategy::of(resource).columns),
    }
}

/// The cells of an object in the served version, and the conditions of its row.
pub(crate) fn cells(resource: &Resource, object: &Value) -> Cells {
    let conditions = conditions(resource, object);
    Cells::new(&all_cells(resource, object), conditions.as_ref())
}

fn conditions(resource: &Resource, object: &Value) -> Option<Value> {
    (strategy::of(resource).row_conditions)(object)
}

fn all_cells(resource: &Resource, object: &Value) -> Vec<Cell> {
    match own_columns(resource) {
        Some(columns) => custom::cells(columns, object),
        None => strategy::of(resource).columns.all_cells(object),
    }
}

/// The columns that the definition of a custom resource names.
fn own_columns(resource: &Resource) -> Option<&[(Column, JsonPath)]> {
    resource.custom.as_ref()?.columns.as_deref()
}

fn definitions(kind: &Kind, layout: &Layout) -> Vec<Value> {
    let first = layout.begins_with_name().then_some(NAME).into_iter();
    let columns = first.chain(layout.columns.iter().copied());
    columns.map(|name| column(kind, name)).collect()
}

fn column(of: &Kind, name: &str) -> Value {
    let is_name = [NAME, NAME_LATER].contains(&name) || name.ends_with('=');
    let wide = name.contains('*');
    let kinds = [('#', "integer"), ('?', "boolean"), ('@', "date")];
    let kind = kinds.iter().find(|(mark, _)| name.ends_with(*mark));
    let name = name.trim_end_matches(['*', '#', '?', '@', '=']);
    json!({
        "name": name,
        "type": kind.map_or("string", |(_, kind)| *kind),
        "format": if is_name { "name" } else { "" },
        "description": descriptions::of(of, name),
        "priority": i32::from(wide),
    })
}
