mod history;
mod nodes;
mod rollout;
mod waking;

use serde_json::{Value, json};

use super::*;
use crate::revisions;
use crate::tests::fixtures::{ago, bodies, caches, decide, lines, node, owner, pod};

const KEY: (&str, &str) = ("n", "agent");

fn set(image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {
            "namespace": "n", "name": "agent", "generation": 1, "annotations": {GENERATION: "1"},
        },
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    })
}

/// A set whose pods are replaced with so many more or fewer of them.
fn rolling(surge: impl Into<Value>, unavailable: impl Into<Value>) -> Value {
    let mut set = set("two");
    set["spec"]["updateStrategy"] = json!({
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": surge.into(), "maxUnavailable": unavailable.into()},
    });
    set
}

/// The revision of a set's template; `hash` is the end of its name.
fn revision(set: &Value, hash: &str, number: i64) -> Value {
    let with_defaults = caches(std::slice::from_ref(set));
    let read = with_defaults.daemon_sets.get("n", "agent").unwrap();
    json!({
        "apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": number,
        "data": revisions::data(&read.spec.as_ref().unwrap().template),
        "metadata": {
            "namespace": "n", "name": format!("agent-{hash}"),
            "labels": {"app": "web", REVISION_HASH: hash},
            "ownerReferences": [owner("apps/v1", "DaemonSet", "agent")],
        },
    })
}

/// A pod of the set, made from the template with this hash.
fn daemon(name: &str, node: &str, hash: &str, ready: bool) -> Value {
    let mut pod = pod(name, node, ready);
    pod["metadata"]["labels"][REVISION_HASH] = hash.into();
    pod["metadata"]["ownerReferences"] = json!([owner("apps/v1", "DaemonSet", "agent")]);
    pod
}

fn ready_node(name: &str) -> Value {
    node(name, "True")
}

fn tainted(name: &str, key: &str, effect: &str) -> Value {
    let mut node = ready_node(name);
    node["spec"]["taints"] = json!([{"key": key, "effect": effect}]);
    node
}

/// A set with its revision, and these objects.
fn with(set: Value, others: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let revision = revision(&set, "now", 2);
    [set, revision].into_iter().chain(others).collect()
}

/// The pods that a decision deletes by name, and the nodes for which it creates some.
fn changes(objects: &[Value]) -> (Vec<String>, Vec<String>) {
    changes_of(&decide(&DaemonSets, &caches(objects), KEY))
}

fn changes_of(decision: &Decision) -> (Vec<String>, Vec<String>) {
    let lines = lines(decision);
    let deleted = lines
        .iter()
        .filter_map(|line| line.strip_prefix("delete pods n/"));
    let bodies = bodies(decision);
    let created = bodies.iter().filter(|body| body["kind"] == "Pod");
    let created = created.map(|pod| {
        let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
        target(&pod).unwrap_or_default().to_owned()
    });
    (deleted.map(str::to_owned).collect(), created.collect())
}

/// The status that a decision writes.
fn status(objects: &[Value]) -> Value {
    let decision = decide(&DaemonSets, &caches(objects), KEY);
    let lines = lines(&decision).into_iter().zip(bodies(&decision));
    let mut told = lines.filter(|(line, _)| line == "update status of daemonsets n/agent");
    told.next_back()
        .map(|(_, body)| body["status"].clone())
        .unwrap_or_default()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn a_set_is_counted_by_nodes() {
    let mut other = ready_node("other");
    other["metadata"]["labels"] = json!({"role": "other"});
    let mut set = set("one");
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"role": "worker"});
    let worker = |name: &str| {
        let mut node = ready_node(name);
        node["metadata"]["labels"] = json!({"role": "worker"});
        node
    };
    let objects = with(
        set,
        [
            worker("a"),
            worker("b"),
            worker("c"),
            worker("d"),
            other,
            daemon("a-1", "a", "now", true),
            daemon("b-1", "b", "now", false),
            daemon("c-1", "c", "before", true),
            daemon("o-1", "other", "now", true),
        ],
    );
    assert_eq!(
        status(&objects),
        json!({
            "desiredNumberScheduled": 4, "currentNumberScheduled": 3, "numberMisscheduled": 1,
            "numberReady": 2, "numberAvailable": 2, "numberUnavailable": 2,
            "updatedNumberScheduled": 2, "observedGeneration": 1,
        })
    );
}

#[test]
fn a_status_that_did_not_change_is_not_written() {
    let mut set = set("one");
    set["status"] = json!({
        "desiredNumberScheduled": 1, "currentNumberScheduled": 1, "numberMisscheduled": 0,
        "numberReady": 1, "numberAvailable": 1, "updatedNumberScheduled": 1,
        "observedGeneration": 1,
    });
    let objects = with(set, [ready_node("a"), daemon("a-1", "a", "now", true)]);
    let decision = decide(&DaemonSets, &caches(&objects), KEY);
    assert_eq!(lines(&decision), [""; 0]);
}

#[test]
fn a_pod_is_available_when_it_was_ready_for_long_enough() {
    let mut set = set("one");
    set["spec"]["minReadySeconds"] = 130.into();
    let objects = with(set, [ready_node("a"), daemon("a-1", "a", "now", true)]);
    let told = status(&objects);
    assert_eq!(told["numberReady"], 1);
    assert_eq!(told["numberAvailable"], 0);
    let decision = decide(&DaemonSets, &caches(&objects), KEY);
    assert_eq!(decision.after, Some(std::time::Duration::from_secs(30)));
}

#[test]
fn a_pod_of_an_older_version_of_kubernetes_is_known_by_its_number() {
    let mut old = daemon("a-1", "a", "unknown", true);
    old["metadata"]["labels"][GENERATION_LABEL] = "1".into();
    let objects = with(set("one"), [ready_node("a"), old]);
    assert_eq!(status(&objects)["updatedNumberScheduled"], 1);
}

#[test]
fn pods_that_match_are_adopted_and_those_that_do_not_are_released() {
    let mut stray = daemon("stray", "a", "now", true);
    stray["metadata"]["labels"] = json!({"app": "other"});
    let free = pod("free", "a", true);
    let objects = with(set("one"), [ready_node("a"), free, stray]);
    let decision = decide(&DaemonSets, &caches(&objects), KEY);
    assert_eq!(
        lines(&decision),
        ["patch pods n/stray", "patch pods n/free"]
    );
}

#[test]
fn a_set_that_is_being_deleted_is_left_alone() {
    let mut set = set("one");
    set["metadata"]["deletionTimestamp"] = ago(1).into();
    let objects = [set, ready_node("a"), pod("free", "a", true)];
    assert_eq!(lines(&decide(&DaemonSets, &caches(&objects), KEY)), [""; 0]);
}
