//! The types of a custom resource, from the schema that its author wrote.

use std::collections::BTreeMap;

use serde_json::Value;

use super::typing::{
    Forms, Identity, List, Map, Member, Scalar, Typing, UntypedAtomic, UntypedDeduced,
};
use crate::schema::{self, Message, Type};

/// The type that a schema describes.
#[derive(Debug)]
pub struct Custom {
    kind: Kind,
    fields: BTreeMap<String, Declared>,
    /// Fields that are not declared.
    other: Other,
    items: Option<Box<Custom>>,
    identity: Relation,
    /// A map is owned as a whole.
    atomic: bool,
}

#[derive(Debug)]
struct Declared {
    typing: FieldType,
    default: Option<Value>,
}

#[derive(Debug)]
enum FieldType {
    Custom(Custom),
    Text,
    Metadata,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Any,
    Map,
    List,
    Scalar(Scalar),
}

#[derive(Debug)]
enum Other {
    None,
    UntypedDeduced,
    Each(Box<Custom>),
}

#[derive(Debug)]
enum Relation {
    Atomic,
    Value,
    Keys(Vec<String>),
}

static TEXT: Type = Type::String(None);

impl Custom {
    /// Reads the `openAPIV3Schema` of a whole object.
    pub fn of_object(schema: &Value) -> Custom {
        let mut root = Custom::read(schema, false);
        root.add_metadata();
        root
    }

    /// Reads a schema of the shape that structural schemas have. `preserves` is true if a schema
    /// around it keeps unknown fields.
    fn read(schema: &Value, preserves: bool) -> Custom {
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
        let flag = |key: &str| schema.get(key) == Some(&Value::Bool(true));
        let preserves = preserves || flag("x-kubernetes-preserve-unknown-fields");
        let properties = schema.get("properties").and_then(Value::as_object);
        let declared = |(name, property): (&String, &Value)| {
            let one = Declared {
                typing: FieldType::Custom(Custom::read(property, preserves)),
                default: property.get("default").cloned(),
            };
            (name.clone(), one)
        };
        let fields: BTreeMap<_, _> = properties.into_iter().flatten().map(declared).collect();
        let other = match schema.get("additionalProperties") {
            Some(each @ Value::Object(_)) => Other::Each(Box::new(Custom::read(each, preserves))),
            Some(Value::Bool(true)) => Other::UntypedDeduced,
            Some(Value::Bool(false)) => Other::None,
            _ if preserves || fields.is_empty() => Other::UntypedDeduced,
            _ => Other::None,
        };
        let items = schema.get("items").filter(|items| items.is_object());
        let mut read = Custom {
            kind: kind_of(text("type"), text("format")),
            fields,
            other,
            items: items.map(|items| Box::new(Custom::read(items, preserves))),
            identity: relation(schema),
            atomic: text("x-kubernetes-map-type") == "atomic",
        };
        if flag("x-kubernetes-embedded-resource") {
            read.add_metadata();
        }
        read
    }

    /// A whole object has a type and metadata, whatever its schema says.
    fn add_metadata(&mut self) {
        for (name, typing) in [
            ("apiVersion", FieldType::Text),
            ("kind", FieldType::Text),
            ("metadata", FieldType::Metadata),
        ] {
            let default = None;
            self.fields
                .insert(name.to_owned(), Declared { typing, default });
        }
    }

    /// True for a map of which nothing is declared.
    fn is_deduced(&self) -> bool {
        let any = match &self.other {
            Other::UntypedDeduced => true,
            Other::Each(each) => matches!(each.kind, Kind::Any | Kind::Scalar(Scalar::Any)),
            Other::None => false,
        };
        any && self.fields.is_empty()
    }
}

fn kind_of(name: &str, format: &str) -> Kind {
    match name {
        "object" => Kind::Map,
        "array" => Kind::List,
        "integer" | "number" => Kind::Scalar(Scalar::Number),
        "boolean" => Kind::Scalar(Scalar::Boolean),
        "string" if ["", "byte"].contains(&format) => Kind::Scalar(Scalar::Text),
        "string" => Kind::Scalar(Scalar::Any),
        _ => Kind::Any,
    }
}

fn relation(schema: &Value) -> Relation {
    match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => Relation::Value,
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys");
            let keys = keys.and_then(Value::as_array).into_iter().flatten();
            Relation::Keys(keys.filter_map(Value::as_str).map(str::to_owned).collect())
        }
        _ => Relation::Atomic,
    }
}

fn metadata() -> &'static Message {
    schema::message("meta/v1.ObjectMeta").expect("the table has the metadata of all objects")
}

impl Typing for Custom {
    fn forms(&self) -> Forms<'_> {
        let list = || List {
            identity: match &self.identity {
                Relation::Atomic => Identity::Atomic,
                Relation::Value => Identity::Value,
                Relation::Keys(keys) => Identity::Keys(keys.iter().map(String::as_str).collect()),
            },
            item: match &self.items {
                Some(items) => &**items,
                None => &UntypedAtomic,
            },
        };
        let map = || Map {
            atomic: self.atomic,
            other: match &self.other {
                Other::None => None,
                Other::UntypedDeduced => Some(&UntypedDeduced),
                Other::Each(each) => Some(&**each),
            },
            deduced: self.is_deduced(),
        };
        match self.kind {
            Kind::Scalar(scalar) => Forms::scalar(scalar),
            Kind::List => Forms {
                list: Some(list()),
                ..Forms::default()
            },
            Kind::Map => Forms {
                map: Some(map()),
                ..Forms::default()
            },
            Kind::Any => Forms {
                scalar: Some(Scalar::Any),
                list: Some(list()),
                map: Some(map()),
            },
        }
    }

    fn field(&self, name: &str) -> Option<Member<'_>> {
        let declared = self.fields.get(name)?;
        Some(Member {
            typing: match &declared.typing {
                FieldType::Custom(custom) => custom,
                FieldType::Text => &TEXT,
                FieldType::Metadata => metadata(),
            },
            default: declared.default.as_ref(),
        })
    }
}
