//! The values of expressions.
//!
//! A value that comes from an object borrows it and reads it with its [`Shape`](super::types::shape::Shape), item by item.

pub(super) mod json;
mod list;
mod map;
pub(super) mod read;

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::ops::Deref;
use std::rc::Rc;

use serde_json::Value as Json;

use super::library::authorization::Check;
use super::library::format::Format;
use super::library::network::Cidr;
use super::library::semver::Semver;
use super::library::url::Url;
use super::types::Type;
use crate::values::quantity::Quantity;
use crate::values::time::Timestamp;
pub(super) use list::List;
pub(super) use map::{Made, Map};

#[derive(Debug, Clone)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Rc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Timestamp),
    List(List<'a>),
    Map(Map<'a>),
    Type(Type),
    Optional(Option<Rc<Value<'a>>>),
    Quantity(Quantity),
    Url(Rc<Url>),
    Ip(IpAddr),
    Cidr(Cidr),
    Semver(Rc<Semver>),
    Format(&'static Format),
    /// A step on the way to a decision about rights.
    Check(Rc<Check>),
    /// A message that an expression made, for a patch.
    Message(Rc<Message<'a>>),
    /// The variables of a policy, which are evaluated when they are used.
    Composed,
    /// A part of an object that no schema describes: it can only be compared.
    Hidden(&'a Json),
}

/// How deep and how large a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) depth: u64,
    pub(super) count: u64,
}

impl Extent {
    const ONE: Extent = Extent { depth: 1, count: 1 };

    fn add(&mut self, inner: Extent) {
        self.depth = self.depth.max(inner.depth + 1);
        self.count = self.count.saturating_add(inner.count);
    }
}

/// A message with its fields in the order of their names.
#[derive(Debug, Clone)]
pub(crate) struct Message<'a> {
    pub(super) name: &'a str,
    pub(super) fields: BTreeMap<&'a str, Value<'a>>,
}

#[derive(Debug, Clone)]
pub(crate) enum Text<'a> {
    Borrowed(&'a str),
    Shared(Rc<str>),
}

/// A value that can be looked up. Numbers of different types with the same value are the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Null,
    Bool(bool),
    Whole(i128),
    Fraction(u64),
    String(String),
}

/// The name of the type of a policy's variables.
pub(super) const COMPOSED: &str = "kubernetes.variables";

/// Why a value cannot be had.
pub(super) type Why = String;

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

impl<'a> Value<'a> {
    pub(super) fn text(text: impl Into<Rc<str>>) -> Value<'a> {
        Value::String(Text::Shared(text.into()))
    }

    pub(super) fn list(items: Vec<Value<'a>>) -> Value<'a> {
        Value::List(List::made(items, None))
    }

    pub(super) fn some(value: Value<'a>) -> Value<'a> {
        Value::Optional(Some(Rc::new(value)))
    }

    /// Its type as `type()` gives it.
    pub(super) fn type_of(&self) -> Type {
        match self {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Uint(_) => Type::Uint,
            Value::Double(_) => Type::Double,
            Value::String(_) => Type::String,
            Value::Bytes(_) => Type::Bytes,
            Value::Duration(_) => Type::Duration,
            Value::Timestamp(_) => Type::Timestamp,
            Value::List(_) => Type::list(Type::Dyn),
            Value::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Value::Type(_) => Type::Meta(Type::Dyn.into()),
            Value::Optional(_) => Type::optional(Type::Dyn),
            Value::Quantity(_) => Type::Struct("kubernetes.Quantity".into()),
            Value::Url(_) => Type::Struct("kubernetes.URL".into()),
            Value::Semver(_) => Type::Struct("kubernetes.Semver".into()),
            Value::Format(_) => Type::Struct("kubernetes.NamedFormat".into()),
            Value::Ip(_) => Type::Opaque("net.IP".into()),
            Value::Cidr(_) => Type::Opaque("net.CIDR".into()),
            Value::Check(check) => check.type_of(),
            Value::Message(message) => Type::Struct(message.name.into()),
            Value::Composed => Type::Struct(COMPOSED.into()),
            Value::Hidden(_) => Type::Dyn,
        }
    }

    /// The name of its type in errors.
    pub(super) fn type_name(&self) -> String {
        type_name(&self.type_of())
    }

    /// Its size for costs: characters, bytes, items or entries.
    pub(super) fn size(&self) -> u64 {
        match self {
            Value::String(text) => text.chars().count() as u64,
            Value::Bytes(bytes) => bytes.len() as u64,
            Value::List(list) => list.len() as u64,
            Value::Map(map) => map.len() as u64,
            Value::Optional(Some(inner)) => inner.size(),
            Value::Ip(IpAddr::V4(_)) => 4,
            Value::Ip(IpAddr::V6(_)) => 16,
            Value::Cidr(cidr) => u64::from(cidr.bits.div_ceil(8)),
            _ => 1,
        }
    }

    /// Its levels, and how many values it would be without sharing. Each shared part is measured
    /// once: what is made of itself twice, again and again, would take forever otherwise.
    pub(super) fn extent(&self, known: &mut HashMap<usize, Extent>) -> Extent {
        let Some(place) = self.place() else {
            return Extent::ONE;
        };
        if let Some(extent) = known.get(&place) {
            return *extent;
        }
        let mut extent = Extent::ONE;
        let mut add = |inner: &Value| extent.add(inner.extent(known));
        match self {
            Value::List(list) => list
                .shared()
                .into_iter()
                .flat_map(|items| items.iter())
                .for_each(&mut add),
            Value::Map(Map::Made(made)) => made.entries.iter().for_each(|(_, value)| add(value)),
            Value::Message(message) => message.fields.values().for_each(&mut add),
            Value::Optional(Some(inner)) => add(inner),
            _ => {}
        }
        known.insert(place, extent);
        extent
    }

    /// What it costs to look at everything in it. Each shared part is looked at once, as in
    /// [`Value::extent`].
    pub(super) fn traversal_cost(&self) -> u64 {
        self.traversal_cost_with(&mut HashMap::new())
    }

    fn traversal_cost_with(&self, known: &mut HashMap<usize, u64>) -> u64 {
        match self {
            Value::String(text) => return text.len() as u64 / 10,
            Value::Bytes(bytes) => return bytes.len() as u64 / 10,
            Value::List(_) | Value::Map(_) => {}
            _ => return 1,
        }
        let place = self.place();
        if let Some(cost) = place.and_then(|place| known.get(&place)) {
            return *cost;
        }
        let mut cost: u64 = 0;
        let mut add = |inner: &Value| {
            cost = cost.saturating_add(inner.traversal_cost_with(known));
        };
        match self {
            Value::List(list) => list.iter().flatten().for_each(|item| add(&item)),
            Value::Map(map) => map.entries().flatten().for_each(|(key, value)| {
                add(&key);
                add(&value);
            }),
            _ => {}
        }
        if let Some(place) = place {
            known.insert(place, cost);
        }
        cost
    }

    /// Where the values in it are kept, if others may share them.
    fn place(&self) -> Option<usize> {
        Some(match self {
            Value::List(list) => Rc::as_ptr(list.shared()?) as usize,
            Value::Map(Map::Made(made)) => Rc::as_ptr(made) as usize,
            Value::Message(message) => Rc::as_ptr(message) as usize,
            Value::Optional(Some(inner)) => Rc::as_ptr(inner) as usize,
            _ => return None,
        })
    }

    /// Whether one of Kubernetes' libraries made it.
    pub(super) fn is_of_library(&self) -> bool {
        matches!(
            self,
            Value::Quantity(_)
                | Value::Url(_)
                | Value::Ip(_)
                | Value::Cidr(_)
                | Value::Semver(_)
                | Value::Format(_)
        )
    }

    pub(super) fn key(&self) -> Option<Key> {
        Some(match self {
            Value::Null => Key::Null,
            Value::Bool(value) => Key::Bool(*value),
            Value::Int(value) => Key::Whole(i128::from(*value)),
            Value::Uint(value) => Key::Whole(i128::from(*value)),
            Value::Double(value) if value.fract() == 0.0 && value.abs() < 1e30 => {
                Key::Whole(*value as i128)
            }
            Value::Double(value) => Key::Fraction(value.to_bits()),
            Value::String(text) => Key::String(text.to_string()),
            _ => return None,
        })
    }

    /// Whether two values are equal. Values of different types are not, except numbers.
    pub(super) fn equals(&self, other: &Value<'a>) -> Result<bool, Why> {
        Ok(match (self, other) {
            (Value::Bool(one), Value::Bool(other)) => one == other,
            (Value::String(one), Value::String(other)) => **one == **other,
            (Value::Bytes(one), Value::Bytes(other)) => one == other,
            (Value::Duration(one), Value::Duration(other)) => one == other,
            (Value::Timestamp(one), Value::Timestamp(other)) => one == other,
            (Value::Type(one), Value::Type(other)) => type_name(one) == type_name(other),
            (Value::Null, Value::Null) => true,
            (Value::List(one), other) => return one.equals(other),
            (Value::Map(one), other) => return one.equals(other),
            (Value::Optional(None), Value::Optional(None)) => true,
            (Value::Optional(Some(one)), Value::Optional(Some(other))) => {
                return one.equals(other);
            }
            (Value::Quantity(one), Value::Quantity(other)) => one == other,
            (Value::Url(one), Value::Url(other)) => one.text == other.text,
            (Value::Ip(one), Value::Ip(other)) => one == other,
            (Value::Cidr(one), Value::Cidr(other)) => one == other,
            (Value::Semver(one), Value::Semver(other)) => one.compare(other) == Ordering::Equal,
            (Value::Format(one), Value::Format(other)) => one.name == other.name,
            (Value::Message(one), Value::Message(other)) => return one.equals(other),
            (Value::Check(_) | Value::Composed, _) => return not_comparable(true),
            (Value::Hidden(one), Value::Hidden(other)) => one == other,
            (one, other) => one.compare_numbers(other) == Some(Ordering::Equal),
        })
    }

    /// The order of two values; `None` if they have none.
    pub(super) fn compare(&self, other: &Value) -> Option<Ordering> {
        match (self, other) {
            (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
            (Value::String(one), Value::String(other)) => Some((**one).cmp(&**other)),
            (Value::Bytes(one), Value::Bytes(other)) => Some(one.cmp(other)),
            (Value::Duration(one), Value::Duration(other)) => Some(one.cmp(other)),
            (Value::Timestamp(one), Value::Timestamp(other)) => Some(one.cmp(other)),
            _ => self.compare_numbers(other),
        }
    }

    fn compare_numbers(&self, other: &Value) -> Option<Ordering> {
        let whole = |value: &Value| match value {
            Value::Int(value) => Some(i128::from(*value)),
            Value::Uint(value) => Some(i128::from(*value)),
            _ => None,
        };
        match (self, other) {
            (Value::Double(one), Value::Double(other)) => one.partial_cmp(other),
            (Value::Double(one), other) => compare_with_whole(*one, whole(other)?),
            (one, Value::Double(other)) => Some(compare_with_whole(*other, whole(one)?)?.reverse()),
            (one, other) => Some(whole(one)?.cmp(&whole(other)?)),
        }
    }
}

fn compare_with_whole(float: f64, whole: i128) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    // Every i64 and u64 is far below; the conversion saturates.
    let floor = float.floor() as i128;
    let has_fraction = float.fract() != 0.0;
    Some(match floor.cmp(&whole) {
        Ordering::Equal if has_fraction => Ordering::Greater,
        order => order,
    })
}

/// The name of a type in errors and in `string(type(x))`.
pub(super) fn type_name(one: &Type) -> String {
    match one {
        Type::Null => "null_type".to_owned(),
        Type::List(_) => "list".to_owned(),
        Type::Map(..) => "map".to_owned(),
        Type::Meta(_) => "type".to_owned(),
        Type::Optional(_) => "optional_type".to_owned(),
        Type::Duration => "google.protobuf.Duration".to_owned(),
        Type::Timestamp => "google.protobuf.Timestamp".to_owned(),
        other => other.to_string(),
    }
}

impl<'a> Message<'a> {
    fn equals(&self, other: &Message<'a>) -> Result<bool, Why> {
        if self.name != other.name || self.fields.len() != other.fields.len() {
            return Ok(false);
        }
        for (name, value) in &self.fields {
            match other.fields.get(name) {
                Some(their) if value.equals(their)? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// A value as errors show it.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Uint(value) => value.to_string(),
        Value::Double(value) => value.to_string(),
        Value::Null => "NULL_VALUE".to_owned(),
        other => other.type_name(),
    }
}

/// Whether a list or map is equal to something else: objects refuse to be asked.
fn not_comparable(is_json: bool) -> Result<bool, Why> {
    if is_json {
        Err("no such overload".to_owned())
    } else {
        Ok(false)
    }
}
