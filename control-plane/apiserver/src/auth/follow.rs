//! What authorization derives from collections of objects, kept at the state of their caches.

use std::sync::Arc;

use machinery::object;
use machinery::schema::Kind;
use parking_lot::RwLock;
use serde_json::Value;

use crate::storage::cache::{Cache, Cursor};
use crate::storage::reader::Reader;

/// A value derived from all objects of some kinds.
pub(super) trait View: Default + Send + Sync + 'static {
    /// Group, version and plural of these kinds.
    const COLLECTIONS: &'static [[&'static str; 3]];

    /// Takes a new or changed object.
    fn put(&mut self, kind: &str, object: &Value);

    /// Takes a deletion.
    fn remove(&mut self, kind: &str, namespace: &str, name: &str);
}

/// A view that follows the caches.
#[derive(Default)]
pub(super) struct Follower<V> {
    known: RwLock<Known<V>>,
}

/// A view, and the changes of the caches that it has taken.
#[derive(Default)]
struct Known<V> {
    view: V,
    followed: Vec<Followed>,
}

/// One collection.
struct Followed {
    kind: Arc<Kind>,
    cache: Arc<Cache>,
    place: Cursor,
}

impl<V: View> Follower<V> {
    /// Looks at the view at the state of the caches.
    pub(super) fn look<T>(&self, reader: &Reader, look: impl FnOnce(&V) -> T) -> T {
        {
            let known = self.known.read();
            if known.is_current() {
                return look(&known.view);
            }
        }
        let mut known = self.known.write();
        if !known.is_current() && !known.follow() {
            *known = Known::read(reader);
        }
        look(&known.view)
    }
}

impl<V: View> Known<V> {
    fn is_current(&self) -> bool {
        let mut all = self.followed.iter();
        all.len() == V::COLLECTIONS.len() && all.all(|one| one.cache.end() == one.place)
    }

    /// Takes the changes since the last time; says no when they are no longer remembered.
    fn follow(&mut self) -> bool {
        if self.followed.len() != V::COLLECTIONS.len() {
            return false;
        }
        for Followed { kind, cache, place } in &mut self.followed {
            let Ok(changes) = cache.changes(place, usize::MAX) else {
                return false;
            };
            for change in changes {
                let Ok(object) = &change.after.decode() else {
                    return false;
                };
                if change.deleted {
                    let (namespace, name) = (object::namespace(object), object::name(object));
                    self.view.remove(kind.kind(), namespace, name);
                } else {
                    self.view.put(kind.kind(), object);
                }
            }
        }
        true
    }

    /// Reads everything from the caches.
    fn read(reader: &Reader) -> Known<V> {
        let mut known = Known::<V>::default();
        let catalogue = reader.reflector.catalogue();
        let resources = V::COLLECTIONS
            .iter()
            .filter_map(|[group, version, plural]| catalogue.resource(group, version, plural));
        for storage in resources.filter_map(|resource| resource.storage.as_ref()) {
            let Ok(cache) = reader.reflector.cache(storage) else {
                continue;
            };
            let (entries, place, _) = cache.snapshot(&storage.folder(""));
            for object in entries.iter().filter_map(|stored| stored.decode().ok()) {
                known.view.put(storage.kind.kind(), &object);
            }
            known.followed.push(Followed {
                kind: Arc::clone(&storage.kind),
                cache,
                place,
            });
        }
        known
    }
}
