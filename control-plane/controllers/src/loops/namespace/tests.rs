use machinery::status::Status;
use serde_json::{Value, json};

use super::*;
use crate::kinds::Kinds;
use crate::tests::fixtures::{
    self, ago, bodies, caches, decide, decide_after, discovery, lines, pod, replica_set,
};

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
    assert_eq!(
        conditions[3]["message"],
        "Some resources are remaining: pods. has 2 resource instances, \
         replicasets.apps has 1 resource instances"
    );
    let decision = decide(&Namespaces, &caches(&objects[..2]), KEY);
    assert_eq!(lines(&decision)[1..], ["delete replicasets n/web"]);
}

#[test]
fn people_are_told_what_holds_a_namespace() {
    let mut held = pod("p", "a", true);
    held["metadata"]["deletionTimestamp"] = ago(1).into();
    held["metadata"]["finalizers"] = json!(["example.com/one", "example.com/two"]);
    let failure = Failure {
        creating: false,
        deleting: true,
        message: "the disk is full".into(),
    };
    let caches = caches(&[namespace(), held]);
    let decision = decide_after(&Namespaces, &caches, KEY, Some(&failure));
    let conditions = bodies(&decision)[0]["status"]["conditions"].clone();
    let said = |at: usize| {
        (
            conditions[at]["reason"].as_str(),
            conditions[at]["message"].as_str(),
        )
    };
    assert_eq!(
        said(2),
        (
            Some("ContentDeletionFailed"),
            Some("Failed to delete all resource types, 1 remaining: the disk is full")
        )
    );
    assert_eq!(
        said(4),
        (
            Some("SomeFinalizersRemain"),
            Some(
                "Some content in the namespace has finalizers remaining: \
                 example.com/one in 1 resource instances, example.com/two in 1 resource instances"
            )
        )
    );
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

#[test]
fn a_namespace_waits_for_kinds_that_nobody_knows() {
    let groups = json!({"items": [{"metadata": {"name": "example.com"}, "versions": [
        {"version": "v1", "freshness": "Stale"}]}]});
    let mut caches = caches(&[namespace()]);
    caches.kinds = Arc::new(Kinds::read([&discovery(true), &groups]));
    let decision = decide(&Namespaces, &caches, KEY);
    assert_eq!(lines(&decision), ["update status of namespaces n"]);
    assert_eq!(decision.after, Some(DISCOVERY_AGAIN));
    let told = bodies(&decision)[0].clone();
    let condition = &told["status"]["conditions"][0];
    assert_eq!(condition["type"], "NamespaceDeletionDiscoveryFailure");
    assert_eq!(condition["status"], "True");
    assert_eq!(
        condition["message"],
        "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of \
         server APIs: example.com/v1: stale GroupVersion discovery: example.com/v1"
    );
    // Once told, it is only looked at again; and the kinds that are found are news.
    let mut again = fixtures::caches(&[told]);
    again.kinds = Arc::clone(&caches.kinds);
    assert_eq!(lines(&decide(&Namespaces, &again, KEY)), [""; 0]);
    assert!(again.kinds.agree_with(&groups));
    assert!(!again.kinds.agree_with(&json!({"items": []})));
}

#[test]
fn a_kind_that_discovery_lists_and_nobody_serves_holds_no_namespace() {
    let resource = |plural: &str| {
        json!({"resource": plural, "responseKind": {"kind": plural}, "scope": "Namespaced",
            "verbs": ["list", "deletecollection"]})
    };
    let groups = json!({"items": [{"metadata": {"name": "example.com"}, "versions": [
        {"version": "v1", "resources": [resource("widgets")]}]}]});
    let mut caches = caches(&[namespace()]);
    caches.kinds = Arc::new(Kinds::read([&discovery(true), &groups]));
    let decision = decide(&Namespaces, &caches, KEY);
    let fails = |line: &str, error: Status| {
        let mut steps = decision.steps.iter();
        let step = steps.find(|step| step.call.to_string() == line).unwrap();
        step.verdict(&Err(error)).is_err()
    };
    let widgets = "list widgets n/";
    assert!(!fails(widgets, Status::unknown_path()));
    assert!(!fails(widgets, Status::method_not_allowed()));
    assert!(fails(widgets, Status::unavailable("not reached")));
    // The apiserver is not ready.
    assert!(fails("list pods n/", Status::unknown_path()));
}
