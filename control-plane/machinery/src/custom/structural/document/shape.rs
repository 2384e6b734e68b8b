//! The JSON types of a schema's keywords, and its depth. What passes here can be read without
//! further questions.

use serde_json::Value;

use crate::custom::structural::DEPTH_MAX;
use crate::custom::structural::causes::Causes;
use crate::custom::structural::path::Path;
use crate::status::Cause;

/// The JSON type of a keyword.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    Flag,
    Number,
    Count,
    List,
    Texts,
    Objects,
    Schema,
    SchemaOrFlag,
    SchemaOrList,
    Schemas,
    Properties,
}

/// The keywords that mean something here. Others are ignored.
const KEYWORDS: &[(&str, Shape)] = &[
    ("type", Shape::Text),
    ("format", Shape::Text),
    ("pattern", Shape::Text),
    ("title", Shape::Text),
    ("description", Shape::Text),
    ("x-kubernetes-list-type", Shape::Text),
    ("x-kubernetes-map-type", Shape::Text),
    ("nullable", Shape::Flag),
    ("exclusiveMinimum", Shape::Flag),
    ("exclusiveMaximum", Shape::Flag),
    ("uniqueItems", Shape::Flag),
    ("x-kubernetes-preserve-unknown-fields", Shape::Flag),
    ("x-kubernetes-embedded-resource", Shape::Flag),
    ("x-kubernetes-int-or-string", Shape::Flag),
    ("minimum", Shape::Number),
    ("maximum", Shape::Number),
    ("multipleOf", Shape::Number),
    ("minLength", Shape::Count),
    ("maxLength", Shape::Count),
    ("minItems", Shape::Count),
    ("maxItems", Shape::Count),
    ("minProperties", Shape::Count),
    ("maxProperties", Shape::Count),
    ("enum", Shape::List),
    ("required", Shape::Texts),
    ("x-kubernetes-list-map-keys", Shape::Texts),
    ("x-kubernetes-validations", Shape::Objects),
    ("not", Shape::Schema),
    ("additionalProperties", Shape::SchemaOrFlag),
    ("items", Shape::SchemaOrList),
    ("allOf", Shape::Schemas),
    ("anyOf", Shape::Schemas),
    ("oneOf", Shape::Schemas),
    ("properties", Shape::Properties),
];

impl Shape {
    fn fits(self, value: &Value) -> bool {
        let all = |is: fn(&Value) -> bool| value.as_array().is_some_and(|list| list.iter().all(is));
        match self {
            Shape::Text => value.is_string(),
            Shape::Flag => value.is_boolean(),
            Shape::Number => value.is_number(),
            Shape::Count => value.is_i64(),
            Shape::List => value.is_array(),
            Shape::Texts => all(Value::is_string),
            Shape::Objects | Shape::Schemas => all(Value::is_object),
            Shape::Schema | Shape::Properties => value.is_object(),
            Shape::SchemaOrFlag => value.is_object() || value.is_boolean(),
            Shape::SchemaOrList => value.is_object() || value.is_array(),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Shape::Text => "must be a string",
            Shape::Flag => "must be a boolean",
            Shape::Number => "must be a number",
            Shape::Count => "must be an integer",
            Shape::List => "must be an array",
            Shape::Texts => "must be an array of strings",
            Shape::Objects | Shape::Schemas => "must be an array of objects",
            Shape::Schema | Shape::Properties => "must be an object",
            Shape::SchemaOrFlag => "must be an object or a boolean",
            Shape::SchemaOrList => "must be an object or an array",
        }
    }
}

/// The keywords with a value of the wrong type, and schemas that nest too deeply.
pub(in crate::custom::structural) fn check(schema: &Value, at: &Path) -> Causes {
    let mut causes = Causes::default();
    walk(schema, at, DEPTH_MAX, &mut causes);
    causes
}

/// The value of a keyword; a null counts as missing.
pub(in crate::custom::structural) fn get<'a>(
    schema: &'a Value,
    keyword: &str,
) -> Option<&'a Value> {
    schema.get(keyword).filter(|value| !value.is_null())
}

/// The text of a keyword; empty if it is missing.
pub(in crate::custom::structural) fn text<'a>(schema: &'a Value, keyword: &str) -> &'a str {
    schema
        .get(keyword)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Whether a keyword is true.
pub(in crate::custom::structural) fn flag(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword) == Some(&Value::Bool(true))
}

/// The items of a keyword; none if it is missing.
pub(in crate::custom::structural) fn list<'a>(schema: &'a Value, keyword: &str) -> &'a [Value] {
    match schema.get(keyword) {
        Some(Value::Array(items)) => items,
        _ => &[],
    }
}

/// The properties of a schema with their names.
pub(in crate::custom::structural) fn properties(
    schema: &Value,
) -> impl Iterator<Item = (&String, &Value)> {
    schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

/// Whether a keyword says something: Go does not distinguish an empty value from a missing one.
pub(in crate::custom::structural) fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(true) | Value::Number(_) => true,
    }
}

fn walk(schema: &Value, at: &Path, depth: usize, causes: &mut Causes) {
    if causes.is_full() {
        return;
    }
    let Value::Object(fields) = schema else {
        if !schema.is_null() {
            causes.push(mistyped(at, schema, "must be an object"));
        }
        return;
    };
    if depth == 0 {
        let why = format!("must not nest more than {DEPTH_MAX} schemas");
        causes.push(Cause::forbidden(&at.to_string(), &why));
        return;
    }
    for (keyword, shape) in KEYWORDS {
        let Some(value) = fields.get(*keyword).filter(|value| !value.is_null()) else {
            continue;
        };
        let at = at.field(keyword);
        if !shape.fits(value) {
            causes.push(mistyped(&at, value, shape.words()));
            continue;
        }
        match (shape, value) {
            (Shape::Schema | Shape::SchemaOrFlag | Shape::SchemaOrList, Value::Object(_)) => {
                walk(value, &at, depth - 1, causes);
            }
            (Shape::Schemas, Value::Array(schemas)) => {
                for (index, schema) in schemas.iter().enumerate() {
                    walk(schema, &at.index(index), depth - 1, causes);
                }
            }
            (Shape::Properties, Value::Object(properties)) => {
                for (name, property) in properties {
                    walk(property, &at.key(name), depth - 1, causes);
                }
            }
            _ => {}
        }
    }
}

fn mistyped(at: &Path, value: &Value, why: &str) -> Cause {
    Cause {
        reason: "FieldValueTypeInvalid",
        ..Cause::invalid(&at.to_string(), value, why)
    }
}
