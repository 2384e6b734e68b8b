use serde_json::json;

use super::super::token::tests::{NOW, World};
use super::*;

const TOKEN: &str = "abcdef.0123456789abcdef";

/// What becomes of the token if the secret has these values besides, or in place of, good ones.
fn user_with(changes: &[(&str, &str)]) -> Option<User> {
    let mut secret = json!({
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": NAMESPACE},
        "type": TYPE, "data": {},
    });
    let good = [
        ("token-id", "abcdef"),
        ("token-secret", "0123456789abcdef"),
        ("usage-bootstrap-authentication", "true"),
    ];
    for (key, value) in good.iter().chain(changes) {
        secret["data"][*key] = STANDARD.encode(value).into();
    }
    user_of(secret)
}

fn user_of(secret: Value) -> Option<User> {
    let mut world = World::default();
    world.put("secrets", secret);
    user(&world, TOKEN, NOW)
}

#[test]
fn a_token_has_its_name_and_groups_from_its_secret() {
    let user = user_with(&[]).unwrap();
    assert_eq!(user.name, "system:bootstrap:abcdef");
    assert_eq!(user.groups, ["system:bootstrappers"]);
    let extra = "system:bootstrappers:b,system:bootstrappers:a:x-1";
    let groups = user_with(&[("auth-extra-groups", extra)]).unwrap().groups;
    let expected = [
        "system:bootstrappers",
        "system:bootstrappers:a:x-1",
        "system:bootstrappers:b",
    ];
    assert_eq!(groups, expected);
}

#[test]
fn a_secret_that_does_not_fit_lets_nobody_in() {
    for change in [
        ("token-id", "abcdeg"),
        ("token-secret", "0123456789abcdeg"),
        ("token-secret", ""),
        ("usage-bootstrap-authentication", "false"),
        ("expiration", "2027-01-15T08:00:00Z"),
        ("expiration", "tomorrow"),
        ("auth-extra-groups", "system:masters"),
        ("auth-extra-groups", "system:bootstrappers:a,"),
        ("auth-extra-groups", "system:bootstrappers:a-"),
    ] {
        assert_eq!(user_with(&[change]), None, "{change:?}");
    }
    let later = ("expiration", "2027-01-15T08:00:01Z");
    assert!(user_with(&[later]).is_some());
}

#[test]
fn a_secret_of_another_type_or_in_deletion_lets_nobody_in() {
    let data = json!({
        "token-id": STANDARD.encode("abcdef"),
        "token-secret": STANDARD.encode("0123456789abcdef"),
        "usage-bootstrap-authentication": STANDARD.encode("true"),
    });
    let metadata = json!({"name": "bootstrap-token-abcdef", "namespace": NAMESPACE});
    let secret = json!({"metadata": metadata, "type": TYPE, "data": data});
    assert!(user_of(secret.clone()).is_some());
    let mut opaque = secret.clone();
    opaque["type"] = "Opaque".into();
    assert_eq!(user_of(opaque), None);
    let mut elsewhere = secret.clone();
    elsewhere["metadata"]["namespace"] = "default".into();
    assert_eq!(user_of(elsewhere), None);
    let mut deleted = secret;
    deleted["metadata"]["deletionTimestamp"] = "2027-01-01T00:00:00Z".into();
    assert_eq!(user_of(deleted), None);
}

#[test]
fn tokens_of_other_forms_are_none() {
    for token in [
        "abcdef",
        "abcde.0123456789abcdef",
        "abcdef.0123456789abcde",
        "Abcdef.0123456789abcdef",
        "abcdef.0123456789abcde/",
        "abcdef.01234567.9abcdef",
    ] {
        assert_eq!(parts(token), None, "{token}");
    }
    assert_eq!(parts(TOKEN), Some(("abcdef", "0123456789abcdef")));
}
