//! JSON to protobuf, driven by the table: fields by rising number. As in Go, a field that is not a
//! pointer is written even when it is zero.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use super::Error;
use super::wire::{put_bytes, put_fixed64, put_number, put_varint};
use crate::edit::apply::InOrder;
use crate::object::{JSON_LEVELS_MAX, nests_within};
use crate::schema::{self, Field, Message, Type};
use crate::values::time::{Timestamp, parse_go_duration};

/// 200: twice the depth that is decoded; serde_json itself reads no deeper than 128.
const DEPTH_MAX: usize = 200;

static NULL: Value = Value::Null;

pub(super) fn message(
    of: &'static Message,
    value: &Value,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Error> {
    if depth > DEPTH_MAX {
        return Err(Error::new("the object nests too deeply"));
    }
    if of.list {
        for item in value.as_array().into_iter().flatten() {
            put_bytes(out, 1, text(item, "items")?.as_bytes());
        }
        return Ok(());
    }
    if !(value.is_object() || value.is_null()) {
        return Err(Error::new(format!("{} is no object", of.name)));
    }
    for field in of.wire_fields() {
        if let (Type::Message(id), true) = (&field.kind, field.inline) {
            let mut inner = Vec::new();
            message(id.get(), value, &mut inner, depth + 1)?;
            put_bytes(out, field.number, &inner);
            continue;
        }
        let value = value.get(field.name).unwrap_or(&NULL);
        self::field(field, value, out, depth + 1)?;
    }
    Ok(())
}

fn field(field: &Field, value: &Value, out: &mut Vec<u8>, depth: usize) -> Result<(), Error> {
    let number = field.number;
    match &field.kind {
        _ if value.is_null() && field.pointer => Ok(()),
        Type::List(item) => {
            for one in value.as_array().into_iter().flatten() {
                plain(field, item, number, one, out, depth)?;
            }
            Ok(())
        }
        Type::Map(item) => {
            let mut entries: Vec<_> = value.as_object().into_iter().flatten().collect();
            entries.sort_by_key(|(key, _)| key.as_str());
            for (key, one) in entries {
                let mut entry = Vec::new();
                put_bytes(&mut entry, 1, key.as_bytes());
                plain(field, item, 2, one, &mut entry, depth)?;
                put_bytes(out, number, &entry);
            }
            Ok(())
        }
        Type::Bytes if value.is_null() => Ok(()),
        kind => plain(field, kind, number, value, out, depth),
    }
}

/// Encodes a value that is neither a list nor a map; null counts as zero.
fn plain(
    field: &Field,
    kind: &Type,
    number: u32,
    value: &Value,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Error> {
    match kind {
        Type::String(_) => put_bytes(out, number, text(value, field.name)?.as_bytes()),
        Type::Bool => {
            let truth = match value {
                Value::Null => false,
                value => value.as_bool().ok_or_else(|| wrong(field.name))?,
            };
            put_number(out, number, truth.into());
        }
        Type::Int32 | Type::Int64 => put_number(out, number, integer(value, field.name)? as u64),
        Type::Float64 => {
            let value = value.as_f64().unwrap_or(0.0);
            put_fixed64(out, number, value.to_bits());
        }
        Type::Bytes => put_bytes(out, number, &base64(value, field.name)?),
        Type::List(_) | Type::Map(_) => return Err(wrong(field.name)),
        kind => {
            let mut inner = Vec::new();
            match kind {
                Type::Message(id) => message(id.get(), value, &mut inner, depth)?,
                kind => special(kind, value, field.name, &mut inner, depth)?,
            }
            put_bytes(out, number, &inner);
        }
    }
    Ok(())
}

fn special(
    kind: &Type,
    value: &Value,
    name: &str,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), Error> {
    match (kind, value) {
        (Type::Time | Type::MicroTime, Value::Null) => {}
        (Type::Time | Type::MicroTime, value) => {
            let time = Timestamp::parse(text(value, name)?).ok_or_else(|| wrong(name))?;
            let nanos = if *kind == Type::Time {
                0
            } else {
                time.nanos / 1000 * 1000
            };
            put_number(out, 1, time.seconds as u64);
            put_number(out, 2, nanos.into());
        }
        (Type::Duration, Value::Null) => put_number(out, 1, 0),
        (Type::Duration, value) => {
            let nanos = parse_go_duration(text(value, name)?).ok_or_else(|| wrong(name))?;
            put_number(out, 1, nanos as u64);
        }
        (Type::Quantity, Value::Null) => put_bytes(out, 1, b"0"),
        (Type::Quantity, Value::Number(number)) => {
            put_bytes(out, 1, number.to_string().as_bytes());
        }
        (Type::Quantity, value) => put_bytes(out, 1, text(value, name)?.as_bytes()),
        (Type::IntOrString, Value::String(text)) => int_or_string(out, 1, 0, text),
        (Type::IntOrString, value) => int_or_string(out, 0, integer(value, name)?, ""),
        (Type::Raw | Type::Fields | Type::Json, Value::Null) => {}
        // The decoder could not read it again.
        (Type::Raw | Type::Fields | Type::Json, value) if !nests_within(value, JSON_LEVELS_MAX) => {
            return Err(Error::new("the object nests too deeply"));
        }
        (Type::Fields, value) => {
            // Writing into memory fails only for maps with keys that are no text.
            let text = serde_json::to_vec(&InOrder(value)).unwrap_or_default();
            put_bytes(out, 1, &text);
        }
        (Type::Raw | Type::Json, value) => {
            put_bytes(out, 1, value.to_string().as_bytes());
        }
        (Type::SchemaOrBool, Value::Bool(allows)) => put_number(out, 1, (*allows).into()),
        (Type::SchemaOrBool, schema) => {
            // With a schema, `allows` is true.
            put_number(out, 1, 1);
            put_schema(out, 2, schema, depth)?;
        }
        (Type::SchemaOrArray, Value::Array(schemas)) => {
            for schema in schemas {
                put_schema(out, 2, schema, depth)?;
            }
        }
        (Type::SchemaOrStrings, Value::Array(names)) => {
            for one in names {
                put_bytes(out, 2, text(one, name)?.as_bytes());
            }
        }
        (_, Value::Null) => {}
        (_, schema) => put_schema(out, 1, schema, depth)?,
    }
    Ok(())
}

fn put_schema(out: &mut Vec<u8>, number: u32, value: &Value, depth: usize) -> Result<(), Error> {
    let Some(of) = schema::message("apiextensions/v1.JSONSchemaProps") else {
        return Ok(());
    };
    let mut inner = Vec::new();
    message(of, value, &mut inner, depth + 1)?;
    put_bytes(out, number, &inner);
    Ok(())
}

fn int_or_string(out: &mut Vec<u8>, kind: u64, number: i64, text: &str) {
    put_number(out, 1, kind);
    put_varint(out, 2 << 3);
    put_varint(out, number as u64);
    put_bytes(out, 3, text.as_bytes());
}

fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str, Error> {
    match value {
        Value::Null => Ok(""),
        value => value.as_str().ok_or_else(|| wrong(name)),
    }
}

fn integer(value: &Value, name: &str) -> Result<i64, Error> {
    match value {
        Value::Null => Ok(0),
        value => value.as_i64().ok_or_else(|| wrong(name)),
    }
}

fn base64(value: &Value, name: &str) -> Result<Vec<u8>, Error> {
    BASE64.decode(text(value, name)?).map_err(|_| wrong(name))
}

fn wrong(name: &str) -> Error {
    Error::new(format!("{name:?} has a value of the wrong type"))
}
