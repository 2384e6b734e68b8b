//! An OpenAPI v2 document in protobuf, in the messages of gnostic (`openapi.v2`): the form that
//! client-go asks for. As in every proto3 encoder, empty texts, zeros and `false` are left out.

use machinery::protobuf::{put_bytes, put_fixed64, put_number};
use serde_json::{Map, Value};

use crate::http::media::yaml;

/// How the value of a key is encoded.
enum Shape {
    Text,
    Texts,
    Bool,
    Integer,
    Double,
    /// A value that may be anything, as YAML.
    Any,
    /// A list of such values.
    Anys,
    Message(&'static Message),
    /// A message whose only field, of this number, has the value.
    In(u32, &'static Shape),
    /// A message whose field of this number repeats names with their values.
    Named(u32, &'static Shape),
    /// `false` or a schema.
    Additional,
    /// The parameters of an operation or a path.
    Parameters,
    /// A list of such values.
    Each(&'static Shape),
}

/// The fields of a message, and the number of the field for keys that begin with `x-`.
struct Message {
    fields: &'static [(&'static str, u32, Shape)],
    extensions: u32,
}

static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Shape::Text),
        ("info", 2, Shape::Message(&INFO)),
        ("paths", 8, Shape::Named(2, &Shape::Message(&PATH))),
        ("definitions", 9, Shape::Named(1, &Shape::Message(&SCHEMA))),
        (
            "security",
            12,
            Shape::Each(&Shape::Named(1, &Shape::In(1, &Shape::Texts))),
        ),
        (
            "securityDefinitions",
            13,
            Shape::Named(1, &Shape::In(2, &Shape::Message(&TOKEN))),
        ),
    ],
    extensions: 16,
};
static TOKEN: Message = Message {
    fields: &[
        ("type", 1, Shape::Text),
        ("name", 2, Shape::Text),
        ("in", 3, Shape::Text),
        ("description", 4, Shape::Text),
    ],
    extensions: 5,
};
static INFO: Message = Message {
    fields: &[("title", 1, Shape::Text), ("version", 2, Shape::Text)],
    extensions: 7,
};
static PATH: Message = Message {
    fields: &[
        ("get", 2, Shape::Message(&OPERATION)),
        ("put", 3, Shape::Message(&OPERATION)),
        ("post", 4, Shape::Message(&OPERATION)),
        ("delete", 5, Shape::Message(&OPERATION)),
        ("options", 6, Shape::Message(&OPERATION)),
        ("head", 7, Shape::Message(&OPERATION)),
        ("patch", 8, Shape::Message(&OPERATION)),
        ("parameters", 9, Shape::Parameters),
    ],
    extensions: 10,
};
static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Shape::Texts),
        ("description", 3, Shape::Text),
        ("operationId", 5, Shape::Text),
        ("produces", 6, Shape::Texts),
        ("consumes", 7, Shape::Texts),
        ("parameters", 8, Shape::Parameters),
        (
            "responses",
            9,
            Shape::Named(1, &Shape::In(1, &Shape::Message(&RESPONSE))),
        ),
        ("schemes", 10, Shape::Texts),
    ],
    extensions: 13,
};
static RESPONSE: Message = Message {
    fields: &[
        ("description", 1, Shape::Text),
        ("schema", 2, Shape::In(1, &Shape::Message(&SCHEMA))),
    ],
    extensions: 5,
};
static BODY: Message = Message {
    fields: &[
        ("name", 2, Shape::Text),
        ("in", 3, Shape::Text),
        ("required", 4, Shape::Bool),
        ("schema", 5, Shape::Message(&SCHEMA)),
    ],
    extensions: 6,
};
static QUERY: Message = Message {
    fields: &[
        ("required", 1, Shape::Bool),
        ("in", 2, Shape::Text),
        ("description", 3, Shape::Text),
        ("name", 4, Shape::Text),
        ("type", 6, Shape::Text),
        ("uniqueItems", 20, Shape::Bool),
    ],
    extensions: 23,
};
static IN_PATH: Message = Message {
    fields: &[
        ("required", 1, Shape::Bool),
        ("in", 2, Shape::Text),
        ("description", 3, Shape::Text),
        ("name", 4, Shape::Text),
        ("type", 5, Shape::Text),
        ("uniqueItems", 19, Shape::Bool),
    ],
    extensions: 22,
};
static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Shape::Text),
        ("format", 2, Shape::Text),
        ("title", 3, Shape::Text),
        ("description", 4, Shape::Text),
        ("default", 5, Shape::Any),
        ("multipleOf", 6, Shape::Double),
        ("maximum", 7, Shape::Double),
        ("exclusiveMaximum", 8, Shape::Bool),
        ("minimum", 9, Shape::Double),
        ("exclusiveMinimum", 10, Shape::Bool),
        ("maxLength", 11, Shape::Integer),
        ("minLength", 12, Shape::Integer),
        ("pattern", 13, Shape::Text),
        ("maxItems", 14, Shape::Integer),
        ("minItems", 15, Shape::Integer),
        ("uniqueItems", 16, Shape::Bool),
        ("maxProperties", 17, Shape::Integer),
        ("minProperties", 18, Shape::Integer),
        ("required", 19, Shape::Texts),
        ("enum", 20, Shape::Anys),
        ("additionalProperties", 21, Shape::Additional),
        ("type", 22, Shape::In(1, &Shape::Text)),
        ("items", 23, Shape::In(1, &Shape::Message(&SCHEMA))),
        ("properties", 25, Shape::Named(1, &Shape::Message(&SCHEMA))),
    ],
    extensions: 31,
};

