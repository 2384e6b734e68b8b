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
    let old = json!({"spec": {"containers": [
        {"name": "c", "resources": resources},
        {"name": "d", "resources": {"requests": {"cpu": "1"}}},
    ]}});
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
    let renamed = with(old.clone(), "/spec/containers/0/name", json!("e"));
    assert_eq!(
        told(resized(&old, &renamed)),
        [
            "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"
        ]
    );
    let policy = json!([{"resourceName": "cpu", "restartPolicy": "NotRequired"}]);
    let mut other = old.clone();
    other["spec"]["containers"][0]["resizePolicy"] = policy;
    assert_eq!(
        told(resized(&old, &other)),
        [format!("spec: Forbidden: {ONLY_AMOUNTS}")]
    );
}

#[test]
fn a_resize_keeps_the_quality_of_service() {
    let pod = |resources: Value, status: Value| {
        let container = json!({"name": "c", "resources": resources});
        json!({"spec": {"containers": [container]}, "status": status})
    };
    let amounts = |cpu: &str| json!({"cpu": cpu, "memory": "1Gi"});
    let class = json!({"qosClass": "Guaranteed"});
    let equal = |cpu: &str| json!({"requests": amounts(cpu), "limits": amounts(cpu)});
    let old = pod(equal("1"), class.clone());
    let none: Vec<String> = Vec::new();
    assert_eq!(told(resized(&old, &pod(equal("2"), class.clone()))), none);
    let burstable = json!({"requests": amounts("1"), "limits": amounts("2")});
    assert_eq!(
        told(resized(&old, &pod(burstable, class))),
        [
            "spec: Invalid value: \"Guaranteed\": Pod QOS Class may not change as a result of resizing"
        ]
    );
    let running = json!({"qosClass": "Guaranteed", "containerStatuses": [
        {"name": "c", "state": {"running": {}}}]});
    let old = pod(equal("1"), running.clone());
    assert_eq!(
        told(resized(&old, &pod(equal("2"), running))),
        ["spec: Forbidden: Pod running on node without support for resize"]
    );
}

#[test]
fn an_init_container_is_resized_unless_it_would_start_again() {
    let pod = |cpu: &str, more: Value| {
        let mut init = json!({"name": "i", "resources": {"requests": {"cpu": cpu}}});
        let more = more.as_object().cloned().into_iter().flatten();
        init.as_object_mut().unwrap().extend(more);
        json!({"spec": {"initContainers": [init], "containers": []}})
    };
    let resized = |more: Value| told(resized(&pod("1", more.clone()), &pod("2", more)));
    let none: Vec<String> = Vec::new();
    assert_eq!(resized(json!({})), none);
    let policy = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
    let sidecar = json!({"resizePolicy": policy, "restartPolicy": "Always"});
    assert_eq!(resized(sidecar), none);
    assert_eq!(
        resized(json!({"resizePolicy": policy})),
        [
            "spec.initContainers[0]: Forbidden: non-sidecar init containers with a resize policy of \
             RestartContainer cannot be resized"
        ]
    );
}

#[test]
fn pods_of_files_and_of_windows_are_not_resized() {
    let mirror = json!({"metadata": {"annotations": {MIRROR_POD: "x"}}});
    let windows = json!({"spec": {"os": {"name": "windows"}}});
    assert!(refused("resize", &mirror).is_some());
    assert!(refused("resize", &windows).is_some());
    assert!(refused("ephemeralcontainers", &mirror).is_some());
    assert!(refused("ephemeralcontainers", &windows).is_none());
    assert!(refused("status", &mirror).is_none());
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
    let fewer = changed(json!({"requests": {"hugepages-2Mi": "2Mi"}}));
    assert_eq!(
        fewer.last().unwrap(),
        "spec.resources.requests: Forbidden: pod-level resource requests cannot be removed"
    );
    let removed = changed(Value::Null);
    assert_eq!(
        removed.last().unwrap(),
        "spec.resources: Forbidden: pod-level resources cannot be removed"
    );
    let container = json!({"name": "c", "resources": {"requests": {"cpu": "1"}}});
    let plain = json!({"spec": {"containers": [container]}});
    let mut whole = plain.clone();
    whole["spec"]["resources"] = json!({"requests": {"cpu": "1"}});
    assert_eq!(told(resized(&plain, &whole)), none);
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
    let with = |annotations: Value| {
        let containers = json!([{"name": "c"}]);
        json!({"metadata": {"annotations": annotations}, "spec": {"containers": containers}})
    };
    let told = |old: Value, new: Value| told(annotations(&with(old), &with(new)));
    let profile = "localhost/x";
    assert!(
        told(
            json!({"a": "b", armor: profile}),
            json!({"a": "c", armor: profile})
        )
        .is_empty()
    );
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
