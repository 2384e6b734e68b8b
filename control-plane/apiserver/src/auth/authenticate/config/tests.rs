use serde_json::{Value, json};

use super::*;

const OURS: &str = "https://kubernetes.default.svc";

fn file(rest: &Value) -> String {
    let mut file = json!({"apiVersion": "apiserver.config.k8s.io/v1beta1",
        "kind": "AuthenticationConfiguration"});
    for (key, value) in rest.as_object().unwrap() {
        file[key] = value.clone();
    }
    file.to_string()
}

/// An issuer with these changes: paths of fields and their values.
fn issuer(changes: &[(&str, Value)]) -> Value {
    let mut jwt = json!({
        "issuer": {"url": "https://a.example", "audiences": ["cluster"]},
        "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
    });
    for (path, value) in changes {
        let mut place = &mut jwt;
        for step in path.split('.') {
            place = &mut place[step];
        }
        *place = value.clone();
    }
    jwt
}

fn refused(changes: &[(&str, Value)]) -> String {
    let text = file(&json!({"jwt": [issuer(changes)]}));
    let why = parse(&text, &[OURS.to_owned()], None).unwrap_err();
    let why = why.strip_prefix("invalid authentication configuration: jwt[0].");
    why.unwrap().to_owned()
}

#[test]
fn there_may_be_several_issuers_or_none() {
    let other = issuer(&[("issuer.url", json!("https://b.example"))]);
    let text = file(&json!({"jwt": [issuer(&[]), other]}));
    assert_eq!(parse(&text, &[], None).unwrap().jwt.len(), 2);
    assert!(parse(&file(&json!({})), &[], None).unwrap().jwt.is_empty());
    let twice = file(&json!({"jwt": [issuer(&[]), issuer(&[])]}));
    let why = parse(&twice, &[], None).unwrap_err();
    assert!(
        why.ends_with("jwt[1].issuer.url: Duplicate value: \"https://a.example\""),
        "{why}"
    );
    assert_eq!(parse("", &[], None).unwrap_err(), "empty config data");
}

#[test]
fn issuers_are_checked_as_in_kubernetes() {
    for (path, value, why) in [
        ("issuer.url", json!(""), "issuer.url: Required value"),
        (
            "issuer.url",
            json!("http://a"),
            "issuer.url: Invalid value: \"http://a\": URL scheme must be https",
        ),
        (
            "issuer.url",
            json!("https://u:p@a"),
            "issuer.url: Invalid value: \"https://u:p@a\": URL must not contain a username or \
             password",
        ),
        (
            "issuer.url",
            json!("https://a?q=1"),
            "issuer.url: Invalid value: \"https://a?q=1\": URL must not contain a query",
        ),
        (
            "issuer.url",
            json!("https://a#f"),
            "issuer.url: Invalid value: \"https://a#f\": URL must not contain a fragment",
        ),
        (
            "issuer.url",
            json!(OURS),
            "issuer.url: Invalid value: \"https://kubernetes.default.svc\": URL must not overlap \
             with disallowed issuers: [https://kubernetes.default.svc]",
        ),
        (
            "issuer.discoveryURL",
            json!("https://a.example/"),
            "issuer.discoveryURL: Invalid value: \"https://a.example/\": discoveryURL must be \
             different from URL",
        ),
        (
            "issuer.audiences",
            json!([]),
            "issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
        ),
        (
            "issuer.audiences",
            json!(["a", "b"]),
            "issuer.audienceMatchPolicy: Invalid value: \"\": audienceMatchPolicy must be MatchAny \
             for multiple audiences",
        ),
        (
            "issuer.egressSelectorType",
            json!("moon"),
            "issuer.egressSelectorType: Invalid value: \"moon\": egress selector must be either \
             controlplane or cluster",
        ),
    ] {
        assert_eq!(refused(&[(path, value)]), why);
    }
    let why = refused(&[("issuer.certificateAuthority", json!("x"))]);
    assert!(
        why.starts_with("issuer.certificateAuthority: Invalid value: \"<omitted>\": "),
        "{why}"
    );
}

