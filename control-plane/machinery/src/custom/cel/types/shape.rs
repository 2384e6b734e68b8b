//! What is known of JSON values: their types in expressions, and how large they may be.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Type;
use crate::custom::cel::syntax::parse::RESERVED;

/// The most bytes of a request: what bounds values that their schemas do not.
pub(crate) const REQUEST_MAX: i64 = 3 << 20;
/// The least bytes of JSON values of some types, and the most of some formats. They follow
/// Kubernetes', because they decide which rules are too expensive to be stored.
const STRING_MIN: i64 = 2;
const DURATION_MIN: i64 = 3;
const DATE_SIZE: i64 = 12;
const DATE_TIME_MIN: i64 = 21;
const MOMENT_MAX: i64 = 32;

/// Words that are no names in expressions, beside [`RESERVED`].
const LITERALS: [&str; 4] = ["true", "false", "null", "in"];

/// What a schema says of a value.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) kind: ShapeKind,
    /// Its type in expressions.
    pub(crate) kind_of: Type,
    pub(crate) nullable: bool,
    /// The most items, entries, characters or bytes.
    pub(crate) elements_max: i64,
    /// The least bytes of the value as JSON.
    pub(crate) size_min: i64,
}

#[derive(Debug)]
pub(crate) enum ShapeKind {
    /// Any JSON value, without a schema.
    Any,
    IntOrString,
    Bool,
    Integer,
    Number,
    String,
    Bytes,
    Duration,
    Date,
    DateTime,
    List(Arc<Shape>, Identity),
    Map(Arc<Shape>),
    /// An object with fields.
    Object(Fields),
    /// A value that no expression can look into.
    Hidden,
}

/// What makes two items of a list the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Their place.
    Atomic,
    /// Being equal.
    Set,
    /// Equal values of these keys.
    Map(Vec<String>),
}

/// The fields of an object by their names in JSON.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    pub(crate) all: BTreeMap<String, Arc<Shape>>,
    /// The names in JSON of fields that expressions can name, by those names.
    pub(crate) escaped: BTreeMap<String, String>,
}

impl Shape {
    /// Any JSON value.
    pub(crate) fn any() -> Shape {
        Shape::new(ShapeKind::Any, Type::Dyn, 0, 1)
    }

    /// A quantity, which expressions compare by its own functions.
    pub(crate) fn quantity() -> Shape {
        let kind_of = Type::Struct("kubernetes.Quantity".into());
        Shape::new(ShapeKind::Hidden, kind_of, 0, 1)
    }

    pub(crate) fn hidden() -> Shape {
        Shape::new(ShapeKind::Hidden, Type::Dyn, 0, 1)
    }

    pub(crate) fn boolean() -> Shape {
        Shape::new(ShapeKind::Bool, Type::Bool, 0, 4)
    }

    pub(crate) fn integer() -> Shape {
        Shape::new(ShapeKind::Integer, Type::Int, 0, 1)
    }

    pub(crate) fn number() -> Shape {
        Shape::new(ShapeKind::Number, Type::Double, 0, 1)
    }

    /// An integer or a string of at most this many characters.
    pub(crate) fn int_or_string(length_max: Option<i64>) -> Shape {
        let elements_max = length_max.map_or(REQUEST_MAX - 2, in_bytes);
        Shape::new(ShapeKind::IntOrString, Type::Dyn, elements_max, 1)
    }

    /// A string of a format, of at most this many characters, or one of these values.
    pub(crate) fn string(format: &str, length_max: Option<i64>, allowed: &[&str]) -> Shape {
        let longest = allowed.iter().map(|one| one.len()).max();
        match format {
            "byte" => {
                let elements_max = length_max.map_or(REQUEST_MAX - 2, |max| max.max(0));
                Shape::new(ShapeKind::Bytes, Type::Bytes, elements_max, STRING_MIN)
            }
            "duration" => Shape::new(
                ShapeKind::Duration,
                Type::Duration,
                MOMENT_MAX,
                DURATION_MIN,
            ),
            "date" => Shape::new(ShapeKind::Date, Type::Timestamp, DATE_SIZE, DATE_SIZE),
            "date-time" => Shape::new(
                ShapeKind::DateTime,
                Type::Timestamp,
                MOMENT_MAX,
                DATE_TIME_MIN,
            ),
            _ => {
                let elements_max = match (length_max, longest) {
                    (Some(max), _) => in_bytes(max),
                    (None, Some(longest)) => i64::try_from(longest).unwrap_or(i64::MAX),
                    (None, None) => REQUEST_MAX - 2,
                };
                Shape::new(ShapeKind::String, Type::String, elements_max, STRING_MIN)
            }
        }
    }

