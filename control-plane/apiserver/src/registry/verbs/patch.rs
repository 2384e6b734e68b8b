//! PATCH: decodes the patch, applies it, and decodes the result like any body.

use machinery::schema::Message;
use machinery::status::{Cause, Status};
use machinery::structural::Schema;
use machinery::{object, patch, schema, strict};
use serde_json::Value;

use crate::registry::options::Validation;
use crate::resources::catalogue::{Resource, unregistered};

/// The format of a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A list of operations.
    Json,
    /// An object to merge, in which null removes a field.
    Merge,
    /// The same, with lists merged by the keys of their items.
    Strategic,
}

/// A decoded patch.
#[derive(Debug)]
pub(crate) struct Patch {
    kind: Kind,
    document: Value,
    /// The keys that it duplicates.
    problems: Vec<String>,
    validation: Validation,
}

impl Patch {
    /// Decodes a patch.
    pub(crate) fn read(kind: Kind, body: &[u8], validation: Validation) -> Result<Patch, Status> {
        let malformed = |why: &dyn std::fmt::Display| {
            Status::bad_request(format!("error decoding patch: {why}"))
        };
        let (document, problems) = strict::parse(body).map_err(|error| malformed(&error))?;
        let expected = match kind {
            Kind::Json => "[]handlers.jsonPatchOp",
            Kind::Merge | Kind::Strategic => "map[string]interface {}",
        };
        let fits = match kind {
            Kind::Json => document.is_array(),
            Kind::Merge | Kind::Strategic => document.is_object(),
        };
        if !fits {
            let found = strict::kind_of(&document);
            let why = format!("json: cannot unmarshal {found} into Go value of type {expected}");
            return Err(match kind {
                Kind::Strategic => Status::bad_request(why),
                _ => malformed(&why),
            });
        }
        Ok(Patch {
            kind,
            document,
            problems,
            validation,
        })
    }

    /// Returns the new state, and warnings for the client.
    pub(crate) fn apply(
        &self,
        resource: &Resource,
        old: &Value,
    ) -> Result<(Value, Vec<String>), Status> {
        self.applied(resource.kind.message(), resource.schema(), old)
    }

    /// The same for a type that is not a resource, such as a scale.
    pub(crate) fn apply_to(
        &self,
        message: &'static Message,
        old: &Value,
    ) -> Result<(Value, Vec<String>), Status> {
        self.applied(message, None, old)
    }

    fn applied(
        &self,
        message: &'static Message,
        schema: Option<&Schema>,
        old: &Value,
    ) -> Result<(Value, Vec<String>), Status> {
        let patched = match self.kind {
            // Go does not report why an operation does not apply.
            Kind::Json => patch::json(old, &self.document).map_err(|error| match error {
                patch::Error::Malformed(text) => Status::bad_request(text),
                patch::Error::Unprocessable(_) | patch::Error::TestFailed(_) => {
                    Status::unprocessable()
                }
            })?,
            Kind::Merge => patch::merge(old, &self.document),
            Kind::Strategic => patch::strategic(old, &self.document, message).map_err(status)?,
        };
        let (version, kind) = (object::api_version(old), object::kind(old));
        if object::api_version(&patched) != version || object::kind(&patched) != kind {
            let (kind, version) = (object::kind(&patched), object::api_version(&patched));
            let why = if schema_knows(version, kind) {
                "the patch must not change apiVersion or kind".to_owned()
            } else {
                unregistered(kind, version)
            };
            return Err(self.invalid(&why));
        }
        let decoded = match self.kind {
            Kind::Strategic => strict::restore(&patched, message)
                .map_err(|strict::Error(why)| as_restored(&why).unwrap_or(why)),
            _ => strict::prune(&patched, message).map_err(|strict::Error(why)| why),
        };
        let decoded = decoded.map_err(|why| self.invalid(&why))?;
        let mut problems = self.problems.clone();
        problems.extend(decoded.problems);
        if let Some(schema) = schema {
            problems.extend(strict::unknown_fields(&schema.unknown(&decoded.object)));
        }
        match self.validation {
            Validation::Ignore => Ok((decoded.object, Vec::new())),
            Validation::Strict if !problems.is_empty() => {
                Err(self.invalid(&strict::strict_error(&problems)))
            }
            _ => Ok((decoded.object, problems)),
        }
    }

    fn invalid(&self, why: &str) -> Status {
        let shown = Value::String(match self.kind {
            Kind::Strategic => patch::shown(&self.document),
            _ => self.document.to_string(),
        });
        Status::invalid("", "", "", vec![Cause::invalid("patch", &shown, why)])
    }
}

fn schema_knows(version: &str, kind: &str) -> bool {
    let (group, version) = schema::split_api_version(version);
    schema::body(group, version, kind).is_some()
}

fn status(error: patch::Error) -> Status {
    match error {
        patch::Error::Malformed(text) => Status::bad_request(text),
        patch::Error::Unprocessable(text) if text == patch::LISTS_OF_LISTS => {
            Status::unprocessable()
        }
        // Kubernetes has no specific code for these errors.
        patch::Error::Unprocessable(text) | patch::Error::TestFailed(text) => {
            Status::new(500, "", text)
        }
    }
}

/// What the decoder says of bytes, and what that other decoder says before it.
const NOT_BASE64: &str = "illegal base64 data";
const FROM_JSON: &str = "error decoding from json: ";

/// The message for a value of a wrong type, from the decoder that Go uses after a strategic merge and
/// after an apply.
pub(crate) fn as_restored(why: &str) -> Option<String> {
    if why.starts_with(NOT_BASE64) {
        return Some(format!("{FROM_JSON}{why}"));
    }
    let (found, rest) = why
        .strip_prefix("json: cannot unmarshal ")?
        .split_once(" into ")?;
    // The decoder of the type itself says so.
    if rest.starts_with("Go value of type ") {
        return None;
    }
    let (_, expected) = rest.rsplit_once(" of type ")?;
    let (kind, name) = match found {
        "number" => ("int64", "int64"),
        "array" => ("slice", "[]interface {}"),
        "object" => ("map", "map[string]interface {}"),
        plain => (plain, plain),
    };
    Some(if expected.starts_with("map[") {
        format!("cannot restore map from {kind}")
    } else if expected.starts_with("[]") {
        format!("cannot restore slice from {kind}")
    } else if expected.contains('.') {
        format!("cannot restore struct from: {kind}")
    } else if found == "number" && expected != "bool" {
        format!("cannot convert {name} to {expected}")
    } else {
        // Go converts numbers into each other and into text, but nothing else.
        format!("unrecognized type: {expected}")
    })
}

#[test]
fn the_error_of_a_type_that_reads_itself_is_left_as_it_is() {
    let own = "json: cannot unmarshal number 3000000000 into Go value of type int32";
    assert_eq!(as_restored(own), None);
    let plain =
        "json: cannot unmarshal string into Go struct field ServiceSpec.spec.x of type bool";
    let told = as_restored(plain);
    assert_eq!(told.as_deref(), Some("unrecognized type: bool"));
}
