use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::{Value, json};

use super::*;
use crate::known::kind_of;
use crate::tests::fixtures::{ago, bodies, caches, decide, lines, owned, owner, pod, replica_set};

const KEY: (&str, &str) = ("", "pods/p");

/// The apiserver has no replica set of this name in a namespace.
fn set_absent(caches: &mut Caches, namespace: &str, name: &str) {
    let (kind, uid) = (kind_of::<ReplicaSet>(), format!("replicasets/{name}"));
    caches.graph.set_absent(kind, namespace, name, &uid);
}

#[test]
fn an_owner_that_is_not_known_is_asked_for_first() {
    let mut caches = caches(&[owned(pod("p", "a", true), "web")]);
    let decision = decide(&Garbage, &caches, KEY);
    assert_eq!(lines(&decision), ["get replicasets n/web"]);
    assert_eq!(decision.steps[0].asks.as_deref(), Some("replicasets/web"));
    assert!(decision.after.is_some());
    set_absent(&mut caches, "n", "web");
    let decision = decide(&Garbage, &caches, KEY);
    assert_eq!(lines(&decision), ["delete pods n/p"]);
    let options = &bodies(&decision)[0];
    assert_eq!(
        options["preconditions"],
        json!({"uid": "pods/p", "resourceVersion": "1"})
    );
    assert_eq!(options["propagationPolicy"], "Background");
}

#[test]
fn what_an_object_asks_for_its_own_dependents_is_heeded() {
    for (finalizer, policy) in [(ORPHAN, "Orphan"), (FOREGROUND, "Foreground")] {
        let mut one = owned(pod("p", "a", true), "web");
        one["metadata"]["finalizers"] = json!(["a/b", finalizer]);
        let mut caches = caches(&[one]);
        set_absent(&mut caches, "n", "web");
        let decision = decide(&Garbage, &caches, KEY);
        assert_eq!(bodies(&decision)[0]["propagationPolicy"], policy);
    }
}

#[test]
fn what_has_an_owner_left_only_loses_those_that_are_gone() {
    let mut two = owned(pod("p", "a", true), "web");
    let more = owner("apps/v1", "ReplicaSet", "gone");
    two["metadata"]["ownerReferences"]
        .as_array_mut()
        .unwrap()
        .push(more);
    let mut caches = caches(&[replica_set("web", 1), two]);
    set_absent(&mut caches, "n", "gone");
    let decision = decide(&Garbage, &caches, KEY);
    let references = &bodies(&decision)[0]["metadata"]["ownerReferences"];
    assert_eq!(
        *references,
        json!([{"$patch": "delete", "uid": "replicasets/gone"}])
    );
}

#[test]
fn an_owner_in_another_namespace_owns_nothing() {
    let mut elsewhere = replica_set("web", 1);
    elsewhere["metadata"]["namespace"] = "other".into();
    let caches = caches(&[elsewhere, owned(pod("p", "a", true), "web")]);
    let decision = decide(&Garbage, &caches, KEY);
    assert_eq!(lines(&decision), ["delete pods n/p"]);
    let told = decision.steps[0].done.as_ref().unwrap();
    assert_eq!(told.reason, "OwnerRefInvalidNamespace");
    assert_eq!(
        told.message,
        "ownerRef [apps/v1/ReplicaSet, namespace: n, name: web, uid: replicasets/web] does not \
         exist in namespace \"n\""
    );
}

/// An object that looks for its owner in the wrong place must not make others lose theirs.
#[test]
fn an_owner_that_one_namespace_lacks_may_be_in_another() {
    let mut elsewhere = owned(pod("q", "a", true), "web");
    elsewhere["metadata"]["namespace"] = "other".into();
    let mut known = caches(&[owned(pod("p", "a", true), "web"), elsewhere]);
    set_absent(&mut known, "other", "web");
    let decision = decide(&Garbage, &known, ("", "pods/q"));
    assert_eq!(lines(&decision), ["delete pods other/q"]);
    let decision = decide(&Garbage, &known, KEY);
    assert_eq!(lines(&decision), ["get replicasets n/web"]);
}

#[test]
fn a_cluster_scoped_object_is_owned_by_nothing_in_a_namespace() {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {
            "name": "reader", "ownerReferences": [owner("apps/v1", "ReplicaSet", "web")],
        },
    });
    let known = caches(&[replica_set("web", 1), role.clone()]);
    let decision = decide(&Garbage, &known, ("", "clusterroles/reader"));
    assert_eq!(lines(&decision), [""; 0]);
    // Nor does its owner wait for it.
    let known = caches(&[deleted(FOREGROUND), role]);
    let decision = decide(&Garbage, &known, ("", "clusterroles/reader"));
    assert_eq!(lines(&decision), [""; 0]);
    let decision = decide(&Garbage, &known, ("", "replicasets/web"));
    assert_eq!(lines(&decision), ["patch replicasets n/web"]);
}

