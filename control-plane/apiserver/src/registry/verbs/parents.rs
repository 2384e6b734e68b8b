//! What a new object is stored under: the definition of its kind, and its namespace. Both go when
//! they have no objects left, and nobody would ever delete one that is stored after that. So the
//! write depends on the revisions of both that were looked at.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use machinery::object;
use machinery::status::Status;
use serde_json::Value;

use crate::registry::Registry;
use crate::registry::definition::{TERMINATING, holds};
use crate::registry::verbs::managed::fits_without_managers;
use crate::resources::catalogue::{Resource, Storage};
use crate::storage::decoded;
use crate::storage::reader::Reader;
use crate::storage::store::{Created, Guard};

/// Attempts to store an object while its parents change. Each failed attempt means that another
/// writer succeeded, so the bound is about fairness, not progress.
const ATTEMPTS_MAX: usize = 50;

/// The parents of one new object.
pub(crate) struct Parents {
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: String,
    /// The name of the object.
    pub(crate) name: String,
}

impl Parents {
    /// Refuses the object if the catalogue says that its definition is gone, or waits until no
    /// object is left. That costs nothing, so it is asked before anything is done for the object.
    pub(crate) fn refuse_if_terminating(&self, registry: &Registry) -> Result<(), Status> {
        if self.resource.custom.is_none() {
            return Ok(());
        }
        let kind = &self.resource.kind;
        let (group, plural) = (kind.group(), kind.plural());
        let catalogue = registry.reader.reflector.catalogue();
        // In whichever versions: this one may not be served any more.
        let same = |one: &&Arc<Resource>| (one.kind.group(), one.kind.plural()) == (group, plural);
        let served = catalogue.of(kind).ok();
        let served = served.or_else(|| catalogue.custom().find(same));
        let served = served.ok_or_else(Status::unknown_path)?;
        if served.custom.as_ref().is_some_and(|one| one.terminating) {
            return Err(self.terminating());
        }
        Ok(())
    }

    /// Refuses the object if one of its parents is gone or in deletion, and returns what must not
    /// change until the object is stored. From the store if the `newest` state is asked for.
    pub(crate) async fn guards(
        &self,
        registry: &Registry,
        newest: bool,
    ) -> Result<Vec<Guard>, Status> {
        self.refuse_if_terminating(registry)?;
        let definition = self.definition(&registry.reader, newest).await?;
        let kind = &self.resource.kind;
        let place = (self.namespace.as_str(), self.name.as_str());
        let namespace = registry.admission.namespace(kind, place, newest).await?;
        let namespace = match namespace {
            Some(found) => {
                let namespaces = registry.reader.resource("", "v1", "namespaces")?;
                Some(Guard {
                    key: namespaces.stored()?.key("", &self.namespace),
                    revision: revision_of(&found)?,
                })
            }
            None => None,
        };
        Ok(definition.into_iter().chain(namespace).collect())
    }

    /// The definition. It may be as large as a body, so it is decoded once for each of its states,
    /// not for each new object.
    async fn definition(&self, reader: &Reader, newest: bool) -> Result<Option<Guard>, Status> {
        let custom = self.resource.custom.as_ref();
        let Some(custom) = custom.filter(|one| !one.definition.is_empty()) else {
            return Ok(None);
        };
        let definitions =
            reader.resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")?;
        let its = &self.resource.kind;
        let name = format!("{}.{}", its.plural(), its.group());
        let key = definitions.stored()?.key("", &name);
        let revision = custom.open_at.load(Ordering::Relaxed);
        if !newest && revision != 0 {
            // If it has changed since, the write finds that out.
            return Ok(Some(Guard { key, revision }));
        }
        let found = match reader.present(&definitions.kind, "", &name, newest).await {
            // Another definition of the same name has other objects.
            Ok(found) if object::uid(&found) != custom.definition => {
                return Err(Status::unknown_path());
            }
            Ok(found) if holds(&found, TERMINATING) => return Err(self.terminating()),
            Ok(found) => found,
            Err(error) if error.code == 404 => return Err(Status::unknown_path()),
            Err(error) => return Err(error),
        };
        let revision = revision_of(&found)?;
        custom.open_at.store(revision, Ordering::Relaxed);
        Ok(Some(Guard { key, revision }))
    }

    fn terminating(&self) -> Status {
        let kind = &self.resource.kind;
        let why = "create not allowed while custom resource definition is terminating";
        Status::forbidden(kind.group(), kind.plural(), &self.name, why)
    }
}

impl Registry {
    /// Stores a new object if its parents are still what `guards` were made of; looks at them again
    /// if they changed, which need not mean that they go. Returns the revision, or `None` if there
    /// is an object of this name. An object that is too large loses its managers.
    pub(crate) async fn store_new(
        &self,
        storage: &Storage,
        key: &str,
        object: &mut Value,
        parents: &Parents,
        mut guards: Vec<Guard>,
    ) -> Result<Option<i64>, Status> {
        let lease = self.lease_for(storage).await?;
        let store = &self.reader.store;
        for _ in 0..ATTEMPTS_MAX {
            let value = decoded::encode(storage, object)?;
            match store.create(storage, key, value, lease, &guards).await {
                Ok(Created::At(revision)) => return Ok(Some(revision)),
                Ok(Created::Exists) => return Ok(None),
                Ok(Created::Unguarded) => guards = parents.guards(self, true).await?,
                Err(error) if fits_without_managers(&error, object) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Status::too_many_requests(
            "the namespace of the object changes too fast",
            1,
        ))
    }
}

fn revision_of(object: &Value) -> Result<i64, Status> {
    let revision = object::resource_version(object).parse();
    revision.map_err(|_| Status::internal("an object without a revision"))
}
