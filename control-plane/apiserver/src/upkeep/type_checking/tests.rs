use std::sync::Arc;

use serde_json::{Value, json};

use super::check;
use crate::registry::strategy;
use crate::resources::catalogue::Catalogue;

fn catalogue() -> Catalogue {
    Catalogue::new(strategy::builtin().iter().map(Arc::clone))
}

fn policy(resources: &[&str], more: Value) -> Value {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
        "resources": resources});
    let mut spec = json!({"matchConstraints": {"resourceRules": [rule]}});
    let fields = spec.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    json!({ "spec": spec })
}

#[test]
fn each_kind_is_told_with_what_does_not_fit_it() {
    let validations = json!([
        {"expression": "object.data.x == 1", "messageExpression": "object.metadata.nam"},
        {"expression": "variables.count > params.data.max"},
        {"expression": "object.metadata.name != ''"},
    ]);
    let variables = json!([{"name": "count", "expression": "size(object.metadata.labels)"}]);
    let more = json!({"validations": validations, "variables": variables,
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}});
    let policy = policy(
        &["pods", "configmaps", "configmaps/status", "nothing"],
        more,
    );
    let warnings = check(&catalogue(), &policy);
    let fields: Vec<_> = warnings
        .iter()
        .map(|one| one["fieldRef"].as_str().unwrap())
        .collect();
    let expected = ["[0].expression", "[0].messageExpression", "[1].expression"];
    assert_eq!(
        fields,
        expected.map(|field| format!("spec.validations{field}"))
    );
    let expected = "/v1, Kind=ConfigMap: ERROR: <input>:1:15: found no matching overload for \
                    '_==_' applied to '(string, int)'\n | object.data.x == 1\n | ..............^\n\
                    \n/v1, Kind=Pod: ERROR: <input>:1:7: undefined field 'data'\n | \
                    object.data.x == 1\n | ......^\n";
    assert_eq!(warnings[0]["warning"], expected);
}

#[test]
fn what_is_not_named_is_not_checked() {
    let validations = json!({"validations": [{"expression": "object.nothing"}]});
    assert!(check(&catalogue(), &policy(&["*"], validations.clone())).is_empty());
    let mut any = policy(&["pods"], validations);
    any["spec"]["matchConstraints"]["resourceRules"][0]["apiVersions"] = json!(["*"]);
    assert!(check(&catalogue(), &any).is_empty());
}
