//! Creates and replaces objects: the same path for every kind, from a decoded body to the store.

use std::sync::Arc;

use machinery::status::{Cause, Status};
use machinery::{apply, object};
use serde_json::Value;

use crate::admission::{self, CREATE, UPDATE, Warnings};
use crate::audit::Record;
use crate::auth::{Answer, User};
use crate::basics::clock;
use crate::registry::Registry;
use crate::registry::allocate::{self, Allocated};
use crate::registry::lifecycle;
use crate::registry::managed::{Configuration, fits_without_managers};
use crate::registry::strategy::{self, Deletion};
use crate::registry::verbs::edit::{Edit, Edited, Step};
use crate::registry::verbs::patch::Patch;
use crate::resources::catalogue::{Resource, Storage};
use crate::resources::convert;
use crate::resources::defaults::set_defaults;
use crate::storage::entry::{self, Entry};
use crate::storage::views;
use crate::validate;

/// Attempts with another generated name if one is taken.
const NAMES_TRIED_MAX: usize = 8;
/// What all keys of the store begin with.
const PREFIX: &str = "/registry";

/// A writer: the user, the resource and the namespace of writes.
#[derive(Clone)]
pub(crate) struct Writer<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) user: &'a User,
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: &'a str,
    /// True for a dry run: nothing is stored.
    pub(crate) dry: bool,
    /// What the request asks for besides, as an object such as CreateOptions.
    pub(crate) options: Value,
    /// Present if the request is recorded.
    pub(crate) audit: Option<&'a Record>,
    /// What admission warns the client of.
    pub(crate) warnings: Arc<Warnings>,
    /// The field manager, who owns what the write changes.
    pub(crate) manager: String,
}

/// The content of an update.
pub(crate) enum Change {
    /// A whole new state.
    Replace(Value),
    /// A patch.
    Patch(Patch),
    /// A configuration, merged by the rules of server-side apply.
    Apply(Configuration),
}

/// One update of one object.
struct Update<'a, 'b> {
    writer: &'b Writer<'a>,
    name: &'b str,
    subresource: &'b str,
    change: Change,
    warnings: Vec<String>,
    /// The old service, if the update gives up its address.
    had_address: Option<Arc<Value>>,
    /// What the present attempt has allocated.
    allocated: Allocated,
}