/// Encodes a document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    message(&DOCUMENT, document)
}

fn message(of: &Message, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let Some(value) = value.as_object() else {
        return out;
    };
    for (key, number, shape) in of.fields {
        if let Some(value) = value.get(*key) {
            put(&mut out, *number, shape, value);
        }
    }
    for (key, value) in value.iter().filter(|(key, _)| key.starts_with("x-")) {
        put_named(&mut out, of.extensions, &Shape::Any, (key, value));
    }
    out
}

fn put(out: &mut Vec<u8>, number: u32, shape: &Shape, value: &Value) {
    match shape {
        Shape::Text => match value.as_str() {
            None | Some("") => {}
            Some(text) => put_bytes(out, number, text.as_bytes()),
        },
        Shape::Texts => {
            let texts = value.as_array().into_iter().flatten();
            for text in texts.filter_map(Value::as_str) {
                put_bytes(out, number, text.as_bytes());
            }
        }
        Shape::Bool => {
            if value == true {
                put_number(out, number, 1);
            }
        }
        // Schemas may write an integer with a decimal point.
        Shape::Integer => match value.as_i64().or(value.as_f64().map(|float| float as i64)) {
            None | Some(0) => {}
            Some(integer) => put_number(out, number, integer as u64),
        },
        Shape::Double => match value.as_f64() {
            None | Some(0.0) => {}
            Some(double) => put_fixed64(out, number, double.to_bits()),
        },
        Shape::Any => {
            let mut any = Vec::new();
            put_bytes(&mut any, 2, yaml::write(value).as_bytes());
            put_bytes(out, number, &any);
        }
        Shape::Anys => {
            for value in value.as_array().into_iter().flatten() {
                put(out, number, &Shape::Any, value);
            }
        }
        Shape::Message(of) => put_bytes(out, number, &message(of, value)),
        Shape::In(field, inner) => {
            let mut outer = Vec::new();
            put(&mut outer, *field, inner, value);
            put_bytes(out, number, &outer);
        }
        Shape::Named(field, inner) => {
            let mut outer = Vec::new();
            for pair in value.as_object().into_iter().flat_map(Map::iter) {
                put_named(&mut outer, *field, inner, pair);
            }
            put_bytes(out, number, &outer);
        }
        Shape::Additional => put_additional(out, number, value),
        Shape::Each(inner) => {
            for value in value.as_array().into_iter().flatten() {
                put(out, number, inner, value);
            }
        }
        Shape::Parameters => {
            for one in value.as_array().into_iter().flatten() {
                put_bytes(out, number, &chosen(1, &parameter(one)));
            }
        }
    }
}

/// A name with its value.
fn put_named(out: &mut Vec<u8>, number: u32, shape: &Shape, (name, value): (&String, &Value)) {
    let mut pair = Vec::new();
    put(&mut pair, 1, &Shape::Text, &name.as_str().into());
    put(&mut pair, 2, shape, value);
    put_bytes(out, number, &pair);
}

fn put_additional(out: &mut Vec<u8>, number: u32, value: &Value) {
    let mut choice = Vec::new();
    match value {
        // A choice shows its value even if that is `false`.
        Value::Bool(any) => put_number(&mut choice, 2, u64::from(*any)),
        schema => put(&mut choice, 1, &Shape::Message(&SCHEMA), schema),
    }
    put_bytes(out, number, &choice);
}

/// A `Parameter`: a body, or one of the kinds that are none.
fn parameter(value: &Value) -> Vec<u8> {
    match value["in"].as_str() {
        Some("body") => chosen(1, &message(&BODY, value)),
        Some("path") => chosen(2, &chosen(4, &message(&IN_PATH, value))),
        _ => chosen(2, &chosen(3, &message(&QUERY, value))),
    }
}

/// A message in which one field of several is chosen.
fn chosen(number: u32, message: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_bytes(&mut out, number, message);
    out
}
