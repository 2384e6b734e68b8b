//! The media types of patches.

use machinery::status::Status;
use machinery::strict;
use serde_json::{Map, Value};

use crate::http::media::yaml;
use crate::http::question::request::Options;
use crate::registry::options::Validation;
use crate::registry::verbs::managed::Configuration;
use crate::registry::verbs::patch::Kind;
use crate::resources::catalogue::Resource;

/// The supported media types.
pub(crate) const MEDIA_TYPES: [&str; 4] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    APPLY,
];
/// The same for custom resources: nothing says how their lists merge.
pub(crate) const OF_CUSTOM: [&str; 3] = [
    "application/json-patch+json",
    "application/merge-patch+json",
    APPLY,
];
/// A configuration to apply.
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// The kind of patch of a media type other than [`APPLY`].
pub(crate) fn kind_of(resource: &Resource, media_type: &str) -> Result<Kind, Status> {
    let custom = resource.custom.is_some();
    match media_type {
        "application/json-patch+json" => Ok(Kind::Json),
        "application/merge-patch+json" => Ok(Kind::Merge),
        "application/strategic-merge-patch+json" if !custom => Ok(Kind::Strategic),
        _ if custom => Err(Status::unsupported_media_type(&OF_CUSTOM)),
        _ => Err(Status::unsupported_patch()),
    }
}

/// Decodes a configuration to apply.
pub(crate) fn configuration(body: &[u8], asked: Options) -> Result<Configuration, Status> {
    let malformed =
        |why: &dyn std::fmt::Display| Status::bad_request(format!("error decoding YAML: {why}"));
    let text = yaml::to_json(body, false).map_err(|error| match error {
        yaml::Error::Malformed(why) | yaml::Error::Twice(why) => {
            malformed(&format!("error converting YAML to JSON: yaml: {why}"))
        }
    })?;
    let problem = match yaml::to_json(body, asked.validation != Validation::Ignore) {
        Err(yaml::Error::Twice(why) | yaml::Error::Malformed(why)) => Some(why),
        Ok(_) => None,
    };
    let document: Value = serde_json::from_slice(&text).map_err(|error| malformed(&error))?;
    let document = match document {
        Value::Object(_) => document,
        // An empty body is an object without fields.
        Value::Null => Value::Object(Map::new()),
        other => {
            let found = strict::kind_of(&other);
            let into = "Go value of type map[string]interface {}";
            let why = format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into {into}"
            );
            return Err(malformed(&why));
        }
    };
    let Options {
        force, validation, ..
    } = asked;
    Ok(Configuration::new(document, problem, force, validation))
}
