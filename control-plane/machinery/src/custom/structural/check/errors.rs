//! Violations, in Kubernetes' words.

use std::collections::HashSet;

use serde_json::Value;

use super::number::{self, Number};
use crate::basics::budget::Room;
use crate::custom::structural::path::Path;
use crate::status::Cause;

/// The field of errors about no field in particular: Go prints a missing path like this.
pub(in crate::custom::structural) const NO_FIELD: &str = "<nil>";

/// Where the validated value is.
pub(in crate::custom::structural) enum Base<'a> {
    /// It is a whole object.
    Object,
    /// It is the value of this field.
    Field(&'a str),
}

/// One violation.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::custom::structural) struct Violation {
    /// The path within the validated value; `None` if the error names no field.
    at: Option<String>,
    what: What,
}

#[derive(Debug, Clone, PartialEq)]
enum What {
    Required,
    /// The value as it is shown, and why it is wrong.
    Invalid(String, String),
    Type(String, String),
    NotSupported(String, Vec<String>),
    TooLong(i64),
    /// How many there are, and the limit.
    TooMany(usize, i64),
}

/// What was found in a value.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) is_valid: bool,
    /// The violations that are told.
    pub(super) found: Vec<Violation>,
    /// How many checks were made, as Kubernetes counts them: of several alternatives that all
    /// fail, the one with the most checks explains best what is wrong.
    pub(super) checks: usize,
    /// What more may be told.
    pub(super) room: Room,
}

impl Violation {
    /// An error about no field in particular.
    pub(in crate::custom::structural) fn of_none(why: String) -> Violation {
        Violation {
            at: None,
            what: What::Invalid("\"\"".into(), why),
        }
    }

    pub(in crate::custom::structural) fn invalid(
        at: &Path,
        value: &Value,
        rest: &str,
    ) -> Violation {
        Violation::of(at, What::Invalid(shown(value), told(at, rest)))
    }

    /// A value whose type, or format, has the name `is` and must have the name `wanted`.
    pub(in crate::custom::structural) fn wrong_type(
        at: &Path,
        wanted: &str,
        is: &str,
    ) -> Violation {
        let is = Value::from(is).to_string();
        let why = told(at, &format!("must be of type {wanted}: {is}"));
        Violation::of(at, What::Type(is, why))
    }

    /// An error whose message does not begin with the field.
    pub(in crate::custom::structural) fn plain(at: &Path, value: &Value, why: String) -> Violation {
        Violation::of(at, What::Invalid(shown(value), why))
    }

    pub(in crate::custom::structural) fn required(at: &Path) -> Violation {
        Violation::of(at, What::Required)
    }

    pub(in crate::custom::structural) fn not_supported(
        at: &Path,
        value: &Value,
        allowed: &[Value],
    ) -> Violation {
        let words = allowed.iter().map(|one| match one {
            Value::String(text) => text.clone(),
            other => json(other),
        });
        Violation::of(at, What::NotSupported(shown(value), words.collect()))
    }

    pub(in crate::custom::structural) fn too_long(at: &Path, limit: i64) -> Violation {
        Violation::of(at, What::TooLong(limit))
    }

    pub(in crate::custom::structural) fn too_many(at: &Path, has: usize, limit: i64) -> Violation {
        Violation::of(at, What::TooMany(has, limit))
    }

    fn of(at: &Path, what: What) -> Violation {
        Violation {
            at: Some(at.to_string()),
            what,
        }
    }

    /// About how much it tells.
    pub(super) fn bytes(&self) -> usize {
        let of_what = match &self.what {
            What::Invalid(value, why) | What::Type(value, why) => value.len() + why.len(),
            What::NotSupported(value, allowed) => {
                value.len() + allowed.iter().map(String::len).sum::<usize>()
            }
            What::Required | What::TooLong(_) | What::TooMany(..) => 0,
        };
        self.at.as_ref().map_or(0, String::len) + of_what
    }

    fn into_cause(self, base: &Base) -> Cause {
        let field = match (base, self.at.as_deref().unwrap_or_default()) {
            (Base::Object, "") => NO_FIELD.to_owned(),
            (Base::Object, at) => at.to_owned(),
            (Base::Field(field), "") => (*field).to_owned(),
            (Base::Field(field), at) => format!("{field}.{at}"),
        };
        match self.what {
            What::Required => Cause::required(&field, ""),
            What::Invalid(value, why) => Cause::invalid_shown(&field, &value, &why),
            What::Type(value, why) => Cause {
                reason: "FieldValueTypeInvalid",
                ..Cause::invalid_shown(&field, &value, &why)
            },
            What::NotSupported(value, allowed) => {
                let allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
                Cause::not_supported_shown(&field, &value, &allowed)
            }
            What::TooLong(limit) => Cause {
                reason: "FieldValueTooLong",
                message: format!(
                    "Too long: may not be more than {}",
                    counted(limit, "byte", "bytes")
                ),
                field,
            },
            What::TooMany(has, limit) => Cause {
                reason: "FieldValueTooMany",
                message: format!(
                    "Too many: {has}: must have at most {}",
                    counted(limit, "item", "items")
                ),
                field,
            },
        }
    }
}

impl Outcome {
    /// Nothing was found yet.
    pub(super) fn within(room: Room) -> Outcome {
        Outcome {
            is_valid: true,
            found: Vec::new(),
            checks: 0,
            room,
        }
    }

    /// Adds a violation, which is made only if it is told.
    pub(super) fn tell(&mut self, violation: impl FnOnce() -> Violation) {
        self.is_valid = false;
        if self.room.is_left() {
            let violation = violation();
            self.room.take(violation.bytes());
            self.found.push(violation);
        }
    }

    /// Adds what was found in a part, within the room of this one.
    pub(super) fn merge(&mut self, part: Outcome) {
        self.is_valid &= part.is_valid;
        self.found.extend(part.found);
        self.checks += part.checks;
        self.room = part.room;
    }
}

/// The causes of these violations, each of them once.
pub(in crate::custom::structural) fn causes(violations: Vec<Violation>, base: &Base) -> Vec<Cause> {
    let mut seen = HashSet::new();
    let all = violations.into_iter().map(|one| one.into_cause(base));
    all.filter(|one| seen.insert((one.field.clone(), one.message.clone())))
        .collect()
}

/// A value as field errors show it.
pub(in crate::custom::structural) fn shown(value: &Value) -> String {
    match Number::read(value) {
        Some(Number::Float(float)) => number::shown(float),
        _ => json(value),
    }
}

/// A value as Go writes JSON: numbers without needless digits, and no characters of HTML within
/// objects and lists.
fn json(value: &Value) -> String {
    match value {
        Value::Array(_) | Value::Object(_) => {
            let text = plain(value).to_string();
            let text = text.replace('<', "\\u003c").replace('>', "\\u003e");
            text.replace('&', "\\u0026")
        }
        scalar => plain(scalar).to_string(),
    }
}

/// The value with whole floats as integers. Numbers that only floats hold are rounded as floats.
fn plain(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(fields) => {
            let fields = fields.iter();
            Value::Object(
                fields
                    .map(|(name, value)| (name.clone(), plain(value)))
                    .collect(),
            )
        }
        Value::Number(_) => number::plain(value),
        scalar => scalar.clone(),
    }
}

fn told(at: &Path, rest: &str) -> String {
    format!("{at} in body {rest}")
}

fn counted(count: i64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}
