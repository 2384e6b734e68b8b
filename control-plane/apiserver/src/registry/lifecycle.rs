//! What the server writes into new and changed objects: identity, times, generations, and the half
//! of an object that the request may not change.

use std::collections::HashSet;

use machinery::object::{self, map_mut, metadata_mut};
use machinery::status::Status;
use machinery::strict;
use serde_json::{Map, Value, json};

use crate::basics::clock;
use crate::registry::strategy::{self, Generation, keep};
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

/// When an owner is found to be named twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// In the request.
    ByClient,
    /// After admission: by a plugin or webhook, or by a patch, which is looked at then alone.
    AfterAdmission,
}

/// Removes owners that are named again with the same words. Returns the warning about them.
pub(crate) fn forget_repeated_owners(object: &mut Value, named: Named) -> Option<String> {
    let owners = metadata_mut(object).get_mut("ownerReferences")?;
    let owners = owners.as_array_mut().filter(|owners| owners.len() > 1)?;
    let mut repeated = Vec::new();
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    // By their texts: nobody has checked yet how many there are.
    let mut known = HashSet::new();
    for owner in owners.drain(..) {
        if known.insert(owner.to_string()) {
            kept.push(owner);
        } else {
            repeated.push(object::text(&owner, &["uid"]).to_owned());
        }
    }
    *owners = kept;
    if repeated.is_empty() {
        return None;
    }
    let when = match named {
        Named::ByClient => "",
        Named::AfterAdmission => " after mutating admission happens",
    };
    let uids = repeated.join(", ");
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {uids}"
    ))
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
    metadata.insert("uid".into(), clock::uid().into());
    metadata.insert("creationTimestamp".into(), clock::now().to_seconds().into());
    let strategy = strategy::of(resource);
    match strategy.generation {
        // Nobody counts: it is what the client says.
        Generation::Never | Generation::OfUpdates => {}
        _ => drop(metadata.insert("generation".into(), 1.into())),
    }
    if resource.has_status() && !strategy.keeps_status_on_create {
        map_mut(object).insert("status".into(), json!({}));
    }
    strategy.drop_disabled(None, object);
    (strategy.prepare_for_create)(object);
    // The same table decoded the object, so its types are right.
    if let Ok(decoded) = strict::prune(object, resource.kind.message()) {
        *object = decoded.object;
    }
}

/// True if a new object, before its defaults, has no labels but those of its template.
pub(crate) fn borrows_labels(resource: &Resource, object: &Value) -> bool {
    let is_bare = object::labels(object).is_none_or(Map::is_empty);
    strategy::of(resource).borrows_labels && is_bare
}

/// Completes an object that borrows its labels, and gives it those that the server has added to its
/// template. Labels that admission has changed are not borrowed any more.
///
/// True if the object is to get its labels only after validation: a template without labels has
/// none yet that it could share.
pub(crate) fn with_borrowed_labels(object: &mut Value, complete: impl FnOnce(&mut Value)) -> bool {
    let lent = of_template(object);
    let shared = lent.as_ref().and_then(Value::as_object);
    let is_borrowed = object::labels(object).filter(|own| !own.is_empty()) == shared;
    complete(object);
    if is_borrowed && lent.is_some() {
        borrow_labels(object);
    }
    is_borrowed && lent.is_none()
}

/// Gives an object the labels of its template.
pub(crate) fn borrow_labels(object: &mut Value) {
    if let Some(labels) = of_template(object) {
        metadata_mut(object).insert("labels".into(), labels);
    }
}

/// The labels of a template.
fn of_template(object: &Value) -> Option<Value> {
    object.pointer("/spec/template/metadata/labels").cloned()
}

/// Writes or omits empty fields as Go does.
pub(crate) fn prune(resource: &Resource, object: &mut Value) {
    // The same table decoded the object, so its types are right.
    if let Ok(decoded) = strict::as_stored(object, resource.kind.message()) {
        *object = decoded.object;
    }
}

/// Forgets empty lists and maps, as storing does. Objects that are stored as text keep them.
pub(crate) fn forget_empty(resource: &Resource, object: &mut Value) {
    let text = resource.storage.as_ref().is_none_or(|one| one.json);
    if !text {
        strict::forget_empty(object, resource.kind.message());
    }
}

