//! The spec of a SubjectAccessReview about a request.

use machinery::selector::{FieldRequirement, Operator, Requirement};
use serde_json::{Map, Value, json};

use crate::auth::Attributes;

/// How to read one attribute.
type Text = fn(&Attributes) -> &str;

/// The attributes of a resource, by their names in a review.
const OF_RESOURCE: [(&str, Text); 7] = [
    ("namespace", |asked| &asked.namespace),
    ("verb", |asked| &asked.verb),
    ("group", |asked| &asked.api_group),
    ("version", |asked| &asked.api_version),
    ("resource", |asked| &asked.resource),
    ("subresource", |asked| &asked.subresource),
    ("name", |asked| &asked.name),
];

/// The spec; what is empty is left out.
pub(super) fn of(asked: &Attributes) -> Value {
    let mut spec = Map::new();
    if asked.is_resource() {
        let mut resource = Map::new();
        for (key, text) in OF_RESOURCE {
            if !text(asked).is_empty() {
                resource.insert(key.into(), text(asked).into());
            }
        }
        let fields: Vec<Value> = asked.fields.requirements.iter().map(of_field).collect();
        let labels = &asked.labels.requirements;
        let labels: Vec<Value> = labels.iter().filter_map(of_label).collect();
        for (key, requirements) in [("fieldSelector", fields), ("labelSelector", labels)] {
            if !requirements.is_empty() {
                resource.insert(key.into(), json!({ "requirements": requirements }));
            }
        }
        spec.insert("resourceAttributes".into(), resource.into());
    } else {
        let path = json!({"path": asked.path, "verb": asked.verb});
        spec.insert("nonResourceAttributes".into(), path);
    }
    for (key, text) in [("user", &asked.user.name), ("uid", &asked.user.uid)] {
        if !text.is_empty() {
            spec.insert(key.into(), text.as_str().into());
        }
    }
    if !asked.user.groups.is_empty() {
        spec.insert("groups".into(), json!(asked.user.groups));
    }
    if !asked.user.extra.is_empty() {
        spec.insert("extra".into(), json!(asked.user.extra));
    }
    Value::Object(spec)
}

/// Number of bytes of what the client chooses.
pub(super) fn size(asked: &Attributes) -> usize {
    let texts = OF_RESOURCE.iter().map(|(_, text)| text(asked).len());
    texts.sum::<usize>() + asked.path.len()
}

/// The spec as conditions see it: all texts are there.
pub(super) fn for_conditions(spec: &Value) -> Value {
    let mut request = spec.clone();
    for key in ["user", "uid"] {
        fill(&mut request, key, Value::from(""));
    }
    fill(&mut request, "groups", json!([]));
    fill(&mut request, "extra", json!({}));
    if let Some(resource) = request.get_mut("resourceAttributes") {
        for (key, _) in OF_RESOURCE {
            fill(resource, key, Value::from(""));
        }
    }
    request
}

/// The spec in `v1beta1`, which names the groups otherwise.
pub(super) fn older(mut spec: Value) -> Value {
    if let Some(fields) = spec.as_object_mut()
        && let Some(groups) = fields.remove("groups")
    {
        fields.insert("group".into(), groups);
    }
    spec
}

fn fill(value: &mut Value, key: &str, default: Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.entry(key).or_insert(default);
    }
}

fn of_field(one: &FieldRequirement) -> Value {
    let operator = if one.negated { "NotIn" } else { "In" };
    json!({"key": one.field, "operator": operator, "values": [one.value]})
}

/// `None` for an operator that reviews do not have: what is asked for is then wider.
fn of_label(one: &Requirement) -> Option<Value> {
    let operator = match one.operator {
        Operator::Equals | Operator::DoubleEquals | Operator::In => "In",
        Operator::NotEquals | Operator::NotIn => "NotIn",
        Operator::Exists => "Exists",
        Operator::DoesNotExist => "DoesNotExist",
        Operator::GreaterThan | Operator::LessThan => return None,
    };
    let mut requirement = json!({"key": one.key, "operator": operator});
    if !one.values.is_empty() {
        requirement["values"] = json!(one.values);
    }
    Some(requirement)
}
