//! Changes one object by compare-and-swap: read, decide, write if nothing changed, else start
//! again.

use std::sync::Arc;

use machinery::object;
use machinery::status::Status;
use serde_json::Value;

use crate::auth::Answer;
use crate::registry::Registry;
use crate::registry::strategy;
use crate::registry::verbs::managed::fits_without_managers;
use crate::registry::verbs::parents::Parents;
use crate::resources::catalogue::Storage;
use crate::storage::decoded::{self, DecodedObject};
use crate::storage::store::Swap;

/// Attempts of a change while other writers are faster. Each failed attempt means that another
/// writer succeeded, so the bound is about fairness, not progress.
const ATTEMPTS_MAX: usize = 50;

/// A field that the store has not, although clients may write it. A dry run returns what they wrote.
const UNSTORED: [&str; 2] = ["metadata", "selfLink"];

/// What to do with an object, in the version that is stored.
pub(crate) enum Step {
    /// Leave it as it is.
    Keep,
    /// Write this state of an object that exists.
    Put(Value),
    /// Store this new object under its parents.
    Create(Value, Parents),
    /// Delete it; this is its last state.
    Delete(Value),
}

/// A change of one object. It may be asked several times, each time about a newer state.
pub(crate) trait Edit: Send {
    /// Decides about the current state.
    fn step<'a>(&'a mut self, current: Option<&'a DecodedObject>) -> Answer<'a, Step>;

    /// What it decided last is about to be sent to the store, which may have it from here on.
    fn sends(&mut self) {}
}

/// The result of a change.
pub(crate) enum Edited {
    Same(Arc<DecodedObject>),
    Created(Arc<DecodedObject>),
    Updated(Arc<DecodedObject>),
    Deleted(Arc<DecodedObject>),
}

impl Edited {
    pub(crate) fn entry_ref(&self) -> &DecodedObject {
        match self {
            Edited::Same(decoded)
            | Edited::Created(decoded)
            | Edited::Updated(decoded)
            | Edited::Deleted(decoded) => decoded,
        }
    }

    /// What a client is shown that wrote the whole object. A last state keeps its hidden field, as in
    /// Kubernetes.
    pub(crate) fn shown(self, storage: &Storage) -> Edited {
        match self {
            Edited::Same(decoded) => Edited::Same(decoded.shown(storage)),
            Edited::Created(decoded) => Edited::Created(decoded.shown(storage)),
            Edited::Updated(decoded) => Edited::Updated(decoded.shown(storage)),
            deleted => deleted,
        }
    }

    pub(crate) fn decoded(self) -> Arc<DecodedObject> {
        match self {
            Edited::Same(decoded)
            | Edited::Created(decoded)
            | Edited::Updated(decoded)
            | Edited::Deleted(decoded) => decoded,
        }
    }
}

impl Registry {
    /// Runs a change. It starts from the cached state, which saves a read. If the change refuses
    /// the cached state, it is asked again about the newest one.
    pub(crate) async fn edit(
        &self,
        storage: &Arc<Storage>,
        key: &str,
        dry: bool,
        edit: &mut dyn Edit,
    ) -> Result<Edited, Status> {
        let cache = self.reader.reflector.cache_if_followed(storage);
        let cached = cache.and_then(|cache| cache.get(key));
        // One that was opened by earlier rules does not say whether a write without changes would
        // seal it otherwise. The store does not check a dry run, so the cached state is not enough.
        let cached = cached.filter(|one| !dry && one.is_of(self.reader.store.at_rest()));
        let mut newest = cached.is_none();
        let mut current = match cached {
            Some(cached) => Some(cached.decoded()?),
            None => self.read_entry(storage, key).await?,
        };
        for _ in 0..ATTEMPTS_MAX {
            let mut step = edit.step(current.as_deref()).await;
            if !dry && let Ok(Step::Put(object) | Step::Create(object, _)) = &mut step {
                object::remove(object, &UNSTORED);
            }
            let changes = |step: &Step| match step {
                Step::Keep => false,
                Step::Put(object) => current
                    .as_ref()
                    .is_none_or(|decoded| !same(decoded, object)),
                Step::Create(..) | Step::Delete(_) => true,
            };
            // The store checks a write. Any other result is only valid for the newest state.
            if !newest && !step.as_ref().is_ok_and(changes) {
                let read = self.read_entry(storage, key).await?;
                newest = true;
                let revision =
                    |decoded: &Option<Arc<DecodedObject>>| decoded.as_ref().map(|one| one.revision);
                // Asked again about the same state, it would say the same, and webhooks would be
                // called twice.
                if revision(&read) != revision(&current) {
                    current = read;
                    continue;
                }
            }
            let step = step?;
            match self
                .take_step(storage, key, dry, current.as_ref(), step, edit)
                .await?
            {
                Ok(edited) => return Ok(edited),
                Err(changed) => {
                    current = changed;
                    newest = true;
                }
            }
        }
        Err(Status::too_many_requests("the object changes too fast", 1))
    }

