//! Classes of storage, ingress and runtimes: what admission sets and refuses because of them.

use serde_json::{Value, json};

use crate::harness::cluster::Cluster;

const CORE: &str = "/api/v1/namespaces/default";
const STORAGE: &str = "/apis/storage.k8s.io/v1/storageclasses";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

fn storage_class(name: &str, is_default: bool, grows: bool) -> Value {
    let mark = is_default.to_string();
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": name,
            "annotations": {"storageclass.kubernetes.io/is-default-class": mark}},
        "provisioner": "example.com/disks", "allowVolumeExpansion": grows})
}

fn claim(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}})
}

fn pod(name: &str, class: Option<&str>) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    if let Some(class) = class {
        pod["spec"]["runtimeClassName"] = class.into();
    }
    pod
}

#[test]
fn a_claim_without_a_class_gets_the_default_one() {
    let cluster = Cluster::start();
    let before = cluster.post(CLAIMS, &claim("before")).expect(201);
    assert_eq!(before["spec"].get("storageClassName"), None);
    for (name, is_default) in [("plain", false), ("second", true), ("first", true)] {
        let class = storage_class(name, is_default, false);
        cluster.post(STORAGE, &class).expect(201);
    }
    let defaulted = cluster.post(CLAIMS, &claim("defaulted")).expect(201);
    assert_eq!(defaulted["spec"]["storageClassName"], "first");
    let mut none = claim("none");
    none["spec"]["storageClassName"] = "".into();
    let none = cluster.post(CLAIMS, &none).expect(201);
    assert_eq!(none["spec"]["storageClassName"], "");
}

#[test]
fn a_claim_grows_if_it_is_bound_and_its_class_allows_it() {
    let cluster = Cluster::start();
    for (name, grows) in [("fixed", false), ("growing", true)] {
        let class = storage_class(name, false, grows);
        cluster.post(STORAGE, &class).expect(201);
    }
    for (class, allowed) in [("fixed", false), ("growing", true)] {
        let mut claim = claim(class);
        claim["spec"]["storageClassName"] = class.into();
        cluster.post(CLAIMS, &claim).expect(201);
        let path = format!("{CLAIMS}/{class}");
        let grown = json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}).to_string();
        let patch = |path: &str, body: &str| {
            let call = cluster.call("PATCH", path);
            call.body("application/merge-patch+json", body.to_owned())
                .send()
        };
        let pending = patch(&path, &grown);
        pending.expect(422);
        let bound = json!({"status": {"phase": "Bound"}}).to_string();
        patch(&format!("{path}/status"), &bound).expect(200);
        let bound = patch(&path, &grown);
        if allowed {
            assert_eq!(
                bound.expect(200)["spec"]["resources"]["requests"]["storage"],
                "2Gi"
            );
        } else {
            assert_eq!(
                bound.expect(403)["message"],
                format!(
                    "persistentvolumeclaims \"{class}\" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
                )
            );
        }
    }
}

/// Quotas count a claim by the class that it was created with.
#[test]
fn the_class_of_a_claim_stays() {
    let cluster = Cluster::start();
    let annotation = "volume.beta.kubernetes.io/storage-class";
    let mut claim = claim("a");
    claim["metadata"]["annotations"] = json!({ annotation: "gold" });
    let made = cluster.post(CLAIMS, &claim).expect(201);
    let put = |object: &Value| {
        let call = cluster.call("PUT", &format!("{CLAIMS}/a"));
        call.json(object).send()
    };
    let mut other = made.clone();
    other["metadata"]["annotations"][annotation] = "x".into();
    put(&other).expect(422);
    let mut moved = made;
    moved["spec"]["storageClassName"] = "gold".into();
    put(&moved).expect(200);
}

#[test]
fn an_ingress_without_a_class_gets_the_default_one() {
    let cluster = Cluster::start();
    let class = json!({"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
        "metadata": {"name": "front", "annotations": {
            "ingressclass.kubernetes.io/is-default-class": "true"}},
        "spec": {"controller": "example.com/front"}});
    cluster
        .post("/apis/networking.k8s.io/v1/ingressclasses", &class)
        .expect(201);
    let ingresses = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let mut ingress = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "defaulted"},
        "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}});
    let defaulted = cluster.post(ingresses, &ingress).expect(201);
    assert_eq!(defaulted["spec"]["ingressClassName"], "front");
    ingress["metadata"] = json!({"name": "annotated",
        "annotations": {"kubernetes.io/ingress.class": "other"}});
    let annotated = cluster.post(ingresses, &ingress).expect(201);
    assert_eq!(annotated["spec"].get("ingressClassName"), None);
}

#[test]
fn a_pod_gets_the_overhead_and_the_nodes_of_its_runtime() {
    let cluster = Cluster::start();
    let pods = format!("{CORE}/pods");
    let unknown = cluster.post(&pods, &pod("a", Some("boxed"))).expect(403);
    assert_eq!(
        unknown["message"],
        "pods \"a\" is forbidden: pod rejected: RuntimeClass \"boxed\" not found"
    );
    let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": "boxed"}, "handler": "box",
        "overhead": {"podFixed": {"memory": "64Mi"}},
        "scheduling": {"nodeSelector": {"boxes": "yes"},
            "tolerations": [{"key": "boxes", "operator": "Exists"}]}});
    cluster
        .post("/apis/node.k8s.io/v1/runtimeclasses", &class)
        .expect(201);
    let mut wanted = pod("b", Some("boxed"));
    wanted["spec"]["overhead"] = json!({"memory": "65536Ki"});
    wanted["spec"]["tolerations"] =
        json!([{"key": "boxes", "operator": "Equal", "value": "x", "effect": "NoSchedule"}]);
    let made = cluster.post(&pods, &wanted).expect(201);
    assert_eq!(made["spec"]["overhead"], json!({"memory": "64Mi"}));
    assert_eq!(made["spec"]["nodeSelector"], json!({"boxes": "yes"}));
    let tolerations = made["spec"]["tolerations"].as_array().unwrap();
    let of_boxes: Vec<_> = tolerations
        .iter()
        .filter(|one| one["key"] == "boxes")
        .collect();
    assert_eq!(of_boxes, [&json!({"key": "boxes", "operator": "Exists"})]);

    let mut conflicting = pod("c", Some("boxed"));
    conflicting["spec"]["nodeSelector"] = json!({"boxes": "no"});
    let mut heavier = pod("c", Some("boxed"));
    heavier["spec"]["overhead"] = json!({"memory": "1Gi"});
    let mut without = pod("c", None);
    without["spec"]["overhead"] = json!({"memory": "1Gi"});
    for (pod, why) in [
        (
            conflicting,
            "conflict: runtimeClass.scheduling.nodeSelector[boxes] = yes; pod.spec.nodeSelector[boxes] = no",
        ),
        (
            heavier,
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            without,
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
    ] {
        let refused = cluster.post(&pods, &pod).expect(403);
        assert_eq!(
            refused["message"],
            format!("pods \"c\" is forbidden: {why}")
        );
    }
}
