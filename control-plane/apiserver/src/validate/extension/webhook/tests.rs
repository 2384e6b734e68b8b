use serde_json::{Value, json};

use super::configuration;

fn good() -> Value {
    json!({
        "name": "w.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://h.example/x"},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
            "resources": ["pods"], "scope": "*"}],
    })
}

/// The errors of a webhook in which the value at a pointer is another.
fn wrong(at: &str, value: Value) -> Vec<String> {
    let mut webhook = good();
    match webhook.pointer_mut(at) {
        Some(place) => *place = value,
        None => webhook[at.trim_start_matches('/')] = value,
    }
    told(json!([webhook]))
}

fn told(webhooks: Value) -> Vec<String> {
    let causes = configuration(&json!({ "webhooks": webhooks })).into_iter();
    causes
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect()
}

/// The pointer of a value, another value, the field that is wrong then, and why.
const WRONG: &str = r#"
/name | "a.b" | name | at least three segments
/name | "A.b.c" | name | lower case alphanumeric
/name | "" | name | Required value
/sideEffects | "Some" | sideEffects | supported values: "None", "NoneOnDryRun"
/sideEffects | null | sideEffects | must specify one of None, NoneOnDryRun
/timeoutSeconds | 31 | timeoutSeconds | must be between 1 and 30 seconds
/timeoutSeconds | 0 | timeoutSeconds | must be between 1 and 30 seconds
/failurePolicy | "Never" | failurePolicy | Unsupported value
/matchPolicy | "Near" | matchPolicy | Unsupported value
/reinvocationPolicy | "Twice" | reinvocationPolicy | Unsupported value
/matchConditions | [{"name": "n"}] | matchConditions[0].expression | Required value
/matchConditions | [{"expression": "true"}] | matchConditions[0].name | Required value
/matchConditions | [{"name": "a b", "expression": "true"}] | matchConditions[0].name | name part must consist of
/matchConditions | [{"name": "n", "expression": "true"}, {"name": "n", "expression": "true"}] | matchConditions[1].name | Duplicate value: "n"
/matchConditions | [{"name": "n", "expression": "1 +"}] | matchConditions[0].expression | Invalid value: "1 +": compilation failed: ERROR: <input>:1:4: Syntax error
/matchConditions | [{"name": "n", "expression": " 1 "}] | matchConditions[0].expression | Invalid value: "1": must evaluate to bool but got int
/matchConditions | [{"name": "n", "expression": "params.x"}] | matchConditions[0].expression | undeclared reference to 'params'
/matchConditions | [{"name": "n", "expression": "'a'.matches('[')"}] | matchConditions[0].expression | Invalid value
/admissionReviewVersions | [] | admissionReviewVersions | must specify one of v1, v1beta1
/admissionReviewVersions | ["v9"] | admissionReviewVersions | must include at least one of v1, v1beta1
/admissionReviewVersions | ["v1", "v1"] | admissionReviewVersions[1] | duplicate version
/clientConfig | {} | clientConfig | exactly one of url or service is required
/clientConfig/url | "http://h" | clientConfig.url | 'https' is the only allowed URL scheme
/clientConfig/url | "https:///x" | clientConfig.url | host must be specified
/clientConfig/url | "https://me:x@h" | clientConfig.url | user information is not permitted
/clientConfig/url | "https://h/#f" | clientConfig.url | fragments are not permitted
/clientConfig/url | "https://h/?q" | clientConfig.url | query parameters are not permitted
/clientConfig/url | "https://h:x" | clientConfig.url | invalid port ":x" after host
/objectSelector | {"matchExpressions": [{"key": "k", "operator": "Is"}]} | objectSelector.matchExpressions[0].operator | not a valid selector operator
/rules/0/operations | ["*", "CREATE"] | rules[0].operations | must not specify other operations
/rules/0/operations | ["PATCH"] | rules[0].operations[0] | Unsupported value: "PATCH"
/rules/0/apiVersions | [""] | rules[0].apiVersions[0] | Required value
/rules/0/resources | ["*", "pods"] | rules[0].resources | must not specify other resources without subresources
/rules/0/scope | "Moon" | rules[0].scope | Unsupported value: "Moon"
"#;

#[test]
fn a_webhook_follows_the_rules_for_its_fields() {
    assert_eq!(told(json!([good()])), Vec::<String>::new());
    for line in WRONG.trim().lines() {
        let parts: Vec<&str> = line.split(" | ").collect();
        let [at, value, field, why] = parts[..] else {
            panic!("{line}");
        };
        let told = wrong(at, serde_json::from_str(value).unwrap());
        let begin = format!("webhooks[0].{field}: ");
        let good = told.len() == 1 && told[0].starts_with(&begin) && told[0].contains(why);
        assert!(good, "{line}: {told:?}");
    }
    let twice = told(json!([good(), good()]));
    assert_eq!(
        twice,
        ["webhooks[1].name: Duplicate value: \"w.example.com\""]
    );
}

#[test]
fn resources_are_covered_once() {
    let resources = |list: &[&str]| wrong("/rules/0/resources", list.into());
    for list in [
        &["pods", "pods/status"][..],
        &["*/*"],
        &["*", "pods/status"],
        &["pods/*"],
    ] {
        assert!(resources(list).is_empty(), "{list:?}");
    }
    for (list, why) in [
        (&["*/*", "pods"][..], "if '*/*' is present"),
        (
            &["pods/*", "pods/status"],
            "if 'pods/*' is present, must not specify pods/status",
        ),
        (
            &["*/scale", "pods/scale"],
            "if '*/scale' is present, must not specify pods/scale",
        ),
    ] {
        let told = resources(list);
        assert!(told.len() == 1 && told[0].contains(why), "{told:?}");
    }
}

#[test]
fn a_service_has_a_name_a_namespace_a_port_and_a_path() {
    let service = |more: Value| {
        let mut service = json!({"name": "s", "namespace": "n", "port": 443});
        service
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        wrong("/clientConfig", json!({ "service": service }))
    };
    for path in ["", "/", "/a", "/a/b/"] {
        assert!(service(json!({ "path": path })).is_empty(), "{path}");
    }
    for (more, why) in [
        // Reported under the name of the other field.
        (json!({"name": ""}), "service.namespace: Required value"),
        (
            json!({"port": 0}),
            "port is not valid: must be between 1 and 65535, inclusive",
        ),
        (json!({"path": "//"}), "segment[0] may not be empty"),
        (json!({"path": "/a//b"}), "segment[1] may not be empty"),
        (
            json!({"path": "/A"}),
            "segment[0]: a lowercase RFC 1123 subdomain",
        ),
    ] {
        let told = service(more.clone());
        assert!(told.len() == 1 && told[0].contains(why), "{more}: {told:?}");
    }
}
