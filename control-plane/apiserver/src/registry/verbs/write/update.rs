//! Updates objects: by a whole new state, a patch or an applied configuration.

use std::sync::Arc;

use machinery::status::Status;
use machinery::{apply, object};
use serde_json::Value;

use super::precondition::{check_version, expected_version};
use super::{Change, Writer, refuse};
use crate::admission::{Attributes, Mutated, UPDATE};
use crate::auth::Answer;
use crate::registry::allocate::{self, Held};
use crate::registry::lifecycle::{self, Named};
use crate::registry::strategy::{self, Deletion};
use crate::registry::verbs::edit::{Edit, Edited, Step};
use crate::registry::verbs::managed::Configuration;
use crate::resources::catalogue::Resource;
use crate::resources::convert;
use crate::resources::defaults::set_defaults;
use crate::storage::decoded::DecodedObject;
use crate::storage::views;

/// One update of one object.
struct Update<'a, 'b> {
    writer: &'b Writer<'a>,
    name: &'b str,
    subresource: &'b str,
    change: Change,
    warnings: Vec<String>,
    /// The old object, if it may lose what is allocated for it.
    replaced: Option<Arc<Value>>,
    /// What the present attempt has allocated.
    held: Held,
}

impl Writer<'_> {
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
            replaced: None,
            held: Held::none(),
        };
        let edit = self.registry.edit(storage, &key, self.dry, &mut update);
        let edited = match edit.await {
            Ok(edited) => edited,
            Err(error) => {
                update.held.give_back_after(&error).await;
                return Err(error);
            }
        };
        let revision = edited.entry_ref().revision;
        if !self.dry {
            update.held.stored();
        }
        self.settle(revision).await;
        let warnings = update.warnings;
        let (registry, resource) = (self.registry, &self.resource);
        match (&edited, update.replaced.filter(|_| !self.dry)) {
            (Edited::Deleted(decoded), _) => {
                let old = &decoded.object;
                allocate::replaced(registry, resource, revision, old, &Value::Null).await;
            }
            (_, Some(old)) => {
                let new = &edited.entry_ref().object;
                allocate::replaced(registry, resource, revision, &old, new).await;
            }
            (_, None) => {}
        }
        let is_whole = subresource.is_empty();
        let edited = if is_whole {
            edited.shown(storage)
        } else {
            edited
        };
        Ok((edited, warnings))
    }
}

impl Edit for Update<'_, '_> {
    fn step<'a>(&'a mut self, current: Option<&'a DecodedObject>) -> Answer<'a, Step> {
        Box::pin(async move {
            // An object that an earlier attempt saw may be gone, and what it held is another's.
            self.replaced = None;
            let earlier = std::mem::take(&mut self.held);
            earlier.give_back().await;
            match current {
                Some(current) => self.updated(current).await,
                None => self.made().await,
            }
        })
    }

    fn sends(&mut self) {
        self.held.sent();
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
            Change::Replace(object) => {
                self.writer.may_create(self.name).await?;
                object.clone()
            }
            Change::Patch(_) => return Err(resource.not_found(self.name)),
        };
        lifecycle::match_name(self.name, &object)?;
        if !object::uid(&object).is_empty() {
            return Err(self.writer.another_uid(self.name, object::uid(&object), ""));
        }
        // Any version will do, but it must be one.
        expected_version(&object)?;
        let manage = !matches!(self.change, Change::Apply(_));
        let completed = self.writer.complete(self.name, &mut object, manage);
        self.held = completed.await?;
        let stored = convert::stored(resource, object).await?;
        Ok(Step::Create(stored, self.writer.parents(self.name)))
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
        let parents = self.writer.parents(self.name);
        parents.refuse_if_terminating(self.writer.registry)?;
        self.writer.may_create(self.name).await
    }

    async fn updated(&mut self, current: &DecodedObject) -> Result<Step, Status> {
        let resource = &*self.writer.resource;
        let old = views::of_decoded(resource, current).await?;
        let mut new = self.new_state(&old).await?;
        lifecycle::match_namespace(resource, self.writer.namespace, &mut new)?;
        lifecycle::match_name(self.name, &new)?;
        self.preconditions(&old, &new)?;
        let completed = set_defaults(resource, &mut new);
        // One that is being deleted must be able to lose its finalizers, though a later schema has
        // too many defaults for it.
        if !object::is_deleting(&old) {
            completed?;
        }
        if matches!(self.change, Change::Replace(_)) {
            let repeated = lifecycle::forget_repeated_owners(&mut new, Named::ByClient);
            self.writer.warnings.add(repeated);
        }
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
        let repeated = lifecycle::forget_repeated_owners(&mut new, Named::AfterAdmission);
        self.writer.warnings.add(repeated);
        // After admission, so that a field it restores is no change.
        lifecycle::updated(resource, self.subresource, &old, &mut new);
        // Kept even if the subresource changes no other metadata.
        set_managers(&mut new, managers);
        let registry = self.writer.registry;
        let held = if allocate::concerns(resource) && self.subresource.is_empty() {
            self.replaced = Some(Arc::clone(&old));
            allocate::update(registry, &old, &mut new, self.writer.dry).await?
        } else {
            Held::none()
        };
        let checked = self.checked(&old, new, mutated, &admission).await;
        self.held = held;
        checked
    }

    /// Checks a new state with all that is allocated for it, and brings it into the form that is
    /// stored.
    async fn checked(
        &self,
        old: &Value,
        mut new: Value,
        mutated: Mutated,
        admission: &Attributes<'_>,
    ) -> Result<Step, Status> {
        let resource = &*self.writer.resource;
        let policy = self.writer.policy();
        let rules = &strategy::of(resource).rules;
        let writer = self.writer;
        let access = writer.admin_access(self.subresource, Some(old), &new);
        let mut causes = access.await?;
        causes.extend(rules.update(resource, self.subresource, (old, &new), policy));
        refuse(resource, &new, causes)?;
        let strategy = strategy::of(resource);
        self.writer.warnings.add(match self.subresource {
            "" => (strategy.warnings)(Some(old), &new),
            "status" => (strategy.status_warnings)(&new),
            _ => Vec::new(),
        });
        let chain = &self.writer.registry.admission;
        chain.validate(mutated, admission, &new).await?;
        lifecycle::forget_empty(resource, &mut new);
        if allocate::concerns(resource) {
            allocate::settle(&mut new);
        }
        // A write that changes nothing has no time.
        if apply::equal_without_times(old, &new) {
            set_managers(&mut new, managers_of(old));
        }
        // Of what is to be stored: a write cannot end the deletion by leaving out finalizers that it
        // may not change, or that admission has put back.
        let ends = ends_deletion(resource, self.subresource, old, &new);
        let stored = convert::stored(resource, new).await?;
        Ok(if ends {
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
            return Err(self.writer.another_uid(self.name, uid, old_uid));
        }
        check_version(resource, self.name, old, new)
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

/// True if this update removes the last thing that kept a deleted object.
fn ends_deletion(resource: &Resource, subresource: &str, old: &Value, new: &Value) -> bool {
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
