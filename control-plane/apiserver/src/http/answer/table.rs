//! Objects as rows and columns: what `kubectl get` prints.

mod custom;

use std::sync::Arc;

use machinery::object;
use machinery::schema::Kind;
use machinery::time::Timestamp;
use serde_json::{Value, json};

use crate::http::answer::shown::{Include, only_metadata};
use crate::registry::printers::{Layout, NAME, NAME_LATER, age, descriptions};
use crate::registry::strategy;
use crate::resources::catalogue::Resource;
use crate::resources::convert;
use crate::resources::custom::Column;
use crate::resources::json_path::JsonPath;
use crate::storage::cells::{Cell, Cells};
pub(crate) use custom::Room;

/// A table of these rows.
pub(crate) fn of(resource: &Resource, rows: Vec<Value>, metadata: Value) -> Value {
    with_columns(columns(resource), rows, metadata)
}

fn with_columns(columns: Vec<Value>, rows: Vec<Value>, metadata: Value) -> Value {
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "rows": rows, "columnDefinitions": columns,
    })
}

/// The row of an object in the served version or as it is stored. The room is that of its table.
pub(crate) fn row(
    resource: &Resource,
    object: &Value,
    include: Include,
    now: Timestamp,
    room: &mut Room,
) -> Value {
    let cells = all_cells(resource, object, room);
    let cells: Vec<Value> = cells.iter().map(|cell| cell.at(now)).collect();
    let mut row = json!({"cells": cells});
    if let Some(conditions) = conditions(resource, object) {
        row["conditions"] = conditions;
    }
    row["object"] = shown(resource, object, include);
    row
}

/// A table of the scale of an object of a resource, which has columns of its own.
pub(crate) fn of_scale(
    resource: &Resource,
    scale: &Value,
    include: Include,
    now: Timestamp,
) -> Value {
    // Where nothing is asked for, only the columns of custom resources are empty.
    let (name_format, age_type, texts, none) = match resource.custom {
        Some(_) => ("name", "date", "scales", Value::Null),
        None => ("", "string", "autoscaling/scales", 0.into()),
    };
    let columns = [
        (NAME, "string", name_format),
        ("Desired", "integer", ""),
        ("Available", "integer", ""),
        ("Age", age_type, ""),
    ];
    let columns = columns.map(|(name, kind, format)| {
        let description = descriptions::of_resource(texts, name);
        json!({"name": name, "type": kind, "format": format, "description": description,
            "priority": 0})
    });
    let replicas = |of: &str| {
        let number = object::integer(scale, &[of, "replicas"]);
        number.map_or_else(|| none.clone(), Value::from)
    };
    let cells = json!([
        object::name(scale),
        replicas("spec"),
        replicas("status"),
        age(scale).at(now)
    ]);
    let row = json!({"cells": cells, "object": shown(resource, scale, include)});
    let metadata = json!({"resourceVersion": object::resource_version(scale)});
    with_columns(columns.into(), vec![row], metadata)
}

/// What a row has of its object: whole ones are in the served version, in which those of custom
/// resources and scales are already.
fn shown(resource: &Resource, object: &Value, include: Include) -> Value {
    match include {
        Include::None => Value::Null,
        Include::Metadata => only_metadata(resource, object),
        Include::Object
            if resource.custom.is_none()
                && object::api_version(object) != resource.kind.api_version() =>
        {
            let served = convert::to_served(resource, &Arc::new(object.clone()));
            Arc::unwrap_or_clone(served)
        }
        Include::Object => object.clone(),
    }
}

/// What the columns of a resource are.
pub(crate) fn columns(resource: &Resource) -> Vec<Value> {
    match own_columns(resource) {
        Some(columns) => custom::definitions(&resource.kind, columns),
        None => definitions(&resource.kind, strategy::of(resource).columns),
    }
}

/// The cells of an object in the served version, and the conditions of its row. The room is that of
/// its table.
pub(crate) fn cells(resource: &Resource, object: &Value, room: &mut Room) -> Cells {
    let conditions = conditions(resource, object);
    Cells::new(&all_cells(resource, object, room), conditions.as_ref())
}

fn conditions(resource: &Resource, object: &Value) -> Option<Value> {
    (strategy::of(resource).row_conditions)(object)
}

fn all_cells(resource: &Resource, object: &Value, room: &mut Room) -> Vec<Cell> {
    match own_columns(resource) {
        Some(columns) => custom::cells(columns, object, room),
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

#[test]
fn rows_of_pods_say_whether_they_are_done() {
    use crate::resources::catalogue::Catalogue;

    let catalogue = Catalogue::new(strategy::builtin().iter().cloned());
    let pods = catalogue.resource("", "v1", "pods").unwrap();
    let pod = |phase: &str| json!({"metadata": {"name": "a"}, "status": {"phase": phase}});
    let objects = ["Running", "Succeeded", "Failed"].map(pod);
    let now = Timestamp::default();
    let rows = objects.each_ref();
    let room = &mut Room::default();
    let rows = rows.map(|object| row(pods, object, Include::None, now, room));
    assert_eq!(rows[0].get("conditions"), None);
    let done = json!([{"type": "Completed", "status": "True", "reason": "Succeeded",
        "message": "The pod has completed successfully."}]);
    assert_eq!(rows[1]["conditions"], done);
    assert_eq!(rows[2]["conditions"][0]["reason"], "Failed");
    // What is kept of the cells says the same.
    for (object, row) in objects.iter().zip(&rows) {
        let mut text = b"{\"cells\":".to_vec();
        cells(pods, object, room).write(&mut text, now);
        text.extend_from_slice(b",\"object\":null}");
        assert_eq!(serde_json::from_slice::<Value>(&text).unwrap(), *row);
    }
}

#[test]
fn a_scale_has_columns_of_its_own() {
    use crate::resources::catalogue::Catalogue;

    let catalogue = Catalogue::new(strategy::builtin().iter().cloned());
    let resource = catalogue.resource("apps", "v1", "deployments").unwrap();
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale",
        "metadata": {"name": "web", "resourceVersion": "7",
            "creationTimestamp": "1970-01-01T00:00:00Z"},
        "spec": {"replicas": 3}, "status": {"replicas": 2},
    });
    let now = Timestamp::parse("1970-01-01T00:00:05Z").unwrap();
    let table = of_scale(resource, &scale, Include::Metadata, now);
    assert_eq!(table["rows"][0]["cells"], json!(["web", 3, 2, "5s"]));
    assert_eq!(table["metadata"]["resourceVersion"], "7");
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    let names: Vec<&Value> = columns.clone().map(|one| &one["name"]).collect();
    assert_eq!(names, ["Name", "Desired", "Available", "Age"]);
    assert!(columns.clone().all(|one| one["description"] != ""));
    assert_eq!(table["rows"][0]["object"]["metadata"]["name"], "web");
}

#[test]
fn a_scale_is_one_in_any_version_of_a_custom_resource() {
    use crate::resources::custom::{Definition, Version};

    let mut definition = Definition::widgets();
    definition.versions.push(Version {
        name: "v2".into(),
        stored: false,
        ..definition.versions[0].clone()
    });
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"},
    });
    for resource in definition.resources(None).unwrap() {
        let table = of_scale(&resource, &scale, Include::Object, Timestamp::default());
        assert_eq!(table["rows"][0]["object"], scale);
    }
}
