//! Storage objects that are used stay after their deletion, until the loops find them unused.

use serde_json::{Value, json};

use crate::harness::parts::Parts;

const CORE: &str = "/api/v1/namespaces/default";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLASSES: &str = "/apis/storage.k8s.io/v1/volumeattributesclasses";
const LOOPS: &str = "--controllers=persistentvolumeclaim-protection-controller,\
     persistentvolume-protection-controller,volumeattributesclass-protection-controller";

fn claim(name: &str, class: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "volumeAttributesClassName": class,
            "resources": {"requests": {"storage": "1Gi"}}}})
}

fn volume(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "hostPath": {"path": "/data"}}})
}

fn class(name: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass",
        "metadata": {"name": name}, "driverName": "example.com/disks",
        "parameters": {"iops": "1000"}})
}

fn pod(claim: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]}})
}

fn set_phase(parts: &Parts, path: &str, phase: &str) {
    let patch = json!({"status": {"phase": phase}}).to_string();
    let call = parts.call("PATCH", &format!("{path}/status"));
    call.body("application/merge-patch+json", patch)
        .send()
        .expect(200);
}

fn delete(parts: &Parts, path: &str) {
    parts.call("DELETE", path).send().expect(200);
}

fn until_gone(parts: &Parts, path: &str) {
    parts.until(&format!("{path} is gone"), |parts| {
        parts.get(path).code == 404
    });
}

#[test]
fn used_storage_stays_until_nothing_uses_it() {
    let mut parts = Parts::none();
    let claims = format!("{CORE}/persistentvolumeclaims");
    for (path, object, finalizer) in [
        (&claims[..], claim("busy", "busy"), "pvc"),
        (&claims[..], claim("free", "busy"), "pvc"),
        (VOLUMES, volume("busy"), "pv"),
        (VOLUMES, volume("free"), "pv"),
        (CLASSES, class("busy"), "vac"),
        (CLASSES, class("free"), "vac"),
    ] {
        let made = parts.post(path, &object).expect(201);
        let finalizer = format!("kubernetes.io/{finalizer}-protection");
        assert_eq!(made["metadata"]["finalizers"], json!([finalizer]));
    }
    parts
        .post(&format!("{CORE}/pods"), &pod("busy"))
        .expect(201);
    set_phase(&parts, &format!("{VOLUMES}/busy"), "Bound");
    // The loops look at objects in the order of their names: when the free ones are gone, they have
    // seen the busy ones.
    let [used, free] = ["busy", "free"]
        .map(|name| [&claims[..], VOLUMES, CLASSES].map(|path| format!("{path}/{name}")));
    for path in used.iter().chain(&free) {
        delete(&parts, path);
    }
    for path in used.iter().chain(&free) {
        let object = parts.get(path).expect(200);
        assert!(object["metadata"]["deletionTimestamp"].is_string());
    }
    parts.begin(&["controller-manager", LOOPS]);
    for path in &free {
        until_gone(&parts, path);
    }
    for path in &used {
        parts.get(path).expect(200);
    }
    set_phase(&parts, &format!("{VOLUMES}/busy"), "Released");
    delete(&parts, &format!("{CORE}/pods/p?gracePeriodSeconds=0"));
    // With the claim goes the last that names the class.
    for path in &used {
        until_gone(&parts, path);
    }
}

/// Such as objects from before the plugin was on.
#[test]
fn storage_without_a_finalizer_gets_it_from_the_loops() {
    let mut parts = Parts::none();
    parts.post(VOLUMES, &volume("v")).expect(201);
    let path = format!("{VOLUMES}/v");
    let finalizers = |parts: &Parts| {
        let volume = parts.get(&path).expect(200);
        volume["metadata"]["finalizers"].clone()
    };
    let call = parts.call("PATCH", &path);
    let patch = json!({"metadata": {"finalizers": null}}).to_string();
    call.body("application/merge-patch+json", patch)
        .send()
        .expect(200);
    assert_eq!(finalizers(&parts), Value::Null);
    parts.begin(&["controller-manager", LOOPS]);
    parts.until("the volume is protected", |parts| {
        finalizers(parts) == json!(["kubernetes.io/pv-protection"])
    });
}
