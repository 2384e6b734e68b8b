//! The pass over a body: the table says which type each value must have. Independent of where the
//! text comes from.

use std::cell::RefCell;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::PROBLEMS_MAX;
use crate::budget::Budget;
use crate::schema::zero;
use crate::schema::{Message, Type};
use crate::values::float;
use crate::values::quantity::Quantity;
use crate::values::time::{Timestamp, go_duration, parse_go_duration};

/// The expected type of a value.
#[derive(Clone, Copy)]
pub(super) enum Expected {
    /// Anything; duplicate fields are reported.
    Any,
    /// Anything; nothing is reported, because the table does not describe the content.
    Foreign,
    /// An object with these fields.
    Message(&'static Message),
    /// A value of this type.
    Type(&'static Type),
}

/// The current path and the problems found so far.
#[derive(Default)]
pub(super) struct Context {
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    /// The path in problems, such as `spec.containers[0]`.
    path: String,
    /// The field names alone, as in Go's type errors, such as `spec.containers`.
    fields: Vec<String>,
    /// The Go types that these fields belong to.
    owners: Vec<&'static str>,
    problems: Vec<String>,
    failure: Option<String>,
    budget: Budget,
}

impl Context {
    /// Returns the problems, and the first type error.
    pub(super) fn finish(self) -> (Vec<String>, Option<String>) {
        let inner = self.inner.into_inner();
        (inner.problems, inner.failure)
    }

    fn problem(&self, what: &str, key: &str) {
        let mut inner = self.inner.borrow_mut();
        if inner.problems.len() < PROBLEMS_MAX {
            let path = join(&inner.path, key);
            let text = format!("{what} field {}", Value::from(path));
            // A field that is written three times is reported once.
            if !inner.problems.contains(&text) {
                inner.problems.push(text);
            }
        }
    }

    /// Charges the budget for the value that is about to be allocated.
    fn spend<E: serde::de::Error>(&self, spend: fn(&mut Budget) -> bool) -> Result<(), E> {
        let there_is = spend(&mut self.inner.borrow_mut().budget);
        if there_is {
            Ok(())
        } else {
            Err(self.fail("the object has too many parts".into()))
        }
    }

    fn fail<E: serde::de::Error>(&self, text: String) -> E {
        self.inner.borrow_mut().failure.get_or_insert(text);
        E::custom("wrong type")
    }

    fn wrong_type<E: serde::de::Error>(&self, found: &str, expected: &str) -> E {
        let place = {
            let inner = self.inner.borrow();
            match inner.owners.last() {
                Some(owner) => format!("Go struct field {owner}.{}", inner.fields.join(".")),
                None => "Go value".to_owned(),
            }
        };
        self.fail(format!(
            "json: cannot unmarshal {found} into {place} of type {expected}"
        ))
    }

    /// Runs `read` with the path extended by a key or index.
    fn below<R>(&self, part: &str, owner: Option<&'static str>, read: impl FnOnce() -> R) -> R {
        let length = {
            let mut inner = self.inner.borrow_mut();
            let length = inner.path.len();
            inner.path = join(&inner.path, part);
            if let Some(owner) = owner {
                inner.fields.push(part.to_owned());
                inner.owners.push(owner);
            }
            length
        };
        let result = read();
        let mut inner = self.inner.borrow_mut();
        inner.path.truncate(length);
        if owner.is_some() {
            inner.fields.pop();
            inner.owners.pop();
        }
        result
    }
}

fn join(path: &str, part: &str) -> String {
    if path.is_empty() || part.starts_with('[') {
        format!("{path}{part}")
    } else {
        format!("{path}.{part}")
    }
}

/// Decodes one value.
#[derive(Clone, Copy)]
pub(super) struct Seed<'c> {
    pub(super) context: &'c Context,
    pub(super) expected: Expected,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl Seed<'_> {
    fn wrong<E: serde::de::Error>(&self, found: &str) -> E {
        let expected = match self.expected {
            Expected::Message(message) => go_name(message.name).to_owned(),
            Expected::Type(kind) => go_type(kind),
            Expected::Any | Expected::Foreign => String::new(),
        };
        self.context.wrong_type(found, &expected)
    }

    fn kind(&self) -> Option<&'static Type> {
        match self.expected {
            Expected::Type(kind) => Some(kind),
            _ => None,
        }
    }

