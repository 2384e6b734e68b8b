//! Reads single objects: from the store, or from the caches where a state from a moment ago may be
//! missing.

use std::sync::Arc;

use machinery::schema::Kind;
use machinery::status::Status;
use serde_json::Value;

use crate::resources::catalogue::{Resource, Storage};
use crate::resources::convert;
use crate::storage::reflector::Reflector;
use crate::storage::store::{Raw, Store};
use crate::storage::stored::Stored;
use crate::storage::views;

/// Reads objects for parts of this process, without authorization.
#[derive(Clone)]
pub struct Reader {
    pub(crate) store: Store,
    pub(crate) reflector: Arc<Reflector>,
}

impl Reader {
    /// A reader whose caches are empty and whose store cannot be reached. It needs a tokio runtime.
    #[cfg(test)]
    pub(crate) fn without_store(catalogue: crate::resources::catalogue::Catalogue) -> Reader {
        let store = Store::new(super::store::unreachable(), Arc::default());
        let reflector = Arc::new(Reflector::new(store.clone(), catalogue));
        Reader { store, reflector }
    }

    /// Returns the resource of a group, version and plural; an error if it is not served.
    pub(crate) fn resource(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Result<Arc<Resource>, Status> {
        let catalogue = self.reflector.catalogue();
        let found = catalogue.resource(group, version, plural);
        found.cloned().ok_or_else(Status::unknown_path)
    }

    /// Returns the resource whose objects have this kind, if it is served.
    pub(crate) fn named(&self, group: &str, version: &str, kind: &str) -> Option<Arc<Resource>> {
        let catalogue = self.reflector.catalogue();
        let mut all = catalogue.resources().iter();
        let found = all.find(|one| {
            let its = &one.kind;
            (its.group(), its.version(), its.kind()) == (group, version, kind)
        });
        found.cloned()
    }

    /// Returns the resource of a kind; an error if it is not served.
    pub(crate) fn resource_of(&self, kind: &Kind) -> Result<Arc<Resource>, Status> {
        self.reflector.catalogue().of(kind).cloned()
    }

    /// Returns the object that the store has now.
    pub async fn get(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Value>, Status> {
        let resource = self.resource_of(kind)?;
        let stored = self.read(&resource, namespace, name).await?;
        let stored = views::of(&resource, &stored).await?;
        Ok(convert::to_served(&resource, &Arc::new(stored.decode()?)))
    }

    /// Returns the object from the cache, without a round trip. An object whose versions have
    /// different fields is in the version that it was stored in, here and in the lists below.
    ///
    /// What cannot be read is `None`, or what it was before. Where a missing object lets a request
    /// pass, ask [`Reader::cached_or_error`].
    pub fn cached(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let (resource, cache) = self.reflector.served(kind)?;
        let storage = resource.storage.as_ref()?;
        let stored = cache.get(&storage.key(namespace, name))?;
        let object = stored.decode().ok()?;
        Some(convert::to_served(&resource, &Arc::new(object)))
    }

    /// The same, but an error if the object cannot be read.
    pub(crate) fn cached_or_error(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Arc<Value>>, Status> {
        let Some((resource, cache)) = self.reflector.served(kind) else {
            return Ok(None);
        };
        let key = resource.stored()?.key(namespace, name);
        let Some(stored) = cache.readable(&key)? else {
            return Ok(None);
        };
        Ok(Some(convert::to_served(&resource, &stored.kept()?)))
    }

    /// Returns the object from the cache, or the one that the store has if the cache has none that
    /// can be read: it may not have the object yet.
    pub(crate) async fn cached_or_stored(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Value>, Status> {
        match self.cached_or_error(kind, namespace, name) {
            Ok(Some(found)) => Ok(found),
            _ => self.get(kind, namespace, name).await,
        }
    }

    /// Returns the object from the store if the `newest` state is asked for, otherwise as
    /// [`Self::cached_or_stored`].
    pub(crate) async fn present(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        newest: bool,
    ) -> Result<Arc<Value>, Status> {
        if newest {
            self.get(kind, namespace, name).await
        } else {
            self.cached_or_stored(kind, namespace, name).await
        }
    }

    /// Returns all objects of a namespace (of all namespaces if it is empty) from the cache. It is
    /// an error if one of them cannot be read: the others alone would let requests pass that it
    /// forbids, or free what it uses.
    pub fn cached_list(&self, kind: &Kind, namespace: &str) -> Result<Vec<Arc<Value>>, Status> {
        let Some((resource, cache)) = self.reflector.served(kind) else {
            return Ok(Vec::new());
        };
        let stored = cache.all(&resource.stored()?.folder(namespace))?;
        let served = |stored: Arc<Stored>| Ok(convert::to_served(&resource, &stored.kept()?));
        stored.into_iter().map(served).collect()
    }

    /// The same without those that cannot be read, for what concerns each object alone.
    pub(crate) fn cached_readable(&self, kind: &Kind, namespace: &str) -> Vec<Arc<Value>> {
        self.cached_where(kind, namespace, |_| true)
    }

    /// Returns the objects of a namespace that have a label with a value, from the cache, without
    /// those that cannot be read.
    pub(crate) fn cached_with_label(
        &self,
        kind: &Kind,
        namespace: &str,
        (label, value): (&str, &str),
    ) -> Vec<Arc<Value>> {
        self.cached_where(kind, namespace, |one| one.label(label) == Some(value))
    }

    /// Returns the objects that the cache has now, as they are stored, in the order of their keys;
    /// an error if one of them cannot be read.
    pub(crate) fn cached_stored(
        &self,
        kind: &Kind,
        namespace: &str,
    ) -> Result<Vec<Arc<Stored>>, Status> {
        match self.reflector.served(kind) {
            Some((resource, cache)) => cache.all(&resource.stored()?.folder(namespace)),
            None => Ok(Vec::new()),
        }
    }

    fn cached_where(
        &self,
        kind: &Kind,
        namespace: &str,
        wanted: impl Fn(&Stored) -> bool,
    ) -> Vec<Arc<Value>> {
        let Some((resource, cache)) = self.reflector.served(kind) else {
            return Vec::new();
        };
        let Ok(storage) = resource.stored() else {
            return Vec::new();
        };
        let (stored, ..) = cache.snapshot(&storage.folder(namespace));
        stored
            .iter()
            .filter(|stored| wanted(stored))
            .filter_map(|stored| stored.kept().ok())
            .map(|object| convert::to_served(&resource, &object))
            .collect()
    }

    /// Waits until the caches show everything acknowledged before this call.
    pub async fn fresh(&self) -> Result<(), Status> {
        self.reflector.fresh().await.map(|_| ())
    }

    /// Returns the object that the store has now, or the cache's copy of the same revision.
    pub(crate) async fn read(
        &self,
        resource: &Arc<Resource>,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Stored>, Status> {
        let storage = resource.stored()?;
        let key = storage.key(namespace, name);
        let found = self.read_key(storage, &key).await?;
        found.ok_or_else(|| resource.not_found(name))
    }

    /// Returns the value that a key has now.
    pub(crate) async fn read_key(
        &self,
        storage: &Arc<Storage>,
        key: &str,
    ) -> Result<Option<Arc<Stored>>, Status> {
        let (found, _) = self.store.get(key).await?;
        let Some(raw) = found else { return Ok(None) };
        self.stored_of(storage, key, &raw).await.map(Some)
    }

    /// Opens and decodes a value; returns the cache's copy if that has the same revision and was
    /// opened by the same rules.
    pub(crate) async fn stored_of(
        &self,
        storage: &Arc<Storage>,
        key: &str,
        raw: &Raw,
    ) -> Result<Arc<Stored>, Status> {
        let cache = self.reflector.cache_if_followed(storage);
        let cached = cache.and_then(|cache| cache.get(key));
        let same = |stored: &Arc<Stored>| {
            stored.revision == raw.revision && stored.is_of(self.store.at_rest())
        };
        match cached.filter(same) {
            Some(stored) => Ok(stored),
            None => Stored::open(&self.store, storage, key, raw)
                .await
                .map(Arc::new),
        }
    }
}