impl Writer<'_> {
    /// Stores a new object.
    pub(crate) async fn create(&self, object: Value) -> Result<Arc<Entry>, Status> {
        let prefix = if object::name(&object).is_empty() {
            object::generate_name(&object).to_owned()
        } else {
            String::new()
        };
        let mut tried = 0;
        loop {
            let mut attempt = object.clone();
            if !prefix.is_empty() {
                let name = clock::generated_name(&prefix);
                object::metadata_mut(&mut attempt).insert("name".into(), name.into());
            }
            tried += 1;
            match self.create_named(attempt).await {
                Ok(entry) => {
                    self.settle(entry.revision).await?;
                    return Ok(entry);
                }
                Err(error)
                    if error.reason == "AlreadyExists"
                        && !prefix.is_empty()
                        && tried < NAMES_TRIED_MAX => {}
                result => return result,
            }
        }
    }

    async fn create_named(&self, mut object: Value) -> Result<Arc<Entry>, Status> {
        let resource = &*self.resource;
        let storage = resource.stored()?;
        self.refuse_if_terminating(object::name(&object))?;
        let versioned = !object::resource_version(&object).is_empty();
        let allocated = self.complete(&mut object, true).await?;
        let name = object::name(&object).to_owned();
        let key = storage.key(self.namespace, &name);
        let mut stored = convert::stored(resource, object).await?;
        if self.dry {
            if self
                .registry
                .reader
                .read_key(storage, &key)
                .await?
                .is_some()
            {
                allocated.give_back(self.registry).await;
                return Err(already_exists(resource, &name));
            }
            // Nothing is stored that could hold them.
            allocated.give_back(self.registry).await;
            return Ok(Arc::new(Entry::written(storage, 0, stored)));
        }
        let written = if versioned {
            // Kubernetes' store reports this, after all other checks.
            let text = "resourceVersion should not be set on objects to be created";
            Err(Status::new(500, "", text))
        } else {
            match self.store_new(storage, &key, &stored).await {
                Err(error) if fits_without_managers(&error, &mut stored) => {
                    self.store_new(storage, &key, &stored).await
                }
                result => result,
            }
        };
        match written {
            Ok(Some(revision)) => {
                allocated.stored(revision);
                Ok(Arc::new(Entry::written(storage, revision, stored)))
            }
            other => {
                let exists = already_exists(resource, &name);
                let error = other.err().unwrap_or(exists);
                allocated.give_back_after(&error, self.registry).await;
                Err(error)
            }
        }
    }

    /// The definition of a custom resource waits until no object is left: there are no new ones.
    fn refuse_if_terminating(&self, name: &str) -> Result<(), Status> {
        let kind = &self.resource.kind;
        match &self.resource.custom {
            Some(custom) if custom.terminating => {
                let why = "create not allowed while custom resource definition is terminating";
                Err(Status::forbidden(kind.group(), kind.plural(), name, why))
            }
            _ => Ok(()),
        }
    }

    async fn store_new(
        &self,
        storage: &Storage,
        key: &str,
        stored: &Value,
    ) -> Result<Option<i64>, Status> {
        let value = entry::encode(storage, stored)?;
        let lease = self.registry.lease_for(storage).await?;
        self.registry
            .reader
            .store
            .create(storage, key, value, lease)
            .await
    }

    /// Prepares, admits and validates a new object, and allocates what it needs. An applied one has
    /// its managers.
    async fn complete(&self, object: &mut Value, manage: bool) -> Result<Allocated, Status> {
        let resource = &*self.resource;
        lifecycle::match_namespace(resource, self.namespace, object)?;
        let borrows_labels = lifecycle::borrows_labels(resource, object);
        set_defaults(resource, object);
        lifecycle::forget_identity(object);
        if manage {
            self.manage("", None, object).await;
        }
        let name = object::name(object).to_owned();
        let admission = self.admission(CREATE, "", &name, None);
        let mutated = self.registry.admission.mutate(&admission, object).await?;
        lifecycle::match_namespace(resource, self.namespace, object)?;
        // After admission, which may not choose what only the server sets.
        let created = |object: &mut Value| lifecycle::created(resource, object);
        let borrows_later = if borrows_labels {
            lifecycle::with_borrowed_labels(object, created)
        } else {
            created(object);
            false
        };
        (strategy::of(resource).set_requester)(self.user, object);
        let allocates = allocate::concerns(resource);
        if allocates {
            allocate::prepare(object)?;
        }
        let rules = &strategy::of(resource).rules;
        let causes = rules.create(resource, object, self.policy());
        refuse(resource, object, causes)?;
        if borrows_later {
            lifecycle::borrow_labels(object);
        }
        lifecycle::forget_empty(resource, object);
        self.warnings
            .add((strategy::of(resource).warnings)(None, object));
        // Before those that validate: they see the whole object, and may refuse an address.
        let allocated = if allocates {
            allocate::create(self.registry, object, self.dry).await?
        } else {
            Allocated::default()
        };
        let chain = &self.registry.admission;
        match chain.validate(mutated, &admission, object).await {
            Ok(()) => Ok(allocated),
            Err(error) => {
                allocated.give_back(self.registry).await;
                Err(error)
            }
        }
    }

    /// Stores a whole new state of an object.
    pub(crate) async fn replace(
        &self,
        name: &str,
        subresource: &str,
        object: Value,
    ) -> Result<Edited, Status> {
        let (edited, _) = self
            .update(name, subresource, Change::Replace(object))
            .await?;
        Ok(edited)
    }

    /// Changes an object; also returns warnings for the client.
    pub(crate) async fn update(
        &self,
        name: &str,
        subresource: &str,
        change: Change,
    ) -> Result<(Edited, Vec<String>), Status> {
        let storage = self.resource.stored()?;
        let key = storage.key(self.namespace, name);
        let mut update = Update {
            writer: self,
            name,
            subresource,
            change,
            warnings: Vec::new(),
            had_address: None,
            allocated: Allocated::default(),
        };
        let edit = self.registry.edit(storage, &key, self.dry, &mut update);
        let edited = match edit.await {
            Ok(edited) => edited,
            Err(error) => {
                let allocated = update.allocated;
                allocated.give_back_after(&error, self.registry).await;
                return Err(error);
            }
        };
        let revision = edited.entry_ref().revision;
        if !self.dry {
            update.allocated.stored(revision);
        }
        self.settle(revision).await?;
        let warnings = update.warnings;
        if let Edited::Deleted(entry) = &edited {
            allocate::deleted(self.registry, &self.resource, &entry.object).await;
        } else if let Some(old) = update.had_address.filter(|_| !self.dry) {
            allocate::deleted(self.registry, &self.resource, &old).await;
        }
        Ok((edited, warnings))
    }

    /// Waits after a write until the caches have it, if they decide about the next request.
    pub(crate) async fn settle(&self, revision: i64) -> Result<(), Status> {
        if strategy::of(&self.resource).decides_about_requests {
            self.registry.reader.reflector.reach(revision).await?;
        }
        Ok(())
    }

    fn policy(&self) -> validate::Policy {
        validate::Policy {
            privileged: self.registry.settings.allow_privileged,
        }
    }

    pub(crate) fn admission<'b>(
        &'b self,
        operation: &'static str,
        subresource: &'b str,
        name: &'b str,
        old: Option<&'b Value>,
    ) -> admission::Attributes<'b> {
        admission::Attributes {
            user: self.user,
            operation,
            kind: &self.resource.kind,
            subresource,
            namespace: self.namespace,
            name,
            old,
            dry: self.dry,
            options: &self.options,
            resource: &self.resource,
            audit: self.audit,
            warnings: &self.warnings,
        }
    }
}

