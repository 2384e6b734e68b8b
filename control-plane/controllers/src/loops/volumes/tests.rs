mod claims;
mod drivers;
mod races;
mod volumes;
mod waking;

use machinery::object;
use serde_json::{Value, json};

use super::*;
use crate::cache::BIND_COMPLETED;
use crate::decision::Note;
use crate::tests::fixtures::{ago, bodies, caches, decide, lines};

const NOTHING: [&str; 0] = [];
const CLAIM: (&str, &str) = ("n", "c");
const VOLUME: (&str, &str) = ("", "v");
const WAITS: &str = "no persistent volumes available for this claim and no storage class is set";

/// A claim to one gibibyte.
fn claim(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "n", "name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
        },
    })
}

/// A volume that has this size and is free.
fn volume(name: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
            "hostPath": {"path": "/data"},
        },
        "status": {"phase": "Available"},
    })
}

fn class(name: &str, provisioner: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": provisioner, "volumeBindingMode": mode,
    })
}

fn with(object: &Value, path: &[&str], value: impl Into<Value>) -> Value {
    let mut object = object.clone();
    object::set(&mut object, path, value.into());
    object
}

fn annotated(object: &Value, annotation: &str, value: &str) -> Value {
    with(object, &["metadata", "annotations", annotation], value)
}

/// The same claim, asking for volumes of this class.
fn of_class(claim: &Value, class: &str) -> Value {
    with(claim, &["spec", "storageClassName"], class)
}

/// The same volume, for the claim of this name; an empty uid is none.
fn promised(volume: &Value, name: &str, uid: &str) -> Value {
    let mut reference = json!({"namespace": "n", "name": name});
    if !uid.is_empty() {
        reference["uid"] = uid.into();
    }
    with(volume, &["spec", "claimRef"], reference)
}

/// The claim, as it is bound to the volume.
fn bound(name: &str, volume: &str) -> Value {
    let claim = with(&claim(name), &["spec", "volumeName"], volume);
    let claim = annotated(&claim, BIND_COMPLETED, "yes");
    with(
        &claim,
        &["status"],
        json!({
            "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
        }),
    )
}

fn decided(objects: &[Value], key: (&str, &str)) -> Decision {
    decide(&VolumeBinder, &caches(objects), key)
}

/// The reasons and texts of Events.
fn told<'a>(notes: impl IntoIterator<Item = &'a Note>) -> Vec<(&'static str, &'a str)> {
    let notes = notes.into_iter();
    notes.map(|note| (note.reason, &*note.message)).collect()
}

/// What a decision says of itself.
fn said(decision: &Decision) -> Vec<(&'static str, &str)> {
    told(&decision.notes)
}
