//! Deletes the objects of a definition, and then lets the definition go.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use machinery::object;
use machinery::schema::Kind;
use machinery::status::Status;
use serde_json::Value;

use super::{RETRY_AFTER, is_builtin};
use crate::basics::clock;
use crate::registry::Registry;
use crate::registry::definition::{CLEANUP, Condition, ESTABLISHED, TERMINATING, holds};
use crate::resources::catalogue::Storage;
use crate::storage::stored::Stored;

/// How many objects are deleted side by side.
const AT_ONCE: usize = 16;
/// The first pause before a look whether the last objects are gone, and the longest: each is twice
/// the one before.
const LOOK_AFTER: Duration = Duration::from_millis(10);
const LOOK_EVERY_MAX: Duration = Duration::from_secs(1);
/// Longest pause after a failure; each is twice the one before.
const RETRY_EVERY_MAX: Duration = Duration::from_secs(30);
/// Why a definition still waits after a failure.
const FAILED: &str = "InstanceDeletionFailed";

/// The cleanup of one definition. Another definition of the same name has other objects: another
/// server may let the first one go, and a client define the kind anew, at any moment.
pub(super) struct Cleanup {
    pub(super) registry: Arc<Registry>,
    /// The kind of definitions.
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) uid: String,
}

impl Cleanup {
    /// Returns when the definition waits for its objects no longer.
    pub(super) async fn run(&self) {
        let mut pause = RETRY_AFTER;
        while let Err(error) = self.attempt().await {
            // Another server may have written it.
            if error.code != 409 {
                let name = &self.name;
                tracing::warn!(name, %error, "the objects of a definition cannot be deleted");
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(RETRY_EVERY_MAX);
        }
    }

    async fn attempt(&self) -> Result<(), Status> {
        let Some(definition) = self.waiting().await? else {
            return Ok(());
        };
        let group = object::text(&definition, &["spec", "group"]);
        let plural = object::text(&definition, &["status", "acceptedNames", "plural"]);
        let ended = if is_builtin(group, plural) {
            let message = "instances overlap with built-in resources in storage";
            terminating(false, "OverlappingBuiltInResource", message)
        } else if !holds(&definition, ESTABLISHED) {
            let message = "resource was never established";
            terminating(false, "NeverEstablished", message)
        } else {
            // That may take a while. A failure stays told until it is over: each attempt would
            // write twice otherwise.
            if !has_failed(&definition) {
                let message = "CustomResource deletion is in progress";
                let under_way = terminating(true, "InstanceDeletionInProgress", message);
                self.tell(&under_way).await?;
            }
            if let Err(error) = self.delete_all(group, plural).await {
                let message = format!("could not issue all deletes: {error}");
                self.tell(&terminating(true, FAILED, &message)).await?;
                return Err(error);
            }
            terminating(false, "InstanceDeletionCompleted", "removed all instances")
        };
        self.finish(&ended).await
    }

    /// The definition as the store has it; `None` if it no longer waits for its objects.
    async fn waiting(&self) -> Result<Option<Value>, Status> {
        let found = match self.registry.reader.get(&self.kind, "", &self.name).await {
            Err(error) if error.code == 404 => return Ok(None),
            found => found?,
        };
        let waits = object::uid(&found) == self.uid
            && object::is_deleting(&found)
            && object::has_finalizer(&found, CLEANUP);
        Ok(waits.then(|| Value::clone(&found)))
    }

    /// Writes a condition into the definition if that does not have it.
    async fn tell(&self, condition: &Condition) -> Result<(), Status> {
        let Some(old) = self.waiting().await? else {
            return Ok(());
        };
        let mut new = old.clone();
        condition.set(&mut new, clock::now());
        if new == old {
            return Ok(());
        }
        self.registry.update_status(&self.kind, new).await
    }

    /// Takes the finalizer away, which lets the definition go if nothing else holds it.
    async fn finish(&self, condition: &Condition) -> Result<(), Status> {
        let Some(mut new) = self.waiting().await? else {
            return Ok(());
        };
        condition.set(&mut new, clock::now());
        let others = object::finalizers(&new).filter(|one| *one != CLEANUP);
        let others: Vec<Value> = others.map(Value::from).collect();
        object::set(&mut new, &["metadata", "finalizers"], others.into());
        self.registry.update_status(&self.kind, new).await
    }

    /// Deletes every object and waits until none is left; some may be held by finalizers. Ends
    /// early if the definition no longer waits.
    async fn delete_all(&self, group: &str, plural: &str) -> Result<(), Status> {
        let reader = &self.registry.reader;
        let mut pause = LOOK_AFTER;
        loop {
            reader.fresh().await?;
            let catalogue = reader.reflector.catalogue();
            let Some(storage) = catalogue.custom_storage(group, plural) else {
                return Err(Status::internal(&format!("{plural}.{group} is not served")));
            };
            let left = reader.reflector.cache(storage)?.all(&storage.folder(""))?;
            // Asked after the list: if the definition waits now, it did so then, and all that the
            // list has is its own.
            if left.is_empty() || self.waiting().await?.is_none() {
                return Ok(());
            }
            delete_each(&self.registry, storage, left).await?;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LOOK_EVERY_MAX);
        }
    }
}

/// Deletes what is not being deleted already.
async fn delete_each(
    registry: &Registry,
    storage: &Storage,
    entries: Vec<Arc<Stored>>,
) -> Result<(), Status> {
    let kind = served(registry, storage)?;
    let mut deletions = stream::iter(entries)
        .map(|entry| {
            let kind = Arc::clone(&kind);
            async move {
                let object = entry.decode()?;
                let (namespace, name) = (object::namespace(&object), object::name(&object));
                let uid = object::uid(&object);
                registry.delete(&kind, namespace, name, uid).await
            }
        })
        // In order, so that of several failures the same one is told each time.
        .buffered(AT_ONCE);
    let mut failed = Ok(());
    while let Some(deleted) = deletions.next().await {
        match deleted {
            // It is gone; another one may have its name.
            Err(error) if error.code == 404 || error.code == 409 => {}
            deleted => failed = failed.and(deleted),
        }
    }
    failed
}

/// A kind that the collection is served as.
fn served(registry: &Registry, storage: &Storage) -> Result<Arc<Kind>, Status> {
    let catalogue = registry.reader.reflector.catalogue();
    let mut all = catalogue.custom();
    let found = all.find(|one| one.storage.as_ref().is_some_and(|its| its.id == storage.id));
    let found = found.map(|one| Arc::clone(&one.kind));
    found.ok_or_else(Status::unknown_path)
}

/// True if the last attempt to delete the objects failed.
fn has_failed(definition: &Value) -> bool {
    let mut told = object::items(definition, &["status", "conditions"]).iter();
    told.any(|one| one["type"] == TERMINATING && one["reason"] == FAILED)
}

fn terminating(holds: bool, reason: &'static str, message: &str) -> Condition {
    Condition {
        kind: TERMINATING,
        holds,
        reason,
        message: message.to_owned(),
    }
}
