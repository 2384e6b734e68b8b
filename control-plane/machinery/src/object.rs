//! Accessors for the metadata that every object has. Objects are JSON maps and are not checked
//! here: a field that is missing or has the wrong type reads as empty.

pub mod conversion;
pub mod defaults;
pub mod selector;

use serde_json::{Map, Value};

/// The annotation of a pod that a node made by itself.
pub const MIRROR_POD: &str = "kubernetes.io/config.mirror";
/// What the annotations begin with that name the AppArmor profiles of a pod's containers.
pub const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
/// The annotation that named the class of a volume or a volume claim before the field did.
pub const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// An object: a JSON map with `apiVersion`, `kind` and `metadata`.
pub type Object = Value;

/// The string at a path of keys; empty if there is none.
pub fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The integer at a path of keys.
pub fn integer(object: &Value, path: &[&str]) -> Option<i64> {
    at(object, path).and_then(Value::as_i64)
}

/// The value at a path of keys.
pub fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

/// Sets the value at a path of keys. Missing maps are created; a value on the path that is no map
/// is replaced by one.
pub fn set(object: &mut Value, path: &[&str], value: Value) {
    let Some((last, above)) = path.split_last() else {
        *object = value;
        return;
    };
    let mut place = object;
    for key in above {
        place = map_mut(place)
            .entry(*key)
            .or_insert_with(|| Value::Object(Map::new()));
    }
    map_mut(place).insert((*last).to_owned(), value);
}

/// Removes and returns the value at a path of keys.
pub fn remove(object: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, above) = path.split_last()?;
    let place = above
        .iter()
        .try_fold(object, |value, key| value.get_mut(key))?;
    place.as_object_mut()?.remove(*last)
}

/// The value as a mutable map; any other value is replaced by an empty map.
pub fn map_mut(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was just made one"),
    }
}

/// `apiVersion`.
pub fn api_version(object: &Value) -> &str {
    text(object, &["apiVersion"])
}

/// `kind`.
pub fn kind(object: &Value) -> &str {
    text(object, &["kind"])
}

/// Sets `apiVersion` and `kind`.
pub fn set_type(object: &mut Value, api_version: &str, kind: &str) {
    set(object, &["apiVersion"], api_version.into());
    set(object, &["kind"], kind.into());
}

/// `metadata`.
pub fn metadata(object: &Value) -> Option<&Map<String, Value>> {
    object.get("metadata")?.as_object()
}

/// `metadata`, created if missing.
pub fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    map_mut(
        map_mut(object)
            .entry("metadata")
            .or_insert_with(|| Value::Object(Map::new())),
    )
}

/// `metadata.name`.
pub fn name(object: &Value) -> &str {
    text(object, &["metadata", "name"])
}

/// `metadata.generateName`.
pub fn generate_name(object: &Value) -> &str {
    text(object, &["metadata", "generateName"])
}

/// `metadata.namespace`.
pub fn namespace(object: &Value) -> &str {
    text(object, &["metadata", "namespace"])
}

/// `metadata.uid`.
pub fn uid(object: &Value) -> &str {
    text(object, &["metadata", "uid"])
}

/// `metadata.resourceVersion`, as text.
pub fn resource_version(object: &Value) -> &str {
    text(object, &["metadata", "resourceVersion"])
}

/// Sets `metadata.resourceVersion`.
pub fn set_resource_version(object: &mut Value, revision: i64) {
    metadata_mut(object).insert("resourceVersion".into(), revision.to_string().into());
}

/// `metadata.generation`; 0 if it is missing.
pub fn generation(object: &Value) -> i64 {
    integer(object, &["metadata", "generation"]).unwrap_or(0)
}

/// `metadata.creationTimestamp`.
pub fn creation_timestamp(object: &Value) -> &str {
    text(object, &["metadata", "creationTimestamp"])
}

/// `metadata.deletionTimestamp`, when the object is being deleted.
pub fn deletion_timestamp(object: &Value) -> Option<&str> {
    at(object, &["metadata", "deletionTimestamp"])?.as_str()
}

