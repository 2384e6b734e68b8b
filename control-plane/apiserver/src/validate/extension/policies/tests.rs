use serde_json::{Value, json};

use super::*;

fn matching() -> Value {
    json!({"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {},
        "resourceRules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["pods"], "scope": "*"}]})
}

fn validating_policy() -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"failurePolicy": "Fail",
        "matchConstraints": matching(), "validations": [{"expression": "true"}]}})
}

fn mutating_policy() -> Value {
    let expression = "[JSONPatch{op: 'remove', path: '/x'}]";
    let patch = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
    json!({"metadata": {"name": "p"}, "spec": {"failurePolicy": "Fail",
        "matchConstraints": matching(), "reinvocationPolicy": "Never", "mutations": [patch]}})
}

fn binding_of_policy() -> Value {
    json!({"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"],
        "matchResources": matching(),
        "paramRef": {"name": "x", "parameterNotFoundAction": "Deny"}}})
}

/// The errors of an object in which the value at a pointer below the spec is another.
fn wrong(mut object: Value, check: fn(&Value) -> Causes, at: &str, value: Value) -> Vec<String> {
    let at = format!("/spec{at}");
    match object.pointer_mut(&at) {
        Some(at) => *at = value,
        None => {
            let (parent, key) = at.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap()[key] = value;
        }
    }
    let causes = check(&object).into_iter();
    causes
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect()
}

/// Each line: the pointer of a value, another value, the field that is wrong then, and why.
fn check_all(object: &Value, check: fn(&Value) -> Causes, lines: &str) {
    assert!(check(object).is_empty());
    for line in lines.trim().lines() {
        let parts: Vec<&str> = line.split(" | ").collect();
        let [at, value, field, why] = parts[..] else {
            panic!("{line}");
        };
        let value = serde_json::from_str(value).unwrap();
        let told = wrong(object.clone(), check, at, value);
        let begin = format!("spec{field}: ");
        let good = told.len() == 1 && told[0].starts_with(&begin) && told[0].contains(why);
        assert!(good, "{line}: {told:?}");
    }
}

#[test]
fn a_policy_follows_the_rules_for_its_fields() {
    check_all(
        &validating_policy(),
        validating,
        r#"
/failurePolicy | null | .failurePolicy | Required value
/failurePolicy | "Never" | .failurePolicy | supported values: "Fail", "Ignore"
/matchConstraints | null | .matchConstraints | Required value
/matchConstraints/resourceRules | [] | .matchConstraints.resourceRules | Required value
/matchConstraints/matchPolicy | null | .matchConstraints.matchPolicy | Required value
/matchConstraints/objectSelector | null | .matchConstraints.objectSelector | Required value
/matchConstraints/resourceRules/0/resourceNames | ["a", "a"] | .matchConstraints.resourceRules[0].resourceNames[1] | Duplicate value: "a"
/matchConstraints/resourceRules/0/resourceNames | ["a/b"] | .matchConstraints.resourceRules[0].resourceNames[0] | may not contain '/'
/matchConstraints/excludeResourceRules | [{"operations": ["X"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}] | .matchConstraints.excludeResourceRules[0].operations[0] | Unsupported value: "X"
/matchConditions | [{"name": "c", "expression": "1"}] | .matchConditions[0].expression | Invalid value: "1": must evaluate to bool but got int
/paramKind | {"apiVersion": "a/b/c", "kind": "K"} | .paramKind.apiVersion | unexpected GroupVersion string: a/b/c
/paramKind | {"apiVersion": "v1", "kind": ""} | .paramKind.kind | Required value
/paramKind | {"apiVersion": "v1", "kind": "a b"} | .paramKind.kind | may have mixed case, but should otherwise match
/paramKind | {"apiVersion": "A/v1", "kind": "K"} | .paramKind.apiVersion | Invalid value: "A"
/variables | [{"name": "in", "expression": "1"}] | .variables[0].name | must be a valid CEL identifier
/variables | [{"name": "a", "expression": ""}] | .variables[0].expression | expression is not specified
/variables | [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}] | .variables[0].expression | undefined field 'b'
/validations | [{"expression": ""}] | .validations[0].expression | expression is not specified
/validations | [{"expression": "object.x +"}] | .validations[0].expression | compilation failed
/validations | [{"expression": "'x'"}] | .validations[0].expression | must evaluate to bool but got string
/validations | [{"expression": "params.x"}] | .validations[0].expression | undeclared reference to 'params'
/validations | [{"expression": "variables.x"}] | .validations[0].expression | undeclared reference to 'variables'
/validations | [{"expression": "Object{} == object"}] | .validations[0].expression | undeclared reference to 'Object'
/validations | [{"expression": "true", "messageExpression": "1"}] | .validations[0].messageExpression | must evaluate to string but got int
/validations | [{"expression": "true", "messageExpression": "authorizer.path('/').check('get').reason()"}] | .validations[0].messageExpression | undeclared reference to 'authorizer'
/validations | [{"expression": "true", "messageExpression": " "}] | .validations[0].messageExpression | must be non-empty if specified
/validations | [{"expression": "true", "message": " "}] | .validations[0].message | must be non-empty if specified
/validations | [{"expression": "true", "message": "a\nb"}] | .validations[0].message | must not contain line breaks
/validations | [{"expression": "true", "reason": "NotFound"}] | .validations[0].reason | Unsupported value: "NotFound"
/auditAnnotations | [{"key": "a b", "valueExpression": "'x'"}] | .auditAnnotations[0].key | Invalid value: "p/a b"
/auditAnnotations | [{"key": "k", "valueExpression": ""}] | .auditAnnotations[0].valueExpression | valueExpression is not specified
/auditAnnotations | [{"key": "k", "valueExpression": "1"}] | .auditAnnotations[0].valueExpression | must evaluate to one of [string null_type] but got int
/auditAnnotations | [{"key": "k", "valueExpression": "'x'"}, {"key": "k", "valueExpression": "'x'"}] | .auditAnnotations[1].key | Duplicate value: "k"
"#,
    );
    let told = wrong(validating_policy(), validating, "/validations", json!([]));
    let why = "Required value: validations or auditAnnotations must contain at least one item";
    let expected = ["validations", "auditAnnotations"].map(|key| format!("spec.{key}: {why}"));
    assert_eq!(told, expected);
    let mut many = Vec::new();
    for at in 0..=ANNOTATIONS_MAX {
        many.push(json!({"key": format!("k{at}"), "valueExpression": "'x'"}));
    }
    let told = wrong(
        validating_policy(),
        validating,
        "/auditAnnotations",
        many.into(),
    );
    assert_eq!(told.len(), 1);
    let begin =
        "spec.auditAnnotations: Invalid value: [{\"Key\":\"k0\",\"ValueExpression\":\"'x'\"},";
    assert!(told[0].starts_with(begin), "{told:?}");
    assert!(told[0].ends_with("must not have more than 20 auditAnnotations"));
}

