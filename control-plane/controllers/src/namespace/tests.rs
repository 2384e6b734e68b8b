use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{ago, bodies, caches, decide, lines, pod, replica_set};

const KEY: (&str, &str) = ("", "n");

fn namespace() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "n", "deletionTimestamp": ago(1)},
        "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Terminating"},
    })
}

#[test]
fn pods_go_before_everything_else() {
    let mut ends = pod("q", "a", true);
    ends["metadata"]["deletionTimestamp"] = ago(1).into();
    let objects = [
        namespace(),
        replica_set("web", 1),
        pod("p", "a", true),
        ends,
    ];
    let decision = decide(&Namespaces, &caches(&objects), KEY);
    assert_eq!(
        lines(&decision),
        ["update status of namespaces n", "delete pods n/p"]
    );
    let conditions = bodies(&decision)[0]["status"]["conditions"].clone();
    assert_eq!(conditions[3]["type"], "NamespaceContentRemaining");
    assert_eq!(conditions[3]["status"], "True");
    let decision = decide(&Namespaces, &caches(&objects[..2]), KEY);
    assert_eq!(lines(&decision)[1..], ["delete replicasets n/web"]);
}

#[test]
fn an_empty_namespace_is_asked_about_before_it_goes() {
    let decision = decide(&Namespaces, &caches(&[namespace()]), KEY);
    let lines = lines(&decision);
    let (last, asks) = lines.split_last().unwrap();
    assert_eq!(last, "update finalize of namespaces n");
    assert!(asks.contains(&"list pods n/".to_owned()), "{asks:?}");
    assert!(
        asks.contains(&"delete all events n/".to_owned()),
        "{asks:?}"
    );
    assert_eq!(
        bodies(&decision).last().unwrap()["spec"]["finalizers"],
        json!([])
    );
}

#[test]
fn a_namespace_that_stays_is_left_alone() {
    let mut stays = namespace();
    stays["metadata"]["deletionTimestamp"] = Value::Null;
    let decision = decide(&Namespaces, &caches(&[stays, pod("p", "a", true)]), KEY);
    assert_eq!(lines(&decision), Vec::<String>::new());
}
