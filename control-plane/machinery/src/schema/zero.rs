//! Which zero values JSON shows: Go's `omitempty` and pointers, applied to JSON objects.
//!
//! An object from protobuf or JSON then looks as Go would write it, except that fields that Go
//! writes as null are left out.

use serde_json::{Map, Value};

use crate::schema::{Field, Message, Type};

/// The managers of an object.
const MANAGERS: &str = "managedFields";

/// Adds the zero values that JSON shows for this message, and drops those that it leaves out.
pub(crate) fn complete(message: &'static Message, map: &mut Map<String, Value>) {
    for field in &message.fields {
        if let (Type::Message(id), true) = (&field.kind, field.inline) {
            complete(id.get(), map);
        } else if !field.pointer {
            complete_field(field, map);
        }
    }
}

/// Chooses fields.
type Which = fn(&Field) -> bool;

/// Removes empty lists and maps: the store does not distinguish them from missing ones.
pub(crate) fn forget_empty(message: &'static Message, map: &mut Map<String, Value>) {
    forget(message, map, |field| {
        matches!(field.kind, Type::List(_) | Type::Map(_))
    });
}

/// Removes the empty lists that JSON leaves out, though they differ from missing ones.
pub(crate) fn forget_kept(message: &'static Message, map: &mut Map<String, Value>) {
    forget(message, map, |field| field.keeps_empty);
}

fn forget(message: &'static Message, map: &mut Map<String, Value>, which: Which) {
    for field in &message.fields {
        match &field.kind {
            Type::Message(id) if field.inline => forget(id.get(), map, which),
            _ if which(field) && map.get(field.name).is_some_and(is_empty) => {
                map.remove(field.name);
            }
            kind => {
                if let Some(value) = map.get_mut(field.name) {
                    forget_inside(kind, value, which);
                }
            }
        }
    }
}

fn forget_inside(kind: &Type, value: &mut Value, which: Which) {
    match (kind, value) {
        (Type::Message(id), Value::Object(map)) => forget(id.get(), map, which),
        (Type::List(item), Value::Array(list)) => {
            list.iter_mut()
                .for_each(|value| forget_inside(item, value, which));
        }
        (Type::Map(item), Value::Object(map)) => {
            map.values_mut()
                .for_each(|value| forget_inside(item, value, which));
        }
        _ => {}
    }
}

/// Adds the nulls that Go writes for missing values.
pub(crate) fn show_nulls(message: &'static Message, map: &mut Map<String, Value>) {
    for field in &message.fields {
        match &field.kind {
            Type::Message(id) if field.inline => show_nulls(id.get(), map),
            kind => match map.get_mut(field.name) {
                Some(value) => show_nulls_inside(kind, value),
                None if field.reads_null() => {
                    map.insert(field.name.to_owned(), Value::Null);
                }
                None => {}
            },
        }
    }
}

fn show_nulls_inside(kind: &Type, value: &mut Value) {
    match (kind, value) {
        (Type::Message(id), Value::Object(map)) => show_nulls(id.get(), map),
        (Type::List(item), Value::Array(list)) => {
            list.iter_mut()
                .for_each(|value| show_nulls_inside(item, value));
        }
        (Type::Map(item), Value::Object(map)) => {
            map.values_mut()
                .for_each(|value| show_nulls_inside(item, value));
        }
        _ => {}
    }
}

/// What JSON shows for a missing value; null if it may be left out.
pub(crate) fn of(kind: &Type) -> Value {
    match kind {
        Type::String(_) => "".into(),
        Type::Bool => false.into(),
        Type::Int32 | Type::Int64 | Type::Float64 | Type::IntOrString => 0.into(),
        Type::Quantity => "0".into(),
        Type::Duration => "0s".into(),
        Type::Message(id) if id.get().list => Value::Null,
        Type::Message(id) => {
            let mut map = Map::new();
            complete(id.get(), &mut map);
            Value::Object(map)
        }
        _ => Value::Null,
    }
}

fn complete_field(field: &Field, map: &mut Map<String, Value>) {
    let omits = field.omit_empty && !is_struct(&field.kind);
    match map.get(field.name) {
        // An empty list of managers asks to forget them.
        Some(Value::Array(_)) if field.name == MANAGERS || field.keeps_empty => {}
        Some(value) if omits && is_empty(value) => {
            map.remove(field.name);
        }
        None if !(omits || field.omit_zero) => match of(&field.kind) {
            Value::Null => {}
            value => {
                map.insert(field.name.to_owned(), value);
            }
        },
        _ => {}
    }
}

/// True for types that Go never treats as empty.
fn is_struct(kind: &Type) -> bool {
    match kind {
        Type::Message(id) => !id.get().list,
        Type::Quantity | Type::IntOrString | Type::Duration | Type::Raw => true,
        _ => false,
    }
}

pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}