    async fn read_entry(
        &self,
        storage: &Arc<Storage>,
        key: &str,
    ) -> Result<Option<Arc<DecodedObject>>, Status> {
        let stored = self.reader.read_key(storage, key).await?;
        stored.map(|stored| stored.decoded()).transpose()
    }

    /// Executes a step; the inner error is the newer state that prevented it.
    async fn take_step(
        &self,
        storage: &Arc<Storage>,
        key: &str,
        dry: bool,
        current: Option<&Arc<DecodedObject>>,
        step: Step,
        edit: &mut dyn Edit,
    ) -> Result<Result<Edited, Option<Arc<DecodedObject>>>, Status> {
        let revision = current.map_or(0, |decoded| decoded.revision);
        let (swap, object) = match step {
            Step::Create(object, parents) => {
                let created = self.create_step(storage, key, dry, object, parents, edit);
                // Another writer has created it.
                return match created.await? {
                    Some(decoded) => Ok(Ok(Edited::Created(decoded))),
                    None => Ok(Err(self.read_entry(storage, key).await?)),
                };
            }
            Step::Keep => return Ok(Ok(Edited::Same(kept(current)?))),
            Step::Put(object) if current.is_some_and(|decoded| same(decoded, &object)) => {
                return Ok(Ok(Edited::Same(kept(current)?)));
            }
            Step::Put(object) if dry => {
                let decoded = Arc::new(DecodedObject::written(storage, revision, object));
                return Ok(Ok(Edited::Updated(decoded)));
            }
            Step::Delete(object) if dry => {
                return Ok(Ok(Edited::Deleted(Arc::new(DecodedObject::written(
                    storage, revision, object,
                )))));
            }
            Step::Put(mut object) => {
                let lease = self.lease_for(storage).await?;
                let store = &self.reader.store;
                edit.sends();
                let put = async |object: &Value| {
                    let value = decoded::encode(storage, object)?;
                    store.update(storage, key, revision, value, lease).await
                };
                let swap = match put(&object).await {
                    Err(error) if fits_without_managers(&error, &mut object) => put(&object).await,
                    result => result,
                };
                (swap?, Some(object))
            }
            Step::Delete(object) => {
                edit.sends();
                let swap = self.reader.store.delete(key, revision).await?;
                if let Swap::Done(at) = swap {
                    let decoded = Arc::new(DecodedObject::written(storage, at, object));
                    return Ok(Ok(Edited::Deleted(decoded)));
                }
                (swap, None)
            }
        };
        match (swap, object) {
            (Swap::Done(at), Some(object)) => {
                let decoded = Arc::new(DecodedObject::written(storage, at, object));
                Ok(Ok(Edited::Updated(decoded)))
            }
            (Swap::Changed(Some(raw)), _) => Ok(Err(Some(
                self.reader.stored_of(storage, key, &raw).await?.decoded()?,
            ))),
            _ => Ok(Err(None)),
        }
    }

    /// Stores a new object; `None` if there is one by now.
    async fn create_step(
        &self,
        storage: &Storage,
        key: &str,
        dry: bool,
        mut object: Value,
        parents: Parents,
        edit: &mut dyn Edit,
    ) -> Result<Option<Arc<DecodedObject>>, Status> {
        let guards = parents.guards(self, false).await?;
        let revision = if dry {
            Some(0)
        } else {
            edit.sends();
            self.store_new(storage, key, &mut object, &parents, guards)
                .await?
        };
        Ok(revision.map(|at| Arc::new(DecodedObject::written(storage, at, object))))
    }

    /// The lease for a new value of this collection; 0 for none.
    pub(crate) async fn lease_for(&self, storage: &Storage) -> Result<i64, Status> {
        if !strategy::expires(storage) {
            return Ok(0);
        }
        self.leases.lease(&self.reader.store).await
    }
}

fn kept(current: Option<&Arc<DecodedObject>>) -> Result<Arc<DecodedObject>, Status> {
    current
        .cloned()
        .ok_or_else(|| Status::internal("nothing to keep"))
}

/// True if a write would change nothing but the `resourceVersion` that the store assigns. An object
/// that is stored in another version, or sealed otherwise, is written again: that is how storage is
/// migrated and how keys are rotated.
fn same(current: &DecodedObject, new: &Value) -> bool {
    if current.is_outdated() {
        return false;
    }
    let (Some(old), Some(new)) = (current.object.as_object(), new.as_object()) else {
        return false;
    };
    let without_version = |value: &Value| {
        let mut value = value.clone();
        if let Some(metadata) = value.as_object_mut() {
            metadata.remove("resourceVersion");
        }
        value
    };
    let equal = |(key, value): (&String, &Value)| match (key.as_str(), new.get(key)) {
        ("metadata", Some(other)) => without_version(value) == without_version(other),
        (_, other) => other == Some(value),
    };
    old.len() == new.len() && old.iter().all(equal)
}
