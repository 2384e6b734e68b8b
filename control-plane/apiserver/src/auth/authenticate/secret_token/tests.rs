use std::task::Poll;

use serde_json::json;

use super::*;
use crate::auth::authenticate::token::tests::{NOW, World, account, issuer, now_or_never};
use crate::auth::authenticate::used_secrets::LAST_USED;

fn claims() -> Value {
    json!({
        "iss": "kubernetes/serviceaccount",
        "sub": "system:serviceaccount:tools:bot",
        "kubernetes.io/serviceaccount/namespace": "tools",
        "kubernetes.io/serviceaccount/secret.name": "bot-token",
        "kubernetes.io/serviceaccount/service-account.name": "bot",
        "kubernetes.io/serviceaccount/service-account.uid": "u-1",
    })
}

fn secret(token: &str) -> Value {
    json!({
        "metadata": {"name": "bot-token", "namespace": "tools", "uid": "s-1"},
        "data": {"token": STANDARD.encode(token)},
    })
}

fn world(secret: Value) -> World {
    let mut world = World::default();
    world.put("serviceaccounts", account());
    world.put("secrets", secret);
    world
}

fn asked(issuer: &Issuer, world: &World, token: &str) -> Result<Option<User>, String> {
    now_or_never(user(issuer, world, token, &Notes::default(), NOW))
}

#[test]
fn the_token_of_a_secret_is_good_as_long_as_the_secret_has_it() {
    let issuer = issuer();
    let token = issuer.sign_for_tests(&claims());
    let known = asked(&issuer, &world(secret(&token)), &token)
        .unwrap()
        .unwrap();
    assert_eq!(known.name, "system:serviceaccount:tools:bot");
    assert_eq!(known.uid, "u-1");
    assert_eq!(
        known.groups,
        ["system:serviceaccounts", "system:serviceaccounts:tools"]
    );

    let refused = |world: &World| asked(&issuer, world, &token).unwrap_err();
    let other = issuer.sign_for_tests(&json!({"iss": ISSUER}));
    assert_eq!(
        refused(&world(secret(&other))),
        "Token does not match server's copy"
    );
    assert_eq!(refused(&World::default()), "Token has been invalidated");
    let mut deleted = secret(&token);
    deleted["metadata"]["deletionTimestamp"] = NOW.to_seconds().into();
    assert_eq!(refused(&world(deleted)), "Token has been invalidated");
    let mut invalid = secret(&token);
    invalid["metadata"]["labels"] = json!({INVALID_SINCE: "2026-01-01"});
    let why = refused(&world(invalid));
    assert!(why.contains("has been marked invalid"), "{why}");
}

#[test]
fn its_account_must_be_the_same() {
    let issuer = issuer();
    let token = issuer.sign_for_tests(&claims());
    let mut world = world(secret(&token));
    let mut new = account();
    new["metadata"]["uid"] = "u-2".into();
    world.put("serviceaccounts", new);
    assert_eq!(
        asked(&issuer, &world, &token).unwrap_err(),
        "ServiceAccount UID (u-2) does not match claim (u-1)"
    );
}

#[test]
fn claims_must_be_complete_and_signed() {
    let issuer = issuer();
    let refused = |claims: &Value| {
        let token = issuer.sign_for_tests(claims);
        asked(&issuer, &world(secret(&token)), &token).unwrap_err()
    };
    let mut other = claims();
    other["sub"] = "system:serviceaccount:tools:other".into();
    assert_eq!(refused(&other), "sub claim is invalid");
    let mut bare = claims();
    let key = "kubernetes.io/serviceaccount/secret.name";
    bare.as_object_mut().unwrap().remove(key);
    assert_eq!(refused(&bare), "secretName claim is missing");
    // Somebody else's key.
    let forged = super::super::token::tests::issuer().sign_for_tests(&claims());
    assert!(asked(&issuer, &world(secret(&forged)), &forged).is_err());
    // Another issuer's token is somebody else's business.
    let foreign = issuer.sign_for_tests(&json!({"iss": "https://example.com"}));
    assert_eq!(
        asked(&issuer, &world(secret(&foreign)), &foreign).unwrap(),
        None
    );
}

#[test]
fn a_use_is_noted_once_a_day() {
    let issuer = issuer();
    let token = issuer.sign_for_tests(&claims());
    let next = || {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(issuer.used.next()).poll(&mut context) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    };
    asked(&issuer, &world(secret(&token)), &token).unwrap();
    assert_eq!(next(), Some(("tools".into(), "bot-token".into())));
    assert_eq!(next(), None);
    let mut used = secret(&token);
    issuer.used.mark(&mut used, NOW);
    asked(&issuer, &world(used.clone()), &token).unwrap();
    assert_eq!(next(), None);
    used["metadata"]["labels"] = json!({LAST_USED: "2001-01-01"});
    asked(&issuer, &world(used), &token).unwrap();
    assert!(next().is_some());
}

#[test]
fn the_log_is_told_how_a_secret_came_about() {
    let issuer = issuer();
    let token = issuer.sign_for_tests(&claims());
    let noted = |world: &World| {
        let notes = Notes::default();
        // Those that are refused are noted, too.
        let _ = now_or_never(user(&issuer, world, &token, &notes, NOW));
        notes.take()
    };
    let manual = noted(&world(secret(&token)));
    assert_eq!(manual.warnings, [""; 0]);
    let used = (USED, "system:serviceaccount:tools:bot".to_owned());
    let of_secret = |key| (key, "bot-token".to_owned());
    assert_eq!(manual.annotations, [used.clone(), of_secret(USED_MANUAL)]);

    let mut owner = account();
    owner["secrets"] = json!([{"name": "bot-token"}]);
    let mut generated = world(secret(&token));
    generated.put("serviceaccounts", owner);
    let generated = noted(&generated);
    assert_eq!(generated.warnings, [GENERATED]);
    assert_eq!(
        generated.annotations,
        [used.clone(), of_secret(USED_GENERATED)]
    );

    let mut invalid = secret(&token);
    invalid["metadata"]["labels"] = json!({INVALID_SINCE: "2026-01-01"});
    let invalid = noted(&world(invalid));
    assert_eq!(invalid.warnings, [""; 0]);
    let invalidated = (USED_INVALID, "bot-token/tools".to_owned());
    assert_eq!(invalid.annotations, [used, invalidated]);
}