/// True if the object has a `deletionTimestamp`.
pub fn is_deleting(object: &Value) -> bool {
    deletion_timestamp(object).is_some()
}

/// `metadata.deletionGracePeriodSeconds`.
pub fn deletion_grace_seconds(object: &Value) -> Option<i64> {
    integer(object, &["metadata", "deletionGracePeriodSeconds"])
}

/// `metadata.labels`.
pub fn labels(object: &Value) -> Option<&Map<String, Value>> {
    metadata(object)?.get("labels")?.as_object()
}

/// One label.
pub fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    labels(object)?.get(key)?.as_str()
}

/// `metadata.annotations`.
pub fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    metadata(object)?.get("annotations")?.as_object()
}

/// One annotation.
pub fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    annotations(object)?.get(key)?.as_str()
}

/// The storage class of a volume or a volume claim; empty if it has none. The annotation is older
/// than the field, and comes first.
pub fn storage_class(object: &Value) -> &str {
    let annotated = annotation(object, STORAGE_CLASS);
    annotated.unwrap_or_else(|| text(object, &["spec", "storageClassName"]))
}

/// `metadata.finalizers`.
pub fn finalizers(object: &Value) -> impl Iterator<Item = &str> {
    items(object, &["metadata", "finalizers"])
        .iter()
        .filter_map(Value::as_str)
}

/// Whether the object has this finalizer.
pub fn has_finalizer(object: &Value, finalizer: &str) -> bool {
    finalizers(object).any(|has| has == finalizer)
}

/// `metadata.ownerReferences`.
pub fn owner_references(object: &Value) -> &[Value] {
    items(object, &["metadata", "ownerReferences"])
}

/// The owner reference with `controller: true`.
pub fn controller(object: &Value) -> Option<&Value> {
    owner_references(object)
        .iter()
        .find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))
}

/// Writes a condition into `status.conditions`, in the place of that of its type. It holds since
/// that one does, if both have the same status.
pub fn set_condition(object: &mut Value, mut condition: Value) {
    let path = ["status", "conditions"];
    let mut all = items(object, &path).to_vec();
    match all.iter().position(|one| one["type"] == condition["type"]) {
        Some(at) => {
            let since = all[at].get("lastTransitionTime");
            if let Some(since) = since.filter(|_| all[at]["status"] == condition["status"]) {
                condition["lastTransitionTime"] = since.clone();
            }
            all[at] = condition;
        }
        None => all.push(condition),
    }
    set(object, &path, all.into());
}

/// The list at a path of keys; empty if there is none.
pub fn items<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    at(object, path)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

/// The deepest text of JSON that can be read, in objects and lists within each other.
pub const JSON_LEVELS_MAX: usize = 127;

/// True unless more than this many objects and lists are within each other.
pub fn nests_within(value: &Value, levels: usize) -> bool {
    let inner = |one: &Value| nests_within(one, levels - 1);
    match value {
        Value::Array(items) => levels > 0 && items.iter().all(inner),
        Value::Object(fields) => levels > 0 && fields.values().all(inner),
        _ => true,
    }
}

#[test]
fn a_condition_takes_the_place_of_that_of_its_type() {
    use serde_json::json;

    let condition = |kind: &str, status: &str, since: &str| {
        json!({
            "type": kind, "status": status, "lastTransitionTime": since,
        })
    };
    let mut object = json!({});
    for (status, since, holds_since) in
        [("False", "1", "1"), ("False", "2", "1"), ("True", "3", "3")]
    {
        set_condition(&mut object, condition("A", status, since));
        set_condition(&mut object, condition("B", "True", "0"));
        let all = [
            condition("A", status, holds_since),
            condition("B", "True", "0"),
        ];
        assert_eq!(items(&object, &["status", "conditions"]), all);
    }
    // One whose time nobody knows holds since now.
    object["status"]["conditions"] = json!([{"type": "A", "status": "True"}]);
    set_condition(&mut object, condition("A", "True", "4"));
    assert_eq!(
        object["status"]["conditions"],
        json!([condition("A", "True", "4")])
    );
}