#[test]
fn an_owner_of_a_kind_nobody_knows_stays() {
    let mut custom = owned(pod("p", "a", true), "web");
    custom["metadata"]["ownerReferences"][0]["kind"] = "Widget".into();
    let decision = decide(&Garbage, &caches(&[custom]), KEY);
    assert_eq!(lines(&decision), Vec::<String>::new());
}

fn deleted(finalizer: &str) -> Value {
    let mut set = replica_set("web", 1);
    set["metadata"]["deletionTimestamp"] = ago(1).into();
    set["metadata"]["finalizers"] = json!(["a/b", finalizer]);
    set
}

#[test]
fn in_the_foreground_dependents_go_before_their_owner() {
    let of_owner = ("", "replicasets/web");
    let known = caches(&[deleted(FOREGROUND), owned(pod("p", "a", true), "web")]);
    assert_eq!(
        lines(&decide(&Garbage, &known, of_owner)),
        Vec::<String>::new()
    );
    assert_eq!(lines(&decide(&Garbage, &known, KEY)), ["delete pods n/p"]);
    let alone = caches(&[deleted(FOREGROUND)]);
    let decision = decide(&Garbage, &alone, of_owner);
    assert_eq!(
        bodies(&decision)[0]["metadata"]["finalizers"],
        json!(["a/b"])
    );
    // A dependent that does not block its owner is not waited for.
    let mut unblocking = owned(pod("p", "a", true), "web");
    unblocking["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = false.into();
    let known = caches(&[deleted(FOREGROUND), unblocking]);
    assert_eq!(
        lines(&decide(&Garbage, &known, of_owner)),
        ["patch replicasets n/web"]
    );
}

#[test]
fn a_circle_of_owners_is_opened() {
    let refer = |to: &str| {
        let mut reference = owner("apps/v1", "ReplicaSet", "x");
        reference["kind"] = "Pod".into();
        reference["apiVersion"] = "v1".into();
        reference["name"] = to.into();
        reference["uid"] = format!("pods/{to}").into();
        reference
    };
    let of = |name: &str, to: &str| {
        let mut one = owned(pod(name, "a", true), "x");
        one["metadata"]["ownerReferences"] = json!([refer(to)]);
        one
    };
    // Each owns the one before it: `a` is deleted and waits for `b`.
    let mut first = of("a", "c");
    first["metadata"]["deletionTimestamp"] = ago(1).into();
    first["metadata"]["finalizers"] = json!([FOREGROUND]);
    let (b, mut c) = (of("b", "a"), of("c", "b"));
    let known = caches(&[first.clone(), b.clone(), c.clone()]);
    let delete = decide(&Garbage, &known, ("", "pods/b"));
    assert_eq!(lines(&delete), ["delete pods n/b"]);
    let mut second = b;
    second["metadata"]["deletionTimestamp"] = ago(1).into();
    second["metadata"]["finalizers"] = json!([FOREGROUND]);
    let known = caches(&[first.clone(), second.clone(), c.clone()]);
    let opened = decide(&Garbage, &known, ("", "pods/c"));
    assert_eq!(lines(&opened), ["patch pods n/c"]);
    let references = &bodies(&opened)[0]["metadata"]["ownerReferences"];
    let unblocked = json!([{"uid": "pods/b", "blockOwnerDeletion": false}]);
    assert_eq!(*references, unblocked);
    // Then the last is deleted, the second no longer waits for it, and the circle is broken.
    c["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] = false.into();
    let known = caches(&[first, second, c]);
    assert_eq!(
        lines(&decide(&Garbage, &known, ("", "pods/c"))),
        ["delete pods n/c"]
    );
    let goes = decide(&Garbage, &known, ("", "pods/b"));
    assert_eq!(bodies(&goes)[0]["metadata"]["finalizers"], json!([]));
}

#[test]
fn orphans_lose_their_owner_before_it_goes() {
    let known = caches(&[deleted(ORPHAN), owned(pod("p", "a", true), "web")]);
    let decision = decide(&Garbage, &known, ("", "replicasets/web"));
    assert_eq!(
        lines(&decision),
        ["patch pods n/p", "patch replicasets n/web"]
    );
}
