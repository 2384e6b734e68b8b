//! All changes of single fields of an object that the schema of its kind suggests.

use machinery::schema::{Field, Message, Type};
use serde_json::{Map, Value, json};

use super::mutation::{Mutation, Step};

/// Longer than any text that has a limit, except annotations.
const LONG: usize = 300;
/// The items of a list whose fields are changed.
const ITEMS_MAX: usize = 30;

/// The changes of all fields below some, except of the object's type and metadata.
pub(super) fn changes(
    message: &'static Message,
    object: &Value,
    without: &[&str],
) -> Vec<Mutation> {
    let mut all = All::default();
    all.fields(message, object, without, true);
    all.mutations
}

#[derive(Default)]
struct All {
    path: Vec<Step>,
    mutations: Vec<Mutation>,
}

impl All {
    fn push(&mut self, value: Value) {
        self.add(Some(value));
    }

    fn add(&mut self, value: Option<Value>) {
        let before = self.mutations.iter().rev();
        let rank = before.take_while(|one| one.path == self.path).count();
        self.mutations.push(Mutation {
            path: self.path.clone(),
            value,
            rank: u32::try_from(rank).unwrap(),
        });
    }

    /// Makes changes one step further down.
    fn below(&mut self, step: Step, change: impl FnOnce(&mut All)) {
        self.path.push(step);
        change(self);
        self.path.pop();
    }

    /// The changes of an object's fields; of those that are not set only if `absent` is true.
    fn fields(
        &mut self,
        message: &'static Message,
        object: &Value,
        without: &[&str],
        absent: bool,
    ) {
        for field in flat(message) {
            if without.contains(&field.name) {
                continue;
            }
            self.below(Step::Key(field.name.to_owned()), |all| {
                match object.get(field.name) {
                    Some(value) => {
                        all.add(None);
                        all.value(&field.kind, value);
                    }
                    None if absent => samples(&field.kind)
                        .into_iter()
                        .for_each(|value| all.push(value)),
                    None => {}
                }
            });
        }
    }

    /// The changes of a value that is there.
    fn value(&mut self, kind: &Type, value: &Value) {
        match (kind, value) {
            (Type::List(of), Value::Array(items)) => self.list(of, items),
            (Type::Map(of), Value::Object(map)) => self.map(of, map),
            (Type::Message(id), _) if id.get().list => {
                let field = &id.get().fields[0];
                self.value(&field.kind, value);
            }
            (Type::Message(id), _) => {
                self.push(json!({}));
                self.fields(id.get(), value, &[], true);
                self.push(json!("x"));
            }
            (Type::String(_), Value::String(text)) => {
                for other in [
                    String::new(),
                    "Bad_Value!".into(),
                    format!("{text}2"),
                    "x".repeat(LONG),
                ] {
                    self.push(Value::from(other));
                }
                self.push(json!(5));
            }
            (Type::Bool, _) => {
                self.push(json!(*value != json!(true)));
                self.push(json!("yes"));
            }
            (Type::Int32 | Type::Int64, Value::Number(number)) => {
                let next = number.as_i64().unwrap_or_default() + 1;
                for other in [
                    json!(-1),
                    json!(0),
                    json!(next),
                    json!(1_000_000),
                    json!("x"),
                ] {
                    self.push(other);
                }
            }
            (Type::Quantity, _) => {
                for other in ["-1", "0", "1x", "7", "1500m"] {
                    self.push(json!(other));
                }
            }
            (Type::IntOrString, _) => {
                for other in [
                    json!(-1),
                    json!("x_!"),
                    json!(0),
                    json!("150%"),
                    json!(70_000),
                ] {
                    self.push(other);
                }
            }
            _ => samples(kind).into_iter().for_each(|other| self.push(other)),
        }
    }

    fn list(&mut self, of: &Type, items: &[Value]) {
        self.push(json!([]));
        if let Some(first) = items.first() {
            let twice = [items, std::slice::from_ref(first)].concat();
            self.push(Value::from(twice));
        }
        if let Some(more) = samples(of).into_iter().next() {
            self.push(Value::from([items, &[more]].concat()));
        }
        for (index, item) in items.iter().take(ITEMS_MAX).enumerate() {
            self.below(Step::Index(index), |all| match of {
                // A volume has a field for each of thirty sources: once is enough.
                Type::Message(id) if index > 0 => all.fields(id.get(), item, &[], false),
                _ => all.value(of, item),
            });
        }
        self.push(json!({}));
    }

    fn map(&mut self, of: &Type, map: &Map<String, Value>) {
        let with = |key: &str, value: Value| {
            let mut map = map.clone();
            map.insert(key.to_owned(), value);
            Value::from(map)
        };
        let sample = samples(of).into_iter().next().unwrap_or_default();
        self.push(with("bad key!", sample.clone()));
        self.push(with("other", sample));
        self.push(json!({}));
        if let Some((key, value)) = map.iter().next() {
            self.below(Step::Key(key.clone()), |all| all.value(of, value));
        }
        self.push(json!([]));
    }
}

/// A message's fields, with those of embedded messages in their place.
fn flat(message: &'static Message) -> Vec<&'static Field> {
    let mut fields = Vec::new();
    for field in &message.fields {
        match field.message().filter(|_| field.inline) {
            Some(embedded) => fields.extend(flat(embedded)),
            None => fields.push(field),
        }
    }
    fields
}

/// Values for a field that is not set: those that are most likely to be invalid come last.
fn samples(kind: &Type) -> Vec<Value> {
    match kind {
        Type::String(_) => vec![json!("zz"), json!("Bad Value!")],
        Type::Bool => vec![json!(true), json!(false)],
        Type::Int32 | Type::Int64 => vec![json!(1), json!(-1)],
        Type::Float64 => vec![json!(1.5)],
        Type::Bytes => vec![json!("YQ=="), json!("not base64!")],
        Type::Message(id) if id.get().list => samples(&id.get().fields[0].kind),
        Type::Message(_) => vec![json!({})],
        Type::List(of) => samples(of).into_iter().map(|one| json!([one])).collect(),
        Type::Map(of) => {
            let values = samples(of).into_iter();
            values.map(|one| json!({"k": one})).collect()
        }
        Type::Time => vec![json!("2030-01-01T00:00:00Z"), json!("yesterday")],
        Type::MicroTime => vec![json!("2030-01-01T00:00:00.000000Z"), json!("yesterday")],
        Type::Duration => vec![json!("1m0s"), json!("soon")],
        Type::Quantity => vec![json!("1"), json!("x")],
        Type::IntOrString => vec![json!(1), json!("x y")],
        Type::Raw | Type::Fields | Type::Json => vec![json!({"a": 1}), json!("x")],
        Type::SchemaOrArray | Type::SchemaOrBool | Type::SchemaOrStrings => {
            vec![json!({"type": "string"}), json!(5)]
        }
    }
}
