//! A Scale, and what it shows of a custom resource: the numbers of replicas and the selector.

use machinery::name;
use machinery::object;
use machinery::status::Cause;
use serde_json::Value;

use super::meta;
use super::words::causes::Causes;
use crate::resources::catalogue::Resource;

const REPLICAS_MAX: i64 = i32::MAX as i64;

/// Why a custom resource has no Scale to show: its definition may have said later than it was
/// written which fields are shown.
pub(crate) fn unreadable(resource: &Resource, object: &Value) -> Option<String> {
    let scale = resource.custom.as_ref()?.scale.as_ref()?;
    let number = |path: &[String]| field(object, path, Value::as_i64, "int64").err();
    let is_text = |value: &Value| value.is_string().then_some(());
    let replicas = number(&scale.spec_replicas).or_else(|| number(&scale.status_replicas));
    if replicas.is_some() || scale.label_selector.is_empty() {
        return replicas;
    }
    field(object, &scale.label_selector, is_text, "string").err()
}

/// Checks a Scale that a client wrote, of a built-in kind.
pub(crate) fn check_written(resource: &Resource, scale: &Value) -> Causes {
    let mut causes = meta::check(resource, name::dns1123_subdomain, scale);
    let path = ["spec", "replicas"];
    let replicas = object::integer(scale, &path).unwrap_or(0);
    if replicas < 0 {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid(&path.join("."), &replicas.into(), why));
    }
    causes
}

/// Checks the fields that a Scale shows; an update of the status alone does not check how many
/// replicas are asked for.
pub(super) fn check(resource: &Resource, object: &Value, status_alone: bool) -> Causes {
    let mut causes = Causes::default();
    let custom = resource.custom.as_ref();
    let Some(scale) = custom.and_then(|custom| custom.scale.as_ref()) else {
        return causes;
    };
    if !status_alone {
        causes.extend(replicas(object, &scale.spec_replicas));
    }
    causes.extend(replicas(object, &scale.status_replicas));
    if !scale.label_selector.is_empty() {
        causes.extend(selector(object, &scale.label_selector));
    }
    causes
}

fn replicas(object: &Value, path: &[String]) -> Option<Cause> {
    let number = |value: &Value| value.as_i64();
    let (value, why) = match field(object, path, number, "int64") {
        Err(why) => (0, why),
        Ok(Some(number)) if number < 0 => (number, "should be a non-negative integer".to_owned()),
        Ok(Some(number)) if number > REPLICAS_MAX => (
            number,
            format!("should be less than or equal to {REPLICAS_MAX}"),
        ),
        Ok(_) => return None,
    };
    Some(Cause::invalid(&shown_path(path), &value.into(), &why))
}

fn selector(object: &Value, path: &[String]) -> Option<Cause> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let why = field(object, path, text, "string").err()?;
    Some(Cause::invalid(&shown_path(path), &"".into(), &why))
}

/// The value of a field; the error says in Go's words which type it has instead.
fn field<T>(
    object: &Value,
    path: &[String],
    read: impl Fn(&Value) -> Option<T>,
    wanted: &str,
) -> Result<Option<T>, String> {
    let wrong = |at: usize, value: &Value, wanted: &str| {
        let (path, text, is) = (shown_path(&path[..at]), go_text(value), go_type(value));
        format!("{path} accessor error: {text} is of the type {is}, expected {wanted}")
    };
    let mut value = object;
    for (at, key) in path.iter().enumerate() {
        let next = match value {
            Value::Null => None,
            Value::Object(map) => map.get(key),
            other => return Err(wrong(at + 1, other, "map[string]interface{}")),
        };
        match next {
            Some(next) => value = next,
            None => return Ok(None),
        }
    }
    match read(value) {
        Some(read) => Ok(Some(read)),
        None => Err(wrong(path.len(), value, wanted)),
    }
}

fn shown_path(path: &[String]) -> String {
    format!(".{}", path.join("."))
}

/// A value as Go's `%v` prints it.
fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_text).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let fields = map
                .iter()
                .map(|(key, value)| format!("{key}:{}", go_text(value)));
            format!("map[{}]", fields.collect::<Vec<_>>().join(" "))
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_i64() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[test]
fn numbers_of_replicas_are_checked_where_a_definition_says_they_are() {
    let path: Vec<String> = ["spec", "replicas"].map(str::to_owned).into();
    let why = |spec: Value| {
        let cause = replicas(&serde_json::json!({"spec": spec}), &path)?;
        assert_eq!(cause.field, ".spec.replicas");
        Some(cause.message)
    };
    assert_eq!(why(serde_json::json!({})), None);
    assert_eq!(why(serde_json::json!({"replicas": 3})), None);
    let said = "Invalid value: -7: should be a non-negative integer";
    assert_eq!(why(serde_json::json!({"replicas": -7})).unwrap(), said);
    let said = "Invalid value: 0: .spec.replicas accessor error: x is of the type string, \
                expected int64";
    assert_eq!(why(serde_json::json!({"replicas": "x"})).unwrap(), said);
    let said = "Invalid value: 0: .spec.replicas accessor error: [1] is of the type \
                []interface {}, expected map[string]interface{}";
    assert_eq!(why(serde_json::json!([1])).unwrap(), said);
}
