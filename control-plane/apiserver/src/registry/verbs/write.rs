//! Creates and replaces objects: the same path for every kind, from a decoded body to the store.

mod create;
mod precondition;
mod update;

use machinery::object;
use machinery::status::{Cause, Status};
use serde_json::Value;

use crate::admission;
use crate::registry::strategy;
use crate::registry::verbs::managed::Configuration;
use crate::registry::verbs::patch::Patch;
use crate::registry::verbs::writer::Writer;
use crate::resources::catalogue::Resource;
use crate::validate::{self, Causes};
pub(crate) use precondition::{check_version, precondition, precondition_failed, told_key};

/// The content of an update.
pub(crate) enum Change {
    /// A whole new state.
    Replace(Value),
    /// A patch.
    Patch(Patch),
    /// A configuration, merged by the rules of server-side apply.
    Apply(Configuration),
}

impl Writer<'_> {
    /// Waits after a write until the caches have it, if they decide about the next request.
    ///
    /// If they lag behind for long, the write is stored nevertheless, and its client is told so.
    pub(crate) async fn settle(&self, revision: i64) {
        if strategy::of(&self.resource).decides_about_requests
            && let Err(error) = self.registry.reader.reflector.reach(revision).await
        {
            tracing::warn!(%error, "the caches do not show a write yet that decides about requests");
        }
    }

    /// The error about access to all devices, unless the namespace has the label for it.
    async fn admin_access(
        &self,
        subresource: &str,
        old: Option<&Value>,
        object: &Value,
    ) -> Result<Causes, Status> {
        let rules = &strategy::of(&self.resource).rules;
        let Some(cause) = rules.admin_access(&self.resource, subresource, old, object) else {
            return Ok(Causes::default());
        };
        let reader = &self.registry.reader;
        let namespaces = reader.resource("", "v1", "namespaces")?;
        let namespace = reader.get(&namespaces.kind, "", self.namespace).await?;
        let (label, value) = validate::devices::admin::LABEL;
        let labels = object::labels(&namespace);
        match labels.and_then(|labels| labels.get(label)) {
            Some(has) if has == value => Ok(Causes::default()),
            _ => Ok(cause.into()),
        }
    }

    pub(crate) fn policy(&self) -> validate::Policy {
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
