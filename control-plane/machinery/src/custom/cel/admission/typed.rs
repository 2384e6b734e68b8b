//! Checks expressions of policies against the kinds that they are about.
//!
//! This only warns the author: what an expression sees is read without a schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Compiler, types};
use crate::custom::cel::PATTERNS_BYTES_MAX;
use crate::custom::cel::check::check;
use crate::custom::cel::issue;
use crate::custom::cel::literals;
use crate::custom::cel::syntax::parse::parse;
use crate::custom::cel::types::Type;
use crate::custom::cel::types::shape::{Identity, Shape};
use crate::schema::{self, Field, Message, MessageId};
use crate::values::pattern::Patterns;

/// The type that expressions see of the objects of a kind.
#[derive(Debug, Clone)]
pub struct ObjectType(pub(crate) Arc<Shape>);

/// A message contains itself.
struct Recursive;

type Made = Result<Shape, Recursive>;

impl ObjectType {
    /// The type of a built-in kind; `None` for one whose objects nest without end.
    pub fn builtin(kind: &str, message: &'static Message) -> Option<ObjectType> {
        let made = object(message, kind, &mut Vec::new());
        made.ok().map(|shape| ObjectType(Arc::new(shape)))
    }

    /// The type of a custom resource, with all fields of metadata.
    pub(crate) fn custom(kind: &str, shape: Shape) -> Option<ObjectType> {
        let crate::custom::cel::ShapeKind::Object(fields) = shape.kind else {
            return None;
        };
        let mut all = fields.all;
        if let Some(message) = schema::message("meta/v1.ObjectMeta") {
            let metadata = object(message, &format!("{kind}.metadata"), &mut Vec::new());
            all.insert("metadata".to_owned(), Arc::new(metadata.ok()?));
        }
        Some(ObjectType(Arc::new(Shape::object(kind, all, &|_| false))))
    }
}

impl Compiler {
    /// A compiler whose `object` and `params` have types; `None` for any. It only checks.
    pub fn typed(object: &ObjectType, params: Option<Option<&ObjectType>>) -> Compiler {
        Compiler {
            has_params: params.is_some(),
            composed: Some(Arc::default()),
            object: Some(object.clone()),
            params: params.flatten().cloned(),
        }
    }

    /// Adds a variable, whether or not it fits.
    pub fn add_typed(&mut self, name: &str, source: &str) {
        let found = self.found(source).unwrap_or(Type::Dyn);
        self.declare(name, types::declared(&found));
    }

    /// What is wrong with an expression; `None` if nothing is.
    pub fn issues(&self, source: &str) -> Option<String> {
        self.found(source).err()
    }

    fn found(&self, source: &str) -> Result<Type, String> {
        let told = |issues: &[issue::Issue]| issue::tell(source, issues);
        let expr = parse(source).map_err(|issue| told(&[issue]))?;
        let environment = self.environment(super::Wanted::Any, true);
        let checked = check(&expr, &environment).map_err(|issues| told(&issues))?;
        let mut patterns = Patterns::within(PATTERNS_BYTES_MAX);
        let issues = literals::check(&expr, &checked, &mut patterns);
        if issues.is_empty() {
            Ok(checked.types[expr.id].clone())
        } else {
            Err(told(&issues))
        }
    }
}

/// `open` has the messages around this one.
fn object(message: &'static Message, name: &str, open: &mut Vec<&'static str>) -> Made {
    if open.contains(&message.name) {
        return Err(Recursive);
    }
    open.push(message.name);
    let mut fields = BTreeMap::new();
    if message.typed {
        for field in ["apiVersion", "kind"] {
            fields.insert(field.to_owned(), Arc::new(text("")));
        }
    }
    add_fields(message, name, open, &mut fields)?;
    open.pop();
    Ok(Shape::object(name, fields, &|_| false))
}

fn add_fields(
    message: &'static Message,
    name: &str,
    open: &mut Vec<&'static str>,
    fields: &mut BTreeMap<String, Arc<Shape>>,
) -> Result<(), Recursive> {
    for Field {
        name: field,
        kind,
        inline,
        ..
    } in &message.fields
    {
        if let (true, schema::Type::Message(id)) = (inline, kind) {
            add_fields(id.get(), name, open, fields)?;
        } else {
            let shape = value(kind, &format!("{name}.{field}"), open)?;
            fields.insert((*field).to_owned(), Arc::new(shape));
        }
    }
    Ok(())
}

/// What Kubernetes' schema of a type shows to expressions: no quantities, for example.
fn value(kind: &'static schema::Type, name: &str, open: &mut Vec<&'static str>) -> Made {
    use schema::Type as Of;
    Ok(match kind {
        Of::String(_) | Of::Duration => text(""),
        Of::Bool => Shape::boolean(),
        Of::Int32 | Of::Int64 => Shape::integer(),
        Of::Float64 => Shape::number(),
        Of::Bytes => text("byte"),
        Of::Time | Of::MicroTime => text("date-time"),
        Of::IntOrString => Shape::int_or_string(None),
        Of::Message(id) => return message(*id, name, open),
        Of::List(item) => {
            let item = value(item, &format!("{name}.@idx"), open)?;
            if item.is_hidden() {
                item
            } else {
                Shape::list(Arc::new(item), Identity::Atomic, None)
            }
        }
        Of::Map(item) => {
            let item = value(item, &format!("{name}.@elem"), open)?;
            if item.is_hidden() {
                item
            } else {
                Shape::map(Arc::new(item), None)
            }
        }
        Of::Raw | Of::Fields => Shape::object(name, BTreeMap::new(), &|_| false),
        Of::Quantity | Of::Json | Of::SchemaOrArray | Of::SchemaOrBool | Of::SchemaOrStrings => {
            Shape::hidden()
        }
    })
}

fn message(id: MessageId, name: &str, open: &mut Vec<&'static str>) -> Made {
    let message = id.get();
    match message.fields.first() {
        Some(only) if message.list => value(&only.kind, name, open),
        _ => object(message, name, open),
    }
}

fn text(format: &str) -> Shape {
    Shape::string(format, None, &[])
}
