use serde_json::{Value, json};

use super::*;

fn told(causes: Causes) -> Vec<String> {
    let causes = Vec::from(causes).into_iter();
    causes
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect()
}

fn with(mut pod: Value, pointer: &str, value: Value) -> Value {
    *pod.pointer_mut(pointer).unwrap() = value;
    pod
}

#[test]
fn a_resize_changes_amounts_of_cpu_and_memory_and_nothing_else() {
    let resources = json!({"limits": {"cpu": "1", "a.b/c": "1"}});
    let old = json!({"spec": {"containers": [{"name": "c", "resources": resources}]}});
    let changed = |resources: Value| {
        let new = with(old.clone(), "/spec/containers/0/resources", resources);
        told(resized(&old, &new))
    };
    let none: Vec<String> = Vec::new();
    assert_eq!(
        changed(json!({"limits": {"cpu": "2", "memory": "1Gi", "a.b/c": "1"}})),
        none
    );
    assert_eq!(
        changed(json!({"limits": {"cpu": "2", "a.b/c": "2"}})),
        [format!("spec: Forbidden: {ONLY_AMOUNTS}")]
    );
    assert_eq!(
        changed(json!({"limits": {"a.b/c": "1"}})),
        ["spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed"]
    );
    let renamed = with(old.clone(), "/spec/containers/0/name", json!("d"));
    assert_eq!(
        told(resized(&old, &renamed)),
        ["spec.containers: Forbidden: containers may not be renamed or reordered on resize"]
    );
}

#[test]
fn the_amounts_of_a_whole_pod_change_as_those_of_containers() {
    let pod = |resources: Value| json!({"spec": {"containers": [], "resources": resources}});
    let old = pod(json!({"requests": {"cpu": "1", "hugepages-2Mi": "2Mi"}}));
    let changed = |resources: Value| told(resized(&old, &pod(resources)));
    let none: Vec<String> = Vec::new();
    assert_eq!(
        changed(json!({"requests": {"cpu": "2", "hugepages-2Mi": "2Mi"}})),
        none
    );
    assert_eq!(
        changed(json!({"requests": {"cpu": "1", "hugepages-2Mi": "4Mi"}})),
        ["spec: Forbidden: only cpu and memory resources are mutable at pod-level"]
    );
    assert_eq!(
        changed(json!({"requests": {"hugepages-2Mi": "2Mi"}})),
        ["spec.resources.requests: Forbidden: pod-level resource requests cannot be removed"]
    );
    assert_eq!(
        changed(Value::Null),
        ["spec.resources: Forbidden: pod-level resources cannot be removed"]
    );
    let plain = json!({"spec": {"containers": []}});
    assert_eq!(
        told(resized(&plain, &pod(json!({"requests": {"cpu": "1"}})))),
        none
    );
}

#[test]
fn containers_that_look_on_stay_as_they_were_put_in() {
    let one = json!({"name": "a", "image": "i"});
    let old = json!({"spec": {"ephemeralContainers": [one]}});
    let with = |list: Value| {
        let new = json!({"spec": {"ephemeralContainers": list}});
        told(visitors(&old, &new))
    };
    let none: Vec<String> = Vec::new();
    assert_eq!(with(json!([{"name": "b", "image": "i"}, one])), none);
    let what =
        "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"a\" may not be";
    assert_eq!(with(json!([])), [format!("{what} removed\n")]);
    assert_eq!(
        with(json!([{"name": "a", "image": "j"}])),
        [format!("{what} changed\n")]
    );
}

#[test]
fn a_pod_behind_a_gate_may_choose_fewer_nodes() {
    let old = json!({"spec": {
        "containers": [{"name": "c", "image": "i"}], "nodeSelector": {"a": "b"},
        "schedulingGates": [{"name": "g"}],
    }});
    let changed =
        |pointer: &str, value: Value| told(update(&old, &with(old.clone(), pointer, value)));
    let none: Vec<String> = Vec::new();
    assert_eq!(
        changed("/spec/nodeSelector", json!({"a": "b", "c": "d"})),
        none
    );
    assert_eq!(changed("/spec/schedulingGates", json!([])), none);
    assert_eq!(
        changed("/spec/schedulingGates", json!([{"name": "h"}])),
        [
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'h'"
        ]
    );
    let only = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
    assert_eq!(
        changed("/spec/nodeSelector", json!({"a": "c"})),
        [format!(
            "spec.nodeSelector: Invalid value: {{\"a\":\"c\"}}: {only}"
        )]
    );
    let mut open = old.clone();
    object::remove(&mut open, &["spec", "schedulingGates"]);
    let new = with(
        open.clone(),
        "/spec/nodeSelector",
        json!({"a": "b", "c": "d"}),
    );
    assert_eq!(
        told(update(&open, &new)),
        [format!("spec: Forbidden: {FIXED}")]
    );
}

#[test]
fn the_annotations_that_decide_what_a_pod_may_do_stay() {
    let armor = "container.apparmor.security.beta.kubernetes.io/c";
    let with = |annotations: Value| json!({"metadata": {"annotations": annotations}});
    let told = |old: Value, new: Value| told(annotations(&with(old), &with(new)));
    assert!(told(json!({"a": "b", armor: "x"}), json!({"a": "c", armor: "x"})).is_empty());
    assert_eq!(
        told(json!({}), json!({ armor: "unconfined" })),
        [format!(
            "metadata.annotations[{armor}]: Forbidden: may not add AppArmor annotations"
        )]
    );
    assert_eq!(
        told(json!({ MIRROR_POD: "x" }), json!({})),
        [format!(
            "metadata.annotations[{MIRROR_POD}]: Forbidden: may not remove or update mirror pod annotation"
        )]
    );
}
