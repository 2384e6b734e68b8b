//! Conversions between types, and sizes.

use super::super::value::{Value, Why, type_name};
use super::time;

pub(super) fn call<'a>(function: &str, arguments: &[Value<'a>]) -> Option<Result<Value<'a>, Why>> {
    let [value] = arguments else {
        return None;
    };
    match function {
        "size" => size(value).map(Ok),
        "type" => Some(Ok(Value::Type(value.type_of()))),
        "dyn" => Some(Ok(value.clone())),
        "strings.quote" => match value {
            Value::String(text) => Some(Ok(Value::text(quote(text)))),
            _ => None,
        },
        _ => by_name(function, value),
    }
}

/// Converts a value to the type that a function has its name from; `None` for other functions.
pub(in super::super) fn by_name<'a>(
    function: &str,
    value: &Value<'a>,
) -> Option<Result<Value<'a>, Why>> {
    let converted = match (function, value) {
        ("bool", Value::Bool(_))
        | ("bytes", Value::Bytes(_))
        | ("double", Value::Double(_))
        | ("int", Value::Int(_))
        | ("uint", Value::Uint(_))
        | ("string", Value::String(_))
        | ("duration", Value::Duration(_))
        | ("timestamp", Value::Timestamp(_)) => Ok(value.clone()),
        ("bool", Value::String(text)) => {
            parsed(value, go_text::parse_bool(text), Value::Bool, "bool")
        }
        ("bytes", Value::String(text)) => Ok(Value::Bytes(text.as_bytes().into())),
        ("double", Value::Int(number)) => Ok(Value::Double(*number as f64)),
        ("double", Value::Uint(number)) => Ok(Value::Double(*number as f64)),
        ("double", Value::String(text)) => {
            parsed(value, text.parse().ok(), Value::Double, "double")
        }
        ("int", _) => to_int(value)?,
        ("uint", _) => to_uint(value)?,
        ("duration", Value::Int(nanos)) => Ok(Value::Duration(*nanos)),
        ("duration", Value::String(text)) => {
            let nanos = crate::values::time::parse_go_duration(text);
            parsed(value, nanos, Value::Duration, "google.protobuf.Duration")
        }
        ("timestamp", Value::Int(seconds)) => time::timestamp(*seconds, 0),
        ("timestamp", Value::String(text)) => match crate::values::time::Timestamp::parse(text) {
            Some(at) => time::timestamp(at.seconds, at.nanos),
            None => unconverted(value, "google.protobuf.Timestamp"),
        },
        ("string", Value::Bytes(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Value::text(text)),
            Err(_) => Err("invalid UTF-8 in bytes, cannot convert to string".to_owned()),
        },
        ("string", _) => Ok(Value::text(text(value)?)),
        _ => return None,
    };
    Some(converted)
}

/// A value as `string()` gives it; `None` for types that have no text.
pub(super) fn text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => go_text::float(*value),
        Value::String(text) => text.to_string(),
        Value::Duration(nanos) => time::seconds(*nanos),
        Value::Timestamp(at) => time::rfc3339(*at),
        Value::Ip(ip) => ip.to_string(),
        Value::Cidr(cidr) => cidr.to_string(),
        Value::Type(one) => type_name(one),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => return None,
    })
}

/// A string between double quotes, with escapes.
pub(super) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

fn size<'a>(value: &Value<'a>) -> Option<Value<'a>> {
    let count = match value {
        Value::String(text) => text.chars().count(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        _ => return None,
    };
    Some(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

fn to_int<'a>(value: &Value<'a>) -> Option<Result<Value<'a>, Why>> {
    let overflow = || "integer overflow".to_owned();
    Some(match value {
        Value::Uint(number) => i64::try_from(*number)
            .map(Value::Int)
            .map_err(|_| overflow()),
        // Both ends are outside: the largest float below 2^63 is far from it.
        Value::Double(number) if number.abs() < 9_223_372_036_854_775_808.0 => {
            Ok(Value::Int(*number as i64))
        }
        Value::Double(_) => Err(overflow()),
        Value::Duration(nanos) => Ok(Value::Int(*nanos)),
        Value::Timestamp(at) => Ok(Value::Int(at.seconds)),
        Value::String(text) => parsed(value, text.parse().ok(), Value::Int, "int"),
        _ => return None,
    })
}

fn to_uint<'a>(value: &Value<'a>) -> Option<Result<Value<'a>, Why>> {
    let overflow = || "unsigned integer overflow".to_owned();
    Some(match value {
        Value::Int(number) => u64::try_from(*number)
            .map(Value::Uint)
            .map_err(|_| overflow()),
        Value::Double(number) if *number >= 0.0 && *number < 18_446_744_073_709_551_616.0 => {
            Ok(Value::Uint(*number as u64))
        }
        Value::Double(_) => Err(overflow()),
        Value::String(text) => {
            let number = if text.starts_with('+') {
                None
            } else {
                text.parse().ok()
            };
            parsed(value, number, Value::Uint, "uint")
        }
        _ => return None,
    })
}

fn parsed<'a, T>(
    from: &Value<'a>,
    value: Option<T>,
    make: impl FnOnce(T) -> Value<'a>,
    to: &str,
) -> Result<Value<'a>, Why> {
    match value {
        Some(value) => Ok(make(value)),
        None => unconverted(from, to),
    }
}

fn unconverted<'a>(from: &Value, to: &str) -> Result<Value<'a>, Why> {
    let from = from.type_name();
    Err(format!("type conversion error from '{from}' to '{to}'"))
}
