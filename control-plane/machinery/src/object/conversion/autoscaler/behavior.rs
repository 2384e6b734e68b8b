//! The rules of scaling. Their annotation has the names of Go's own fields, such as `ScaleUp`.

use serde_json::{Map, Value};

use super::text::Form;

/// The field in v2, its name in the annotation, and its form.
type Row = (&'static str, &'static str, Form);

const DIRECTIONS: [(&str, &str); 2] = [("scaleUp", "ScaleUp"), ("scaleDown", "ScaleDown")];
const RULES: [Row; 3] = [
    (
        "stabilizationWindowSeconds",
        "StabilizationWindowSeconds",
        Form::Integer,
    ),
    ("selectPolicy", "SelectPolicy", Form::OptionalText),
    ("tolerance", "Tolerance", Form::Quantity),
];
const POLICY: [Row; 3] = [
    ("type", "Type", Form::Text),
    ("value", "Value", Form::IntegerOrZero),
    ("periodSeconds", "PeriodSeconds", Form::IntegerOrZero),
];

/// The rules as the annotation has them.
pub(super) fn to_annotation(behavior: &Value) -> Value {
    let directions = DIRECTIONS.iter().map(|(from, to)| {
        let rules = behavior.get(from).filter(|rules| rules.is_object());
        ((*to).to_owned(), rules.map(rules_to_annotation).into())
    });
    Value::Object(directions.collect())
}

fn rules_to_annotation(rules: &Value) -> Value {
    let mut all = renamed(rules, &RULES);
    let policies = rules.get("policies").and_then(Value::as_array);
    let policies = policies.map(|all| {
        let all = all.iter().map(|policy| renamed(policy, &POLICY));
        Value::Array(all.map(Value::Object).collect())
    });
    all.insert("Policies".into(), policies.unwrap_or_default());
    all.into()
}

/// The fields under their names in Go; null for those that are missing.
fn renamed(fields: &Value, rows: &[Row]) -> Map<String, Value> {
    let rows = rows.iter().map(|(from, to, form)| {
        let value = fields.get(from).cloned().or_else(|| form.zero());
        ((*to).to_owned(), value.unwrap_or_default())
    });
    rows.collect()
}

/// The rules of an annotation; `None` if there are none or Go could not decode them.
pub(super) fn of_annotation(behavior: &Value) -> Option<Value> {
    let behavior = behavior.as_object()?;
    let mut read = Map::new();
    for (name, _) in DIRECTIONS {
        if let Some(rules) = behavior.get(name).filter(|rules| !rules.is_null()) {
            read.insert(name.to_owned(), rules_of_annotation(rules)?);
        }
    }
    (!read.is_empty()).then_some(read.into())
}

fn rules_of_annotation(rules: &Value) -> Option<Value> {
    let mut read = fields_of(rules, &RULES)?;
    if let Some(policies) = rules.get("policies").filter(|one| !one.is_null()) {
        let policies = policies.as_array()?.iter();
        let policies = policies.map(|one| fields_of(one, &POLICY).map(Value::Object));
        read.insert("policies".into(), policies.collect::<Option<Value>>()?);
    }
    Some(read.into())
}

fn fields_of(fields: &Value, rows: &[Row]) -> Option<Map<String, Value>> {
    if !fields.is_object() && !fields.is_null() {
        return None;
    }
    let mut read = Map::new();
    for (name, _, form) in rows {
        if let Some(value) = form.read(fields.get(name))? {
            read.insert((*name).to_owned(), value);
        }
    }
    Some(read)
}
