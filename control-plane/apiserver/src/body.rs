//! Bodies of requests: read up to a limit, then decoded by the schema.

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use machinery::schema::Message;
use machinery::status::{Cause, Status};
use machinery::{object, protobuf, schema, strict};
use serde::Deserialize;
use serde_json::Value;

use crate::media::{self, Encoding};

/// The most bytes of a body.
pub(crate) const BODY_BYTES_MAX: usize = 3 << 20;
/// How much of a body that cannot be read is shown in the answer.
const SHOWN_BYTES_MAX: usize = 30;

/// What is done about fields that a kind does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Validation {
    Ignore,
    Warn,
    Strict,
}

/// What a body should be.
pub(crate) struct Expected {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) message: &'static Message,
}

/// A body that was read, and what to warn of.
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

impl Validation {
    /// Reads `fieldValidation`.
    pub(crate) fn parse(text: &str) -> Result<Validation, Status> {
        match text {
            "" | "Warn" => Ok(Validation::Warn),
            "Ignore" => Ok(Validation::Ignore),
            "Strict" => Ok(Validation::Strict),
            other => {
                let known = ["", "Ignore", "Strict", "Warn"];
                let cause = Cause::not_supported("fieldValidation", &other.into(), &known);
                Err(Status::invalid(
                    "meta.k8s.io",
                    "CreateOptions",
                    "",
                    vec![cause],
                ))
            }
        }
    }
}

/// Reads a body.
pub(crate) async fn read(body: Body) -> Result<Bytes, Status> {
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Status::too_large(BODY_BYTES_MAX)),
        Err(error) => Err(Status::bad_request(format!(
            "the body cannot be read: {error}"
        ))),
    }
}

/// Decodes a body as an object of a kind.
pub(crate) fn decode(
    bytes: &[u8],
    media_type: &str,
    expected: &Expected,
    validation: Validation,
) -> Result<Decoded, Status> {
    let encoding = media::body_encoding(media_type)?;
    let named = match encoding {
        // What is no JSON is told of below, with the place.
        Encoding::Json => serde_json::from_slice::<Named>(bytes).unwrap_or_default(),
        Encoding::Protobuf => protobuf::decode_type(bytes)
            .map(|(version, kind)| Named {
                api_version: Some(version),
                kind: Some(kind),
            })
            .map_err(|error| unrecognized(bytes, expected, &error.to_string()))?,
    };
    check_type(&named, expected)?;
    let (mut object, problems) = match encoding {
        Encoding::Json => {
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

/// Refuses, tells or forgets what was dropped from a body.
pub(crate) fn judge(
    problems: Vec<String>,
    validation: Validation,
    expected: &Expected,
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

fn check_type(named: &Named, expected: &Expected) -> Result<(), Status> {
    let kind = named.kind.as_deref().filter(|kind| !kind.is_empty());
    let version = named
        .api_version
        .as_deref()
        .filter(|version| !version.is_empty());
    let ours = api_version(expected.group, expected.version);
    let version = version.unwrap_or(&ours);
    let kind = kind.unwrap_or(expected.kind);
    let (group, number) = schema::split_api_version(version);
    let message = schema::body(group, number, kind);
    let Some(message) = message else {
        let text = format!("no kind {kind:?} is registered for version {version:?}");
        return Err(Status::bad_request(format!(
            "{kind} in version {number:?} cannot be handled as a {}: {text}",
            expected.kind
        )));
    };
    if std::ptr::eq(message, expected.message) {
        return Ok(());
    }
    if kind == expected.kind && group == expected.group {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({ours})"
        )));
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

fn cannot_handle(bytes: &[u8], named: &Named, expected: &Expected, why: &str) -> Status {
    match &named.kind {
        Some(kind) if !kind.is_empty() => {
            let version = named.api_version.as_deref().unwrap_or_default();
            let (_, number) = schema::split_api_version(version);
            Status::bad_request(format!(
                "{kind} in version {number:?} cannot be handled as a {}: {why}",
                expected.kind
            ))
        }
        _ => unrecognized(bytes, expected, why),
    }
}

fn unrecognized(bytes: &[u8], expected: &Expected, why: &str) -> Status {
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
