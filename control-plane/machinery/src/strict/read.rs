//! The pass over a body: the table says which type each value must have. Independent of where the
//! text comes from.

mod context;
mod names;
mod scalars;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::basics::budget::Budget;
use crate::schema::zero;
use crate::schema::{Message, Type};
use crate::values::float;
pub(super) use context::Context;
use names::{Name, go_name};

/// How the parser's error begins for a number that no float can hold.
const OUT_OF_RANGE: &str = "number out of range";

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

/// Decodes one value.
#[derive(Clone, Copy)]
pub(super) struct Seed<'c> {
    pub(super) context: &'c Context,
    pub(super) expected: Expected,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        let read = from.deserialize_any(self);
        if let Err(error) = &read {
            self.out_of_range(error);
        }
        read
    }
}

impl Seed<'_> {
    fn wrong<E: serde::de::Error>(&self, found: &str) -> E {
        self.context.wrong_type(found, &self.name())
    }

    /// A number that its type cannot hold.
    fn wrong_number<E: serde::de::Error>(&self, number: impl ToString) -> E {
        self.context.wrong_number(number.to_string(), &self.name())
    }

    /// The type that errors name.
    fn name(&self) -> Name {
        match self.expected {
            Expected::Message(message) => Name::Plain(go_name(message.name).to_owned()),
            Expected::Type(kind) if !is_foreign(kind) => names::expected(kind),
            // Go reads a number as a float where it expects nothing.
            Expected::Any | Expected::Foreign | Expected::Type(_) => {
                Name::Plain("float64".to_owned())
            }
        }
    }

    /// Tells a number that no float can hold, which the parser refuses by itself, as Go does.
    fn out_of_range(&self, error: &impl std::fmt::Display) {
        if self.context.has_failed() || !error.to_string().starts_with(OUT_OF_RANGE) {
            return;
        }
        // The failure is kept with the parser's error, which knows the place.
        let _: serde::de::value::Error = match self.expected {
            Expected::Type(Type::Quantity) => self.context.fail(error.to_string()),
            Expected::Type(Type::Int32 | Type::Int64 | Type::Float64 | Type::IntOrString)
            | Expected::Any
            | Expected::Foreign => self.wrong_number(""),
            Expected::Type(kind) if is_foreign(kind) => self.wrong_number(""),
            Expected::Message(_) | Expected::Type(_) => self.wrong("number"),
        };
    }

    fn kind(&self) -> Option<&'static Type> {
        match self.expected {
            Expected::Type(kind) => Some(kind),
            _ => None,
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
            let seed = Seed {
                context: self.context,
                expected: item,
            };
            let read = || list.next_element_seed(seed);
            match self.context.item(values.len(), read)? {
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
            let mut value = self.context.entry(&key, || map.next_value_seed(seed))?;
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
        let mut nulls: Vec<String> = Vec::new();
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
            if values.contains_key(&key) || nulls.contains(&key) {
                self.context.problem("duplicate", &key);
            }
            let seed = Seed {
                context: self.context,
                expected,
            };
            let read = || map.next_value_seed(seed);
            let value = self.context.field(&key, message.short_name(), read)?;
            match value {
                Value::Null if !matches!(expected, Expected::Any) => {
                    values.remove(&key);
                    nulls.push(key);
                }
                value => drop(values.insert(key, value)),
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
            Some(Type::Quantity) => self.quantity(&value.to_string()),
            _ => self.other("bool", value.into()),
        }
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Value, E> {
        self.integer(value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Value, E> {
        match (i64::try_from(value), self.kind()) {
            (Ok(value), _) => self.integer(value),
            (_, Some(Type::Int32 | Type::Int64 | Type::IntOrString)) => {
                Err(self.wrong_number(value))
            }
            (_, Some(Type::Quantity)) => self.quantity(&value.to_string()),
            (_, Some(Type::Float64)) => Ok(float::value(value as f64)),
            _ => self.other("number", value.into()),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        match self.kind() {
            Some(Type::Float64) => Ok(float::value(value)),
            Some(Type::Quantity) => self.quantity(&value.to_string()),
            Some(Type::Int32 | Type::Int64 | Type::IntOrString) => Err(self.wrong_number(value)),
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
            // It is no quantity, as Go's decoder of these says of any text.
            Expected::Type(Type::Quantity) => self.quantity("[]"),
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
            Expected::Type(Type::Quantity) => self.quantity("{}"),
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