#[test]
fn a_mutating_policy_follows_the_rules_for_its_fields() {
    check_all(
        &mutating_policy(),
        mutating,
        r#"
/mutations | [] | .mutations | mutations must contain at least one item
/mutations/0/patchType | "" | .mutations[0].patchType | Required value
/mutations/0/patchType | "Merge" | .mutations[0].patchType | supported values: "ApplyConfiguration", "JSONPatch"
/mutations/0/jsonPatch | null | .mutations[0].jsonPatch | must be specified when patchType is JSONPatch
/mutations/0/jsonPatch/expression | " " | .mutations[0].jsonPatch.expression | Required value
/mutations/0/jsonPatch/expression | "Object{}" | .mutations[0].jsonPatch.expression | must evaluate to list(JSONPatch) but got Object
/mutations/0/applyConfiguration | {"expression": "Object{}"} | .mutations[0].applyConfiguration | must not be specified when patchType is JSONPatch
/mutations | [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "object"}}] | .mutations[0].applyConfiguration.expression | must evaluate to Object but got dyn
/reinvocationPolicy | null | .reinvocationPolicy | Required value
/reinvocationPolicy | "Always" | .reinvocationPolicy | supported values: "IfNeeded", "Never"
/matchConstraints/resourceRules/0/operations | ["DELETE"] | .matchConstraints.resourceRules.operations | Unsupported value: "DELETE"
"#,
    );
}

#[test]
fn a_binding_follows_the_rules_for_its_fields() {
    let common = r#"
/policyName | "" | .policyName | Required value
/policyName | "A" | .policyName | lower case alphanumeric
/paramRef | {"parameterNotFoundAction": "Deny"} | .paramRef | one of name or selector must be specified
/paramRef | {"name": "a/b", "parameterNotFoundAction": "Deny"} | .paramRef.name | may not contain '/'
/paramRef | {"name": "a"} | .paramRef.parameterNotFoundAction | Required value
/paramRef | {"name": "a", "parameterNotFoundAction": "Warn"} | .paramRef.parameterNotFoundAction | supported values: "Deny", "Allow"
/matchResources/namespaceSelector | null | .matchResources.namespaceSelector | Required value
"#;
    check_all(&binding_of_policy(), validating_binding, common);
    check_all(&binding_of_policy(), mutating_binding, common);
    check_all(
        &binding_of_policy(),
        validating_binding,
        r#"
/validationActions | [] | .validationActions | at least one validation action is required
/validationActions | ["Stop"] | .validationActions[0] | supported values: "Audit", "Deny", "Warn"
/validationActions | ["Warn", "Warn"] | .validationActions[1] | Duplicate value: "Warn"
/validationActions | ["Deny", "Warn"] | .validationActions | must not contain both Deny and Warn
"#,
    );
    let both = json!({"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"});
    let told = wrong(binding_of_policy(), validating_binding, "/paramRef", both);
    let why = "Forbidden: name and selector are mutually exclusive";
    let expected = ["name", "selector"].map(|key| format!("spec.paramRef.{key}: {why}"));
    assert_eq!(told, expected);
}