    fn text<E: serde::de::Error>(&self, text: &str) -> Result<Value, E> {
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

    fn quantity<E: serde::de::Error>(&self, text: &str) -> Result<Value, E> {
        match Quantity::parse(text.trim()) {
            Ok(quantity) => Ok(quantity.to_string().into()),
            Err(error) => Err(self.context.fail(error.to_string())),
        }
    }

    fn integer<E: serde::de::Error>(&self, number: i64) -> Result<Value, E> {
        match self.kind() {
            Some(Type::Int32 | Type::IntOrString) if i32::try_from(number).is_err() => {
                Err(self.wrong(&format!("number {number}")))
            }
            Some(Type::Int32 | Type::Int64 | Type::IntOrString) => Ok(number.into()),
            Some(Type::Float64) => Ok(float::value(number as f64)),
            Some(Type::Quantity) => self.quantity(&number.to_string()),
            _ => self.other("number", number.into()),
        }
    }

    /// A value of a type that only untyped places accept.
    fn other<E: serde::de::Error>(&self, found: &str, value: Value) -> Result<Value, E> {
        match self.expected {
            Expected::Any | Expected::Foreign => Ok(value),
            Expected::Type(kind) if is_foreign(kind) => Ok(value),
            _ => Err(self.wrong(found)),
        }
    }

    fn list<'de, A: SeqAccess<'de>>(&self, mut list: A, item: Expected) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        self.context.spend(Budget::object)?;
        loop {
            self.context.spend(Budget::item)?;
            let part = format!("[{}]", values.len());
            let seed = Seed {
                context: self.context,
                expected: item,
            };
            match self
                .context
                .below(&part, None, || list.next_element_seed(seed))?
            {
                // A null item becomes the zero value of the item's type.
                Some(Value::Null) => values.push(match item {
                    Expected::Type(kind) => zero::of(kind),
                    _ => Value::Null,
                }),
                Some(value) => values.push(value),
                None => return Ok(Value::Array(values)),
            }
        }
    }

    fn map<'de, A: MapAccess<'de>>(&self, mut map: A, item: Expected) -> Result<Value, A::Error> {
        let mut values = Map::new();
        self.context.spend(Budget::object)?;
        while let Some(key) = map.next_key::<String>()? {
            if values.contains_key(&key) && !matches!(item, Expected::Foreign) {
                self.context.problem("duplicate", &key);
            }
            let seed = Seed {
                context: self.context,
                expected: item,
            };
            let mut value = self
                .context
                .below(&key, None, || map.next_value_seed(seed))?;
            if let (Expected::Type(kind), Value::Null) = (item, &value) {
                value = zero::of(kind);
            }
            values.insert(key, value);
        }
        Ok(Value::Object(values))
    }