/// Restores what the request may not change. `subresource` is empty, or the subresource through
/// which the object is written.
pub(crate) fn updated(resource: &Resource, subresource: &str, old: &Value, new: &mut Value) {
    keep_metadata(old, new);
    let strategy = strategy::of(resource);
    // Counts what the client wrote, not what becomes of it.
    let counts_before = match strategy.generation {
        Generation::OfLabels => {
            object::labels(old) != object::labels(new) || differs_in_substance(old, new)
        }
        Generation::OfSentSpec => differs_in_substance(old, new),
        _ => false,
    };
    match strategy.prepare_subresource(subresource) {
        Some(prepare) => {
            prepare(old, new);
            strategy.drop_disabled(Some(old), new);
        }
        None if subresource == "status" => {
            status_updated(resource, old, new);
            return (strategy.prepare_for_status_update)(old, new);
        }
        None => {
            if resource.has_status() {
                keep(old, new, "status");
            }
            strategy.drop_disabled(Some(old), new);
            (strategy.prepare_for_update)(old, new);
        }
    }
    let counts = match strategy.generation {
        Generation::Never | Generation::OfCreation => false,
        Generation::OfLabels | Generation::OfSentSpec => counts_before,
        Generation::OfSpec | Generation::OfUpdates => differs_in_substance(old, new),
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
    let writes_labels = strategy::of(resource).labels_with_status;
    let labels = !(writes_labels || resource.kind.group().is_empty());
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
        "creationTimestamp",
        "generation",
        "namespace",
        "generateName",
    ];
    // Deletion is not taken back; marking an object for it here is refused, and so is another grace.
    if let Some(value) = old.get("deletionTimestamp") {
        new.insert("deletionTimestamp".into(), value.clone());
    }
    let grace = "deletionGracePeriodSeconds";
    if let Some(value) = old.get(grace)
        && !new.contains_key(grace)
    {
        new.insert(grace.into(), value.clone());
    }
    for key in keys {
        match old.get(key) {
            Some(value) => new.insert(key.into(), value.clone()),
            None => new.remove(key),
        };
    }
    // Another uid is refused.
    if new.get("uid").is_none_or(|uid| *uid == "")
        && let Some(uid) = old.get("uid")
    {
        new.insert("uid".into(), uid.clone());
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_owners_are_told_apart() {
        let owners = (0..90_000).map(|at| json!({"uid": (at % 89_999).to_string()}));
        let owners: Vec<Value> = owners.collect();
        let mut object = json!({"metadata": {"ownerReferences": owners}});
        let told = forget_repeated_owners(&mut object, Named::ByClient).unwrap();
        assert!(told.ends_with("duplicate UID(s) observed: 0"), "{told}");
        assert_eq!(object::owner_references(&object).len(), 89_999);
    }

    #[test]
    fn a_uid_is_kept_unless_another_one_is_given() {
        let old = json!({"metadata": {"name": "a", "uid": "1"}});
        for (given, wanted) in [
            (json!({}), "1"),
            (json!({"uid": ""}), "1"),
            (json!({"uid": "2"}), "2"),
        ] {
            let mut new = json!({ "metadata": given });
            keep_metadata(&old, &mut new);
            assert_eq!(new["metadata"]["uid"], wanted);
        }
    }

    #[test]
    fn labels_are_borrowed_at_once_only_from_a_template_that_has_some() {
        let add = |object: &mut Value| {
            object["spec"]["template"]["metadata"]["labels"]["added"] = "1".into();
        };
        let labels = json!({"a": "b"});
        let template = json!({"metadata": {"labels": labels}});
        let mut shared = json!({"metadata": {"labels": labels}, "spec": {"template": template}});
        assert!(!with_borrowed_labels(&mut shared, add));
        assert_eq!(
            shared["metadata"]["labels"],
            json!({"a": "b", "added": "1"})
        );

        let mut bare = json!({"metadata": {}, "spec": {"template": {"metadata": {}}}});
        assert!(with_borrowed_labels(&mut bare, add));
        assert_eq!(bare["metadata"], json!({}));
        borrow_labels(&mut bare);
        assert_eq!(bare["metadata"]["labels"], json!({"added": "1"}));

        let mut own = json!({"metadata": {"labels": {"x": "y"}}, "spec": {"template": template}});
        assert!(!with_borrowed_labels(&mut own, add));
        assert_eq!(own["metadata"]["labels"], json!({"x": "y"}));
    }
}
