//! Creates objects: completes, admits and checks a new one, and stores it under a free name.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use machinery::object;
use machinery::status::Status;
use serde_json::Value;

use super::{Writer, refuse};
use crate::admission::{Attributes, CREATE};
use crate::basics::{clock, unsigned};
use crate::registry::allocate::{self, Held};
use crate::registry::lifecycle::{self, Named};
use crate::registry::strategy;
use crate::registry::verbs::parents::Parents;
use crate::resources::catalogue::Resource;
use crate::resources::convert;
use crate::resources::defaults::set_defaults;
use crate::storage::decoded::DecodedObject;

/// Attempts with another generated name if one is taken.
const NAMES_TRIED_MAX: usize = 8;

impl Writer<'_> {
    /// Stores a new object.
    pub(crate) async fn create(&self, object: Value) -> Result<Arc<DecodedObject>, Status> {
        if !object::name(&object).is_empty() || object::generate_name(&object).is_empty() {
            let decoded = self.create_named(object).await?;
            self.settle(decoded.revision).await;
            return Ok(decoded);
        }
        let prefix = object::generate_name(&object).to_owned();
        let mut tried = 0;
        loop {
            let mut attempt = object.clone();
            let name = clock::generated_name(&prefix);
            object::metadata_mut(&mut attempt).insert("name".into(), name.into());
            tried += 1;
            match self.create_named(attempt).await {
                Ok(decoded) => {
                    self.settle(decoded.revision).await;
                    return Ok(decoded);
                }
                Err(error) if error.reason == "AlreadyExists" && tried < NAMES_TRIED_MAX => {}
                result => return result,
            }
        }
    }

    async fn create_named(&self, mut object: Value) -> Result<Arc<DecodedObject>, Status> {
        self.parents(object::name(&object))
            .refuse_if_terminating(self.registry)?;
        let mut held = self.complete("", &mut object, true).await?;
        let written = self.store_completed(object, &mut held).await;
        match &written {
            Ok(_) if !self.dry => held.stored(),
            // Nothing is stored that could hold them.
            Ok(_) => held.give_back().await,
            Err(error) => held.give_back_after(error).await,
        }
        written
    }

    /// Stores an object that is complete. What is allocated for it is the caller's to give back.
    async fn store_completed(
        &self,
        object: Value,
        held: &mut Held,
    ) -> Result<Arc<DecodedObject>, Status> {
        let resource = &*self.resource;
        let storage = resource.stored()?;
        let name = object::name(&object).to_owned();
        let key = storage.key(self.namespace, &name);
        // A text that is no number counts as none here, as in Kubernetes.
        let version = unsigned::parse(object::resource_version(&object));
        let mut stored = convert::stored(resource, object).await?;
        let parents = self.parents(&name);
        let guards = parents.guards(self.registry, false).await?;
        let written_at = |revision, object| {
            let written = DecodedObject::written(storage, revision, object);
            Arc::new(written).shown(storage)
        };
        if self.dry {
            let found = self.registry.reader.read_key(storage, &key).await?;
            return match found {
                Some(_) => Err(already_exists(resource, &name)),
                None => Ok(written_at(0, stored)),
            };
        }
        if version.is_ok_and(|version| version != 0) {
            // Kubernetes' store reports this, after all other checks.
            let text = "resourceVersion should not be set on objects to be created";
            return Err(Status::new(500, "", text));
        }
        let written = self
            .registry
            .store_new(storage, &key, &mut stored, &parents, guards);
        held.sent();
        match written.await? {
            Some(revision) => Ok(written_at(revision, stored)),
            None => Err(already_exists(resource, &name)),
        }
    }

    pub(super) fn parents(&self, name: &str) -> Parents {
        Parents {
            resource: Arc::clone(&self.resource),
            namespace: self.namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// Prepares, admits and validates a new object, and allocates what it needs. `path_name` is its
    /// name in the path of the request, empty if it is posted. An applied object has its managers.
    pub(super) async fn complete(
        &self,
        path_name: &str,
        object: &mut Value,
        manage: bool,
    ) -> Result<Held, Status> {
        let resource = &*self.resource;
        lifecycle::match_namespace(resource, self.namespace, object)?;
        let borrows_labels = lifecycle::borrows_labels(resource, object);
        set_defaults(resource, object)?;
        lifecycle::forget_identity(object);
        if manage {
            let repeated = lifecycle::forget_repeated_owners(object, Named::ByClient);
            self.warnings.add(repeated);
            self.manage("", None, object).await;
        }
        let name = object::name(object).to_owned();
        let admission = Attributes {
            path_name,
            ..self.admission(CREATE, "", &name, None)
        };
        let mutated = self.registry.admission.mutate(&admission, object).await?;
        lifecycle::match_namespace(resource, self.namespace, object)?;
        let repeated = lifecycle::forget_repeated_owners(object, Named::AfterAdmission);
        self.warnings.add(repeated);
        let early = strategy::of(resource).early_warnings;
        self.warnings.add(early(object));
        // After admission, which may not choose what only the server sets.
        let created = |object: &mut Value| lifecycle::created(resource, object);
        let borrows_later = if borrows_labels {
            lifecycle::with_borrowed_labels(object, created)
        } else {
            created(object);
            false
        };
        (strategy::of(resource).set_requester)(self.user, object);
        // Before the rules and the admission that validates: they see the whole object.
        let held = if allocate::concerns(resource) {
            allocate::create(self.registry, object, self.dry).await?
        } else {
            Held::none()
        };
        let validated = async {
            self.validate(object, borrows_later).await?;
            let chain = &self.registry.admission;
            chain.validate(mutated, &admission, object).await
        };
        match validated.await {
            Ok(()) => Ok(held),
            Err(error) => {
                held.give_back().await;
                Err(error)
            }
        }
    }

    /// Checks a new object by the rules of its kind, and brings it into the form that is stored.
    async fn validate(&self, object: &mut Value, borrows_later: bool) -> Result<(), Status> {
        let resource = &*self.resource;
        let rules = &strategy::of(resource).rules;
        let mut causes = self.admin_access("", None, object).await?;
        causes.extend(rules.create(resource, object, self.policy()));
        refuse(resource, object, causes)?;
        if borrows_later {
            lifecycle::borrow_labels(object);
        }
        lifecycle::forget_empty(resource, object);
        self.warnings
            .add((strategy::of(resource).warnings)(None, object));
        if allocate::concerns(resource) {
            allocate::settle(object);
        }
        Ok(())
    }
}

fn already_exists(resource: &Resource, name: &str) -> Status {
    Status::already_exists(resource.kind.group(), resource.kind.plural(), name)
}