    fn message<'de, A: MapAccess<'de>>(
        &self,
        mut map: A,
        message: &'static Message,
    ) -> Result<Value, A::Error> {
        let mut values = Map::new();
        self.context.spend(Budget::object)?;
        // A null also counts as a duplicate, although it leaves no value.
        let mut seen: Vec<String> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            let of_type = message.typed && (key == "kind" || key == "apiVersion");
            let expected = match message.field(&key) {
                Some(field) => Expected::Type(&field.kind),
                None if of_type => Expected::Type(&Type::String(None)),
                None if message.open => Expected::Any,
                None => {
                    self.context.problem("unknown", &key);
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            if seen.contains(&key) {
                self.context.problem("duplicate", &key);
            }
            let seed = Seed {
                context: self.context,
                expected,
            };
            let owner = Some(message.short_name());
            let value = self
                .context
                .below(&key, owner, || map.next_value_seed(seed))?;
            match value {
                Value::Null if !matches!(expected, Expected::Any) => {
                    values.remove(&key);
                }
                value => {
                    values.insert(key.clone(), value);
                }
            }
            if !seen.contains(&key) {
                seen.push(key);
            }
        }
        for key in ["kind", "apiVersion"] {
            if message.typed && values.get(key).is_some_and(|value| value == "") {
                values.remove(key);
            }
        }
        zero::complete(message, &mut values);
        Ok(Value::Object(values))
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<Value, E> {
        match self.kind() {
            Some(Type::Bool) => Ok(value.into()),
            // Go reads anything but a string as a number here.
            Some(Type::IntOrString) => Err(self.context.wrong_type("bool", "int32")),
            _ => self.other("bool", value.into()),
        }
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        self.integer(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        match (i64::try_from(value), self.kind()) {
            (Ok(value), _) => self.integer(value),
            (_, Some(Type::Int32 | Type::Int64)) => Err(self.wrong(&format!("number {value}"))),
            (_, Some(Type::Quantity)) => self.quantity(&value.to_string()),
            (_, Some(Type::Float64)) => Ok(float::value(value as f64)),
            _ => self.other("number", value.into()),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        match self.kind() {
            Some(Type::Float64) => Ok(float::value(value)),
            Some(Type::Quantity) => self.quantity(&value.to_string()),
            Some(Type::Int32 | Type::Int64 | Type::IntOrString) => {
                Err(self.wrong(&format!("number {value}")))
            }
            _ => self.other("number", value.into()),
        }
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Value, E> {
        self.text(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Value, A::Error> {
        match self.expected {
            Expected::Any | Expected::Foreign => self.list(list, self.expected),
            Expected::Message(_) => Err(self.wrong("array")),
            Expected::Type(Type::List(item)) => self.list(list, Expected::Type(item)),
            Expected::Type(Type::Message(id)) if id.get().list => {
                self.list(list, Expected::Type(&Type::String(None)))
            }
            Expected::Type(kind) if is_foreign(kind) => self.list(list, Expected::Foreign),
            Expected::Type(_) => Err(self.wrong("array")),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Value, A::Error> {
        match self.expected {
            Expected::Any | Expected::Foreign => self.map(map, self.expected),
            Expected::Message(message) => self.message(map, message),
            Expected::Type(Type::Map(item)) => self.map(map, Expected::Type(item)),
            Expected::Type(Type::Message(id)) if !id.get().list => self.message(map, id.get()),
            Expected::Type(kind) if is_foreign(kind) => self.map(map, Expected::Foreign),
            Expected::Type(_) => Err(self.wrong("object")),
        }
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Value, E> {
        Err(E::custom("no JSON has this"))
    }
}

/// True for types whose content the table does not describe.
fn is_foreign(kind: &Type) -> bool {
    matches!(
        kind,
        Type::Raw
            | Type::Fields
            | Type::Json
            | Type::SchemaOrArray
            | Type::SchemaOrBool
            | Type::SchemaOrStrings
    )
}

/// The name of a type in Go.
fn go_type(kind: &Type) -> String {
    let name = match kind {
        Type::String(None) => "string",
        Type::String(Some(name)) => go_name(name),
        Type::Bool => "bool",
        Type::Int32 => "int32",
        Type::Int64 => "int64",
        Type::Float64 => "float64",
        Type::Bytes => "[]uint8",
        Type::Message(id) => go_name(id.get().name),
        Type::Time => "v1.Time",
        Type::MicroTime => "v1.MicroTime",
        Type::Duration => "v1.Duration",
        Type::Quantity => "resource.Quantity",
        Type::IntOrString => "intstr.IntOrString",
        Type::List(item) => return format!("[]{}", go_type(item)),
        Type::Map(item) => {
            let mut text = String::from("map[string]");
            let _ = write!(text, "{}", go_type(item));
            return text;
        }
        _ => "runtime.RawExtension",
    };
    name.to_owned()
}

/// The Go name of a message: `core/v1.PodSpec` is `v1.PodSpec`.
fn go_name(name: &'static str) -> &'static str {
    name.rsplit_once('/').map_or(name, |(_, name)| name)
}