impl Edit for Update<'_, '_> {
    fn step<'a>(&'a mut self, current: Option<&'a Entry>) -> Answer<'a, Step> {
        Box::pin(async move {
            let earlier = std::mem::take(&mut self.allocated);
            earlier.give_back(self.writer.registry).await;
            match current {
                Some(current) => self.updated(current).await,
                None => self.made().await,
            }
        })
    }
}

impl Update<'_, '_> {
    /// The object does not exist: a PUT creates objects of some kinds.
    async fn made(&mut self) -> Result<Step, Status> {
        let resource = &*self.writer.resource;
        let allowed = match &self.change {
            Change::Replace(_) => strategy::of(resource).allow_create_on_update,
            Change::Patch(_) => false,
            Change::Apply(_) => true,
        };
        if !allowed || !self.subresource.is_empty() {
            return Err(resource.not_found(self.name));
        }
        let mut object = match &self.change {
            Change::Apply(config) => {
                self.may_apply_new(config).await?;
                let (object, warnings) = self.writer.apply("", None, config).await?;
                self.warnings = warnings;
                object
            }
            Change::Replace(object) => object.clone(),
            Change::Patch(_) => return Err(resource.not_found(self.name)),
        };
        lifecycle::match_name(self.name, &object)?;
        if !object::uid(&object).is_empty() {
            return Err(self.another(object::uid(&object), ""));
        }
        let manage = !matches!(self.change, Change::Apply(_));
        self.allocated = self.writer.complete(&mut object, manage).await?;
        Ok(Step::Put(convert::stored(resource, object).await?))
    }

