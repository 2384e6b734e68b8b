//! What a request expects of an object, and the messages of Kubernetes' store for another one.

use machinery::object;
use machinery::status::{Cause, Status};
use serde_json::Value;

use crate::basics::unsigned;
use crate::registry::strategy;
use crate::registry::verbs::writer::Writer;
use crate::resources::catalogue::Resource;

/// What all keys of the store begin with.
const PREFIX: &str = "/registry";

impl Writer<'_> {
    /// The error for an object with another uid than a request expects.
    pub(crate) fn another_uid(&self, name: &str, asked: &str, has: &str) -> Status {
        let Resource { kind, storage, .. } = &*self.resource;
        let key = storage.as_ref();
        let key = key.map(|storage| storage.key(self.namespace, name));
        let key = key.unwrap_or_default();
        let why = precondition_failed(told_key(&key, self.dry), "UID", asked, has);
        Status::conflict(kind.group(), kind.plural(), name, &why)
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

/// The version that a request expects; 0 if it expects none.
pub(super) fn expected_version(object: &Value) -> Result<u64, Status> {
    let text = object::resource_version(object);
    if text.is_empty() {
        return Ok(0);
    }
    unsigned::parse(text).map_err(|why| Status::new(500, "", why))
}

/// Checks that an update expects the version that the object has, or none where it may.
pub(crate) fn check_version(
    resource: &Resource,
    name: &str,
    old: &Value,
    new: &Value,
) -> Result<(), Status> {
    let (group, plural) = (resource.kind.group(), resource.kind.plural());
    match expected_version(new)? {
        0 if strategy::of(resource).allow_unconditional_update => Ok(()),
        0 => {
            let why = "must be specified for an update";
            let cause = Cause::invalid("metadata.resourceVersion", &0.into(), why);
            Err(Status::invalid(group, plural, name, vec![cause]))
        }
        version if version == expected_version(old)? => Ok(()),
        _ => Err(Status::stale(group, plural, name)),
    }
}
