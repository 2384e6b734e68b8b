#![expect(
    clippy::disallowed_methods,
    reason = "files of other programs, in a temporary directory"
)]

use super::*;

fn file(authorizers: &str) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n\
         authorizers: {authorizers}\n"
    )
}

fn refused(authorizers: &str) -> String {
    parse(&file(authorizers), &[]).unwrap_err()
}

/// A webhook with a kubeconfig that is there, and these changes.
fn webhook(changes: &[(&str, serde_json::Value)]) -> Result<Vec<Configured>, String> {
    let home = tempfile::tempdir().unwrap();
    let kubeconfig = home.path().join("kubeconfig");
    std::fs::write(&kubeconfig, "").unwrap();
    let mut webhook = serde_json::json!({
        "timeout": "3s", "subjectAccessReviewVersion": "v1", "failurePolicy": "NoOpinion",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": kubeconfig},
    });
    for (key, value) in changes {
        webhook[key] = value.clone();
    }
    let all = serde_json::json!([{"type": "Webhook", "name": "w", "webhook": webhook}]);
    parse(&file(&all.to_string()), &[])
}

#[test]
fn authorizers_are_asked_in_the_order_of_the_file() {
    let all = "[{type: Node, name: node}, {type: RBAC, name: rbac}]";
    let configured = parse(&file(all), &[Mode::Rbac]).unwrap();
    assert_eq!(
        configured,
        [
            Configured::Builtin(Mode::Node),
            Configured::Builtin(Mode::Rbac)
        ]
    );
    let why = parse(&file(all), &[Mode::AlwaysAllow, Mode::Webhook]).unwrap_err();
    assert_eq!(why, "missing required types: [AlwaysAllow]");
}

#[test]
fn what_is_wrong_is_said_as_in_kubernetes() {
    for (all, why) in [
        (
            "[]",
            "authorizers: Required value: at least one authorization mode must be defined",
        ),
        ("[{name: a}]", "authorizers[0].type: Required value"),
        (
            "[{type: Magic, name: a}]",
            "authorizers[0].type: Unsupported value: \"Magic\": supported values: \"ABAC\", \
             \"AlwaysAllow\", \"AlwaysDeny\", \"Node\", \"RBAC\", \"Webhook\"",
        ),
        (
            "[{type: RBAC, name: rbac}, {type: RBAC, name: other}]",
            "authorizers[1].type: Duplicate value: \"RBAC\"",
        ),
        (
            "[{type: RBAC, name: mine}]",
            "expected name rbac for authorizer RBAC instead of mine",
        ),
        (
            "[{type: Webhook, name: w}]",
            "authorizers[0].webhook: Required value: required when type=Webhook",
        ),
        (
            "[{type: RBAC, name: rbac, webhook: {}}]",
            "authorizers[0].webhook: Invalid value: \"non-null\": may only be specified when \
             type=Webhook",
        ),
        (
            "[{type: RBAC, name: rbac, size: 1}]",
            "failed to load AuthorizationConfiguration from file: strict decoding error: unknown \
             field \"authorizers[0].size\"",
        ),
    ] {
        assert_eq!(refused(all), why, "{all}");
    }
    assert!(refused("[{type: ABAC, name: abac}]").contains("is not supported"));
}

#[test]
fn a_webhook_has_the_defaults_of_kubernetes() {
    let all = webhook(&[]).unwrap();
    let [Configured::Webhook(options)] = &all[..] else {
        panic!("{all:?}");
    };
    assert_eq!(options.keep_allowed, Duration::from_secs(300));
    assert_eq!(options.keep_others, Duration::from_secs(30));
    assert!(options.keeps_allowed && options.keeps_others && !options.denies_on_error);
}

#[test]
fn a_webhook_is_configured_as_in_kubernetes() {
    let place = "authorizers[0]";
    for (key, value, why) in [
        ("timeout", "".into(), "timeout: Required value"),
        (
            "timeout",
            "31s".into(),
            "timeout: Invalid value: \"31s\": must be > 0s and <= 30s",
        ),
        (
            "authorizedTTL",
            "-1s".into(),
            "authorizedTTL: Invalid value: \"-1s\": must be > 0s",
        ),
        (
            "subjectAccessReviewVersion",
            "v2".into(),
            "subjectAccessReviewVersion: Unsupported value: \"v2\": supported values: \"v1\", \
             \"v1beta1\"",
        ),
        ("failurePolicy", "".into(), "failurePolicy: Required value"),
        (
            "connectionInfo",
            serde_json::json!({"type": "KubeConfigFile", "kubeConfigFile": "a"}),
            "connectionInfo.kubeConfigFile: Invalid value: \"a\": must be an absolute path",
        ),
        (
            "matchConditions",
            serde_json::json!([{"expression": "request.user == 'a'"}]),
            "matchConditionSubjectAccessReviewVersion: Required value: required if match \
             conditions are specified",
        ),
    ] {
        let told = webhook(&[(key, value)]).unwrap_err();
        assert_eq!(told, format!("{place}.{why}"), "{key}");
    }
    let conditions = |source: &str| {
        webhook(&[
            ("matchConditionSubjectAccessReviewVersion", "v1".into()),
            (
                "matchConditions",
                serde_json::json!([{"expression": source}]),
            ),
        ])
    };
    conditions("!('system:nodes' in request.groups)").unwrap();
    let why = conditions("request.user").unwrap_err();
    assert_eq!(
        why,
        "authorizers[0].matchConditions[0].expression: Invalid value: \"request.user\": must \
         evaluate to bool but got string"
    );
    conditions("request.name == 'a'").unwrap_err();
}
