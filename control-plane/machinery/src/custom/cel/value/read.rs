//! Reads JSON values as their shapes say.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use super::{List, Map, Text, Value, Why};
use crate::custom::cel::library::time;
use crate::custom::cel::types::shape::{Shape, ShapeKind};
use crate::values::time::Timestamp;

/// The value of JSON in expressions.
pub(crate) fn value<'a>(json: &'a Json, shape: &'a Shape) -> Result<Value<'a>, Why> {
    if json.is_null() {
        return match shape.kind {
            ShapeKind::Any => Ok(Value::Null),
            _ if shape.nullable => Ok(Value::Null),
            _ => Err("invalid data, got null for schema with nullable=false".to_owned()),
        };
    }
    match (&shape.kind, json) {
        (ShapeKind::Any, json) => Ok(any(json, shape)),
        (ShapeKind::Hidden, json) => Ok(Value::Hidden(json)),
        (ShapeKind::IntOrString, Json::String(text)) => Ok(borrowed(text)),
        (ShapeKind::IntOrString, json) if json.is_i64() => Ok(whole(json)),
        (ShapeKind::IntOrString, _) => Err(
            "invalid data, expected XIntOrString value to be either a string or integer".to_owned(),
        ),
        (ShapeKind::Object(_) | ShapeKind::Map(_), Json::Object(fields)) => {
            Ok(Value::Map(Map::Json(fields, shape)))
        }
        (ShapeKind::Object(_) | ShapeKind::Map(_), _) => {
            Err("invalid data, expected a map for the provided schema with type=object".to_owned())
        }
        (ShapeKind::List(of_items, identity), Json::Array(items)) => {
            Ok(Value::List(List::json(items, of_items, Some(identity))))
        }
        (ShapeKind::List(..), _) => Err(
            "invalid data, expected an array for the provided schema with type=array".to_owned(),
        ),
        (ShapeKind::Bool, Json::Bool(value)) => Ok(Value::Bool(*value)),
        (ShapeKind::Bool, json) => Err(unexpected("bool", json)),
        (ShapeKind::Integer, json) if json.is_i64() => Ok(whole(json)),
        (ShapeKind::Integer, Json::Number(number)) => {
            // A whole number that is written with a fraction.
            let float = number.as_f64().filter(|float| float.fract() == 0.0);
            let float = float.ok_or_else(|| unexpected("int", json))?;
            Ok(Value::Int(float as i64))
        }
        (ShapeKind::Integer, json) => Err(unexpected("int", json)),
        (ShapeKind::Number, Json::Number(number)) => {
            Ok(Value::Double(number.as_f64().unwrap_or(f64::MAX)))
        }
        (ShapeKind::Number, json) => Err(unexpected("float", json)),
        (kind, Json::String(text)) => string(kind, text),
        (_, json) => Err(unexpected("string", json)),
    }
}

/// The name in JSON and the shape of a field that an expression names.
pub(crate) fn field<'a: 'k, 'k>(shape: &'a Shape, key: &'k str) -> Option<(&'k str, &'a Shape)> {
    match &shape.kind {
        ShapeKind::Object(fields) => {
            let name = fields.named(key)?;
            Some((name, fields.all.get(name)?))
        }
        ShapeKind::Map(values) => Some((key, values)),
        ShapeKind::Any => Some((key, shape)),
        _ => None,
    }
}

/// The shape of a field by its name in JSON.
pub(crate) fn named<'a>(shape: &'a Shape, name: &str) -> Option<&'a Shape> {
    match &shape.kind {
        ShapeKind::Object(fields) => fields.all.get(name).map(|field| &**field),
        ShapeKind::Map(values) => Some(values),
        ShapeKind::Any => Some(shape),
        _ => None,
    }
}

/// The key that expressions see for a field of JSON, and its shape.
pub(crate) fn name<'a>(shape: &'a Shape, name: &'a str) -> Option<(Value<'a>, &'a Shape)> {
    match &shape.kind {
        ShapeKind::Object(fields) => {
            let of_field = fields.all.get(name)?;
            let key = match crate::custom::cel::types::shape::escape(name) {
                Some(escaped) if escaped != name => Value::text(escaped),
                _ => borrowed(name),
            };
            Some((key, of_field))
        }
        ShapeKind::Map(values) => Some((borrowed(name), values)),
        ShapeKind::Any => Some((borrowed(name), shape)),
        _ => None,
    }
}

/// Whether it is an object with fields, where a null counts as absent.
pub(crate) fn is_object(shape: Option<&Shape>) -> bool {
    shape.is_some_and(|shape| matches!(shape.kind, ShapeKind::Object(_)))
}

/// Whether it has no schema: its lists and maps compare with any value.
pub(crate) fn is_any(shape: &Shape) -> bool {
    matches!(shape.kind, ShapeKind::Any)
}

/// A JSON value without a schema.
fn any<'a>(json: &'a Json, shape: &'a Shape) -> Value<'a> {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(whole) => Value::Int(whole),
            None => Value::Double(number.as_f64().unwrap_or(f64::MAX)),
        },
        Json::String(text) => borrowed(text),
        Json::Array(items) => Value::List(List::json(items, shape, None)),
        Json::Object(fields) => Value::Map(Map::Json(fields, shape)),
    }
}

fn string<'a>(kind: &ShapeKind, text: &'a str) -> Result<Value<'a>, Why> {
    match kind {
        ShapeKind::Bytes => match STANDARD.decode(text) {
            Ok(bytes) => Ok(Value::Bytes(bytes.into())),
            Err(why) => Err(format!("Invalid byte formatted string {text}: {why}")),
        },
        ShapeKind::Duration => match time::parse_format_duration(text) {
            Some(nanos) => Ok(Value::Duration(nanos)),
            None => Err(format!("Invalid duration {text}")),
        },
        ShapeKind::Date => match Timestamp::parse(&format!("{text}T00:00:00Z")) {
            Some(at) => Ok(Value::Timestamp(at)),
            None => Err(format!("Invalid date formatted string {text}")),
        },
        ShapeKind::DateTime => match time::parse_date_time(text) {
            Some(at) => Ok(Value::Timestamp(at)),
            None => Err(format!("Invalid date-time formatted string {text}")),
        },
        _ => Ok(borrowed(text)),
    }
}

fn borrowed(text: &str) -> Value<'_> {
    Value::String(Text::Borrowed(text))
}

fn whole(json: &Json) -> Value<'_> {
    Value::Int(json.as_i64().unwrap_or_default())
}

fn unexpected(wanted: &str, json: &Json) -> Why {
    let is = match json {
        Json::Null => "<nil>",
        Json::Bool(_) => "bool",
        Json::Number(number) if number.is_i64() => "int64",
        Json::Number(_) => "float64",
        Json::String(_) => "string",
        Json::Array(_) => "[]interface {}",
        Json::Object(_) => "map[string]interface {}",
    };
    format!("invalid data, expected {wanted}, got {is}")
}
