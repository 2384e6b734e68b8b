//! The changes that the API makes to an object when it is written.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Change, Key, State, key};
use crate::api::{DeleteOptions, Propagation};
use crate::object::defaults;
use crate::object::{self, Object};
use crate::schema::Kind;
use crate::status::Status;

const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

impl State {
    pub(super) fn create(&mut self, kind: &Arc<Kind>, new: Object) -> Result<Object, Status> {
        let mut object = new;
        let namespace = object::namespace(&object).to_owned();
        if kind.namespaced() {
            self.check_namespace(kind, &namespace, object::name(&object))?;
        }
        if !object::resource_version(&object).is_empty() {
            let text = "resourceVersion should not be set on objects to be created";
            return Err(Status::bad_request(text));
        }
        self.names += 1;
        if object::name(&object).is_empty() {
            let name = format!("{}{}", object::generate_name(&object), letters(self.names));
            object::set(&mut object, &["metadata", "name"], name.into());
        }
        let name = object::name(&object).to_owned();
        if self.objects.contains_key(&key(kind, &namespace, &name)) {
            return Err(Status::already_exists(kind.group(), kind.plural(), &name));
        }
        object::set_type(&mut object, &kind.api_version(), kind.kind());
        if kind.subresource("status").is_some() && kind.kind() != "Node" {
            object::remove(&mut object, &["status"]);
        }
        defaults::apply(kind.group(), kind.kind(), &mut object);
        let created = self.now.to_seconds();
        let metadata = object::metadata_mut(&mut object);
        let uid = format!("00000000-0000-4000-8000-{:012x}", self.names);
        metadata.insert("uid".into(), uid.into());
        metadata.insert("creationTimestamp".into(), created.into());
        if object.get("spec").is_some() {
            object::metadata_mut(&mut object).insert("generation".into(), 1.into());
        }
        match kind.kind() {
            "Namespace" => {
                object::set(&mut object, &["spec", "finalizers"], json!(["kubernetes"]));
            }
            "Pod" => object::set(&mut object, &["status", "phase"], "Pending".into()),
            _ => {}
        }
        Ok(self.put(kind, object, Change::Added))
    }

    pub(super) fn update(
        &mut self,
        kind: &Arc<Kind>,
        subresource: &str,
        new: Object,
    ) -> Result<Object, Status> {
        let name = object::name(&new).to_owned();
        let old = self.get(kind, object::namespace(&new), &name)?.clone();
        let asked = object::resource_version(&new);
        if !asked.is_empty() && asked != object::resource_version(&old) {
            return Err(Status::stale(kind.group(), kind.plural(), &name));
        }
        if !object::uid(&new).is_empty() && object::uid(&new) != object::uid(&old) {
            let why = "the UID in the precondition differs";
            return Err(Status::conflict(kind.group(), kind.plural(), &name, why));
        }
        let object = match subresource {
            "status" => {
                let object = with_part(old.clone(), &new, &["status"]);
                with_part(object, &new, &["metadata", "annotations"])
            }
            "finalize" => with_part(old.clone(), &new, &["spec", "finalizers"]),
            _ => replaced(kind, &old, new),
        };
        Ok(self.keep(kind, old, object))
    }

