//! An in-memory API for tests of loops: it changes written objects as an apiserver does, but does
//! not validate them.
//!
//! Everything is deterministic: names and uids come from a counter, the time is what the test last
//! set, and every change is kept as an event for the test to deliver when it wants.

#[cfg(test)]
mod tests;
mod write;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::{Api, Call, DeleteOptions, PatchForm};
use crate::edit::patch;
use crate::object::{self, Object};
use crate::schema::{self, Kind, Scope};
use crate::status::Status;
use crate::values::time::Timestamp;

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The object is new.
    Added,
    /// The object changed.
    Modified,
    /// The object is gone.
    Deleted,
}

/// A change as a watch event.
#[derive(Debug, Clone)]
pub struct Event {
    /// The revision of the change, which is also the object's version.
    pub revision: i64,
    /// The object's kind.
    pub kind: Arc<Kind>,
    /// What happened.
    pub change: Change,
    /// The object after the change; for a deletion, its last state.
    pub object: Object,
}

/// The objects and all their changes.
#[derive(Debug, Default)]
pub struct MemoryApi {
    state: Mutex<State>,
}

/// The key of an object: group and plural of its kind, namespace, name.
type Key = (String, String, String, String);

#[derive(Debug, Default)]
struct State {
    now: Timestamp,
    revision: i64,
    names: u64,
    objects: BTreeMap<Key, (Arc<Kind>, Object)>,
    events: Vec<Event>,
    /// The kinds that the table does not have.
    custom: Vec<Arc<Kind>>,
}

impl MemoryApi {
    /// An API without objects whose clock is at `now`.
    pub fn new(now: Timestamp) -> MemoryApi {
        let api = MemoryApi::default();
        api.lock().now = now;
        api
    }

    /// Sets the clock.
    pub fn set_now(&self, now: Timestamp) {
        self.lock().now = now;
    }

    /// The revision of the newest change.
    pub fn revision(&self) -> i64 {
        self.lock().revision
    }

    /// The changes after a revision, in order.
    pub fn events_after(&self, revision: i64) -> Vec<Event> {
        let state = self.lock();
        let from = state.events.partition_point(|e| e.revision <= revision);
        state.events[from..].to_vec()
    }

    /// Every object, ordered by kind, namespace and name.
    pub fn objects(&self) -> Vec<(Arc<Kind>, Object)> {
        self.lock().objects.values().cloned().collect()
    }

    /// Serves a kind that the table does not have.
    pub fn add_kind(&self, kind: Arc<Kind>) {
        self.lock().custom.push(kind);
    }

    /// Serves a kind no longer; its objects go without a deletion.
    pub fn remove_kind(&self, kind: &Kind) {
        let mut state = self.lock();
        state.custom.retain(|one| **one != *kind);
        state.objects.retain(|_, (of, _)| **of != *kind);
    }

