//! JSON in annotations, as Go's encoder writes it and its decoder reads it.

use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::{Map, Value};

use crate::values::go_json;
use crate::values::quantity::Quantity;

/// All fields of the annotations, in an order that keeps the one of every struct of Go.
const ORDER: [&str; 47] = [
    "type",
    "status",
    "lastTransitionTime",
    "reason",
    "message",
    "object",
    "pods",
    "resource",
    "containerResource",
    "external",
    "target",
    "kind",
    "name",
    "apiVersion",
    "metricName",
    "metricSelector",
    "targetAverageUtilization",
    "targetValue",
    "targetAverageValue",
    "currentAverageUtilization",
    "currentValue",
    "currentAverageValue",
    "container",
    "selector",
    "averageValue",
    MATCH_LABELS,
    "matchExpressions",
    "key",
    "operator",
    "values",
    "ScaleUp",
    "ScaleDown",
    "StabilizationWindowSeconds",
    "SelectPolicy",
    "Policies",
    "Tolerance",
    "Type",
    "Value",
    "PeriodSeconds",
    "scaleUp",
    "scaleDown",
    "stabilizationWindowSeconds",
    "selectPolicy",
    "policies",
    "tolerance",
    "value",
    "periodSeconds",
];
/// The only map whose keys are no names of fields.
const MATCH_LABELS: &str = "matchLabels";
const CONDITION: [(&str, Form); 5] = [
    ("type", Form::Text),
    ("status", Form::Text),
    ("lastTransitionTime", Form::OptionalText),
    ("reason", Form::OptionalText),
    ("message", Form::OptionalText),
];
const REFERENCE: [(&str, Form); 3] = [
    ("kind", Form::Text),
    ("name", Form::Text),
    ("apiVersion", Form::OptionalText),
];

/// The form of a field. Those with a zero value are never missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    OptionalText,
    Integer,
    IntegerOrZero,
    Quantity,
    QuantityOrZero,
    /// The name and the kind of an object.
    Reference,
    Selector,
}

impl Form {
    /// The value of a missing field; `None` if it stays missing.
    pub(super) fn zero(self) -> Option<Value> {
        match self {
            Form::Text => Some("".into()),
            Form::IntegerOrZero => Some(0.into()),
            Form::QuantityOrZero => Some("0".into()),
            Form::Reference => Some(serde_json::json!({"kind": "", "name": ""})),
            Form::OptionalText | Form::Integer | Form::Quantity | Form::Selector => None,
        }
    }

    /// The value of a field; `Some(None)` for a field that stays missing, and `None` for a value
    /// that Go could not decode.
    pub(super) fn read(self, value: Option<&Value>) -> Option<Option<Value>> {
        let Some(value) = value.filter(|value| !value.is_null()) else {
            return Some(self.zero());
        };
        let read = match self {
            Form::Text | Form::OptionalText => Value::String(value.as_str()?.to_owned()),
            Form::Integer | Form::IntegerOrZero => i32::try_from(value.as_i64()?).ok()?.into(),
            Form::Quantity | Form::QuantityOrZero => match value {
                Value::String(text) => quantity(text)?,
                Value::Number(number) => quantity(&number.to_string())?,
                _ => return None,
            },
            Form::Reference => fields_of(value, &REFERENCE)?.into(),
            Form::Selector => Value::Object(value.as_object()?.clone()),
        };
        Some(Some(read))
    }
}

/// A value as Go writes it.
pub(super) fn written(value: &Value) -> String {
    // Writing into memory fails only for maps with keys that are no text, and there are none.
    go_json::escaped(serde_json::to_string(&InOrder(value)).unwrap_or_default())
}

/// Reads an annotation. Fields get the names of this module: to Go's decoder, letters are the same
/// in upper and in lower case.
pub(super) fn read(text: &str) -> Option<Value> {
    let mut value = serde_json::from_str(text).ok()?;
    fold(&mut value);
    Some(value)
}

/// The conditions of an annotation; `None` if Go could not decode them.
pub(super) fn conditions(conditions: &Value) -> Option<Vec<Value>> {
    let items = match conditions {
        Value::Null => &[][..],
        Value::Array(items) => items,
        _ => return None,
    };
    let read = items.iter().map(|one| {
        let mut read = fields_of(one, &CONDITION)?;
        read.entry("lastTransitionTime").or_insert(Value::Null);
        Some(Value::Object(read))
    });
    read.collect()
}

fn fields_of(fields: &Value, rows: &[(&str, Form)]) -> Option<Map<String, Value>> {
    if !fields.is_object() && !fields.is_null() {
        return None;
    }
    let mut read = Map::new();
    for (name, form) in rows {
        let value = form.read(fields.get(name))?;
        read.extend(value.map(|value| ((*name).to_owned(), value)));
    }
    Some(read)
}

fn quantity(text: &str) -> Option<Value> {
    let quantity = Quantity::parse(text).ok()?;
    Some(quantity.to_string().into())
}

fn fold(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(fold),
        Value::Object(fields) => {
            for (key, mut value) in std::mem::take(fields) {
                let mut known = ORDER.iter();
                let known = known.find(|known| {
                    known.starts_with(|letter: char| letter.is_ascii_lowercase())
                        && known.eq_ignore_ascii_case(&key)
                });
                if known != Some(&MATCH_LABELS) {
                    fold(&mut value);
                }
                fields.insert(known.map_or(key, |known| (*known).to_owned()), value);
            }
        }
        _ => {}
    }
}

struct InOrder<'a>(&'a Value);

impl Serialize for InOrder<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => serializer.collect_seq(items.iter().map(InOrder)),
            Value::Object(fields) => {
                let place = |key: &str| ORDER.iter().position(|known| *known == key);
                let mut fields: Vec<(&String, &Value)> = fields.iter().collect();
                fields.sort_by_key(|(key, _)| place(key).unwrap_or(ORDER.len()));
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (key, value) in fields {
                    if key == MATCH_LABELS {
                        map.serialize_entry(key, value)?;
                    } else {
                        map.serialize_entry(key, &InOrder(value))?;
                    }
                }
                map.end()
            }
            plain => plain.serialize(serializer),
        }
    }
}
