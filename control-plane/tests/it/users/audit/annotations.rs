//! What webhooks have the log say of a write.

use std::time::Duration;

use apiserver::Config;
use apiserver::audit::options::{Handling, LogOptions, Options};
use serde_json::{Value, json};

use crate::admission::webhooks::server::{Hook, Reply, patch};
use crate::admission::webhooks::world::{World, label, map};

#[tokio::test]
async fn webhooks_annotate_events_as_in_kubernetes() {
    for level in ["Metadata", "Request"] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("audit.log");
        let config = Config {
            audit: options(level, &home).open().unwrap(),
            ..Config::default()
        };
        let world = World::configured(Hook::start(&["127.0.0.1"]).await, config).await;
        world.hook.on("/a", |_| {
            let annotations = json!({"why": "because", "bad key": "x"});
            Reply::Review(json!({"allowed": true, "auditAnnotations": annotations}))
        });
        world.hook.on("/b", |_| patch(&label("b<c")));
        let again = json!({"reinvocationPolicy": "IfNeeded"});
        world.configure("Mutating", "a", "/a", again).await;
        world.configure("Mutating", "b", "/b", json!({})).await;
        world.configure("Validating", "v", "/a", json!({})).await;
        let answer = world
            .post("/api/v1/namespaces/default/configmaps", &map("x"))
            .await;
        assert_eq!(answer.code, 422, "{}", answer.body);
        let event = last(&std::fs::read_to_string(&path).unwrap());
        let mutation = |name: &str, mutated: bool| {
            format!(
                "{{\"configuration\":\"{name}\",\"webhook\":\"{name}.example.com\",\
                 \"mutated\":{mutated}}}"
            )
        };
        let mut expected = json!({
            "a.example.com/why": "because",
            "authorization.k8s.io/decision": "allow",
            "authorization.k8s.io/reason": "",
            "mutation.webhook.admission.k8s.io/round_0_index_0": mutation("a", false),
            "mutation.webhook.admission.k8s.io/round_0_index_1": mutation("b", true),
            "mutation.webhook.admission.k8s.io/round_1_index_0": mutation("a", false),
        });
        if level == "Request" {
            let key = "patch.webhook.admission.k8s.io/round_0_index_1";
            expected[key] = concat!(
                r#"{"configuration":"b","webhook":"b.example.com","patch":[{"op":"test","#,
                r#""path":"/kind","value":"ConfigMap"},{"op":"add","path":"/metadata/labels","#,
                r#""value":{"b\u003cc":"yes"}}],"patchType":"JSONPatch"}"#
            )
            .into();
        }
        assert_eq!(event["annotations"], expected);
    }
}

fn options(level: &str, home: &tempfile::TempDir) -> Options {
    let policy = home.path().join("policy.yaml");
    let text = json!({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{
        "level": level, "verbs": ["create"], "resources": [{"resources": ["configmaps"]}]}]});
    std::fs::write(&policy, text.to_string()).unwrap();
    Options {
        policy_file: Some(policy),
        log: Some(LogOptions {
            path: home.path().join("audit.log"),
            format: "json".into(),
            max_age: 0,
            max_backups: 0,
            max_size: 100,
            compress: false,
            handling: Handling {
                version: "audit.k8s.io/v1".into(),
                mode: "blocking".into(),
                buffer_size: 1,
                max_batch_size: 1,
                max_batch_wait: Duration::ZERO,
                throttle: false,
                throttle_qps: 0.0,
                throttle_burst: 0,
                truncate: false,
                max_batch_bytes: 1,
                max_event_bytes: 1,
            },
        }),
        webhook: None,
    }
}

/// The last event of a log.
fn last(text: &str) -> Value {
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}
