//! The graph of owners and dependents, and the objects of each namespace, from metadata alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use machinery::object::{self, Object};
use machinery::schema::Kind;

use crate::gone::Gone;

/// Maximum number of owners remembered as absent; when it is reached, all are forgotten.
const ABSENT_MAX: usize = 10_000;

/// The finalizer of an owner whose dependents are deleted first.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an owner whose dependents are released.
pub(crate) const ORPHAN: &str = "orphan";

/// An object's owners and the state of its deletion.
#[derive(Debug, Clone)]
pub(crate) struct Vertex {
    pub(crate) kind: Arc<Kind>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) revision: i64,
    pub(crate) owners: Vec<Owner>,
    pub(crate) deleting: bool,
    pub(crate) finalizers: Vec<String>,
}

/// A reference to an owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) controls: bool,
    pub(crate) blocks: bool,
}

/// The key of an object: namespace, group, plural and name.
type Place = (String, String, String, String);

/// All objects that can be deleted, by uid. `dependents` is the reverse of every owner reference,
/// including references to owners that are not in the graph.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    vertices: BTreeMap<String, Vertex>,
    dependents: BTreeMap<String, BTreeSet<String>>,
    places: BTreeMap<Place, String>,
    /// Owners that do not exist, according to the apiserver: where they were looked for, and the
    /// uid.
    absent: BTreeSet<(Place, String)>,
    gone: Gone,
    /// What a list lacked. Its watch may tell of it again: the list may be older than an own write.
    missed: Gone,
}

impl Vertex {
    fn of(kind: &Arc<Kind>, object: &Object) -> Vertex {
        let owners = object::owner_references(object).iter().map(|owner| {
            let text = |key: &str| object::text(owner, &[key]).to_owned();
            Owner {
                api_version: text("apiVersion"),
                kind: text("kind"),
                name: text("name"),
                uid: text("uid"),
                controls: owner["controller"] == true,
                blocks: owner["blockOwnerDeletion"] == true,
            }
        });
        Vertex {
            kind: Arc::clone(kind),
            namespace: object::namespace(object).into(),
            name: object::name(object).into(),
            uid: object::uid(object).into(),
            revision: object::resource_version(object).parse().unwrap_or(0),
            owners: owners.collect(),
            deleting: object::is_deleting(object),
            finalizers: object::finalizers(object).map(str::to_owned).collect(),
        }
    }

    fn place(&self) -> Place {
        place(&self.kind, &self.namespace, &self.name)
    }

    /// True if the object is being deleted and has this finalizer.
    pub(crate) fn waits_for(&self, finalizer: &str) -> bool {
        self.deleting && self.finalizers.iter().any(|has| has == finalizer)
    }
}

impl Graph {
    pub(crate) fn get(&self, uid: &str) -> Option<&Vertex> {
        self.vertices.get(uid)
    }

    pub(crate) fn len(&self) -> usize {
        self.vertices.len()
    }

    /// The objects that refer to this owner.
    pub(crate) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Vertex> {
        let uids = self.dependents.get(uid).into_iter().flatten();
        uids.filter_map(|uid| self.vertices.get(uid))
    }

    /// The uids of objects with an owner whose `apiVersion` and `kind` are chosen.
    pub(crate) fn owned_by(&self, chosen: impl Fn(&str, &str) -> bool) -> Vec<String> {
        let has = |vertex: &&Vertex| {
            let mut owners = vertex.owners.iter();
            owners.any(|owner| chosen(&owner.api_version, &owner.kind))
        };
        let owned = self.vertices.values().filter(has);
        owned.map(|vertex| vertex.uid.clone()).collect()
    }

    /// The objects in a namespace.
    pub(crate) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Vertex> {
        let first: Place = (
            namespace.to_owned(),
            String::new(),
            String::new(),
            String::new(),
        );
        self.places
            .range(first..)
            .take_while(move |((of, ..), _)| of == namespace)
            .filter_map(|(_, uid)| self.vertices.get(uid))
    }

    /// The objects of a kind in a namespace.
    pub(crate) fn of_kind(&self, namespace: &str, kind: &Kind) -> impl Iterator<Item = &Vertex> {
        let (group, plural) = (kind.group().to_owned(), kind.plural().to_owned());
        let first: Place = (
            namespace.to_owned(),
            group.clone(),
            plural.clone(),
            String::new(),
        );
        let namespace = namespace.to_owned();
        self.places
            .range(first..)
            .take_while(move |((of, its_group, its_plural, _), _)| {
                (of, its_group, its_plural) == (&namespace, &group, &plural)
            })
            .filter_map(|(_, uid)| self.vertices.get(uid))
    }

