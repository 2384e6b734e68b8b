//! What the random writes of `apply` do not reach: their annotations are Go's.

use serde_json::{Value, json};

use super::{autoscaler, definition, event};
use crate::object;

#[test]
fn an_event_has_its_fields_under_the_names_of_either_group() {
    let core =
        json!({"involvedObject": {"kind": "Pod"}, "message": "m", "reason": "r", "count": 2});
    let mut object = core.clone();
    event::to_events(&mut object);
    let events =
        json!({"regarding": {"kind": "Pod"}, "note": "m", "reason": "r", "deprecatedCount": 2});
    assert_eq!(object, events);
    event::to_core(&mut object);
    assert_eq!(object, core);
}

#[test]
fn what_v1_has_no_field_for_comes_back() {
    let metric = |name: &str, target: Value| json!({"type": "Resource", "resource": {"name": name, "target": target}});
    let before = json!({
        "metadata": {"annotations": {"a": "b"}},
        "spec": {
            "metrics": [
                metric("memory", json!({"type": "AverageValue", "averageValue": "1Gi"})),
                metric("cpu", json!({"type": "Utilization", "averageUtilization": 60})),
            ],
            "behavior": {"scaleDown": {"selectPolicy": "Disabled", "tolerance": "50m"}},
        },
        "status": {"currentReplicas": 1, "conditions": [
            {"type": "AbleToScale", "status": "True", "lastTransitionTime": null}]},
    });
    let mut object = before.clone();
    autoscaler::to_v1(&mut object);
    let annotation = |key: &str| {
        let key = format!("autoscaling.alpha.kubernetes.io/{key}");
        object::annotation(&object, &key).unwrap().to_owned()
    };
    assert_eq!(
        annotation("metrics"),
        r#"[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}}]"#
    );
    assert_eq!(
        annotation("behavior"),
        r#"{"ScaleUp":null,"ScaleDown":{"StabilizationWindowSeconds":null,"SelectPolicy":"Disabled","Policies":null,"Tolerance":"50m"}}"#
    );
    assert_eq!(object["spec"]["targetCPUUtilizationPercentage"], 60);
    autoscaler::to_v2(&mut object);
    assert_eq!(object, before);
}

#[test]
fn annotations_of_v1_are_of_the_spec_or_of_the_status() {
    let key = |name: &str| format!("autoscaling.alpha.kubernetes.io/{name}");
    let object = |metrics: &str, current: &str| {
        json!({"metadata": {"annotations": {
            key("metrics"): metrics, key("current-metrics"): current, "a": "b",
        }}})
    };
    let old = object("old", "old");
    let mut new = object("new", "new");
    autoscaler::keep_status(Some(&old), &mut new);
    assert_eq!(new, object("new", "old"));
    let mut new = object("new", "new");
    autoscaler::keep_spec(&old, &mut new);
    assert_eq!(new, object("old", "new"));
    let mut made = object("new", "new");
    autoscaler::keep_status(None, &mut made);
    assert_eq!(object::annotation(&made, &key("current-metrics")), None);
}

#[test]
fn what_all_versions_of_a_definition_have_is_stored_once() {
    let column = |path: &str| json!([{"name": "A", "type": "date", path: ".metadata.name"}]);
    let version = |name: &str, path: &str| {
        json!({"name": name, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object"}}, "additionalPrinterColumns": column(path)})
    };
    let webhook = json!({"clientConfig": {"url": "https://a"}, "conversionReviewVersions": ["v1"]});
    let v1 = json!({"spec": {
        "versions": [version("v1", "jsonPath"), version("v2", "jsonPath")],
        "conversion": {"strategy": "Webhook", "webhook": webhook}}});
    let v1beta1 = json!({"spec": {
        "version": "v1", "versions": [{"name": "v1"}, {"name": "v2"}],
        "validation": {"openAPIV3Schema": {"type": "object"}}, "subresources": {"status": {}},
        "additionalPrinterColumns": column("JSONPath"), "preserveUnknownFields": false,
        "conversion": {"strategy": "Webhook", "webhookClientConfig": {"url": "https://a"},
            "conversionReviewVersions": ["v1"]}}});
    let mut object = v1.clone();
    definition::to_v1beta1(&mut object);
    assert_eq!(object, v1beta1);
    definition::to_v1(&mut object);
    assert_eq!(object, v1);

    // What differs remains in the versions.
    let mut differ = v1;
    differ["spec"]["versions"][1]["subresources"] = json!({});
    differ["spec"]["versions"][0]["additionalPrinterColumns"] = json!([]);
    let mut object = differ.clone();
    definition::to_v1beta1(&mut object);
    assert_eq!(object["spec"].get("subresources"), None);
    assert_eq!(
        object["spec"]["versions"][1]["additionalPrinterColumns"],
        column("JSONPath")
    );
    definition::to_v1(&mut object);
    assert_eq!(object, differ);
}

#[test]
fn a_definition_of_one_version_may_name_it_alone() {
    let mut object = json!({"spec": {"version": "v1", "validation": {"openAPIV3Schema": {}}}});
    definition::to_v1(&mut object);
    let only = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {}}});
    // Nothing said of unknown fields means that they are kept.
    assert_eq!(
        object["spec"],
        json!({"versions": [only], "preserveUnknownFields": true})
    );
}
