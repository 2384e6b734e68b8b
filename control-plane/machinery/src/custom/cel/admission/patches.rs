//! What expressions make that say how to change an object.

use serde_json::Value as Json;

use super::evaluation::{Evaluation, Stop, bounded};
use super::{Expression, check};
use crate::custom::cel::value::json;
use crate::custom::cel::value::{Message, Value};

impl<'a> Evaluation<'a> {
    /// Evaluates an expression to the configuration that it applies.
    pub fn configuration(
        &mut self,
        expression: &'a Expression,
    ) -> Result<Result<Json, String>, Stop> {
        let value = self.value(expression)?;
        Ok(value.and_then(bounded).and_then(|value| match &value {
            Value::Message(message) => {
                check_names(message)?;
                let fields = json::fields(message);
                fields.map(Json::Object)
            }
            other => {
                let found = other.type_name();
                Err(format!(
                    "unsupported return type from ApplyConfiguration expression: {found}"
                ))
            }
        }))
    }

    /// Evaluates an expression to a JSON patch.
    pub fn json_patch(&mut self, expression: &'a Expression) -> Result<Result<Json, String>, Stop> {
        let value = self.value(expression)?;
        Ok(value.and_then(bounded).and_then(|value| {
            let Value::List(list) = &value else {
                let why = "type mismatch: JSONPatchType.expression should evaluate to array";
                return Err(why.to_owned());
            };
            let operations = list.iter().map(|one| operation(&one?));
            Ok(Json::Array(operations.collect::<Result<_, String>>()?))
        }))
    }
}

fn operation(value: &Value) -> Result<Json, String> {
    let Value::Message(message) = value else {
        let found = value.type_name();
        return Err(format!(
            "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch, got \
             element of {found}"
        ));
    };
    if let Some(Value::Message(inner)) = message.fields.get("value") {
        check_names(inner)?;
    }
    let mut fields = json::fields(message).map_err(|why| {
        format!(
            "JSONPath valueExpression evaluated to a type that could not marshal to JSON: {why}"
        )
    })?;
    for key in ["op", "path"] {
        fields.entry(key).or_insert_with(|| "".into());
    }
    if fields.get("from") == Some(&Json::from("")) {
        fields.remove("from");
    }
    Ok(Json::Object(fields))
}

/// Checks that the type of each message names the way to it from the outermost one.
fn check_names(message: &Message) -> Result<(), String> {
    let mut wrong = Vec::new();
    check_message(message, message.name, &mut wrong);
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(format!("type mismatch: {}", wrong.join("\n")))
    }
}

fn check_message(message: &Message, expected: &str, wrong: &mut Vec<String>) {
    let name = message.name;
    if name != expected {
        wrong.push(format!(
            "unexpected type name {name:?}, expected {expected:?}, which matches field name path \
             from root {} type",
            check::OBJECT
        ));
    }
    for (field, value) in &message.fields {
        check_value(value, &format!("{expected}.{field}"), wrong);
    }
}

/// Lists and maps have no names of their own.
fn check_value(value: &Value, expected: &str, wrong: &mut Vec<String>) {
    match value {
        Value::Message(message) => check_message(message, expected, wrong),
        Value::List(list) => {
            let items = list.iter().flatten();
            items.for_each(|item| check_value(&item, expected, wrong));
        }
        Value::Map(map) => {
            let entries = map.entries().flatten();
            entries.for_each(|(_, value)| check_value(&value, expected, wrong));
        }
        _ => {}
    }
}