    /// True if an object with this uid was deleted, according to its own watch.
    pub(crate) fn is_gone(&self, uid: &str) -> bool {
        self.gone.contains(uid)
    }

    /// True if a list lacked an object with this uid that was known, and no watch told of it since.
    pub(crate) fn is_missed(&self, uid: &str) -> bool {
        self.missed.contains(uid) && !self.vertices.contains_key(uid)
    }

    /// True if no object with this uid is at this place, according to the apiserver.
    pub(crate) fn is_absent(&self, kind: &Kind, namespace: &str, name: &str, uid: &str) -> bool {
        let place = place(kind, namespace, name);
        self.absent.contains(&(place, uid.to_owned()))
    }

    /// Records that no object with this uid is at this place, according to the apiserver. It may be
    /// at another: whoever refers to it may be wrong about its namespace, its kind or its name.
    pub(crate) fn set_absent(&mut self, kind: &Kind, namespace: &str, name: &str, uid: &str) {
        if self.absent.len() >= ABSENT_MAX {
            self.absent.clear();
        }
        let place = place(kind, namespace, name);
        self.absent.insert((place, uid.to_owned()));
    }

    /// Stores an object unless a newer state is known; returns the uids to check again.
    pub(crate) fn put(&mut self, kind: &Arc<Kind>, object: &Object) -> Vec<String> {
        let vertex = Vertex::of(kind, object);
        let uid = vertex.uid.clone();
        if self.gone.contains(&uid) {
            return Vec::new();
        }
        let known = self.vertices.get(&uid);
        if known.is_some_and(|known| known.revision >= vertex.revision) {
            return Vec::new();
        }
        let mut touched = vec![uid.clone()];
        self.unlink(&uid, &mut touched);
        if vertex.waits_for(FOREGROUND) || vertex.waits_for(ORPHAN) {
            touched.extend(self.dependents.get(&uid).into_iter().flatten().cloned());
        }
        for owner in &vertex.owners {
            let of_owner = self.dependents.entry(owner.uid.clone()).or_default();
            of_owner.insert(uid.clone());
            touched.push(owner.uid.clone());
        }
        self.places.insert(vertex.place(), uid.clone());
        self.vertices.insert(uid, vertex);
        touched
    }

    /// Removes an object for good; returns the uids to check again.
    pub(crate) fn take(&mut self, object: &Object) -> Vec<String> {
        let uid = object::uid(object);
        self.gone.add(uid);
        self.forget(uid)
    }

    /// Replaces all objects of a kind; returns the uids to check again.
    pub(crate) fn replace(&mut self, kind: &Arc<Kind>, objects: &[Object]) -> Vec<String> {
        let kept: BTreeSet<&str> = objects.iter().map(object::uid).collect();
        let lost: Vec<String> = self
            .vertices
            .values()
            .filter(|has| has.kind == *kind && !kept.contains(has.uid.as_str()))
            .map(|has| has.uid.clone())
            .collect();
        lost.iter().for_each(|uid| self.missed.add(uid));
        let mut touched: Vec<String> = lost.iter().flat_map(|uid| self.forget(uid)).collect();
        touched.extend(objects.iter().flat_map(|object| self.put(kind, object)));
        touched
    }

    fn forget(&mut self, uid: &str) -> Vec<String> {
        let mut touched = vec![uid.to_owned()];
        self.unlink(uid, &mut touched);
        // Its dependents may have no owner left.
        touched.extend(self.dependents.get(uid).into_iter().flatten().cloned());
        touched
    }

    /// Removes a vertex with its place and references; its owners are added to `touched`.
    fn unlink(&mut self, uid: &str, touched: &mut Vec<String>) {
        let Some(vertex) = self.vertices.remove(uid) else {
            return;
        };
        let place = vertex.place();
        if self.places.get(&place).is_some_and(|at| at == uid) {
            self.places.remove(&place);
        }
        for owner in vertex.owners {
            if let Some(of_owner) = self.dependents.get_mut(&owner.uid) {
                of_owner.remove(uid);
                if of_owner.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
            touched.push(owner.uid);
        }
    }
}

fn place(kind: &Kind, namespace: &str, name: &str) -> Place {
    (
        namespace.to_owned(),
        kind.group().to_owned(),
        kind.plural().to_owned(),
        name.to_owned(),
    )
}
