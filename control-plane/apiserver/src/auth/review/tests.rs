use super::*;

fn requester() -> User {
    User {
        name: "me".into(),
        uid: "7".into(),
        groups: vec!["g".into()],
        extra: [("k".to_owned(), vec!["v".to_owned()])].into(),
    }
}

fn asked(kind: &str, review: Value) -> Result<Attributes, Status> {
    access_asked(kind, &review, &requester(), "ns")
}

#[test]
fn one_asks_for_oneself_or_for_another() {
    let what = json!({
        "verb": "get", "group": "apps", "resource": "deployments", "subresource": "scale",
        "namespace": "ns", "name": "x",
    });
    let own = asked(
        "SelfSubjectAccessReview",
        json!({"spec": {"resourceAttributes": what}}),
    );
    let own = own.unwrap();
    assert_eq!(own.user, requester());
    let parts = [
        &own.verb,
        &own.api_group,
        &own.resource,
        &own.subresource,
        &own.namespace,
    ];
    assert_eq!(parts, ["get", "apps", "deployments", "scale", "ns"]);
    let spec = json!({
        "resourceAttributes": what, "user": "jane", "groups": ["a"], "uid": "1",
        "extra": {"k": ["x", "y"]},
    });
    let other = asked("SubjectAccessReview", json!({ "spec": spec })).unwrap();
    assert_eq!(other.user.name, "jane");
    assert_eq!(other.user.groups, ["a"]);
    assert_eq!(other.user.extra["k"], ["x", "y"]);
    let path = json!({"spec": {"nonResourceAttributes": {"verb": "get", "path": "/metrics"}}});
    let path = asked("SelfSubjectAccessReview", path).unwrap();
    assert_eq!(
        (path.is_resource(), path.path.as_str()),
        (false, "/metrics")
    );
}

#[test]
fn questions_that_ask_nothing_or_too_much_are_refused() {
    let (resource, path) = (json!({"verb": "get"}), json!({"path": "/"}));
    for (kind, spec, field) in [
        (
            "SelfSubjectAccessReview",
            json!({}),
            "spec.resourceAttributes",
        ),
        (
            "SelfSubjectAccessReview",
            json!({"resourceAttributes": resource, "nonResourceAttributes": path}),
            "spec.nonResourceAttributes",
        ),
        (
            "SubjectAccessReview",
            json!({"resourceAttributes": resource}),
            "spec.user",
        ),
        (
            "LocalSubjectAccessReview",
            json!({"resourceAttributes": {"namespace": "x"}, "user": "u"}),
            "spec.resourceAttributes.namespace",
        ),
    ] {
        let refused = asked(kind, json!({ "spec": spec })).unwrap_err();
        assert_eq!(refused.code, 422);
        assert_eq!(refused.details.causes[0].field, field);
    }
}

#[test]
fn one_is_told_who_one_is() {
    let now = Timestamp {
        seconds: 0,
        nanos: 0,
    };
    let review = myself(json!({"kind": "SelfSubjectReview"}), &requester(), now);
    let info = json!({"username": "me", "uid": "7", "groups": ["g"], "extra": {"k": ["v"]}});
    assert_eq!(review["status"]["userInfo"], info);
}

#[test]
fn a_token_nobody_bears_is_told_with_the_reason() {
    let review = token_answer(json!({}), Err("expired".into()));
    assert_eq!(review["status"], json!({"error": "expired", "user": {}}));
    assert_eq!(token_asked(&json!({"spec": {}})).unwrap_err().code, 400);
}
