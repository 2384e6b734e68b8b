use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{ago, bodies, caches, caches_since, decide, lines, node, now, pod};

fn heard(node: Value, seconds: i64) -> Value {
    let mut node = node;
    node["status"]["conditions"][0]["lastHeartbeatTime"] = ago(seconds).into();
    node
}

fn tainted(node: Value, key: &str, seconds: i64) -> Value {
    let mut node = node;
    node["spec"]["taints"] = json!([
        {"key": key, "effect": "NoSchedule", "timeAdded": ago(seconds)},
        {"key": key, "effect": "NoExecute", "timeAdded": ago(seconds)},
    ]);
    node
}

fn taints(node: &Value) -> Vec<String> {
    let taints = node["spec"]["taints"].as_array().unwrap().iter();
    taints
        .map(|t| {
            format!(
                "{}:{}",
                t["key"].as_str().unwrap(),
                t["effect"].as_str().unwrap()
            )
        })
        .collect()
}

#[test]
fn a_silent_node_is_told_to_be_unknown() {
    let nodes = caches(&[heard(node("a", "True"), 51), node("b", "True")]);
    let decision = decide(&NodeLifecycle, &nodes, ("", "a"));
    assert_eq!(lines(&decision), ["update status of nodes a"]);
    let conditions = bodies(&decision)[0]["status"]["conditions"].clone();
    let all = conditions.as_array().unwrap();
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|one| one["status"] == "Unknown"));
    assert_eq!(all[0]["reason"], "NodeStatusUnknown");
    assert_eq!(all[1]["reason"], "NodeStatusNeverUpdated");
    // Until then the loop only waits.
    let decision = decide(&NodeLifecycle, &nodes, ("", "b"));
    assert_eq!(lines(&decision), Vec::<String>::new());
    assert_eq!(decision.after, Some(GRACE));
}

#[test]
fn a_lease_that_was_just_renewed_speaks_for_the_node() {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"namespace": LEASES, "name": "a"}, "spec": {},
    });
    let mut since = now();
    since.seconds -= 20;
    let nodes = caches_since(&[heard(node("a", "True"), 400), lease], since);
    let decision = decide(&NodeLifecycle, &nodes, ("", "a"));
    assert_eq!(decision.after, Some(Duration::from_secs(30)));
}

#[test]
fn a_node_with_a_clock_that_is_ahead_does_not_outlive_itself() {
    let mut since = now();
    since.seconds -= 51;
    let nodes = caches_since(&[heard(node("a", "True"), -300)], since);
    let decision = decide(&NodeLifecycle, &nodes, ("", "a"));
    assert_eq!(lines(&decision), ["update status of nodes a"]);
}

#[test]
fn an_unknown_node_is_tainted_and_its_pods_are_unready() {
    let nodes = caches(&[
        heard(node("a", "Unknown"), 60),
        node("b", "True"),
        pod("p", "a", true),
        pod("q", "b", true),
    ]);
    let decision = decide(&NodeLifecycle, &nodes, ("", "a"));
    assert_eq!(
        lines(&decision),
        ["patch nodes a", "patch status of pods n/p"]
    );
    assert_eq!(
        taints(&bodies(&decision)[0]),
        [
            "node.kubernetes.io/unreachable:NoSchedule",
            "node.kubernetes.io/unreachable:NoExecute",
        ]
    );
}

#[test]
fn nodes_are_emptied_one_after_the_other_and_not_when_all_are_silent() {
    let silent = |name: &str| heard(node(name, "Unknown"), 60);
    let all = caches(&[silent("a"), silent("b")]);
    let decision = decide(&NodeLifecycle, &all, ("", "a"));
    assert_eq!(
        taints(&bodies(&decision)[0]),
        ["node.kubernetes.io/unreachable:NoSchedule"]
    );
    let one = tainted(silent("b"), taints::UNREACHABLE, 4);
    let some = caches(&[silent("a"), one, node("c", "True")]);
    let decision = decide(&NodeLifecycle, &some, ("", "a"));
    assert_eq!(
        taints(&bodies(&decision)[0]),
        ["node.kubernetes.io/unreachable:NoSchedule"]
    );
    assert_eq!(decision.after, Some(Duration::from_secs(6)));
}

/// So many nodes of a zone, the first of them silent.
fn zone(name: &str, nodes: usize, silent: usize) -> Vec<Value> {
    let one = |at: usize| {
        let status = if at < silent { "Unknown" } else { "True" };
        let mut one = heard(
            node(&format!("{name}-{at}"), status),
            60 * i64::from(at < silent),
        );
        one["metadata"]["labels"]["topology.kubernetes.io/zone"] = name.into();
        one
    };
    (0..nodes).map(one).collect()
}

#[test]
fn a_zone_that_is_gone_is_emptied_and_one_that_is_sick_is_not() {
    let evicted = |nodes: usize, silent: usize| {
        let all = [zone("a", nodes, silent), zone("b", 1, 0)].concat();
        let decision = decide(&NodeLifecycle, &caches(&all), ("", "a-0"));
        let evicting = "node.kubernetes.io/unreachable:NoExecute".to_owned();
        taints(&bodies(&decision)[0]).contains(&evicting)
    };
    assert!(evicted(3, 3));
    assert!(!evicted(4, 3));
    // Exactly 55 percent is sick.
    assert!(!evicted(20, 11));
    assert!(evicted(20, 10));
}

#[test]
fn a_node_that_is_back_loses_our_taints_and_keeps_others() {
    let mut back = tainted(node("a", "True"), taints::UNREACHABLE, 100);
    let list = back["spec"]["taints"].as_array_mut().unwrap();
    list.push(json!({"key": "mine", "effect": "NoExecute"}));
    back["spec"]["unschedulable"] = true.into();
    let decision = decide(&NodeLifecycle, &caches(&[back]), ("", "a"));
    assert_eq!(
        taints(&bodies(&decision)[0]),
        [
            "mine:NoExecute",
            "node.kubernetes.io/unschedulable:NoSchedule",
        ]
    );
}
