//! Rules in CEL, compared with Kubernetes' own answers (`generate/rules.go`).

use serde_json::{Value, json};

use super::*;

/// The answers of Kubernetes to each expression of a table, over each object.
#[test]
fn expressions_are_answered_as_by_kubernetes() {
    let schema: Value =
        serde_json::from_str(include_str!("../../../../generate/rules/schema.json")).unwrap();
    let objects: Vec<Value> =
        serde_json::from_str(include_str!("../../../../generate/rules/objects.json")).unwrap();
    let mut wrong = Vec::new();
    for line in include_str!("../../../../testdata/expressions.jsonl").lines() {
        let expected: Value = serde_json::from_str(line).unwrap();
        let rule = expected["rule"].as_str().unwrap();
        let given = crate::custom::structural::rules::answers(&schema, rule, &objects);
        if let Some(difference) = differs(rule, &expected, &given) {
            wrong.push(difference);
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn differs(rule: &str, expected: &Value, given: &Value) -> Option<String> {
    let fields = ["error", "costMax", "results"];
    let differs = fields
        .iter()
        .find(|field| expected[**field] != given[**field])?;
    Some(format!(
        "{rule}\n  want {}\n  have {}",
        expected[*differs], given[*differs]
    ))
}

/// The answers of Kubernetes to definitions with rules, and to objects that they describe.
#[test]
fn rules_are_enforced_as_by_kubernetes() {
    let cases = include_str!("../../../../generate/rules/definitions.jsonl").lines();
    let answers = include_str!("../../../../testdata/rules.jsonl").lines();
    let mut wrong = Vec::new();
    for (case, answer) in cases.zip(answers) {
        let case: Value = serde_json::from_str(case).unwrap();
        let expected: Value = serde_json::from_str(answer).unwrap();
        let given = judged(&case);
        if given != expected {
            wrong.push(format!(
                "{}\n  want {expected}\n  have {given}",
                case["schema"]
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

fn judged(case: &Value) -> Value {
    let field = "spec.validation.openAPIV3Schema";
    let told = |causes: Vec<Cause>| {
        let told = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message));
        let mut told: Vec<String> = told.collect();
        told.sort();
        told
    };
    let schema = match Schema::parse_at(field, &case["schema"]) {
        Ok(schema) => schema,
        Err(causes) => return json!({"definition": told(causes)}),
    };
    let causes = schema.check_rules(field);
    if !causes.is_empty() {
        return json!({"definition": told(causes)});
    }
    let objects = case["objects"].as_array().unwrap().iter();
    let objects: Vec<Value> = objects
        .map(|object| {
            let old = object.get("old").filter(|old| !old.is_null());
            told(schema.validate(&object["new"], old)).into()
        })
        .collect();
    if objects.is_empty() {
        json!({"definition": []})
    } else {
        json!({"definition": [], "objects": objects})
    }
}

/// Items of these lists have no old values of their own, so the whole list decides.
#[test]
fn a_list_that_did_not_change_may_keep_items_that_break_a_rule() {
    let list = json!({"type": "array", "maxItems": 1000, "items": {"type": "string", "maxLength": 9,
        "x-kubernetes-validations": [{"rule": "self != 'bad'"}]}});
    let of_object = json!({"type": "object", "properties": {"kept": list, "new": list}});
    let schema = schema(&of_object);
    let bad = vec!["bad"; 100];
    let old = json!({"kept": bad, "new": ["good"]});
    let new = json!({"kept": bad, "new": bad});
    let causes = schema.validate(&new, Some(&old));
    assert_eq!(causes.len(), bad.len());
    assert!(causes.iter().all(|cause| cause.field.starts_with("new[")));
    assert!(schema.validate(&new, Some(&new)).is_empty());
}
