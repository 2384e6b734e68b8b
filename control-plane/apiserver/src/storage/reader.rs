//! Reads single objects: from the store, or from the caches where a state that was acknowledged a
//! moment ago may still be missing.

use std::sync::Arc;

use machinery::schema::Kind;
use machinery::status::Status;
use serde_json::Value;

use crate::resources::catalogue::{self, Resource, Storage};
use crate::resources::convert;
use crate::storage::feed::Feed;
use crate::storage::store::Store;
use crate::storage::stored::Stored;

/// Objects, for parts of this process: it asks nobody whether the caller may.
#[derive(Clone)]
pub struct Reader {
    pub(crate) store: Store,
    pub(crate) feed: Arc<Feed>,
}

impl Reader {
    /// Returns the object as the store has it now.
    pub async fn get(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Value>, Status> {
        let resource = catalogue::of(kind);
        let stored = self.read(resource, namespace, name).await?;
        Ok(convert::to_served(resource, &Arc::new(stored.decode()?)))
    }

    /// Returns the object from the cache, without a round trip.
    pub fn cached(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let resource = catalogue::of(kind);
        let storage = resource.storage?;
        let cache = self.feed.cache(storage);
        let stored = cache.get(&storage.key(namespace, name))?;
        let object = stored.decode().ok()?;
        Some(convert::to_served(resource, &Arc::new(object)))
    }

    /// Returns all objects of a namespace (of all namespaces when empty) from the cache.
    pub fn cached_list(&self, kind: &Kind, namespace: &str) -> Vec<Arc<Value>> {
        let resource = catalogue::of(kind);
        let Some(storage) = resource.storage else {
            return Vec::new();
        };
        let cache = self.feed.cache(storage);
        let (entries, ..) = cache.snapshot(&storage.folder(namespace));
        let objects = entries.iter();
        objects
            .filter_map(|stored| stored.kept().ok())
            .map(|object| convert::to_served(resource, &object))
            .collect()
    }

    /// Waits until the caches show everything that was acknowledged before this call.
    pub async fn fresh(&self) -> Result<(), Status> {
        self.feed.fresh().await.map(|_| ())
    }

    /// Returns the stored object now; the cache's copy where that is the same.
    pub(crate) async fn read(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Stored>, Status> {
        let storage = resource.storage.ok_or_else(Status::method_not_allowed)?;
        let key = storage.key(namespace, name);
        let found = self.read_key(storage, &key).await?;
        found.ok_or_else(|| resource.not_found(name))
    }

    /// Returns what a key holds now.
    pub(crate) async fn read_key(
        &self,
        storage: &'static Storage,
        key: &str,
    ) -> Result<Option<Arc<Stored>>, Status> {
        let (found, _) = self.store.get(key).await?;
        let Some(kv) = found else { return Ok(None) };
        self.stored_of(storage, key, &kv).map(Some)
    }

    /// Returns what was read as an object; the cache's own when it has the same revision.
    pub(crate) fn stored_of(
        &self,
        storage: &'static Storage,
        key: &str,
        kv: &etcd_api::mvccpb::KeyValue,
    ) -> Result<Arc<Stored>, Status> {
        match self.feed.cache(storage).get(key) {
            Some(stored) if stored.revision == kv.mod_revision => Ok(stored),
            _ => Stored::read(storage, key, &kv.value, kv.mod_revision).map(Arc::new),
        }
    }
}
