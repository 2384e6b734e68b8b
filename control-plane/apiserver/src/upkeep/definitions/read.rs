//! A CustomResourceDefinition as the catalogue takes it.

use machinery::name;
use machinery::object;
use machinery::schema::{Names, Scope};
use serde_json::{Value, json};

use crate::registry::definition::TERMINATING;
use crate::registry::definition::holds;
use crate::resources::custom::{Column, Definition, Scale, Version};
use crate::resources::json_path::JsonPath;

/// All of a definition that [`definition`] reads, except the uid: if both are equal, so is the
/// result.
pub(super) fn source(definition: &Value) -> Value {
    json!({
        "spec": definition["spec"],
        "names": definition["status"]["acceptedNames"],
        "terminating": holds(definition, TERMINATING),
    })
}

/// Reads a definition whose names have been accepted. It kept the rules when it was stored.
pub(super) fn definition(definition: &Value) -> Definition {
    let names = &definition["status"]["acceptedNames"];
    let name = |key: &str| object::text(names, &[key]).to_owned().into();
    let list = |key: &str| {
        let all = object::items(names, &[key]).iter();
        all.filter_map(Value::as_str)
            .map(|one| one.to_owned().into())
            .collect()
    };
    let spec = &definition["spec"];
    let scope = if object::text(spec, &["scope"]) == "Cluster" {
        Scope::Cluster
    } else {
        Scope::Namespaced
    };
    Definition {
        group: object::text(spec, &["group"]).to_owned(),
        names: Names {
            kind: name("kind"),
            list_kind: name("listKind"),
            plural: name("plural"),
            singular: name("singular"),
            short_names: list("shortNames"),
            categories: list("categories"),
        },
        scope,
        versions: object::items(spec, &["versions"])
            .iter()
            .map(|one| Version {
                deprecated: deprecation(spec, one),
                ..version(one)
            })
            .collect(),
        terminating: holds(definition, TERMINATING),
        uid: object::uid(definition).to_owned(),
    }
}

fn version(version: &Value) -> Version {
    let selectable = object::items(version, &["selectableFields"]).iter();
    let selectable = selectable.filter_map(|field| field["jsonPath"].as_str());
    Version {
        name: object::text(version, &["name"]).to_owned(),
        served: version["served"] == true,
        stored: version["storage"] == true,
        status: version["subresources"]["status"].is_object(),
        scale: scale(&version["subresources"]["scale"]),
        columns: columns(object::items(version, &["additionalPrinterColumns"])),
        selectable: selectable.map(str::to_owned).collect(),
        schema: object::at(version, &["schema", "openAPIV3Schema"]).cloned(),
        deprecated: None,
    }
}

/// The warning of a deprecated version: its author's, or one that names the newest version that is
/// served, not deprecated and newer than this.
fn deprecation(spec: &Value, version: &Value) -> Option<String> {
    if version["deprecated"] != true {
        return None;
    }
    if let Some(warning) = version["deprecationWarning"].as_str() {
        return Some(warning.to_owned());
    }
    let (group, kind) = (
        object::text(spec, &["group"]),
        object::text(spec, &["names", "kind"]),
    );
    let this = object::text(version, &["name"]);
    let versions = object::items(spec, &["versions"]).iter();
    let better = versions
        .filter(|one| one["served"] == true && one["deprecated"] != true)
        .map(|one| object::text(one, &["name"]))
        .filter(|name| name::compare_versions(this, name).is_lt());
    let newest = better.max_by(|a, b| name::compare_versions(a, b));
    let advice = newest.map(|newest| format!("; use {group}/{newest} {kind}"));
    let advice = advice.unwrap_or_default();
    Some(format!("{group}/{this} {kind} is deprecated{advice}"))
}

fn scale(scale: &Value) -> Option<Scale> {
    let path = |key: &str| object::text(scale, &[key]).to_owned();
    scale.is_object().then(|| Scale {
        spec_replicas: path("specReplicasPath"),
        status_replicas: path("statusReplicasPath"),
        label_selector: path("labelSelectorPath"),
    })
}

/// The columns up to the first one whose path cannot be read, as in Kubernetes; if that is the first
/// of all, there is none, not even the age.
fn columns(columns: &[Value]) -> Option<Vec<Column>> {
    let read = columns.iter().map_while(|column| {
        let text = |key: &str| object::text(column, &[key]).to_owned();
        let priority = object::integer(column, &["priority"]).unwrap_or(0);
        let column = Column {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: i32::try_from(priority).unwrap_or(0),
            json_path: text("jsonPath"),
        };
        JsonPath::parse(&column.json_path).ok().map(|_| column)
    });
    (!columns.is_empty()).then(|| read.collect())
}

#[test]
fn columns_end_where_a_path_cannot_be_read() {
    let names = |paths: &[&str]| {
        let all = paths.iter().enumerate();
        let all = all.map(|(at, path)| json!({"name": at.to_string(), "jsonPath": path}));
        let read = columns(&all.collect::<Vec<_>>())?;
        Some(read.into_iter().map(|one| one.name).collect::<String>())
    };
    let wrong = ".a[?(@.b>1)";
    assert_eq!(names(&[]), None);
    assert_eq!(names(&[".a", ".b"]).as_deref(), Some("01"));
    assert_eq!(names(&[".a", wrong, ".b"]).as_deref(), Some("0"));
    assert_eq!(names(&[wrong, ".b"]).as_deref(), Some(""));
}

#[test]
fn a_deprecated_version_names_a_better_one() {
    let version = |name: &str, deprecated: bool| json!({"name": name, "served": true, "deprecated": deprecated});
    let mut spec = json!({
        "group": "a.example", "names": {"kind": "Thing"},
        "versions": [version("v1beta1", true), version("v1", false), version("v1beta2", false)],
    });
    let warning = |spec: &Value, at: usize| deprecation(spec, &spec["versions"][at]);
    let said = "a.example/v1beta1 Thing is deprecated; use a.example/v1 Thing";
    assert_eq!(warning(&spec, 0).as_deref(), Some(said));
    assert_eq!(warning(&spec, 1), None);
    spec["versions"][1]["deprecated"] = true.into();
    let said = "a.example/v1 Thing is deprecated";
    assert_eq!(warning(&spec, 1).as_deref(), Some(said));
    spec["versions"][1]["deprecationWarning"] = "move on".into();
    assert_eq!(warning(&spec, 1).as_deref(), Some("move on"));
}
