//! Namespaces: the finalizers of their specs stand for the objects inside.

use machinery::object;
use serde_json::{Value, json};

/// A new namespace is active, with the finalizer for its content.
pub(super) fn prepare_for_create(namespace: &mut Value) {
    namespace["status"] = json!({"phase": "Active"});
    let has = object::items(namespace, &["spec", "finalizers"]);
    if !has.iter().any(|one| one == "kubernetes") {
        let mut finalizers = has.to_vec();
        finalizers.push("kubernetes".into());
        object::set(namespace, &["spec", "finalizers"], finalizers.into());
    }
}

/// An update keeps the finalizers of the spec; only `finalize` changes them.
pub(super) fn prepare_for_update(old: &Value, new: &mut Value) {
    match object::at(old, &["spec", "finalizers"]) {
        Some(finalizers) => object::set(new, &["spec", "finalizers"], finalizers.clone()),
        None => drop(object::remove(new, &["spec", "finalizers"])),
    }
}

/// `finalize` changes only the finalizers of the spec.
pub(super) fn finalize(old: &Value, new: &mut Value) {
    let finalizers = object::items(new, &["spec", "finalizers"]).to_vec();
    *new = old.clone();
    if finalizers.is_empty() {
        object::set(new, &["spec"], json!({}))
    } else {
        object::set(new, &["spec", "finalizers"], finalizers.into())
    }
}