    /// Checks that a configuration may become a new object.
    async fn may_apply_new(&self, config: &Configuration) -> Result<(), Status> {
        let kind = &self.writer.resource.kind;
        let uid = config.uid();
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            let (group, plural) = (kind.group(), kind.plural());
            return Err(Status::conflict(group, plural, self.name, &why));
        }
        self.writer.refuse_if_terminating(self.name)?;
        self.writer.may_create(self.name).await
    }

    async fn updated(&mut self, current: &Entry) -> Result<Step, Status> {
        let resource = &*self.writer.resource;
        let old = views::of_entry(resource, current).await?;
        let mut new = self.new_state(&old).await?;
        lifecycle::match_namespace(resource, self.writer.namespace, &mut new)?;
        lifecycle::match_name(self.name, &new)?;
        self.preconditions(&old, &new)?;
        let removed_deletion = lifecycle_end(resource, self.subresource, &old, &new);
        set_defaults(resource, &mut new);
        if !matches!(self.change, Change::Apply(_)) {
            let writer = self.writer;
            writer.manage(self.subresource, Some(&old), &mut new).await;
        }
        let managers = managers_of(&new);
        let admission = self
            .writer
            .admission(UPDATE, self.subresource, self.name, Some(&old));
        let chain = &self.writer.registry.admission;
        let mutated = chain.mutate(&admission, &mut new).await?;
        lifecycle::match_name(self.name, &new)?;
        // After admission, so that a field it restores is no change.
        lifecycle::updated(resource, self.subresource, &old, &mut new);
        // Kept even if the subresource changes no other metadata.
        set_managers(&mut new, managers);
        if allocate::concerns(resource) && self.subresource.is_empty() {
            self.allocated =
                allocate::update(self.writer.registry, &old, &mut new, self.writer.dry).await?;
            let address = |one| object::text(one, &["spec", "clusterIP"]);
            let gives_up = !address(&old).is_empty() && address(&new).is_empty();
            self.had_address = gives_up.then(|| Arc::clone(&old));
        }
        let policy = self.writer.policy();
        let rules = &strategy::of(resource).rules;
        let causes = rules.update(resource, self.subresource, (&old, &new), policy);
        refuse(resource, &new, causes)?;
        if self.subresource.is_empty() {
            let warnings = (strategy::of(resource).warnings)(Some(&old), &new);
            self.writer.warnings.add(warnings);
        }
        if let Err(error) = chain.validate(mutated, &admission, &new).await {
            let allocated = std::mem::take(&mut self.allocated);
            allocated.give_back(self.writer.registry).await;
            return Err(error);
        }
        lifecycle::forget_empty(resource, &mut new);
        // A write that changes nothing has no time.
        if apply::equal_without_times(&old, &new) {
            set_managers(&mut new, managers_of(&old));
        }
        let stored = convert::stored(resource, new).await?;
        Ok(if removed_deletion {
            Step::Delete(stored)
        } else {
            Step::Put(stored)
        })
    }

    async fn new_state(&mut self, old: &Value) -> Result<Value, Status> {
        match &self.change {
            Change::Replace(object) => Ok(object.clone()),
            Change::Patch(patch) => {
                let (object, warnings) = patch.apply(&self.writer.resource, old)?;
                self.warnings = warnings;
                Ok(object)
            }
            Change::Apply(config) => {
                let applied = self.writer.apply(self.subresource, Some(old), config);
                let (object, warnings) = applied.await?;
                self.warnings = warnings;
                Ok(object)
            }
        }
    }

    /// Checks the uid and the version that the request expects.
    fn preconditions(&self, old: &Value, new: &Value) -> Result<(), Status> {
        let resource = &*self.writer.resource;
        let (uid, old_uid) = (object::uid(new), object::uid(old));
        // A patch that changes the uid is refused by the rules.
        let replaces = matches!(self.change, Change::Replace(_));
        if replaces && !uid.is_empty() && uid != old_uid {
            return Err(self.another(uid, old_uid));
        }
        let version = object::resource_version(new);
        if !version.is_empty() {
            let number = version.parse::<u64>().ok();
            number
                .and_then(|number| i64::try_from(number).ok())
                .ok_or_else(|| {
                    let why = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
                    Status::new(500, "", why)
                })?;
        }
        if version.is_empty() || version == "0" {
            if strategy::of(resource).allow_unconditional_update {
                return Ok(());
            }
            let why = "must be specified for an update";
            let cause = Cause::invalid("metadata.resourceVersion", &0.into(), why);
            let (group, plural) = (resource.kind.group(), resource.kind.plural());
            return Err(Status::invalid(group, plural, self.name, vec![cause]));
        }
        if version != object::resource_version(old) {
            let (group, plural) = (resource.kind.group(), resource.kind.plural());
            return Err(Status::stale(group, plural, self.name));
        }
        Ok(())
    }

    /// The request expects another uid.
    fn another(&self, asked: &str, has: &str) -> Status {
        let Writer {
            resource,
            namespace,
            ..
        } = self.writer;
        let key = resource
            .storage
            .as_ref()
            .map(|storage| storage.key(namespace, self.name))
            .unwrap_or_default();
        let key = told_key(&key, self.writer.dry);
        let why = precondition_failed(key, "UID", asked, has);
        Status::conflict(
            resource.kind.group(),
            resource.kind.plural(),
            self.name,
            &why,
        )
    }
}

