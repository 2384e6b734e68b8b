//! The single errors within a Status, with the texts of Kubernetes' field errors.

use std::collections::HashSet;

use serde_json::{Value, json};

/// One error of several.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Cause {
    /// The machine-readable reason, such as `FieldValueInvalid`.
    pub reason: &'static str,
    /// The message.
    pub message: String,
    /// The field, such as `spec.replicas`; may be empty.
    pub field: String,
}

impl Cause {
    pub(super) fn to_object(&self) -> Value {
        let mut cause = json!({});
        let texts = [
            ("reason", self.reason),
            ("message", &self.message),
            ("field", &self.field),
        ];
        for (key, text) in texts {
            if !text.is_empty() {
                cause[key] = text.into();
            }
        }
        cause
    }
}

/// Validation errors, with the texts of Kubernetes' field errors.
impl Cause {
    /// A value that is not allowed. Texts are shown in quotes, other values as JSON.
    pub fn invalid(field: &str, value: &Value, why: &str) -> Cause {
        Cause::invalid_shown(field, &value.to_string(), why)
    }

    /// The server cannot check a value.
    pub fn internal(field: &str, why: &str) -> Cause {
        Cause {
            reason: "InternalError",
            message: format!("Internal error: {why}"),
            field: field.into(),
        }
    }

    /// Like `invalid`, with the value already as text: Go shows a struct's fields in the order of
    /// their declaration. `why` may be empty.
    pub fn invalid_shown(field: &str, shown: &str, why: &str) -> Cause {
        Cause {
            reason: "FieldValueInvalid",
            message: join(&format!("Invalid value: {shown}"), why),
            field: field.into(),
        }
    }

    /// Like `invalid`, about several fields, so that no value is shown.
    pub fn invalid_together(field: &str, why: &str) -> Cause {
        Cause::invalid_shown(field, why, "")
    }

    /// A required value is missing; `why` may be empty.
    pub fn required(field: &str, why: &str) -> Cause {
        Cause {
            reason: "FieldValueRequired",
            message: join("Required value", why),
            field: field.into(),
        }
    }

    /// A value that must not be set; `why` may be empty.
    pub fn forbidden(field: &str, why: &str) -> Cause {
        Cause {
            reason: "FieldValueForbidden",
            message: join("Forbidden", why),
            field: field.into(),
        }
    }

    /// A value that occurs twice.
    pub fn duplicate(field: &str, value: &Value) -> Cause {
        Cause::duplicate_shown(field, &value.to_string(), "")
    }

    /// Like `duplicate`, with the value already as text; `why` may be empty.
    pub fn duplicate_shown(field: &str, shown: &str, why: &str) -> Cause {
        Cause {
            reason: "FieldValueDuplicate",
            message: join(&format!("Duplicate value: {shown}"), why),
            field: field.into(),
        }
    }

    /// A value that is not one of the supported ones.
    pub fn not_supported(field: &str, value: &Value, supported: &[&str]) -> Cause {
        Cause::not_supported_shown(field, &value.to_string(), supported)
    }

    /// Like `not_supported`, with the value already as text.
    pub fn not_supported_shown(field: &str, shown: &str, supported: &[&str]) -> Cause {
        let quoted: Vec<String> = supported.iter().map(|one| format!("{one:?}")).collect();
        Cause {
            reason: "FieldValueNotSupported",
            message: format!(
                "Unsupported value: {shown}: supported values: {}",
                quoted.join(", ")
            ),
            field: field.into(),
        }
    }

    /// A reference to something that does not exist.
    pub fn not_found(field: &str, value: &Value) -> Cause {
        Cause {
            reason: "FieldValueNotFound",
            message: format!("Not found: {value}"),
            field: field.into(),
        }
    }

    /// A list with too many items.
    pub fn too_many(field: &str, has: usize, limit: usize) -> Cause {
        Cause {
            reason: "FieldValueTooMany",
            message: format!("Too many: {has}: must have at most {limit} items"),
            field: field.into(),
        }
    }

    /// A value longer than `limit` bytes.
    pub fn too_long(field: &str, limit: usize) -> Cause {
        Cause {
            reason: "FieldValueTooLong",
            message: format!("Too long: may not be more than {limit} bytes"),
            field: field.into(),
        }
    }
}

/// The errors joined into one text, without repetitions.
pub fn told_together(causes: &[Cause]) -> String {
    let text = |cause: &Cause| match cause.field.as_str() {
        "" => cause.message.clone(),
        field => format!("{field}: {}", cause.message),
    };
    let all: Vec<String> = causes.iter().map(text).collect();
    let mut told = HashSet::new();
    let texts = all.iter().map(String::as_str);
    let texts: Vec<&str> = texts.filter(|text| told.insert(*text)).collect();
    match texts.as_slice() {
        [text] => (*text).to_owned(),
        texts => format!("[{}]", texts.join(", ")),
    }
}

fn join(what: &str, why: &str) -> String {
    match why {
        "" => what.to_owned(),
        why => format!("{what}: {why}"),
    }
}
