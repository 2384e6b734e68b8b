//! Bodies of requests: read up to a limit, then decoded by the schema.

use machinery::schema::Message;
use machinery::status::{Cause, Status};
use machinery::{object, protobuf, schema, strict};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::http::media::yaml;
use crate::http::media::{self, Encoding};
use crate::registry::options::Validation;
use crate::resources::catalogue::unregistered;

/// Upper bound of a body, in bytes.
pub(crate) const BODY_BYTES_MAX: usize = 3 << 20;
/// The Go type that a body's type is decoded into, for error messages.
const NAMED_IN_GO: &str = r#"Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
/// Versions that Kubernetes knows but does not serve any more.
const OLDER: [(&str, &str); 12] = [
    ("apps", "v1beta1"),
    ("apps", "v1beta2"),
    ("batch", "v1beta1"),
    ("certificates.k8s.io", "v1beta1"),
    ("coordination.k8s.io", "v1beta1"),
    ("discovery.k8s.io", "v1beta1"),
    ("events.k8s.io", "v1beta1"),
    ("networking.k8s.io", "v1beta1"),
    ("policy", "v1beta1"),
    ("rbac.authorization.k8s.io", "v1beta1"),
    ("scheduling.k8s.io", "v1beta1"),
    ("storage.k8s.io", "v1beta1"),
];
/// Number of bytes of an undecodable body that the error shows.
const SHOWN_BYTES_MAX: usize = 30;

/// The expected type of a body.
pub(crate) struct Expected<'a> {
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) message: &'static Message,
}

/// A decoded body, and warnings for the client.
pub(crate) struct Decoded {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
}

#[derive(Deserialize, Default)]
struct Named {
    #[serde(default, rename = "apiVersion")]
    api_version: Option<String>,
    #[serde(default)]
    kind: Option<String>,
}

/// Decodes a body as an object of a kind.
pub(crate) fn decode(
    bytes: &[u8],
    media_type: &str,
    expected: &Expected<'_>,
    validation: Validation,
) -> Result<Decoded, Status> {
    let encoding = media::body_encoding(media_type)?;
    let text;
    let bytes = match encoding {
        Encoding::Yaml => {
            text = yaml::to_json(bytes, validation == Validation::Strict)
                .map_err(|why| yaml_error(bytes, expected, why))?;
            &text
        }
        _ => bytes,
    };
    let named = match encoding {
        // Invalid JSON is reported below, with its position.
        Encoding::Json | Encoding::Yaml => {
            serde_json::from_slice::<Named>(bytes).unwrap_or_default()
        }
        Encoding::Protobuf => protobuf::decode_type(bytes)
            .map(|(version, kind)| Named {
                api_version: Some(version),
                kind: Some(kind),
            })
            .map_err(|error| unrecognized(bytes, expected, &error.to_string()))?,
    };
    check_type(&named, expected)?;
    let (mut object, problems) = match encoding {
        // `null` is an object without fields.
        Encoding::Json | Encoding::Yaml if bytes.trim_ascii() == b"null" => {
            (Value::Object(Map::new()), Vec::new())
        }
        Encoding::Json | Encoding::Yaml => {
            let decoded = strict::decode(bytes, expected.message)
                .map_err(|error| cannot_handle(bytes, &named, expected, &error.to_string()))?;
            (decoded.object, decoded.problems)
        }
        Encoding::Protobuf => {
            let decoded = protobuf::decode_as(bytes, expected.message)
                .map_err(|error| unrecognized(bytes, expected, &error.to_string()))?;
            (decoded, Vec::new())
        }
    };
    if !object.is_object() {
        return Err(unrecognized(bytes, expected, "it is no JSON object"));
    }
    object::set_type(
        &mut object,
        &api_version(expected.group, expected.version),
        expected.kind,
    );
    let warnings = judge(problems, validation, expected)?;
    Ok(Decoded { object, warnings })
}

/// Refuses, reports or ignores the fields that were dropped from a body.
pub(crate) fn judge(
    problems: Vec<String>,
    validation: Validation,
    expected: &Expected<'_>,
) -> Result<Vec<String>, Status> {
    match validation {
        Validation::Ignore => Ok(Vec::new()),
        Validation::Warn => Ok(problems),
        Validation::Strict if problems.is_empty() => Ok(problems),
        Validation::Strict => {
            let (kind, version) = (expected.kind, expected.version);
            let why = strict::strict_error(&problems);
            let text =
                format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}");
            Err(Status::bad_request(text))
        }
    }
}

