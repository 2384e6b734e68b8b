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

/// How many objects are deleted side by side.
const AT_ONCE: usize = 16;
/// The first pause before a look whether the last objects are gone, and the longest: each is twice
/// the one before.
const LOOK_AFTER: Duration = Duration::from_millis(10);
const LOOK_EVERY_MAX: Duration = Duration::from_secs(1);

/// Returns when the definition waits for its objects no longer.
pub(super) async fn run(registry: &Registry, kind: &Kind, name: &str) {
    while let Err(error) = clean(registry, kind, name).await {
        // Another server may have written it.
        if error.code != 409 {
            tracing::warn!(name, %error, "the objects of a definition cannot be deleted");
        }
        tokio::time::sleep(RETRY_AFTER).await;
    }
}

async fn clean(registry: &Registry, kind: &Kind, name: &str) -> Result<(), Status> {
    let definition = match registry.reader.get(kind, "", name).await {
        Err(error) if error.code == 404 => return Ok(()),
        found => Value::clone(&*found?),
    };
    if !object::is_deleting(&definition) || !object::has_finalizer(&definition, CLEANUP) {
        return Ok(());
    }
    let group = object::text(&definition, &["spec", "group"]);
    let plural = object::text(&definition, &["status", "acceptedNames", "plural"]);
    let ended = if is_builtin(group, plural) {
        let message = "instances overlap with built-in resources in storage";
        terminating(false, "OverlappingBuiltInResource", message)
    } else if !holds(&definition, ESTABLISHED) {
        let message = "resource was never established";
        terminating(false, "NeverEstablished", message)
    } else {
        begin(registry, kind, &definition).await?;
        let deleted = delete_all(registry, group, plural).await;
        if let Err(error) = deleted {
            failed(registry, kind, name, &error).await?;
            return Err(error);
        }
        terminating(false, "InstanceDeletionCompleted", "removed all instances")
    };
    finish(registry, kind, name, &ended).await
}

/// Says that it is at work: that may take a while.
async fn begin(registry: &Registry, kind: &Kind, definition: &Value) -> Result<(), Status> {
    let message = "CustomResource deletion is in progress";
    let under_way = terminating(true, "InstanceDeletionInProgress", message);
    let mut new = definition.clone();
    under_way.set(&mut new, clock::now());
    if new == *definition {
        return Ok(());
    }
    registry.update_status(kind, new).await
}

async fn failed(
    registry: &Registry,
    kind: &Kind,
    name: &str,
    error: &Status,
) -> Result<(), Status> {
    let message = format!("could not issue all deletes: {error}");
    let condition = terminating(true, "InstanceDeletionFailed", &message);
    let mut new = Value::clone(&*registry.reader.get(kind, "", name).await?);
    condition.set(&mut new, clock::now());
    registry.update_status(kind, new).await
}

/// Takes the finalizer away, which lets the definition go if nothing else holds it.
async fn finish(
    registry: &Registry,
    kind: &Kind,
    name: &str,
    condition: &Condition,
) -> Result<(), Status> {
    let mut new = Value::clone(&*registry.reader.get(kind, "", name).await?);
    condition.set(&mut new, clock::now());
    let others = object::finalizers(&new).filter(|one| *one != CLEANUP);
    let others: Vec<Value> = others.map(Value::from).collect();
    object::set(&mut new, &["metadata", "finalizers"], others.into());
    registry.update_status(kind, new).await
}

/// Deletes every object and waits until none is left; some may be held by finalizers.
async fn delete_all(registry: &Registry, group: &str, plural: &str) -> Result<(), Status> {
    let mut pause = LOOK_AFTER;
    loop {
        registry.reader.fresh().await?;
        let catalogue = registry.reader.reflector.catalogue();
        let Some(storage) = catalogue.custom_storage(group, plural) else {
            return Err(Status::internal(&format!("{plural}.{group} is not served")));
        };
        let left = delete_each(registry, storage).await?;
        if left == 0 {
            return Ok(());
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LOOK_EVERY_MAX);
    }
}

/// Deletes what is not being deleted already; returns how many objects there were.
async fn delete_each(registry: &Registry, storage: &Arc<Storage>) -> Result<usize, Status> {
    let cache = registry.reader.reflector.cache(storage)?;
    let entries = cache.all(&storage.folder(""))?;
    let kind = served(registry, storage)?;
    let count = entries.len();
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
        .buffer_unordered(AT_ONCE);
    let mut failed = None;
    while let Some(deleted) = deletions.next().await {
        match deleted {
            // It is gone; another one may have its name.
            Err(error) if error.code == 404 || error.code == 409 => {}
            Err(error) => failed = Some(error),
            Ok(()) => {}
        }
    }
    match failed {
        Some(error) => Err(error),
        None => Ok(count),
    }
}

/// A kind that the collection is served as.
fn served(registry: &Registry, storage: &Storage) -> Result<Arc<Kind>, Status> {
    let catalogue = registry.reader.reflector.catalogue();
    let mut all = catalogue.custom();
    let found = all.find(|one| one.storage.as_ref().is_some_and(|its| its.id == storage.id));
    let found = found.map(|one| Arc::clone(&one.kind));
    found.ok_or_else(Status::unknown_path)
}

fn terminating(holds: bool, reason: &'static str, message: &str) -> Condition {
    Condition {
        kind: TERMINATING,
        holds,
        reason,
        message: message.to_owned(),
    }
}