    pub(super) fn delete(
        &mut self,
        kind: &Arc<Kind>,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<Object, Status> {
        let old = self.get(kind, namespace, name)?.clone();
        let (uid, version) = (options.uid.as_str(), options.resource_version.as_str());
        for (what, asked, has) in [
            ("UID", uid, object::uid(&old)),
            ("ResourceVersion", version, object::resource_version(&old)),
        ] {
            if !asked.is_empty() && asked != has {
                let why = format!(
                    "the {what} in the precondition ({asked}) does not match the {what} in record ({has})"
                );
                return Err(Status::conflict(kind.group(), kind.plural(), name, &why));
            }
        }
        let mut object = old.clone();
        set_finalizers(kind, &mut object, options.propagation);
        let grace = grace(kind, &object, options.grace_seconds);
        let begun = object::is_deleting(&old);
        let shorter = object::deletion_grace_seconds(&old).is_none_or(|had| grace < had);
        if !begun || shorter {
            let end = self.now.plus(Duration::from_secs(grace.unsigned_abs()));
            let generation = object::generation(&old);
            let metadata = object::metadata_mut(&mut object);
            metadata.insert("deletionTimestamp".into(), end.to_seconds().into());
            metadata.insert("deletionGracePeriodSeconds".into(), grace.into());
            if generation > 0 && !begun {
                metadata.insert("generation".into(), (generation + 1).into());
            }
        }
        if kind.kind() == "Namespace" {
            object::set(&mut object, &["status", "phase"], "Terminating".into());
        }
        let at_once = !begun && is_free(kind, &object);
        let answer = self.keep(kind, old.clone(), object);
        // An object that is deleted at once is returned in its last state.
        Ok(if at_once { old } else { answer })
    }

    pub(super) fn bind(
        &mut self,
        namespace: &str,
        pod: &str,
        uid: &str,
        node: &str,
    ) -> Result<Object, Status> {
        let kind = crate::api::pods();
        let old = self.get(kind, namespace, pod)?.clone();
        let refuse = |why: &str| Err(Status::conflict(kind.group(), kind.plural(), pod, why));
        if !uid.is_empty() && uid != object::uid(&old) {
            return refuse("the UID in the precondition differs");
        }
        if object::is_deleting(&old) {
            return refuse(&format!(
                "pod {pod} is being deleted, cannot be assigned to a host"
            ));
        }
        let assigned = object::text(&old, &["spec", "nodeName"]);
        if !assigned.is_empty() {
            return refuse(&format!(
                "pod {pod} is already assigned to node {assigned:?}"
            ));
        }
        let mut object = old.clone();
        object::set(&mut object, &["spec", "nodeName"], node.into());
        let condition = json!({
            "type": "PodScheduled", "status": "True",
            "lastTransitionTime": self.now.to_seconds(),
        });
        object::set_condition(&mut object, condition);
        Ok(self.keep(kind, old, object))
    }

    /// Stores a changed object, or removes it if nothing holds its deletion any longer.
    fn keep(&mut self, kind: &Arc<Kind>, old: Object, object: Object) -> Object {
        if object::is_deleting(&object) && is_free(kind, &object) {
            return self.put(kind, object, Change::Deleted);
        }
        if object == old {
            return old;
        }
        self.put(kind, object, Change::Modified)
    }

    /// Refuses new objects in a namespace that does not exist or is being deleted.
    fn check_namespace(&self, kind: &Arc<Kind>, namespace: &str, name: &str) -> Result<(), Status> {
        let place: Key = (
            String::new(),
            "namespaces".into(),
            String::new(),
            namespace.into(),
        );
        let Some((_, object)) = self.objects.get(&place) else {
            return Err(Status::not_found("", "namespaces", namespace));
        };
        if object::is_deleting(object) {
            Err(Status::namespace_terminating(
                kind.group(),
                kind.plural(),
                name,
                namespace,
            ))
        } else {
            Ok(())
        }
    }
}

/// The old object with one part of the new.
fn with_part(old: Object, new: &Object, path: &[&str]) -> Object {
    let mut object = old;
    match object::at(new, path) {
        Some(part) => object::set(&mut object, path, part.clone()),
        None => {
            object::remove(&mut object, path);
        }
    }
    object
}

/// The new object with the fields that clients may not change copied from the old.
fn replaced(kind: &Arc<Kind>, old: &Object, new: Object) -> Object {
    let mut object = new;
    object::set_type(&mut object, &kind.api_version(), kind.kind());
    if kind.subresource("status").is_some() {
        object = with_part(object, old, &["status"]);
    }
    defaults::apply(kind.group(), kind.kind(), &mut object);
    let kept = [
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ];
    for field in kept {
        object = with_part(object, old, &["metadata", field]);
    }
    if object.get("spec") != old.get("spec") {
        let generation = object::generation(old) + 1;
        object::metadata_mut(&mut object).insert("generation".into(), generation.into());
    }
    without_empty(object::metadata_mut(&mut object));
    object
}

/// Removes empty lists and maps from the metadata, which count as missing.
fn without_empty(metadata: &mut Map<String, Value>) {
    metadata.retain(|_, value| match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(items) => !items.is_empty(),
        value => !value.is_null(),
    });
}

/// True if a deleted object can be removed: no finalizer holds it, and its grace period is over.
fn is_free(kind: &Arc<Kind>, object: &Object) -> bool {
    let waits = object::deletion_grace_seconds(object).unwrap_or(0) > 0;
    let of_namespace =
        kind.kind() == "Namespace" && !object::items(object, &["spec", "finalizers"]).is_empty();
    !waits && !of_namespace && object::finalizers(object).next().is_none()
}

fn grace(kind: &Arc<Kind>, object: &Object, asked: Option<i64>) -> i64 {
    if kind.kind() != "Pod" {
        return 0;
    }
    let phase = object::text(object, &["status", "phase"]);
    let unassigned = object::text(object, &["spec", "nodeName"]).is_empty();
    if unassigned || ["Succeeded", "Failed"].contains(&phase) {
        return 0;
    }
    let own = object::integer(object, &["spec", "terminationGracePeriodSeconds"]);
    asked.or(own).unwrap_or(30)
}

/// Adds the finalizer for the propagation policy; the garbage collector removes it.
fn set_finalizers(kind: &Arc<Kind>, object: &mut Object, asked: Option<Propagation>) {
    let by_kind = (kind.group() == "batch" && kind.kind() == "Job"
        || kind.kind() == "ReplicationController")
        .then_some(Propagation::Orphan);
    let Some(propagation) = asked.or(by_kind) else {
        return;
    };
    let mut finalizers: Vec<String> = object::finalizers(object)
        .filter(|has| ![ORPHAN, FOREGROUND].contains(has))
        .map(str::to_owned)
        .collect();
    match propagation {
        Propagation::Background => {}
        Propagation::Foreground => finalizers.push(FOREGROUND.into()),
        Propagation::Orphan => finalizers.push(ORPHAN.into()),
    }
    object::set(object, &["metadata", "finalizers"], json!(finalizers));
    without_empty(object::metadata_mut(object));
}

/// Five letters, different for each number.
fn letters(mut number: u64) -> String {
    let base = LETTERS.len() as u64;
    let mut text = [LETTERS[0]; 5];
    for place in text.iter_mut().rev() {
        *place = LETTERS[(number % base) as usize];
        number /= base;
    }
    String::from_utf8_lossy(&text).into_owned()
}
