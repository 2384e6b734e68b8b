//! The tree of a schema: only what the passes over objects need.

use std::collections::BTreeMap;

mod field_path;
pub(super) mod format;
mod rule;

use serde_json::{Map, Value};

pub(super) use field_path::normalised;
pub(super) use rule::Rule;

use crate::values::pattern::{Pattern, Patterns};
use format::Format;

/// One schema. It describes a value, or restricts one that another schema describes.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// `None` for any type.
    pub(super) kind: Option<Kind>,
    pub(super) nullable: bool,
    /// Unknown fields stay.
    pub(super) preserve: bool,
    /// The value is a whole object with type and metadata.
    pub(super) embedded: bool,
    pub(super) list: List,
    /// Never null.
    pub(super) default: Option<Value>,
    pub(super) properties: BTreeMap<String, Node>,
    pub(super) additional: Additional,
    pub(super) items: Option<Box<Node>>,
    /// Rules in CEL.
    pub(super) rules: Vec<Rule>,
    pub(super) checks: Option<Box<Checks>>,
}

/// A type of JSON values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    IntOrString,
}

/// What makes two items of a list the same item.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum List {
    /// Nothing: the list is one value.
    #[default]
    Atomic,
    /// Being equal.
    Set,
    /// Equal values of these fields.
    Map(Vec<String>),
}

/// Fields that `properties` does not have.
#[derive(Debug, Default)]
pub(super) enum Additional {
    #[default]
    Unset,
    Denied,
    Any,
    Each(Box<Node>),
}

/// What a value must satisfy beyond its type.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub(super) format: Option<Format>,
    pub(super) pattern: Option<Pattern>,
    pub(super) minimum: Option<Bound>,
    pub(super) maximum: Option<Bound>,
    pub(super) multiple_of: Option<f64>,
    pub(super) min_length: Option<i64>,
    pub(super) max_length: Option<i64>,
    pub(super) min_items: Option<i64>,
    pub(super) max_items: Option<i64>,
    pub(super) min_properties: Option<i64>,
    pub(super) max_properties: Option<i64>,
    /// Empty for any value.
    pub(super) allowed: Vec<Value>,
    pub(super) required: Vec<String>,
    pub(super) all_of: Vec<Node>,
    pub(super) any_of: Vec<Node>,
    pub(super) one_of: Vec<Node>,
    pub(super) not: Option<Box<Node>>,
}

/// A limit of a number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) limit: f64,
    /// Whether the limit itself is not allowed.
    pub(super) exclusive: bool,
}

impl Kind {
    /// The word in a schema, or several with commas, as messages have it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::Object => "object",
            Kind::Array => "array",
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Boolean => "boolean",
            Kind::IntOrString => "integer,string",
        }
    }

    fn read(word: &str) -> Option<Kind> {
        let kinds = [
            Kind::Object,
            Kind::Array,
            Kind::String,
            Kind::Integer,
            Kind::Number,
            Kind::Boolean,
        ];
        kinds.into_iter().find(|kind| kind.word() == word)
    }
}

impl Node {
    /// Reads a schema whose shape is checked: what has another shape counts as missing.
    pub(super) fn read(schema: &Value, patterns: &mut Patterns) -> Node {
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
        let flag = |key: &str| schema.get(key) == Some(&Value::Bool(true));
        let kind = if flag("x-kubernetes-int-or-string") {
            Some(Kind::IntOrString)
        } else {
            Kind::read(text("type"))
        };
        let properties = schema.get("properties").and_then(Value::as_object);
        let checks = Checks::read(schema, kind, patterns);
        Node {
            kind,
            nullable: flag("nullable"),
            preserve: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            list: match text("x-kubernetes-list-type") {
                "set" => List::Set,
                "map" => List::Map(texts(schema, "x-kubernetes-list-map-keys")),
                _ => List::Atomic,
            },
            default: schema.get("default").filter(|one| !one.is_null()).cloned(),
            properties: properties
                .into_iter()
                .flatten()
                .map(|(name, property)| (name.clone(), Node::read(property, patterns)))
                .collect(),
            additional: match schema.get("additionalProperties") {
                Some(Value::Bool(false)) => Additional::Denied,
                Some(Value::Bool(true)) => Additional::Any,
                Some(each @ Value::Object(_)) => {
                    Additional::Each(Box::new(Node::read(each, patterns)))
                }
                _ => Additional::Unset,
            },
            items: schema
                .get("items")
                .filter(|items| items.is_object())
                .map(|items| Box::new(Node::read(items, patterns))),
            rules: schema
                .get("x-kubernetes-validations")
                .and_then(Value::as_array)
                .map(|rules| rules.iter().map(|rule| Rule::read(rule, schema)).collect())
                .unwrap_or_default(),
            checks,
        }
    }

