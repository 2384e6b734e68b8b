use std::sync::Arc;

use axum::body::Body;
use http::Response;
use serde_json::{Value, json};

use super::{Form, Shown, WARNING_CHARS_MAX, WARNINGS_CHARS_MAX, warn};
use crate::http::answer::shown::Include;
use crate::http::media::{Accept, Encoding};
use crate::registry::strategy;
use crate::resources::catalogue::{Catalogue, Resource};
use crate::resources::convert;
use crate::resources::custom::{Column, Definition, Version};
use crate::storage::stored::Stored;

fn headers(warnings: &[String]) -> Vec<String> {
    let mut response = Response::new(Body::empty());
    warn(&mut response, warnings);
    let all = response.headers().get_all("Warning").iter();
    all.map(|one| String::from_utf8(one.as_bytes().to_vec()).unwrap())
        .collect()
}

#[test]
fn warnings_are_whole_until_together_they_are_too_long() {
    let told = headers(&["a \"b\"\n".into(), String::new(), "größer".into()]);
    assert_eq!(told, ["299 - \"a \\\"b\\\"\"", "299 - \"größer\""]);
    let around = "299 - \"\"".len();
    let one = headers(&["x".repeat(WARNINGS_CHARS_MAX)]);
    assert_eq!(one[0].len(), WARNINGS_CHARS_MAX + around);
    let many: Vec<String> = (0..100)
        .map(|at| format!("{at}{}", "x".repeat(1000)))
        .collect();
    let told = headers(&many);
    assert_eq!(told.len(), WARNINGS_CHARS_MAX / WARNING_CHARS_MAX);
    assert!(
        told.iter()
            .all(|one| one.len() == WARNING_CHARS_MAX + around)
    );
}

/// An autoscaler as it is stored, with a metric that its first version has no field for.
fn autoscaler() -> Value {
    json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "n"},
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": {
                    "type": "Utilization", "averageUtilization": 60}}},
                {"type": "Pods", "pods": {"metric": {"name": "requests"}, "target": {
                    "type": "AverageValue", "averageValue": "10"}}},
            ],
        },
        "status": {"currentMetrics": [
            {"type": "Resource", "resource": {"name": "cpu", "current": {
                "averageUtilization": 40, "averageValue": "1"}}},
            {"type": "Pods", "pods": {"metric": {"name": "requests"}, "current": {
                "averageValue": "7"}}},
        ]},
    })
}

/// A stored object of a resource, as a table.
fn table(resource: &Arc<Resource>, object: &Value, include: Include) -> Value {
    let storage = resource.storage.as_ref().unwrap();
    let text = object.to_string();
    let stored = Stored::read(storage, "/registry/x/y", text.as_bytes(), 7).unwrap();
    let accept = Accept {
        encoding: Encoding::Json,
        form: Form::Table,
        of_list: false,
        beta: false,
    };
    let shown = Shown {
        resource: Arc::clone(resource),
        accept,
        include,
    };
    let table = shown.stored(&stored).unwrap();
    serde_json::from_slice(&table).unwrap()
}

#[test]
fn a_table_shows_what_is_stored_in_whatever_version_it_is_asked_for() {
    let catalogue = Catalogue::new(strategy::builtin().iter().cloned());
    for version in ["v1", "v2"] {
        let found = catalogue.resource("autoscaling", version, "horizontalpodautoscalers");
        let resource = found.unwrap();
        let row = |include: Include| {
            let table = table(resource, &autoscaler(), include);
            let row = &table["rows"][0];
            assert_eq!(row["cells"][2], "cpu: 40%/60%, 7/10", "{version}");
            row["object"].clone()
        };
        assert_eq!(row(Include::None), Value::Null);
        let metadata = row(Include::Metadata)["metadata"].clone();
        assert_eq!(
            (&metadata["name"], &metadata["annotations"]),
            (&json!("web"), &Value::Null)
        );
        let object = row(Include::Object);
        let version_of_object = format!("autoscaling/{version}");
        assert_eq!(object["apiVersion"], version_of_object);
        let target = &object["spec"]["targetCPUUtilizationPercentage"];
        assert_eq!(target.is_null(), version == "v2");
    }
}

#[test]
fn a_table_of_a_custom_resource_is_of_the_version_that_is_asked_for() {
    let mut definition = Definition::widgets();
    let column = |name: &str, json_path: &str| Column {
        name: name.into(),
        kind: "string".into(),
        format: String::new(),
        description: String::new(),
        priority: 0,
        json_path: json_path.into(),
    };
    let columns = [column("Version", ".apiVersion"), column("Size", ".size")];
    definition.versions[0].columns = Some(columns.into());
    definition.versions.push(Version {
        name: "v2".into(),
        stored: false,
        ..definition.versions[0].clone()
    });
    let object = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "a", "namespace": "n"}, "size": "big"});
    let resources = definition.resources(None).unwrap();
    let shown = resources.iter().map(|resource| {
        let mut table = table(resource, &object, Include::Object);
        let row = table["rows"][0].take();
        let version = row["object"]["apiVersion"].clone();
        assert_eq!(row["cells"], json!(["a", version, "big"]));
        version
    });
    let versions: Vec<Value> = shown.collect();
    assert_eq!(versions, ["example.com/v2", "example.com/v1"]);
}

#[test]
fn the_row_of_an_autoscaler_of_version_1_has_the_metrics_in_its_annotations() {
    let catalogue = Catalogue::new(strategy::builtin().iter().cloned());
    let found = catalogue.resource("autoscaling", "v1", "horizontalpodautoscalers");
    let resource = found.unwrap();
    let mut stored = autoscaler();
    stored["status"] = Value::Null;
    let served = convert::to_served(resource, &Arc::new(stored));
    assert_eq!(served["apiVersion"], "autoscaling/v1");
    let cells = strategy::of(resource).columns.all_cells(&served);
    let shown = cells[2].at(machinery::time::Timestamp::default());
    assert_eq!(shown, "<unknown>/10, cpu: <unknown>/60%");
}
