//! What the server holds, and its objects for other parts of this process.

use std::sync::Arc;

use machinery::schema::Kind;
use machinery::status::Status;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use crate::Config;
use crate::auth::User;
use crate::http::slots::Slots;
use crate::registry::edit::Edited;
use crate::registry::ttl::EventLeases;
use crate::registry::write::Writer;
use crate::resources::catalogue::{self, Resource, Storage};
use crate::resources::convert;
use crate::storage::feed::Feed;
use crate::storage::store::Store;
use crate::storage::stored::Stored;

/// Objects, for parts of this process: nobody is asked whether the caller may.
#[derive(Clone)]
pub struct Api(pub(crate) Arc<Core>);

/// What all requests share.
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) feed: Arc<Feed>,
    pub(crate) leases: EventLeases,
    pub(crate) slots: Slots,
    /// Held while a free address or port is chosen and until its service is stored.
    pub(crate) allocation: tokio::sync::Mutex<()>,
    pub(crate) stopping: watch::Sender<bool>,
    pub(crate) tasks: Mutex<Vec<tokio::task::AbortHandle>>,
}

impl Api {
    /// The object as the store has it now.
    pub async fn get(
        &self,
        kind: &'static Kind,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Value>, Status> {
        let resource = catalogue::of(kind);
        let stored = self.read(resource, namespace, name).await?;
        Ok(convert::to_served(resource, &Arc::new(stored.decode()?)))
    }

    /// The object as last heard of; no round trip.
    pub fn cached(&self, kind: &'static Kind, namespace: &str, name: &str) -> Option<Arc<Value>> {
        let resource = catalogue::of(kind);
        let storage = resource.storage?;
        let stored = self
            .0
            .feed
            .cache(storage)
            .get(&storage.key(namespace, name))?;
        let object = stored.decode().ok()?;
        Some(convert::to_served(resource, &Arc::new(object)))
    }

    /// All objects of a namespace (all namespaces when empty) as last heard of.
    pub fn cached_list(&self, kind: &'static Kind, namespace: &str) -> Vec<Arc<Value>> {
        let resource = catalogue::of(kind);
        let Some(storage) = resource.storage else {
            return Vec::new();
        };
        let (entries, ..) = self
            .0
            .feed
            .cache(storage)
            .snapshot(&storage.folder(namespace));
        let objects = entries.iter();
        objects
            .filter_map(|stored| stored.kept().ok())
            .map(|object| convert::to_served(resource, &object))
            .collect()
    }

    /// Waits until what is cached shows everything that was acknowledged before this call.
    pub async fn fresh(&self) -> Result<(), Status> {
        self.0.feed.fresh().await.map(|_| ())
    }

    /// Stores a new object, defaulted and validated; answers `AlreadyExists` if there is one.
    pub async fn create(
        &self,
        kind: &'static Kind,
        namespace: &str,
        object: Value,
    ) -> Result<Arc<Value>, Status> {
        let user = User::default();
        let resource = catalogue::of(kind);
        let writer = Writer {
            api: self,
            user: &user,
            resource,
            namespace,
            dry: false,
        };
        let entry = writer.create(object).await?;
        Ok(convert::to_served(resource, &entry.object))
    }

    /// Replaces an object, by the rules for a PUT from outside.
    pub async fn update(
        &self,
        kind: &'static Kind,
        namespace: &str,
        object: Value,
    ) -> Result<Arc<Value>, Status> {
        let user = User::default();
        let resource = catalogue::of(kind);
        let name = machinery::object::name(&object).to_owned();
        let writer = Writer {
            api: self,
            user: &user,
            resource,
            namespace,
            dry: false,
        };
        let entry = match writer.replace(&name, "", object).await? {
            Edited::Same(entry)
            | Edited::Created(entry)
            | Edited::Updated(entry)
            | Edited::Deleted(entry) => entry,
        };
        Ok(convert::to_served(resource, &entry.object))
    }

    /// The stored object now: the cache's copy where that is the same.
    pub(crate) async fn read(
        &self,
        resource: &'static Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Stored>, Status> {
        let storage = resource.storage.ok_or_else(Status::method_not_allowed)?;
        let key = storage.key(namespace, name);
        let found = self.read_key(storage, &key).await?;
        found.ok_or_else(|| not_found(resource, name))
    }

    pub(crate) async fn read_key(
        &self,
        storage: &'static Storage,
        key: &str,
    ) -> Result<Option<Arc<Stored>>, Status> {
        let (found, _) = self.0.store.get(key).await?;
        let Some(kv) = found else { return Ok(None) };
        self.stored_of(storage, key, &kv).map(Some)
    }

    /// What was read as an object; the cache's own when it is of the same revision.
    pub(crate) fn stored_of(
        &self,
        storage: &'static Storage,
        key: &str,
        kv: &etcd_api::mvccpb::KeyValue,
    ) -> Result<Arc<Stored>, Status> {
        match self.0.feed.cache(storage).get(key) {
            Some(stored) if stored.revision == kv.mod_revision => Ok(stored),
            _ => Stored::read(storage, key, &kv.value, kv.mod_revision).map(Arc::new),
        }
    }
}

pub(crate) fn not_found(resource: &Resource, name: &str) -> Status {
    Status::not_found(resource.kind.group, resource.kind.plural, name)
}
