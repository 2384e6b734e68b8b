//! Writes values as JSON: what expressions say to put into an object.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map as Object, Value as Json};

use super::library::convert;
use super::value::{Message, Value, Why};

/// The JSON of a value.
pub(super) fn of(value: &Value) -> Result<Json, Why> {
    Ok(match value {
        Value::Null => Json::Null,
        Value::Bool(value) => Json::from(*value),
        Value::Int(value) => Json::from(*value),
        Value::Uint(value) => Json::from(*value),
        Value::Double(value) => {
            let number = serde_json::Number::from_f64(*value);
            Json::Number(number.ok_or_else(|| format!("{value} is no number of JSON"))?)
        }
        Value::String(text) => Json::from(&**text),
        Value::Bytes(bytes) => Json::from(STANDARD.encode(bytes)),
        Value::List(list) => {
            let items = list.iter().map(|item| of(&item?));
            Json::Array(items.collect::<Result<_, Why>>()?)
        }
        Value::Map(map) => {
            let entries = map.entries().map(|entry| {
                let (key, value) = entry?;
                match key {
                    Value::String(key) => Ok((key.to_string(), of(&value)?)),
                    other => Err(format!(
                        "map key is of type {}, not string",
                        other.type_name()
                    )),
                }
            });
            Json::Object(entries.collect::<Result<_, Why>>()?)
        }
        Value::Message(message) => Json::Object(fields(message)?),
        Value::Duration(_) | Value::Timestamp(_) => match convert("string", value) {
            Some(Ok(Value::String(text))) => Json::from(&*text),
            _ => return Err(not_json(value)),
        },
        other => return Err(not_json(other)),
    })
}

/// The fields of a message.
pub(super) fn fields(message: &Message) -> Result<Object<String, Json>, Why> {
    let fields = message.fields.iter();
    let fields = fields.map(|(name, value)| Ok(((*name).to_owned(), of(value)?)));
    fields.collect()
}

fn not_json(value: &Value) -> Why {
    format!(
        "a value of type {} cannot be written as JSON",
        value.type_name()
    )
}
