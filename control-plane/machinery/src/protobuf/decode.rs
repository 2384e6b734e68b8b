//! Protobuf to JSON, driven by the table.
//!
//! Protobuf leaves out empty fields; Go's JSON shows some of them. After a message is decoded,
//! [`zero::complete`] adds and drops zero values by the tags of the Go fields.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use super::wire::{Envelope, Fields, Raw, malformed, utf8};
use super::{Error, MAGIC};
use crate::basics::budget::Budget;
use crate::object;
use crate::schema::zero;
use crate::schema::{self, Message, Type};
use crate::values::float;
use crate::values::quantity::Quantity;
use crate::values::time::{Timestamp, go_duration};

/// 100: Kubernetes' deepest kind, a pod in a cron job, has about 20; a JSON schema may nest deeper.
pub(super) const DEPTH_MAX: usize = 100;

pub(super) struct Decoder {
    depth: usize,
    budget: Budget,
}

impl Decoder {
    pub(super) fn new() -> Decoder {
        Decoder {
            depth: 0,
            budget: Budget::default(),
        }
    }

    pub(super) fn message(&mut self, of: &'static Message, bytes: &[u8]) -> Result<Value, Error> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(Error::new("the message nests too deeply"));
        }
        if !self.budget.object() {
            return Err(too_many());
        }
        let mut map = Map::new();
        self.fill(of, bytes, &mut map)?;
        zero::complete(of, &mut map);
        self.depth -= 1;
        if of.list {
            return Ok(map.remove("items").unwrap_or_else(|| json!([])));
        }
        Ok(Value::Object(map))
    }

    /// The message that an envelope names.
    pub(super) fn named(&mut self, envelope: &Envelope<'_>) -> Result<Value, Error> {
        let (kind, version) = (envelope.kind, envelope.api_version);
        let (group, number) = schema::split_api_version(version);
        let message = schema::body(group, number, kind).ok_or_else(|| {
            Error::new(format!(
                "no kind {kind:?} is registered for version {version:?}"
            ))
        })?;
        self.enveloped(envelope, message)
    }

    /// The message in an envelope; it gets the kind that the envelope names.
    pub(super) fn enveloped(
        &mut self,
        envelope: &Envelope<'_>,
        of: &'static Message,
    ) -> Result<Value, Error> {
        let mut object = self.message(of, envelope.raw)?;
        if !envelope.kind.is_empty() {
            object::set_type(&mut object, envelope.api_version, envelope.kind);
        }
        Ok(object)
    }

    fn fill(
        &mut self,
        of: &'static Message,
        bytes: &[u8],
        map: &mut Map<String, Value>,
    ) -> Result<(), Error> {
        let mut fields = Fields::new(bytes);
        while let Some((number, raw)) = fields.next()? {
            let Some(field) = of.numbered(number) else {
                continue;
            };
            match (&field.kind, raw) {
                (Type::Message(id), Raw::Bytes(bytes)) if field.inline => {
                    self.depth += 1;
                    if self.depth > DEPTH_MAX {
                        return Err(Error::new("the message nests too deeply"));
                    }
                    self.fill(id.get(), bytes, map)?;
                    self.depth -= 1;
                }
                (Type::List(item), raw) => {
                    let list = map.entry(field.name).or_insert_with(|| json!([]));
                    let Value::Array(list) = list else {
                        return Err(malformed(field.name));
                    };
                    self.items(item, raw, list)?;
                }
                (Type::Map(item), Raw::Bytes(bytes)) => {
                    let (key, value) = self.entry(item, bytes)?;
                    let place = map.entry(field.name).or_insert_with(|| json!({}));
                    let Value::Object(place) = place else {
                        return Err(malformed(field.name));
                    };
                    place.insert(key, value);
                }
                (kind, raw) => match self.value(kind, raw)? {
                    Value::Null => {
                        map.remove(field.name);
                    }
                    value => {
                        map.insert(field.name.to_owned(), value);
                    }
                },
            }
        }
        Ok(())
    }

    /// Adds one item, or several numbers in packed encoding.
    fn items(&mut self, item: &Type, raw: Raw<'_>, list: &mut Vec<Value>) -> Result<(), Error> {
        let packed = matches!(item, Type::Bool | Type::Int32 | Type::Int64);
        match raw {
            Raw::Bytes(bytes) if packed => {
                let mut numbers = Fields::new(bytes);
                while let Some(number) = numbers.next_varint()? {
                    if !self.budget.item() {
                        return Err(too_many());
                    }
                    list.push(self.value(item, Raw::Varint(number))?);
                }
            }
            raw if self.budget.item() => list.push(self.value(item, raw)?),
            _ => return Err(too_many()),
        }
        Ok(())
    }

    fn entry(&mut self, item: &Type, bytes: &[u8]) -> Result<(String, Value), Error> {
        let (mut key, mut value) = ("", None);
        let mut fields = Fields::new(bytes);
        while let Some((number, raw)) = fields.next()? {
            match (number, raw) {
                (1, Raw::Bytes(bytes)) => key = utf8(bytes)?,
                (2, raw) => value = Some(self.value(item, raw)?),
                _ => {}
            }
        }
        let value = match value {
            Some(value) => value,
            None if *item == Type::Bytes => "".into(),
            None => zero::of(item),
        };
        Ok((key.to_owned(), value))
    }

    pub(super) fn value(&mut self, kind: &Type, raw: Raw<'_>) -> Result<Value, Error> {
        Ok(match (kind, raw) {
            (Type::String(_), Raw::Bytes(bytes)) => utf8(bytes)?.into(),
            (Type::Bool, Raw::Varint(number)) => (number != 0).into(),
            // Go keeps the low 32 bits of a number that is too large.
            (Type::Int32, Raw::Varint(number)) => (number as i32).into(),
            (Type::Int64, Raw::Varint(number)) => (number as i64).into(),
            (Type::Float64, Raw::Fixed64(bits)) => float::value(f64::from_bits(bits)),
            (Type::Bytes, Raw::Bytes(bytes)) => BASE64.encode(bytes).into(),
            (Type::Message(id), Raw::Bytes(bytes)) => self.message(id.get(), bytes)?,
            (Type::Bool | Type::Int32 | Type::Int64 | Type::Float64, Raw::Bytes(_))
            | (Type::List(_) | Type::Map(_), _) => return Err(malformed("wire type")),
            (special, Raw::Bytes(bytes)) => self.special(special, bytes)?,
            (_, Raw::Fixed32 | Raw::Varint(_) | Raw::Fixed64(_)) => {
                return Err(malformed("wire type"));
            }
        })
    }

    fn special(&mut self, kind: &Type, bytes: &[u8]) -> Result<Value, Error> {
        let mut numbers = [0_u64; 4];
        let mut texts: [Option<&[u8]>; 4] = [None; 4];
        let mut many = Vec::new();
        let mut fields = Fields::new(bytes);
        while let Some((number, raw)) = fields.next()? {
            let at = number.min(3) as usize;
            match raw {
                Raw::Varint(number) => numbers[at] = number,
                Raw::Bytes(bytes) if at == 2 => {
                    texts[at] = Some(bytes);
                    many.push(bytes);
                }
                Raw::Bytes(bytes) => texts[at] = Some(bytes),
                _ => {}
            }
        }
        let time = Timestamp {
            seconds: numbers[1] as i64,
            nanos: numbers[2] as u32,
        };
        Ok(match kind {
            // Go encodes a time that is not set as no bytes at all.
            Type::Time | Type::MicroTime if bytes.is_empty() => Value::Null,
            Type::Time | Type::MicroTime if !in_calendar(time) => return Err(malformed("time")),
            Type::Time => time.to_seconds().into(),
            Type::MicroTime => time.to_micros().into(),
            Type::Duration => go_duration(numbers[1] as i64).into(),
            Type::Quantity => match texts[1] {
                None | Some(b"") => "0".into(),
                Some(text) => match Quantity::parse(utf8(text)?) {
                    Ok(quantity) => quantity.to_string().into(),
                    Err(error) => return Err(Error::new(error.to_string())),
                },
            },
            Type::IntOrString if numbers[1] == 0 => (numbers[2] as i32).into(),
            Type::IntOrString => utf8(texts[3].unwrap_or_default())?.into(),
            Type::Raw | Type::Fields | Type::Json => self.raw(texts[1])?,
            Type::SchemaOrBool => match texts[2] {
                Some(schema) => self.schema(schema)?,
                None => (numbers[1] != 0).into(),
            },
            Type::SchemaOrArray if !many.is_empty() => self.schemas(&many)?,
            Type::SchemaOrStrings if !many.is_empty() => {
                let names: Result<Vec<&str>, Error> = many.into_iter().map(utf8).collect();
                names?.into()
            }
            _ => match texts[1] {
                Some(schema) => self.schema(schema)?,
                None => Value::Null,
            },
        })
    }

    /// A nested object: JSON, or protobuf with its own envelope.
    fn raw(&mut self, bytes: Option<&[u8]>) -> Result<Value, Error> {
        let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else {
            return Ok(Value::Null);
        };
        if bytes.starts_with(&MAGIC) {
            // By the same decoder: bodies may be within each other as often as they like, so all
            // of them together have its bounds.
            return self.named(&Envelope::read(bytes)?);
        }
        serde_json::from_slice(bytes).map_err(|error| Error::new(error.to_string()))
    }

    fn schema(&mut self, bytes: &[u8]) -> Result<Value, Error> {
        match schema::message("apiextensions/v1.JSONSchemaProps") {
            Some(of) => self.message(of, bytes),
            None => Ok(Value::Null),
        }
    }

    fn schemas(&mut self, many: &[&[u8]]) -> Result<Value, Error> {
        let list: Result<Vec<Value>, Error> = many.iter().map(|one| self.schema(one)).collect();
        list.map(Value::Array)
    }
}

fn too_many() -> Error {
    Error::new("the message has too many parts")
}

/// True for the years that RFC 3339 can express.
pub(super) fn in_calendar(time: Timestamp) -> bool {
    (-62_167_219_200..253_402_300_800).contains(&time.seconds) && time.nanos < 1_000_000_000
}