    pub(crate) fn list(items: Arc<Shape>, identity: Identity, items_max: Option<i64>) -> Shape {
        let elements_max =
            items_max.map_or((REQUEST_MAX - 2) / (items.size_min + 1), |max| max.max(0));
        let kind_of = Type::list(items.kind_of.clone());
        Shape::new(ShapeKind::List(items, identity), kind_of, elements_max, 2)
    }

    pub(crate) fn map(values: Arc<Shape>, entries_max: Option<i64>) -> Shape {
        // A key takes at least its quotes, a colon and a comma beside itself.
        let elements_max =
            entries_max.map_or((REQUEST_MAX - 2) / (values.size_min + 6), |max| max.max(0));
        let kind_of = Type::map(Type::String, values.kind_of.clone());
        Shape::new(ShapeKind::Map(values), kind_of, elements_max, 2)
    }

    /// An object. `name` names its type, and `required` fields that every request has to have.
    pub(crate) fn object(
        name: &str,
        fields: BTreeMap<String, Arc<Shape>>,
        required: &dyn Fn(&str) -> bool,
    ) -> Shape {
        let mut size_min = 2;
        let mut escaped = BTreeMap::new();
        for (field, shape) in &fields {
            if matches!(shape.kind, ShapeKind::Hidden) {
                continue;
            }
            if let Some(name) = escape(field) {
                escaped.insert(name, field.clone());
            }
            if required(field) {
                let length = i64::try_from(field.len()).unwrap_or(i64::MAX);
                size_min += length + shape.size_min + 4;
            }
        }
        let fields = Fields {
            all: fields,
            escaped,
        };
        let kind_of = Type::Struct(name.into());
        Shape::new(ShapeKind::Object(fields), kind_of, 0, size_min)
    }

    pub(crate) fn or_null(mut self, nullable: bool) -> Shape {
        self.nullable = nullable;
        self
    }

    /// Whether no expression can look into the value.
    pub(crate) fn is_hidden(&self) -> bool {
        matches!(self.kind, ShapeKind::Hidden)
    }

    /// The field of an object by its name in expressions.
    pub(crate) fn field(&self, name: &str) -> Option<&Arc<Shape>> {
        match &self.kind {
            ShapeKind::Object(fields) => fields.all.get(fields.named(name)?),
            _ => None,
        }
    }

    /// What a path leads to. Its steps are fields, `@items`, `@keys` and `@values`; `None` for
    /// the keys of a map, and for what no schema describes.
    pub(crate) fn at(&self, path: &[String]) -> Option<Place<'_>> {
        let mut place = Place::Shape(self);
        for step in path {
            let Place::Shape(shape) = place else {
                return None;
            };
            place = match (&shape.kind, step.as_str()) {
                (ShapeKind::List(items, _), "@items" | "@values") => Place::Shape(items),
                (ShapeKind::Map(values), "@items" | "@values") => Place::Shape(values),
                (ShapeKind::Map(_), "@keys") => Place::Key,
                (_, "@items" | "@values" | "@keys") => return None,
                (_, name) => Place::Shape(shape.field(name)?),
            };
        }
        Some(place)
    }

    fn new(kind: ShapeKind, kind_of: Type, elements_max: i64, size_min: i64) -> Shape {
        Shape {
            kind,
            kind_of,
            nullable: false,
            elements_max,
            size_min,
        }
    }
}

impl Fields {
    /// The name in JSON of a field that an expression names. A reserved word may stand for itself.
    pub(crate) fn named(&self, name: &str) -> Option<&String> {
        let reserved = || is_reserved(name).then(|| self.escaped.get(&format!("__{name}__")))?;
        self.escaped.get(name).or_else(reserved)
    }
}

/// Where a path leads.
pub(crate) enum Place<'a> {
    Shape(&'a Shape),
    Key,
}

impl Place<'_> {
    pub(crate) fn elements_max(&self) -> u64 {
        match self {
            Place::Shape(shape) => u64::try_from(shape.elements_max).unwrap_or(0),
            Place::Key => 0,
        }
    }
}

/// The name of a field in expressions; `None` if it has none.
pub(crate) fn escape(name: &str) -> Option<String> {
    let first = name.bytes().next()?;
    if first.is_ascii_digit() {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            escaped.push_str("__underscores__");
            rest = after;
            continue;
        }
        match c {
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            c if c.is_ascii_alphanumeric() || c == '_' => escaped.push(c),
            _ => return None,
        }
        rest = &rest[1..];
    }
    Some(escaped)
}

/// True if a word is no name in expressions.
pub fn is_reserved(name: &str) -> bool {
    LITERALS.contains(&name) || RESERVED.contains(&name)
}

/// A length in characters as bytes: a character has at most four.
fn in_bytes(characters: i64) -> i64 {
    characters.max(0).saturating_mul(4)
}