fn check_type(named: &Named, expected: &Expected<'_>) -> Result<(), Status> {
    let kind = named.kind.as_deref().filter(|kind| !kind.is_empty());
    let version = named
        .api_version
        .as_deref()
        .filter(|version| !version.is_empty());
    let ours = api_version(expected.group, expected.version);
    let version = version.unwrap_or(&ours);
    let kind = kind.unwrap_or(expected.kind);
    let (group, number) = schema::split_api_version(version);
    if (group, number, kind) == (expected.group, expected.version, expected.kind) {
        return Ok(());
    }
    if expected.message.open {
        return Err(not_the_custom_kind(version, kind, expected));
    }
    let message = schema::body(group, number, kind);
    if message.is_none() && kind == expected.kind && OLDER.contains(&(group, number)) {
        return Err(another_version(version, &ours));
    }
    let Some(message) = message else {
        let text = unregistered(kind, version);
        if expected.kind == "DeleteOptions" {
            return Err(Status::bad_request(text));
        }
        return Err(Status::bad_request(format!(
            "{kind} in version {number:?} cannot be handled as a {}: {text}",
            expected.kind
        )));
    };
    if std::ptr::eq(message, expected.message) {
        return Ok(());
    }
    if kind == expected.kind && group == expected.group {
        return Err(another_version(version, &ours));
    }
    if expected.kind == "DeleteOptions" {
        return Err(Status::bad_request(unregistered(kind, version)));
    }
    let package = |group: &str| match group.split('.').next() {
        Some("") | None => "core".to_owned(),
        Some(first) => first.to_owned(),
    };
    Err(Status::bad_request(format!(
        "{kind} in version {number:?} cannot be handled as a {ours_kind}: converting \
         ({theirs}.{kind}) to ({package}.{ours_kind}): unknown conversion",
        ours_kind = expected.kind,
        theirs = number,
        package = package(expected.group),
    )))
}

fn another_version(version: &str, ours: &str) -> Status {
    Status::bad_request(format!(
        "the API version in the data ({version}) does not match the expected API version ({ours})"
    ))
}

fn cannot_handle(bytes: &[u8], named: &Named, expected: &Expected<'_>, why: &str) -> Status {
    match &named.kind {
        Some(kind) if !kind.is_empty() => {
            let version = named.api_version.as_deref().unwrap_or_default();
            let (_, number) = schema::split_api_version(version);
            Status::bad_request(format!(
                "{kind} in version {number:?} cannot be handled as a {}: {why}",
                expected.kind
            ))
        }
        _ => {
            let first = bytes.trim_ascii_start().first();
            let found = match first {
                Some(b'[') => "array",
                Some(b'"') => "string",
                _ => return unrecognized(bytes, expected, why),
            };
            // Go looks for the type first, in any JSON value.
            let why = format!(
                "couldn't get version/kind; json parse error: json: cannot unmarshal {found} into {NAMED_IN_GO}"
            );
            if expected.kind == "DeleteOptions" {
                return Status::bad_request(why);
            }
            unrecognized(bytes, expected, &why)
        }
    }
}

fn yaml_error(bytes: &[u8], expected: &Expected<'_>, why: yaml::Error) -> Status {
    match why {
        yaml::Error::Malformed(why) => unrecognized(bytes, expected, &format!("yaml: {why}")),
        yaml::Error::Twice(why) => {
            let (kind, version) = (expected.kind, expected.version);
            Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {}",
                strict::strict_error(&[format!("yaml: {why}")])
            ))
        }
    }
}

fn unrecognized(bytes: &[u8], expected: &Expected<'_>, why: &str) -> Status {
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    let more = if bytes.len() > SHOWN_BYTES_MAX {
        " ..."
    } else {
        ""
    };
    let summary = match shown {
        [] => "<empty>".to_owned(),
        [b'{', ..] => format!("{}{more}", String::from_utf8_lossy(shown)),
        _ => {
            let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex}{more}")
        }
    };
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {why} ({summary})",
        expected.kind
    ))
}

fn api_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    }
}

/// A body of a custom resource may say that it is anything; it has to be what the path names.
fn not_the_custom_kind(version: &str, kind: &str, expected: &Expected<'_>) -> Status {
    let ours = api_version(expected.group, expected.version);
    if version != ours {
        return another_version(version, &ours);
    }
    let why = format!("must be {}", expected.kind);
    let cause = Cause::invalid("kind", &kind.into(), &why);
    Status::invalid(expected.group, expected.kind, "", vec![cause])
}