#[test]
fn mappings_are_checked_as_in_kubernetes() {
    let username = "claimMappings.username";
    for (value, why) in [
        (
            json!({}),
            ": Required value: claim or expression is required",
        ),
        (
            json!({"claim": "sub"}),
            ".prefix: Required value: prefix is required when claim is set. It can be set to an \
             empty string to disable prefixing",
        ),
        (
            json!({"claim": "a", "expression": "claims.b"}),
            ": Invalid value: \"\": claim and expression can't both be set",
        ),
        (
            json!({"expression": "claims.sub", "prefix": "x"}),
            ".prefix: Invalid value: \"x\": may not be specified when expression is set",
        ),
        (
            json!({"expression": "claims.email"}),
            ".expression: Invalid value: \"claims.email\": claims.email_verified must be used in \
             claimMappings.username.expression or claimMappings.extra[*].valueExpression or \
             claimValidationRules[*].expression when claims.email is used in \
             claimMappings.username.expression",
        ),
    ] {
        assert_eq!(refused(&[(username, value)]), format!("{username}{why}"));
    }
    let extra = |key: &str| {
        let one = json!([{"key": key, "valueExpression": "claims.x"}]);
        refused(&[("claimMappings.extra", one)])
    };
    assert!(extra("team").contains("must be a domain-prefixed path"));
    assert!(extra("acme.io/Team").contains("must be lowercase"));
    assert!(extra("a.k8s.io/team").contains("are reserved for Kubernetes use"));
    let why = refused(&[("claimMappings.groups", json!({"expression": "claims."}))]);
    assert!(
        why.starts_with(
            "claimMappings.groups.expression: Invalid value: \"claims.\": compilation failed: "
        ),
        "{why}"
    );
}

#[test]
fn rules_are_checked_as_in_kubernetes() {
    let rules = "claimValidationRules";
    for (value, why) in [
        (
            json!([{}]),
            "[0]: Required value: claim or expression is required",
        ),
        (
            json!([{"claim": "a", "expression": "true"}]),
            "[0]: Invalid value: \"a\": claim and expression can't both be set",
        ),
        (
            json!([{"claim": "a", "message": "m"}]),
            "[0].message: Invalid value: \"m\": may not be specified when claim is set",
        ),
        (
            json!([{"expression": "claims.x"}]),
            "[0].expression: Invalid value: \"claims.x\": must evaluate to bool",
        ),
        (
            json!([{"claim": "a"}, {"claim": "a"}]),
            "[1].claim: Duplicate value: \"a\"",
        ),
    ] {
        assert_eq!(refused(&[(rules, value)]), format!("{rules}{why}"));
    }
    let why = refused(&[("userValidationRules", json!([{}]))]);
    assert_eq!(why, "userValidationRules[0].expression: Required value");
}

#[test]
fn what_is_said_of_nobody_stays() {
    let paths = json!({"enabled": true, "conditions": [{"path": "/healthz"}]});
    let text = file(&json!({ "anonymous": paths }));
    let first = parse(&text, &[], None).unwrap().anonymous;
    assert!(first.as_ref().unwrap().is_for("/healthz"));
    assert!(!first.as_ref().unwrap().is_for("/livez"));
    parse(&text, &[], Some(&first)).unwrap();
    let why = parse(&file(&json!({})), &[], Some(&first)).unwrap_err();
    assert!(
        why.ends_with("anonymous: Forbidden: changed from initial configuration file"),
        "{why}"
    );
    let off = json!({"enabled": false, "conditions": [{"path": "/healthz"}]});
    let why = parse(&file(&json!({ "anonymous": off })), &[], None).unwrap_err();
    assert!(
        why.ends_with("enabled should be set to true when conditions are defined"),
        "{why}"
    );
}

#[test]
fn fields_that_nobody_knows_are_errors() {
    let text = file(&json!({"jwt": [issuer(&[("issuer.uri", json!("x"))])]}));
    let why = parse(&text, &[], None).unwrap_err();
    assert_eq!(
        why,
        "strict decoding error: unknown field \"jwt[0].issuer.uri\""
    );
}
