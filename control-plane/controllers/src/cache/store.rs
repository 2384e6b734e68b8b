//! The objects of one kind, with the indices that loops need.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use machinery::object::{self, Object};
use machinery::time::Timestamp;

use crate::gone::Gone;
use crate::known::{Key, Known};
use crate::meta;

/// An object before and after a change; at least one of them is set.
#[derive(Debug)]
pub(crate) struct Diff<T> {
    pub(crate) old: Option<Arc<T>>,
    pub(crate) new: Option<Arc<T>>,
}

impl<T> Diff<T> {
    /// The object after the change, or before it if it is gone.
    pub(crate) fn either(&self) -> Option<&Arc<T>> {
        self.new.as_ref().or(self.old.as_ref())
    }
}

struct Entry<T> {
    object: Arc<T>,
    revision: i64,
    /// When this state of the object was first seen.
    since: Timestamp,
}

/// The objects of one kind. The indices have exactly the keys of `objects`.
pub(crate) struct Store<T> {
    objects: BTreeMap<Key, Entry<T>>,
    /// By the controller's uid; the empty uid holds objects without a controller.
    by_controller: BTreeMap<String, BTreeSet<Key>>,
    by_place: BTreeMap<String, BTreeSet<Key>>,
    gone: Gone,
    /// When each object that is no longer here disappeared.
    lost: BTreeMap<Key, Timestamp>,
}

/// Maximum number of entries in `lost`; when it is reached, all are dropped.
const LOST_MAX: usize = 10_000;

impl<T> Default for Store<T> {
    fn default() -> Store<T> {
        Store {
            objects: BTreeMap::new(),
            by_controller: BTreeMap::new(),
            by_place: BTreeMap::new(),
            gone: Gone::default(),
            lost: BTreeMap::new(),
        }
    }
}

impl<T: Known> Store<T> {
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<T>> {
        let entry = self.objects.get(&(namespace.to_owned(), name.to_owned()))?;
        Some(&entry.object)
    }

    pub(crate) fn at(&self, key: &Key) -> Option<&Arc<T>> {
        self.objects.get(key).map(|entry| &entry.object)
    }

    /// When the object's current state was first seen.
    pub(crate) fn since(&self, namespace: &str, name: &str) -> Option<Timestamp> {
        let entry = self.objects.get(&(namespace.to_owned(), name.to_owned()))?;
        Some(entry.since)
    }

