//! What a stored object has may stay, though no new object may have it.

use serde_json::{Value, json};

use super::{changed, persistent, wrong};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Kinds with a template that is in `spec.template`.
const KINDS: [(&str, &str); 5] = [
    ("v1", "ReplicationController"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
];

/// A condition with a value that no label can have.
fn odd() -> Value {
    json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]})
}

/// Fields of a pod, each of which breaks one rule.
fn mistakes() -> Vec<Value> {
    let pages = json!({"hugepages-2Mi": "3Mi", "cpu": "1"});
    let container = |more: (&str, Value)| {
        let mut container = json!({"name": "c", "image": "i"});
        container[more.0] = more.1;
        container
    };
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
    let token = json!({"serviceAccountToken": {"path": "../t"}});
    let restarts = json!([{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]);
    let spread = json!({
        "maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": odd(),
    });
    vec![
        json!({"containers": [container(("resources", json!({"limits": pages})))]}),
        json!({"overhead": pages}),
        json!({"affinity": {"podAffinity": {REQUIRED: [
            {"topologyKey": "a", "labelSelector": odd()}]}}}),
        json!({"affinity": {"podAntiAffinity": {REQUIRED: [
            {"topologyKey": "a", "namespaceSelector": odd()}]}}}),
        json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [odd()]}}}}),
        json!({"topologySpreadConstraints": [spread]}),
        json!({
            "serviceAccountName": "a",
            "volumes": [{"name": "v", "projected": {"sources": [token]}}],
        }),
        json!({"hostNetwork": true, "securityContext": {"sysctls": [
            {"name": "net.a", "value": "1"}]}}),
        json!({"hostIPC": true, "securityContext": {"sysctls": [
            {"name": "kernel.sem", "value": "1"}]}}),
        json!({"securityContext": {"seLinuxChangePolicy": "MountOption"}}),
        json!({"initContainers": [{"name": "d", "image": "i", "resizePolicy": restarts}]}),
        json!({"hostUsers": false, "hostNetwork": true}),
        json!({
            "hostUsers": false, "volumes": [volume],
            "containers": [container(("volumeDevices", json!([
                {"name": "v", "devicePath": "/v"}])))],
        }),
        json!({"tolerations": [{"key": "a", "operator": "Gt", "value": "5"}]}),
    ]
}

/// The spec of a pod with more fields.
fn spec(more: &Value) -> Value {
    let mut spec = json!({"containers": [{"name": "c", "image": "i"}]});
    let more = more.as_object().unwrap().clone();
    spec.as_object_mut().unwrap().extend(more);
    spec
}

fn pod(more: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "spec": spec(more)})
}

fn template(more: &Value) -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": spec(more)})
}

fn workload(kind: (&str, &str), more: &Value) -> Value {
    let labels = json!({"a": "b"});
    let selector = match kind.1 {
        "ReplicationController" => labels,
        _ => json!({"matchLabels": labels}),
    };
    json!({"apiVersion": kind.0, "kind": kind.1, "spec": {
        "selector": selector, "template": template(more)}})
}

fn batch(kind: &str, more: &Value) -> Value {
    let mut template = template(more);
    template["spec"]["restartPolicy"] = "OnFailure".into();
    let spec = json!({"template": template});
    let spec = match kind {
        "Job" => spec,
        _ => json!({"schedule": "0 3 * * *", "jobTemplate": {"spec": spec}}),
    };
    json!({"apiVersion": "batch/v1", "kind": kind, "spec": spec})
}

fn annotate(object: &mut Value) {
    object["metadata"]["annotations"] = json!({"a": "b"});
}

#[test]
fn a_pod_keeps_what_no_new_pod_may_have() {
    for mistake in mistakes() {
        let pod = pod(&mistake);
        assert_ne!(wrong(pod.clone()), [""; 0], "{mistake}");
        assert_eq!(changed(pod, annotate), [""; 0], "{mistake}");
    }
}

#[test]
fn a_template_keeps_what_no_new_template_may_have() {
    for mistake in mistakes() {
        let all = KINDS.iter().map(|kind| workload(*kind, &mistake));
        let batch = ["Job", "CronJob"].map(|kind| batch(kind, &mistake));
        let alone = json!({
            "apiVersion": "v1", "kind": "PodTemplate", "template": template(&mistake)});
        for object in all.chain(batch).chain([alone]) {
            assert_ne!(wrong(object.clone()), [""; 0], "{object}");
            assert_eq!(changed(object.clone(), annotate), [""; 0], "{object}");
        }
    }
}

