//! Changes an object as the expression of a policy says.

use machinery::apply::{self, Typing, UntypedDeduced};
use machinery::object;
use machinery::patch;
use machinery::status::Status;
use serde_json::Value;

use super::super::Attributes;
use super::super::matching::Matched;

/// Why an object cannot be changed.
pub(super) enum Failure {
    /// The policy failed.
    Policy(String),
    /// The result is no object of its kind.
    Server(Status),
}

/// Merges a configuration into an object, in the version that matched.
pub(super) fn apply(
    attributes: &Attributes<'_>,
    matched: &Matched,
    object: &Value,
    configuration: &Value,
) -> Result<Value, Failure> {
    let resource = &matched.resource;
    let body = resource.kind.subresource(attributes.subresource);
    let typing: &dyn Typing = match (&resource.custom, resource.schema(), body) {
        (_, _, Some(body)) if body.kind() != resource.kind.kind() => body.message(),
        (None, _, _) => resource.kind.message(),
        (Some(_), Some(schema), _) => schema.typing(),
        (Some(_), None, _) => &UntypedDeduced,
    };
    let mut configuration = configuration.clone();
    let (version, kind) = (object::api_version(object), object::kind(object));
    object::set_type(&mut configuration, version, kind);
    let merged = apply::overlay(typing, object, &configuration)
        .map_err(|error| Failure::Policy(format!("error applying patch: {error}")))?;
    matched
        .completed(attributes, &merged)
        .map(|(object, _)| object)
        .map_err(Failure::Policy)
}

/// Applies a JSON patch to an object, in the version that matched. If one of its tests fails, the
/// object stays as it is.
pub(super) fn json(
    attributes: &Attributes<'_>,
    matched: &Matched,
    object: &Value,
    operations: &Value,
) -> Result<Value, Failure> {
    let patched = match patch::json(object, operations) {
        Ok(patched) => patched,
        Err(patch::Error::TestFailed(_)) => return Ok(object.clone()),
        Err(error) => return Err(Failure::Policy(format!("JSON Patch: {error}"))),
    };
    let internal = |why: &str| Failure::Server(Status::internal(why));
    let completed = matched.completed(attributes, &patched);
    let (object, problems) = completed.map_err(|why| internal(&why))?;
    if problems.is_empty() {
        return Ok(object);
    }
    let problems = problems.join(", ");
    Err(internal(&format!("strict decoding error: {problems}")))
}
