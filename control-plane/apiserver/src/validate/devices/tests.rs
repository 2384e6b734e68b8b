use machinery::object;
use serde_json::{Value, json};

use super::*;

/// The fields with errors, each as often as it has one.
fn fields(causes: Causes) -> Vec<String> {
    let mut fields: Vec<String> = causes.into_iter().map(|cause| cause.field).collect();
    fields.sort();
    fields
}

fn slice_of(change: Value) -> Value {
    let spec = json!({"driver": "d.example.com", "allNodes": true,
        "pool": {"name": "p", "resourceSliceCount": 1}, "devices": [{"name": "gpu-0"}]});
    let mut slice = json!({ "spec": spec });
    for (key, value) in change.as_object().unwrap() {
        slice["spec"][key] = value.clone();
    }
    slice
}

#[test]
fn devices_have_names_and_one_term_selects_their_nodes() {
    let told = |change: Value| fields(slice(&slice_of(change)));
    assert!(told(json!({})).is_empty());
    assert_eq!(
        told(json!({"devices": [{"name": ""}]})),
        ["spec.devices[0].name"]
    );
    let twice = json!({"devices": [{"name": "a"}, {"name": "a"}]});
    assert_eq!(told(twice), ["spec.devices[1]"]);
    let term = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
    let selects =
        |terms: Value| json!({"allNodes": null, "nodeSelector": {"nodeSelectorTerms": terms}});
    let place = "spec.nodeSelector.nodeSelectorTerms";
    assert!(told(selects(json!([term]))).is_empty());
    assert_eq!(told(selects(json!([term, term]))), [place]);
    assert_eq!(told(selects(json!([]))), [place, place]);
}

#[test]
fn a_device_says_where_it_is_if_its_slice_does_not() {
    let told = |by_device: bool, device: Value| {
        let mut change = json!({ "devices": [device] });
        if by_device {
            change["allNodes"] = Value::Null;
            change["perDeviceNodeSelection"] = true.into();
        }
        fields(slice(&slice_of(change)))
    };
    let somewhere = json!({"name": "a", "nodeName": "n"});
    assert!(told(true, somewhere.clone()).is_empty());
    for (by_device, device) in [
        (false, somewhere),
        (true, json!({"name": "a"})),
        (
            true,
            json!({"name": "a", "nodeName": "n", "allNodes": true}),
        ),
    ] {
        assert_eq!(told(by_device, device), ["spec.devices[0]"]);
    }
}

#[test]
fn what_may_be_asked_of_a_capacity_follows_its_policy() {
    let told = |policy: Value| {
        let capacity = json!({"memory": {"value": "8Gi", "requestPolicy": policy}});
        let device = json!({"name": "a", "allowMultipleAllocations": true, "capacity": capacity});
        let causes = slice(&slice_of(json!({ "devices": [device] })));
        let texts = causes.into_iter().map(|cause| {
            let (_, field) = cause.field.split_once("requestPolicy").unwrap();
            format!("{field} {}", cause.message)
        });
        texts.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        told(json!({"default": "1Gi", "validValues": ["1Gi", "2Gi"]})),
        ""
    );
    assert_eq!(
        told(json!({"default": "3Gi", "validValues": ["2Gi", "1Gi", "9Gi"]})),
        ".validValues[1] Invalid value: \"1Gi\": values must be sorted in ascending order\n\
         .validValues[2] Invalid value: \"9Gi\": option is larger than capacity value: 8Gi\n\
         .validValues Invalid value: \"3Gi\": default value is not valid according to the \
         requestPolicy"
    );
    let range = json!({"min": "1Gi", "max": "4Gi", "step": "1Gi"});
    assert_eq!(told(json!({"default": "2Gi", "validRange": range})), "");
    assert_eq!(
        told(json!({"default": "1536Mi", "validRange": range})),
        ".validRange.step Invalid value: \"1536Mi\": value is not a multiple of a given step \
         (1Gi) from (1Gi)"
    );
    let missing = told(json!({"validRange": range}));
    assert_eq!(
        missing,
        ".default Required value: required when validRange is defined"
    );
}

#[test]
fn a_claim_names_its_requests_and_their_alternatives() {
    let wanted = json!({"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1});
    let mut either = wanted.clone();
    either["name"] = "a".into();
    let told = |references: &[&str]| {
        let devices = json!({"requests": [
            {"name": "r", "exactly": wanted},
            {"name": "s", "firstAvailable": [either]},
        ], "constraints": [{"requests": references, "matchAttribute": "example.com/a"}]});
        fields(claim(&json!({"spec": {"devices": devices}})))
    };
    assert!(told(&["r", "s", "s/a"]).is_empty());
    let first = "spec.devices.constraints[0].requests[0]";
    assert_eq!(told(&["r/a"]), [first]);
    assert_eq!(told(&["s/a/b"]), [first]);
    assert_eq!(told(&["B!"]), [first, first]);
    assert_eq!(
        told(&["r", "r"]),
        ["spec.devices.constraints[0].requests[1]"]
    );
}

#[test]
fn an_allocation_stays_as_it_is_and_only_allocated_devices_have_a_status() {
    let result = json!({"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"});
    let allocated = json!({
        "metadata": {"name": "c"},
        "spec": {"devices": {"requests": [{"name": "r"}]}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    });
    let mut before = allocated.clone();
    object::remove(&mut before, &["status"]);
    let told = |old: &Value, new: &Value| fields(status("status", old, new));
    assert!(told(&before, &allocated).is_empty());
    let mut other = allocated.clone();
    other["status"]["allocation"]["devices"]["results"][0]["device"] = "Y".into();
    assert_eq!(
        told(&before, &other),
        ["status.allocation.devices.results[0].device"]
    );
    assert_eq!(told(&allocated, &other), ["status.allocation"]);
    let mut used = allocated.clone();
    used["status"]["reservedFor"] = json!([{"resource": "pods", "name": "p", "uid": "u"}]);
    assert!(told(&allocated, &used).is_empty());
    used["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(told(&allocated, &used), ["status.reservedFor"]);
    let mut said = allocated.clone();
    said["status"]["devices"] = json!([{"driver": "d.example.com", "pool": "p", "device": "x"}]);
    assert!(told(&allocated, &said).is_empty());
    said["status"]["devices"][0]["shareID"] = "ABCDEF00-0000-0000-0000-000000000000".into();
    assert_eq!(
        told(&allocated, &said),
        ["status.devices[0]", "status.devices[0].shareID"]
    );
}

#[test]
fn conditions_of_both_sorts_are_looked_up() {
    let told = |good: Vec<String>, bad: Vec<String>| {
        let device = json!({
            "name": "a", "bindingConditions": good, "bindingFailureConditions": bad,
        });
        let causes = slice(&slice_of(json!({ "devices": [device] })));
        causes
            .into_iter()
            .map(|cause| cause.field)
            .collect::<Vec<_>>()
    };
    let few = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    assert!(told(few(&["a", "b"]), few(&["c"])).is_empty());
    let place = "spec.devices[0].bindingFailureConditions[1]";
    assert_eq!(told(few(&["a", "b"]), few(&["c", "b"])), [place]);
    // As many as a body has room for: it would take minutes to compare each with each.
    let many = |letter: &str| (0..200_000).map(|at| format!("{letter}{at}")).collect();
    let both = told(many("a"), many("b"));
    assert_eq!(
        both,
        [
            "spec.devices[0].bindingConditions",
            "spec.devices[0].bindingFailureConditions"
        ]
    );
}