#[test]
fn a_template_without_mistakes_does_not_get_any() {
    for mistake in mistakes() {
        for kind in KINDS {
            let told = changed(workload(kind, &json!({})), |object| {
                let more = super::made(workload(kind, &mistake));
                object["spec"]["template"] = more["spec"]["template"].clone();
            });
            assert_ne!(told, [""; 0], "{kind:?}: {mistake}");
        }
    }
}

#[test]
fn a_mistake_allows_no_others() {
    let all = mistakes();
    for (mistake, other) in all.iter().zip(all.iter().skip(2)) {
        let [one, two] = [mistake, other].map(|mistake| mistake.as_object().unwrap());
        if one.keys().any(|key| two.contains_key(key)) {
            continue;
        }
        let kind = KINDS[2];
        let told = changed(workload(kind, mistake), |object| {
            let more = super::made(workload(kind, other));
            for key in two.keys() {
                let spec = &more["spec"]["template"]["spec"];
                object["spec"]["template"]["spec"][key] = spec[key].clone();
            }
        });
        assert_ne!(told, [""; 0], "{mistake}, then {other}");
    }
}

#[test]
fn a_set_that_was_wrong_is_not_asked_about_its_template() {
    let twice = json!({"containers": [
        {"name": "c", "image": "i"}, {"name": "c", "image": "i"}]});
    let set = workload(KINDS[4], &twice);
    assert_eq!(changed(set.clone(), annotate), [""; 0]);
    let labels = changed(set, |set| {
        set["spec"]["template"]["metadata"]["labels"]["-"] = "b".into();
    });
    assert!(
        labels[0].starts_with("spec.template.labels: Invalid value: \"-\""),
        "{labels:?}"
    );
    assert_ne!(changed(workload(KINDS[2], &twice), annotate), [""; 0]);
}

#[test]
fn a_stored_selector_keeps_its_values() {
    let mut values = odd();
    values["matchExpressions"][0]["operator"] = "NotIn".into();
    let mut set = workload(("apps/v1", "DaemonSet"), &json!({}));
    set["spec"]["selector"] = values.clone();
    let mut job = batch("Job", &json!({}));
    job["spec"]["manualSelector"] = true.into();
    job["spec"]["selector"] = values;
    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": {
        "minAvailable": 1, "selector": odd()}});
    let policy = json!({"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "spec": {
        "podSelector": odd(), "ingress": [{"from": [{"podSelector": odd()}]}]}});
    let capacity = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIStorageCapacity",
        "storageClassName": "a", "nodeTopology": odd()});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {
        "accessModes": ["ReadWriteOnce"], "selector": odd(),
        "resources": {"requests": {"storage": "1Gi"}}}});
    for object in [set, job, budget, policy, capacity, claim] {
        assert_ne!(wrong(object.clone()), [""; 0], "{object}");
        assert_eq!(changed(object.clone(), annotate), [""; 0], "{object}");
    }
}