fn managers_of(object: &Value) -> Option<Value> {
    object::at(object, &["metadata", "managedFields"]).cloned()
}

fn set_managers(object: &mut Value, managers: Option<Value>) {
    match managers {
        Some(managers) => object::set(object, &["metadata", "managedFields"], managers),
        None => drop(object::remove(object, &["metadata", "managedFields"])),
    }
}

/// A key as an error tells it: a dry run ends before Kubernetes' store adds its prefix.
pub(crate) fn told_key(key: &str, dry: bool) -> &str {
    let without = key.strip_prefix(PREFIX).filter(|_| dry);
    without.unwrap_or(key)
}

/// The message of Kubernetes' store for an object other than the expected one.
pub(crate) fn precondition_failed(key: &str, what: &str, asked: &str, has: &str) -> String {
    format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, \
         AdditionalErrorMsg: {}",
        precondition(what, asked, has)
    )
}

/// What differs from the expectation of a request.
pub(crate) fn precondition(what: &str, asked: &str, has: &str) -> String {
    format!("Precondition failed: {what} in precondition: {asked}, {what} in object meta: {has}")
}

/// True if this update removes the last thing that kept a deleted object.
fn lifecycle_end(resource: &Resource, subresource: &str, old: &Value, new: &Value) -> bool {
    let kept_by_spec = || {
        let state = if subresource == "finalize" { new } else { old };
        strategy::of(resource).deletion == Deletion::AfterContent
            && !object::items(state, &["spec", "finalizers"]).is_empty()
    };
    object::is_deleting(old)
        && object::finalizers(new).next().is_none()
        && object::deletion_grace_seconds(old).unwrap_or(0) == 0
        && !kept_by_spec()
}

/// The error for an object that violates rules.
pub(crate) fn refuse(
    resource: &Resource,
    object: &Value,
    causes: impl Into<Vec<Cause>>,
) -> Result<(), Status> {
    let causes = causes.into();
    if causes.is_empty() {
        return Ok(());
    }
    // Errors name the kind in its stored version.
    let kind = resource
        .storage
        .as_ref()
        .map_or(&resource.kind, |storage| &storage.kind);
    let name = object::name(object);
    Err(Status::invalid(kind.group(), kind.kind(), name, causes))
}

fn already_exists(resource: &Resource, name: &str) -> Status {
    Status::already_exists(resource.kind.group(), resource.kind.plural(), name)
}