    /// When an object that is not here disappeared; `None` if it never was here.
    pub(crate) fn lost_at(&self, namespace: &str, name: &str) -> Option<Timestamp> {
        let key = (namespace.to_owned(), name.to_owned());
        self.lost.get(&key).copied()
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<T>> {
        self.objects.values().map(|entry| &entry.object)
    }

    pub(crate) fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &Arc<T>> {
        self.objects
            .range((namespace.to_owned(), String::new())..)
            .take_while(move |((of, _), _)| of == namespace)
            .map(|(_, entry)| &entry.object)
    }

    /// The objects whose controller has this uid.
    pub(crate) fn controlled_by(&self, uid: &str) -> impl Iterator<Item = &Arc<T>> {
        self.keyed(self.by_controller.get(uid))
    }

    /// The objects of a namespace without a controller.
    pub(crate) fn orphans(&self, namespace: &str) -> impl Iterator<Item = &Arc<T>> {
        let keys = self
            .by_controller
            .get("")
            .into_iter()
            .flat_map(move |keys| {
                keys.range((namespace.to_owned(), String::new())..)
                    .take_while(move |(of, _)| of == namespace)
            });
        keys.filter_map(|key| self.at(key))
    }

    /// The objects at a place: for pods and attachments a node, for claims a volume.
    pub(crate) fn placed_at(&self, place: &str) -> impl Iterator<Item = &Arc<T>> {
        self.keyed(self.by_place.get(place))
    }

    /// Every place that has objects.
    pub(crate) fn places(&self) -> impl Iterator<Item = &str> {
        self.by_place.keys().map(String::as_str)
    }

    /// True if the object with this uid was deleted.
    pub(crate) fn is_gone(&self, uid: &str) -> bool {
        self.gone.contains(uid)
    }

    /// Stores an object unless a state as new is known, or the object was deleted.
    pub(crate) fn put(&mut self, object: T, now: Timestamp) -> Option<Diff<T>> {
        let metadata = object.metadata();
        if self.gone.contains(meta::uid(metadata)) {
            return None;
        }
        let revision = meta::revision(metadata);
        let key = meta::key(metadata);
        if let Some(entry) = self.objects.get(&key)
            && entry.revision >= revision
        {
            return None;
        }
        let old = self.remove(&key);
        let new = Arc::new(object);
        self.insert(key, new.clone(), revision, now);
        Some(Diff {
            old,
            new: Some(new),
        })
    }

    /// Removes an object for good.
    pub(crate) fn take(&mut self, object: &Object, now: Timestamp) -> Option<Diff<T>> {
        let uid = object::uid(object);
        self.gone.add(uid);
        let key = (
            object::namespace(object).to_owned(),
            object::name(object).to_owned(),
        );
        // A new object with the same name may be here already.
        let known = self.objects.get(&key)?;
        if meta::uid(known.object.metadata()) != uid {
            return None;
        }
        let old = self.lose(&key, now);
        Some(Diff { old, new: None })
    }

    /// Replaces the content: these are all objects of the kind.
    pub(crate) fn replace(&mut self, objects: Vec<T>, now: Timestamp) -> Vec<Diff<T>> {
        let kept: BTreeSet<Key> = objects.iter().map(|o| meta::key(o.metadata())).collect();
        let lost: Vec<Key> = self
            .objects
            .keys()
            .filter(|key| !kept.contains(*key))
            .cloned()
            .collect();
        let mut diffs: Vec<Diff<T>> = lost
            .iter()
            .map(|key| Diff {
                old: self.lose(key, now),
                new: None,
            })
            .collect();
        diffs.extend(objects.into_iter().filter_map(|one| self.put(one, now)));
        diffs
    }

    fn keyed<'a>(
        &'a self,
        keys: Option<&'a BTreeSet<Key>>,
    ) -> impl Iterator<Item = &'a Arc<T>> + use<'a, T> {
        let keys = keys.into_iter().flatten();
        keys.filter_map(|key| self.at(key))
    }

    fn insert(&mut self, key: Key, object: Arc<T>, revision: i64, since: Timestamp) {
        let controller = controller(object.as_ref());
        let keys = self.by_controller.entry(controller).or_default();
        keys.insert(key.clone());
        let keys = self.by_place.entry(object.place().to_owned()).or_default();
        keys.insert(key.clone());
        self.lost.remove(&key);
        let entry = Entry {
            object,
            revision,
            since,
        };
        self.objects.insert(key, entry);
    }

    fn lose(&mut self, key: &Key, now: Timestamp) -> Option<Arc<T>> {
        if self.lost.len() >= LOST_MAX {
            self.lost.clear();
        }
        self.lost.insert(key.clone(), now);
        self.remove(key)
    }

    fn remove(&mut self, key: &Key) -> Option<Arc<T>> {
        let object = self.objects.remove(key)?.object;
        unlist(&mut self.by_controller, &controller(object.as_ref()), key);
        unlist(&mut self.by_place, object.place(), key);
        Some(object)
    }
}

fn unlist(index: &mut BTreeMap<String, BTreeSet<Key>>, under: &str, key: &Key) {
    if let Some(keys) = index.get_mut(under) {
        keys.remove(key);
        if keys.is_empty() {
            index.remove(under);
        }
    }
}

fn controller<T: Known>(object: &T) -> String {
    let owner = meta::controller(object.metadata());
    owner.map_or_else(String::new, |owner| owner.uid.clone())
}
