//! Validation of objects. The schema checks types when a body is decoded; these rules check the
//! rest.

pub(crate) mod access;
pub(crate) mod cluster;
pub(crate) mod devices;
pub(crate) mod extension;
mod meta;
pub(crate) mod networking;
pub(crate) mod scale;
#[cfg(test)]
mod tests;
pub(crate) mod words;
pub(crate) mod workloads;

use std::borrow::Cow;

use machinery::status::Cause;
use serde_json::Value;

use crate::resources::catalogue::Resource;
use crate::resources::convert;

pub(crate) use networking::cluster_ips::addresses;
pub(crate) use networking::network::{checks_health, reached_from_outside};
pub(crate) use words::causes::Causes;
pub(crate) use words::maps::{annotations, labels};

/// Rules that the cluster's owner decides.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Policy {
    /// True if containers may be privileged.
    pub(crate) privileged: bool,
}

impl Policy {
    fn apply(self, causes: &mut Causes) {
        if self.privileged {
            causes.allow(workloads::pod::PRIVILEGED);
            causes.allow(workloads::pod::HOST_PROCESS);
        }
    }
}

/// The rules of one resource, besides those for all kinds. They apply to the stored version.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// Checks the name.
    pub(crate) name: fn(&str) -> Vec<String>,
    /// Checks every state.
    pub(crate) validate: fn(&Value) -> Causes,
    /// The same, given the old state of an update: what is wrong with that one may stay so.
    pub(crate) validate_given: fn(Option<&Value>, &Value) -> Causes,
    /// Further checks of a new object.
    pub(crate) validate_create: fn(&Value) -> Causes,
    /// Checks what an update changes.
    pub(crate) validate_update: fn(&Value, &Value) -> Causes,
    /// Checks an update through a subresource, whose name is the first argument.
    pub(crate) validate_subresource_update: fn(&str, &Value, &Value) -> Causes,
    /// What only a namespace with the label for access to all devices allows, given the old state for
    /// an update of the status.
    pub(crate) needs_admin_access: fn(Option<&Value>, &Value) -> Option<Cause>,
    /// True if forbidden changes are reported before other errors.
    pub(crate) changes_first: bool,
    /// True if Kubernetes checks the metadata of an update also like that of a new object.
    pub(crate) checks_name_again: bool,
    /// True if finalizers need no domain: Kubernetes asks for one where it knows all others.
    pub(crate) any_finalizer: bool,
}

impl Rules {
    /// The rules of a kind that has none of its own.
    pub(crate) const DEFAULT: Rules = Rules {
        name: machinery::name::dns1123_subdomain,
        validate: |_| Causes::default(),
        validate_given: |_, _| Causes::default(),
        validate_create: |_| Causes::default(),
        validate_update: |_, _| Causes::default(),
        validate_subresource_update: |_, _, _| Causes::default(),
        needs_admin_access: |_, _| None,
        changes_first: false,
        checks_name_again: false,
        any_finalizer: false,
    };

    /// Checks a new object.
    pub(crate) fn create(&self, resource: &Resource, object: &Value, policy: Policy) -> Causes {
        let mut causes = meta::check(resource, self.name, object);
        causes.extend(self.finalizers(resource, object));
        let stored = stored(resource, object);
        causes.extend(self.state(None, &stored));
        causes.extend((self.validate_create)(&stored));
        let schema = resource.schema();
        causes.extend(
            schema
                .map(|schema| schema.validate(object, None))
                .into_iter()
                .flatten(),
        );
        causes.extend(scale::check(resource, object, false));
        policy.apply(&mut causes);
        causes
    }

    /// The error unless the object's namespace has the label for access to all devices.
    pub(crate) fn admin_access(
        &self,
        resource: &Resource,
        subresource: &str,
        old: Option<&Value>,
        object: &Value,
    ) -> Option<Cause> {
        // Nothing else changes what a claim asks for.
        if old.is_some() && subresource != "status" {
            return None;
        }
        let old = old.map(|old| stored(resource, old));
        (self.needs_admin_access)(old.as_deref(), &stored(resource, object))
    }

    fn state(&self, old: Option<&Value>, new: &Value) -> Causes {
        let mut causes = (self.validate)(new);
        causes.extend((self.validate_given)(old, new));
        causes
    }

    fn finalizers(&self, resource: &Resource, object: &Value) -> Causes {
        if self.any_finalizer || resource.custom.is_some() {
            return Causes::default();
        }
        meta::standard_finalizers(object)
    }

    /// Checks a new state from a subresource, or from the object itself.
    pub(crate) fn update(
        &self,
        resource: &Resource,
        subresource: &str,
        (old, new): (&Value, &Value),
        policy: Policy,
    ) -> Causes {
        let mut causes = meta::check_update(resource, old, new);
        causes.extend(self.finalizers(resource, new));
        if subresource != "status" && self.checks_name_again {
            causes.extend(meta::check(resource, self.name, new));
            causes.extend(self.finalizers(resource, new));
        }
        let schema = resource.schema();
        let by_schema = schema.map(|schema| schema.validate(new, Some(old)));
        causes.extend(by_schema.into_iter().flatten());
        causes.extend(scale::check(resource, new, subresource == "status"));
        let (old, new) = (&*stored(resource, old), &*stored(resource, new));
        if !subresource.is_empty() {
            causes.extend((self.validate_subresource_update)(subresource, old, new));
        } else if self.changes_first {
            causes.extend((self.validate_update)(old, new));
            causes.extend(self.state(Some(old), new));
        } else {
            causes.extend(self.state(Some(old), new));
            causes.extend((self.validate_update)(old, new));
        }
        policy.apply(&mut causes);
        causes
    }
}

/// Converts an object to the stored version, to which the rules apply.
fn stored<'a>(resource: &Resource, object: &'a Value) -> Cow<'a, Value> {
    if convert::is_same(resource) {
        Cow::Borrowed(object)
    } else {
        Cow::Owned(convert::to_stored(resource, object.clone()))
    }
}

/// A field that must not change.
fn unchanged(old: &Value, new: &Value, path: &[&str]) -> Causes {
    let (before, after) = (
        machinery::object::at(old, path),
        machinery::object::at(new, path),
    );
    if before == after {
        Causes::default()
    } else {
        let shown = after.cloned().unwrap_or_default();
        Causes::from(Cause::invalid(
            &path.join("."),
            &shown,
            "field is immutable",
        ))
    }
}

/// The errors of an invalid name.
fn named(field: &str, name: &str, wrong: Vec<String>) -> Causes {
    wrong
        .iter()
        .map(|why| Cause::invalid(field, &name.into(), why))
        .collect()
}
