//! Texts and numbers, in the form that Go's types for them write.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use super::{Expected, Seed, is_foreign};
use crate::schema::Type;
use crate::values::float;
use crate::values::quantity::Quantity;
use crate::values::time::{Timestamp, go_duration, parse_go_duration};

impl Seed<'_> {
    pub(super) fn text<E: serde::de::Error>(&self, text: &str) -> Result<Value, E> {
        let Some(kind) = self.kind() else {
            return match self.expected {
                Expected::Message(_) => Err(self.wrong("string")),
                _ => Ok(text.into()),
            };
        };
        let time = || {
            Timestamp::parse(text).ok_or_else(|| {
                let quoted = Value::from(text);
                let fraction = match kind {
                    Type::MicroTime => ".000000",
                    _ => "",
                };
                self.context.fail(format!(
                    "parsing time {quoted} as \"2006-01-02T15:04:05{fraction}Z07:00\": cannot parse {quoted} as \"2006\""
                ))
            })
        };
        Ok(match kind {
            Type::String(_) | Type::IntOrString => text.into(),
            Type::Time => time()?.to_seconds().into(),
            Type::MicroTime => time()?.to_micros().into(),
            Type::Quantity => self.quantity(text)?,
            Type::Duration => match parse_go_duration(text) {
                Some(nanos) => go_duration(nanos).into(),
                None => {
                    let quoted = Value::from(text);
                    return Err(self
                        .context
                        .fail(format!("time: invalid duration {quoted}")));
                }
            },
            Type::Bytes => match BASE64.decode(text) {
                Ok(_) => text.into(),
                Err(error) => {
                    let at = match error {
                        base64::DecodeError::InvalidByte(at, _) => at,
                        base64::DecodeError::InvalidLastSymbol(at, _) => at,
                        _ => text.len(),
                    };
                    let text = format!("illegal base64 data at input byte {at}");
                    return Err(self.context.fail(text));
                }
            },
            kind if is_foreign(kind) => text.into(),
            _ => return Err(self.wrong("string")),
        })
    }

    pub(super) fn quantity<E: serde::de::Error>(&self, text: &str) -> Result<Value, E> {
        match Quantity::parse(text.trim()) {
            Ok(quantity) => Ok(quantity.to_string().into()),
            Err(error) => Err(self.context.fail(error.to_string())),
        }
    }

    pub(super) fn integer<E: serde::de::Error>(&self, number: i64) -> Result<Value, E> {
        match self.kind() {
            Some(Type::Int32 | Type::IntOrString) if i32::try_from(number).is_err() => {
                Err(self.wrong_number(number))
            }
            Some(Type::Int32 | Type::Int64 | Type::IntOrString) => Ok(number.into()),
            Some(Type::Float64) => Ok(float::value(number as f64)),
            Some(Type::Quantity) => self.quantity(&number.to_string()),
            _ => self.other("number", number.into()),
        }
    }
}
