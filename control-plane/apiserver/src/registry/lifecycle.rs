//! What the server writes into new and changed objects: identity, times, generations, and the half
//! of an object that the request may not change.

use machinery::object::{self, map_mut, metadata_mut};
use machinery::status::Status;
use machinery::strict;
use serde_json::{Map, Value, json};

use crate::basics::clock;
use crate::registry::strategy::{self, Generation};
use crate::resources::catalogue::Resource;

/// Checks that the object's namespace is the request's; sets it if it is missing.
pub(crate) fn match_namespace(
    resource: &Resource,
    namespace: &str,
    object: &mut Value,
) -> Result<(), Status> {
    let metadata = metadata_mut(object);
    let given = metadata
        .get("namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if !resource.kind.namespaced() {
        metadata.remove("namespace");
    } else if given.is_empty() {
        metadata.insert("namespace".into(), namespace.into());
    } else if given != namespace {
        let text =
            "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(text));
    }
    Ok(())
}

/// Checks that the object's name is the one in the path.
pub(crate) fn match_name(name: &str, object: &Value) -> Result<(), Status> {
    let given = object::name(object);
    if given.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )));
    }
    if given != name {
        return Err(Status::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    Ok(())
}

/// Removes identity and times from the body of a new object: nobody before the store may see what a
/// client made up.
pub(crate) fn forget_identity(object: &mut Value) {
    let metadata = metadata_mut(object);
    for key in [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        metadata.remove(key);
    }
}

/// Sets the identity and the times of a new object, and removes what only the server may set.
pub(crate) fn created(resource: &Resource, object: &mut Value) {
    let metadata = metadata_mut(object);
    for key in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ] {
        metadata.remove(key);
    }
    metadata.remove("resourceVersion");
    metadata.insert("uid".into(), clock::uid().into());
    metadata.insert("creationTimestamp".into(), clock::now().to_seconds().into());
    let strategy = strategy::of(resource);
    match strategy.generation {
        Generation::Never => metadata.remove("generation"),
        _ => metadata.insert("generation".into(), 1.into()),
    };
    if resource.has_status() && !strategy.keeps_status_on_create {
        map_mut(object).insert("status".into(), json!({}));
    }
    (strategy.prepare_for_create)(object);
    prune(resource, object);
}

/// Writes or omits empty fields as Go does.
pub(crate) fn prune(resource: &Resource, object: &mut Value) {
    // The same table decoded the object, so its types are right.
    if let Ok(decoded) = strict::as_stored(object, resource.kind.message()) {
        *object = decoded.object;
    }
}

/// Restores what the request may not change. `subresource` is empty, or the subresource through
/// which the object is written.
pub(crate) fn updated(resource: &Resource, subresource: &str, old: &Value, new: &mut Value) {
    keep_metadata(old, new);
    let strategy = strategy::of(resource);
    match strategy.prepare_subresource(subresource) {
        Some(prepare) => prepare(old, new),
        None if subresource == "status" => return status_updated(resource, old, new),
        None => {
            if resource.has_status() {
                keep(old, new, "status");
            }
            (strategy.prepare_for_update)(old, new);
        }
    }
    let counts = match strategy.generation {
        Generation::Never => false,
        Generation::OfSpec => differs_in_substance(old, new),
        Generation::OfSpecAndAnnotations => {
            annotations(old) != annotations(new) || differs_in_substance(old, new)
        }
        Generation::OfAllButMetadata => {
            old.get("status") != new.get("status") || differs_in_substance(old, new)
        }
    };
    if counts {
        let next = object::generation(old) + 1;
        metadata_mut(new).insert("generation".into(), next.into());
    }
}

/// The `status` subresource changes only the status and some of the metadata.
fn status_updated(resource: &Resource, old: &Value, new: &mut Value) {
    let mut result = old.clone();
    if let Some(status) = new.get("status") {
        result["status"] = status.clone();
    }
    let mut metadata = new.get("metadata").cloned().unwrap_or_default();
    let labels = !resource.kind.group().is_empty();
    for (key, kept) in [("ownerReferences", true), ("labels", labels)] {
        if !kept {
            continue;
        }
        match object::metadata(old).and_then(|old| old.get(key)) {
            Some(value) => map_mut(&mut metadata).insert(key.into(), value.clone()),
            None => map_mut(&mut metadata).remove(key),
        };
    }
    result["metadata"] = metadata;
    *new = result;
}

/// Restores the metadata that no update changes.
fn keep_metadata(old: &Value, new: &mut Value) {
    let empty = Map::new();
    let old = object::metadata(old).unwrap_or(&empty);
    let new = metadata_mut(new);
    let keys = [
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "namespace",
        "generateName",
    ];
    for key in keys {
        match old.get(key) {
            Some(value) => new.insert(key.into(), value.clone()),
            None => new.remove(key),
        };
    }
    new.remove("selfLink");
}

/// Restores one part of the object from the old state.
pub(crate) fn keep(old: &Value, new: &mut Value, key: &str) {
    match old.get(key) {
        Some(value) => map_mut(new).insert(key.into(), value.clone()),
        None => map_mut(new).remove(key),
    };
}

/// The annotations; `None` if they are empty.
fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    let annotations = object::metadata(object)?.get("annotations")?.as_object()?;
    (!annotations.is_empty()).then_some(annotations)
}

/// True if anything except metadata and status differs.
fn differs_in_substance(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return true;
    };
    let keys = old.keys().chain(new.keys());
    keys.filter(|key| !["metadata", "status", "apiVersion", "kind"].contains(&key.as_str()))
        .any(|key| old.get(key) != new.get(key))
}