    /// Executes one call.
    pub fn answer(&self, call: Call) -> Result<Object, Status> {
        self.lock().answer(call)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Api for MemoryApi {
    async fn call(&self, call: Call) -> Result<Object, Status> {
        self.answer(call)
    }
}

impl State {
    fn answer(&mut self, call: Call) -> Result<Object, Status> {
        match call {
            Call::Get {
                kind,
                namespace,
                name,
            } => self.get(&kind, &namespace, &name).cloned(),
            Call::List { kind, namespace } => Ok(self.list(&kind, &namespace)),
            Call::Create { kind, object } => self.create(&kind, object),
            Call::Update {
                kind,
                subresource,
                object,
            } => self.update(&kind, subresource, object),
            Call::Patch {
                kind,
                namespace,
                name,
                subresource,
                form,
                patch,
            } => {
                let old = self.get(&kind, &namespace, &name)?.clone();
                let object = patched(&kind, &old, form, &patch)?;
                self.update(&kind, subresource, object)
            }
            Call::Delete {
                kind,
                namespace,
                name,
                options,
            } => self.delete(&kind, &namespace, &name, &options),
            Call::DeleteCollection { kind, namespace } => {
                let list = self.list(&kind, &namespace);
                for object in object::items(&list, &["items"]) {
                    let name = object::name(object);
                    self.delete(&kind, &namespace, name, &DeleteOptions::default())?;
                }
                Ok(list)
            }
            Call::Bind {
                namespace,
                pod,
                uid,
                node,
            } => self.bind(&namespace, &pod, &uid, &node),
            Call::Evict {
                namespace,
                pod,
                options,
            } => self.delete(crate::api::pods(), &namespace, &pod, &options),
            Call::Discover { core } => Ok(discovery(&self.custom, core)),
            // It has objects only: neither metrics nor subresources can be read.
            Call::Read { what, .. } => Err(Status::new(404, "NotFound", format!("no {what}"))),
        }
    }

    fn get(&self, kind: &Arc<Kind>, namespace: &str, name: &str) -> Result<&Object, Status> {
        let found = self.objects.get(&key(kind, namespace, name));
        found
            .map(|(_, object)| object)
            .ok_or_else(|| Status::not_found(kind.group(), kind.plural(), name))
    }

    fn list(&self, kind: &Arc<Kind>, namespace: &str) -> Object {
        let first = key(kind, "", "");
        let items: Vec<Value> = self
            .objects
            .range(first..)
            .take_while(|((group, plural, ..), _)| {
                (group.as_str(), plural.as_str()) == (kind.group(), kind.plural())
            })
            .filter(|((_, _, has, _), _)| namespace.is_empty() || has == namespace)
            .map(|(_, (_, object))| object.clone())
            .collect();
        json!({
            "apiVersion": kind.api_version(), "kind": format!("{}List", kind.kind()),
            "metadata": {"resourceVersion": self.revision.to_string()}, "items": items,
        })
    }

    /// Stores the object or, for a deletion, removes it, and records the event.
    fn put(&mut self, kind: &Arc<Kind>, mut object: Object, change: Change) -> Object {
        self.revision += 1;
        object::set_resource_version(&mut object, self.revision);
        let key = key(kind, object::namespace(&object), object::name(&object));
        match change {
            Change::Deleted => {
                self.objects.remove(&key);
            }
            _ => {
                self.objects.insert(key, (Arc::clone(kind), object.clone()));
            }
        }
        self.events.push(Event {
            revision: self.revision,
            kind: Arc::clone(kind),
            change,
            object: object.clone(),
        });
        object
    }
}

fn key(kind: &Arc<Kind>, namespace: &str, name: &str) -> Key {
    (
        kind.group().into(),
        kind.plural().into(),
        namespace.into(),
        name.into(),
    )
}

fn patched(
    kind: &Arc<Kind>,
    old: &Object,
    form: PatchForm,
    patch: &Value,
) -> Result<Object, Status> {
    let mut new = match form {
        // Who owns which fields is not kept here, so an apply takes no field away.
        PatchForm::Merge | PatchForm::Apply(_) => patch::merge(old, patch),
        PatchForm::Strategic if kind.message().open => {
            return Err(Status::unsupported_media_type(&[
                "application/json-patch+json",
                "application/merge-patch+json",
            ]));
        }
        PatchForm::Strategic => patch::strategic(old, patch, kind.message())
            .map_err(|error| Status::bad_request(error.to_string()))?,
    };
    if object::uid(&new) != object::uid(old) {
        let why = "the UID in the precondition differs";
        let name = object::name(old);
        return Err(Status::conflict(kind.group(), kind.plural(), name, why));
    }
    // Without a version in the patch there is no precondition: the current version applies.
    if object::resource_version(patch).is_empty() {
        let version = object::resource_version(old).to_owned();
        object::set(&mut new, &["metadata", "resourceVersion"], version.into());
    }
    Ok(new)
}

/// The discovery document of the core group or of all others: the table's kinds, then `custom`.
fn discovery(custom: &[Arc<Kind>], core: bool) -> Object {
    let mut groups: Vec<(&str, Vec<Value>)> = Vec::new();
    let kinds = schema::kinds().iter().chain(custom);
    for kind in kinds.filter(|kind| kind.group().is_empty() == core) {
        let scope = match kind.scope() {
            Scope::Namespaced => "Namespaced",
            Scope::Cluster => "Cluster",
        };
        let resource = json!({
            "resource": kind.plural(), "singularResource": kind.singular(), "scope": scope,
            "verbs": kind.verbs(), "responseKind": {"kind": kind.kind()},
        });
        let version = json!({"version": kind.version(), "resources": [resource]});
        match groups.iter_mut().find(|(group, _)| *group == kind.group()) {
            Some((_, versions)) => versions.push(version),
            None => groups.push((kind.group(), vec![version])),
        }
    }
    let items = groups
        .into_iter()
        .map(|(group, versions)| json!({"metadata": {"name": group}, "versions": versions}));
    json!({
        "apiVersion": "apidiscovery.k8s.io/v2", "kind": "APIGroupDiscoveryList",
        "items": items.collect::<Vec<_>>(),
    })
}