    /// The schema of this field of an object.
    pub(super) fn of_field(&self, name: &str) -> Option<&Node> {
        match (self.properties.get(name), &self.additional) {
            (Some(property), _) => Some(property),
            (None, Additional::Each(each)) => Some(each),
            (None, _) => None,
        }
    }

    /// True if pruning and defaulting make the same of every value.
    pub(super) fn keeps_like(&self, other: &Node) -> bool {
        let flags = |node: &Node| (node.nullable, node.preserve, node.embedded);
        let same_properties = self.properties.len() == other.properties.len()
            && self.properties.iter().all(|(name, property)| {
                let others = other.properties.get(name);
                others.is_some_and(|others| property.keeps_like(others))
            });
        let same_additional = match (&self.additional, &other.additional) {
            (Additional::Each(one), Additional::Each(other)) => one.keeps_like(other),
            (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
        };
        let same_items = match (&self.items, &other.items) {
            (Some(one), Some(other)) => one.keeps_like(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        flags(self) == flags(other)
            && self.default == other.default
            && same_properties
            && same_additional
            && same_items
    }

    /// Whether this schema or one within it has rules in CEL.
    pub(super) fn has_rules(&self) -> bool {
        let additional = match &self.additional {
            Additional::Each(each) => Some(&**each),
            _ => None,
        };
        let within = self.properties.values().chain(self.items.as_deref());
        !self.rules.is_empty() || within.chain(additional).any(Node::has_rules)
    }
}

impl Checks {
    fn read(schema: &Value, kind: Option<Kind>, patterns: &mut Patterns) -> Option<Box<Checks>> {
        let fields = schema.as_object()?;
        let count = |key: &str| schema.get(key).and_then(as_i64);
        let number = |key: &str| schema.get(key).and_then(Value::as_f64);
        let bound = |key: &str, exclusive: &str| {
            number(key).map(|limit| Bound {
                limit,
                exclusive: schema.get(exclusive) == Some(&Value::Bool(true)),
            })
        };
        let text = |key: &str| schema.get(key).and_then(Value::as_str);
        let checks = Checks {
            format: text("format").and_then(|name| format::find(name, kind)),
            pattern: text("pattern")
                .filter(|pattern| !pattern.is_empty())
                .and_then(|pattern| patterns.compile(pattern).ok()),
            minimum: bound("minimum", "exclusiveMinimum"),
            maximum: bound("maximum", "exclusiveMaximum"),
            multiple_of: number("multipleOf"),
            min_length: count("minLength"),
            max_length: count("maxLength"),
            min_items: count("minItems"),
            max_items: count("maxItems"),
            min_properties: count("minProperties"),
            max_properties: count("maxProperties"),
            allowed: list(fields, "enum").to_vec(),
            required: texts(schema, "required"),
            all_of: nodes(fields, "allOf", patterns),
            any_of: nodes(fields, "anyOf", patterns),
            one_of: nodes(fields, "oneOf", patterns),
            not: schema
                .get("not")
                .filter(|not| not.is_object())
                .map(|not| Box::new(Node::read(not, patterns))),
        };
        Some(Box::new(checks)).filter(|_| fields.keys().any(|key| is_check(key)))
    }
}

/// An integer of JSON, also one that is written with a decimal point.
fn as_i64(value: &Value) -> Option<i64> {
    let whole = |float: f64| (float.fract() == 0.0).then_some(float as i64);
    value.as_i64().or_else(|| value.as_f64().and_then(whole))
}

fn is_check(keyword: &str) -> bool {
    matches!(
        keyword,
        "format"
            | "pattern"
            | "minimum"
            | "maximum"
            | "multipleOf"
            | "minLength"
            | "maxLength"
            | "minItems"
            | "maxItems"
            | "minProperties"
            | "maxProperties"
            | "enum"
            | "required"
            | "allOf"
            | "anyOf"
            | "oneOf"
            | "not"
    )
}

fn nodes(fields: &Map<String, Value>, key: &str, patterns: &mut Patterns) -> Vec<Node> {
    let schemas = list(fields, key).iter();
    schemas.map(|schema| Node::read(schema, patterns)).collect()
}

fn list<'a>(fields: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    match fields.get(key) {
        Some(Value::Array(items)) => items,
        _ => &[],
    }
}

/// The texts of a list in a schema.
pub(super) fn texts(schema: &Value, key: &str) -> Vec<String> {
    let items = schema.get(key).and_then(Value::as_array);
    let texts = items.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}
