//! Writes values as JSON: what expressions say to put into an object.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map as Object, Value as Json};

use super::{Message, Value, Why};
use crate::custom::cel::library::convert;

/// The most values that are written.
const COUNT_MAX: usize = 1_000_000;

/// The fields of a message.
pub(crate) fn fields(message: &Message) -> Result<Object<String, Json>, Why> {
    write_fields(message, &mut { COUNT_MAX })
}

/// The JSON of a value.
pub(crate) fn of(value: &Value) -> Result<Json, Why> {
    write(value, &mut { COUNT_MAX })
}

/// The JSON of a value. `left` is how many more values may be written.
fn write(value: &Value, left: &mut usize) -> Result<Json, Why> {
    let less = left.checked_sub(1);
    *left = less.ok_or_else(|| format!("it has more than {COUNT_MAX} values"))?;
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
            let items = list.iter().map(|item| write(&item?, left));
            Json::Array(items.collect::<Result<_, Why>>()?)
        }
        Value::Map(map) => {
            let entries = map.entries().map(|entry| {
                let (key, value) = entry?;
                match key {
                    Value::String(key) => Ok((key.to_string(), write(&value, left)?)),
                    other => Err(format!(
                        "map key is of type {}, not string",
                        other.type_name()
                    )),
                }
            });
            Json::Object(entries.collect::<Result<_, Why>>()?)
        }
        Value::Message(message) => Json::Object(write_fields(message, left)?),
        Value::Duration(_) | Value::Timestamp(_) => match convert("string", value) {
            Some(Ok(Value::String(text))) => Json::from(&*text),
            _ => return Err(not_json(value)),
        },
        other => return Err(not_json(other)),
    })
}

fn write_fields(message: &Message, left: &mut usize) -> Result<Object<String, Json>, Why> {
    let fields = message.fields.iter();
    let fields = fields.map(|(name, value)| Ok(((*name).to_owned(), write(value, left)?)));
    fields.collect()
}

fn not_json(value: &Value) -> Why {
    format!(
        "a value of type {} cannot be written as JSON",
        value.type_name()
    )
}