#[test]
fn a_stored_claim_keeps_the_groups_of_its_sources() {
    let claim = |group: Value| {
        let source = json!({"apiGroup": group, "kind": "PersistentVolumeClaim", "name": "c"});
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": {
            "accessModes": ["ReadWriteOnce"], "dataSource": source, "dataSourceRef": source,
            "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let odd = claim("Odd_Group".into());
    assert_ne!(wrong(odd.clone()), [""; 0]);
    assert_eq!(changed(odd, annotate), [""; 0]);
    // One without a group gets no odd one.
    let told = changed(claim(Value::Null), |claim| {
        claim["spec"]["dataSource"]["apiGroup"] = "Odd_Group".into();
    });
    let field = "spec.dataSource.apiGroup: Invalid value: \"Odd_Group\"";
    assert!(told.iter().any(|one| one.starts_with(field)), "{told:?}");
}

#[test]
fn a_stored_autoscaler_keeps_what_it_scales_and_how() {
    let target = |version: &str| json!({"apiVersion": version, "kind": "Deployment", "name": "d"});
    let scaler = |more: &Value| {
        let mut spec = json!({"maxReplicas": 3, "scaleTargetRef": target("apps/v1")});
        let more = more.as_object().unwrap().clone();
        spec.as_object_mut().unwrap().extend(more);
        json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": spec})
    };
    let value = json!({"type": "Value", "value": "1"});
    let queue = json!({"metric": {"name": "q"}, "target": value});
    let of_object = json!({"metric": {"name": "q"}, "target": value, "describedObject": {
        "apiVersion": "a/b/c", "kind": "Service", "name": "s"}});
    let no_group = "spec.scaleTargetRef.apiVersion: Invalid value: \"v1\": \
                    apiVersion must specify API group";
    for (more, why) in [
        (
            json!({"minReplicas": 0, "metrics": [{"type": "External", "external": queue}]}),
            "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
        ),
        (json!({"scaleTargetRef": target("v1")}), no_group),
        (
            json!({"scaleTargetRef": target("a/b/c")}),
            "spec.scaleTargetRef.apiVersion: Invalid value: \"a/b/c\": \
             unexpected GroupVersion string: a/b/c",
        ),
        (
            json!({"metrics": [{"type": "Object", "object": of_object}]}),
            "spec.metrics[0].object.describedObject.apiVersion: Invalid value: \"a/b/c\": \
             unexpected GroupVersion string: a/b/c",
        ),
    ] {
        let scaler = scaler(&more);
        assert_eq!(wrong(scaler.clone()), [why]);
        assert_eq!(changed(scaler, annotate), [""; 0]);
    }
    let none = changed(scaler(&json!({})), |scaler| {
        scaler["spec"]["minReplicas"] = 0.into();
    });
    assert_ne!(none, [""; 0]);
    let other = changed(scaler(&json!({"scaleTargetRef": target("v1")})), |scaler| {
        scaler["spec"]["scaleTargetRef"]["kind"] = "ReplicaSet".into();
    });
    assert_eq!(other, [no_group]);
}

#[test]
fn a_stored_volume_keeps_its_nodes() {
    let nodes = json!({"required": {"nodeSelectorTerms": [odd()]}});
    let volume = persistent(json!({"hostPath": {"path": "/v"}, "nodeAffinity": nodes}));
    assert_ne!(wrong(volume.clone()), [""; 0]);
    assert_eq!(changed(volume, annotate), [""; 0]);
}

#[test]
fn a_toleration_that_may_stay_compares_numbers() {
    let pod = |value: &str| {
        pod(&json!({"tolerations": [{"key": "a", "operator": "Lt", "value": value}]}))
    };
    for (value, wanted) in [
        ("0", &[] as &[&str]),
        ("-12", &[]),
        ("", &["must be non-empty", "invalid syntax"]),
        (
            "012",
            &["must be a valid decimal integer in canonical form"],
        ),
        ("-0", &["must be a valid decimal integer in canonical form"]),
        ("9223372036854775808", &["value out of range"]),
    ] {
        let told = changed(pod(value), annotate);
        for why in wanted {
            assert!(
                told.iter().any(|one| one.ends_with(why)),
                "{value}: {told:?}"
            );
        }
        assert_eq!(told.is_empty(), wanted.is_empty(), "{value}: {told:?}");
    }
}

#[test]
fn how_volumes_are_labelled_is_chosen_only_by_pods_that_had_a_choice() {
    let pod = |policy: &str| pod(&json!({"securityContext": {"seLinuxChangePolicy": policy}}));
    assert_eq!(wrong(pod("Recursive")), [""; 0]);
    assert_eq!(
        wrong(pod("MountOption")),
        [
            "spec.securityContext.seLinuxChangePolicy: Unsupported value: \"MountOption\": supported \
             values: \"Recursive\""
        ]
    );
    let kind = KINDS[2];
    let deployment = |policy: &str| {
        workload(
            kind,
            &json!({"securityContext": {"seLinuxChangePolicy": policy}}),
        )
    };
    let path = "/spec/template/spec/securityContext/seLinuxChangePolicy";
    let to = |policy: &str| {
        changed(deployment("Recursive"), |object| {
            *object.pointer_mut(path).unwrap() = policy.into();
        })
    };
    assert_eq!(to("MountOption"), [""; 0]);
    assert_ne!(to("Other"), [""; 0]);
}
