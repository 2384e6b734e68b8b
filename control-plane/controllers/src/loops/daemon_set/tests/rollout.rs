//! How pods of earlier templates are replaced.

use super::*;

/// Nodes `a` to `d`.
fn nodes() -> impl Iterator<Item = Value> {
    ["a", "b", "c", "d"].into_iter().map(ready_node)
}

/// A pod on each node, given as `new` or `old`, ready or not.
fn pods(states: &[(&str, bool)]) -> Vec<Value> {
    let pods = ["a", "b", "c", "d"].iter().zip(states);
    pods.map(|(node, (hash, ready))| {
        let hash = if *hash == "new" { "now" } else { "before" };
        daemon(&format!("{node}-1"), node, hash, *ready)
    })
    .collect()
}

fn replaced(set: Value, states: &[(&str, bool)]) -> Vec<String> {
    let (deleted, created) = changes(&with(set, nodes().chain(pods(states))));
    assert_eq!(created, names(&[]));
    deleted
}

#[test]
fn old_pods_go_as_long_as_enough_others_are_available() {
    let old = ("old", true);
    let new = |ready| ("new", ready);
    assert_eq!(replaced(rolling(0, 1), &[old; 4]), names(&["a-1"]));
    assert_eq!(replaced(rolling(0, 2), &[old; 4]), names(&["a-1", "b-1"]));
    // 30% of four nodes are rounded up.
    assert_eq!(
        replaced(rolling(0, "30%"), &[old; 4]),
        names(&["a-1", "b-1"])
    );
    let begun = [new(false), old, old, old];
    assert_eq!(replaced(rolling(0, 1), &begun), names(&[]));
    assert_eq!(replaced(rolling(0, 2), &begun), names(&["b-1"]));
    let goes_on = [new(true), old, old, old];
    assert_eq!(replaced(rolling(0, 1), &goes_on), names(&["b-1"]));
}

#[test]
fn old_pods_that_are_not_available_all_go() {
    let states = [("old", true), ("old", false), ("old", true), ("old", false)];
    let deleted = replaced(rolling(0, 1), &states);
    assert_eq!(deleted, names(&["b-1", "d-1"]));
    // They count as unavailable, so that three leave room for one of the others.
    assert_eq!(
        replaced(rolling(0, 3), &states),
        names(&["b-1", "d-1", "a-1"])
    );
}

#[test]
fn a_node_whose_pod_is_being_deleted_counts_as_unavailable() {
    let mut pods = pods(&[("old", true); 4]);
    pods[3]["metadata"]["deletionTimestamp"] = ago(1).into();
    let objects = with(rolling(0, 1), nodes().chain(pods));
    assert_eq!(changes(&objects), (names(&[]), names(&[])));
}

#[test]
fn a_lacking_pod_comes_before_the_rollout() {
    let pods = pods(&[("old", true); 3]);
    let objects = with(rolling(0, 2), nodes().chain(pods));
    assert_eq!(changes(&objects), (names(&[]), names(&["d"])));
}

#[test]
fn pods_that_are_replaced_on_deletion_stay() {
    let mut set = set("two");
    set["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    assert_eq!(replaced(set, &[("old", true); 4]), names(&[]));
}

#[test]
fn a_surge_creates_new_pods_beside_old_ones() {
    let step = |set: Value, pods: Vec<Value>| changes(&with(set, nodes().chain(pods)));
    let old = || pods(&[("old", true); 4]);
    let begin = step(rolling(1, 0), old());
    assert_eq!(begin, (names(&[]), names(&["a"])));
    assert_eq!(
        step(rolling("50%", 0), old()),
        (names(&[]), names(&["a", "b"]))
    );
    let beside = |ready| {
        let mut all = old();
        all.push(daemon("a-2", "a", "now", ready));
        all
    };
    assert_eq!(step(rolling(1, 0), beside(false)), (names(&[]), names(&[])));
    assert_eq!(
        step(rolling(1, 0), beside(true)),
        (names(&["a-1"]), names(&[]))
    );
    // An old pod that does not serve is replaced beyond the surge.
    let mut unready = beside(false);
    unready[2]["status"]["conditions"][0]["status"] = "False".into();
    assert_eq!(step(rolling(1, 0), unready), (names(&[]), names(&["c"])));
}

#[test]
fn an_old_pod_that_is_not_ready_goes_as_soon_as_a_new_one_is_there() {
    let mut all = pods(&[("old", false), ("new", true), ("new", true), ("new", true)]);
    all.push(daemon("a-2", "a", "now", false));
    let objects = with(rolling(1, 0), nodes().chain(all));
    assert_eq!(changes(&objects), (names(&["a-1"]), names(&[])));
}

#[test]
fn a_surge_keeps_one_new_and_one_old_pod_on_a_node() {
    let mut all = pods(&[("old", true), ("new", true), ("new", true), ("new", true)]);
    for (name, hash) in [("a-2", "now"), ("a-3", "now"), ("a-4", "before")] {
        all.push(daemon(name, "a", hash, false));
    }
    let objects = with(rolling(1, 0), nodes().chain(all));
    assert_eq!(changes(&objects), (names(&["a-3", "a-4"]), names(&[])));
}

#[test]
fn a_node_with_only_a_pod_that_ends_gets_one_at_once_in_a_surge() {
    let mut all = pods(&[("new", true); 4]);
    all[0]["metadata"]["deletionTimestamp"] = ago(1).into();
    let objects = with(rolling(1, 0), nodes().chain(all));
    assert_eq!(changes(&objects), (names(&[]), names(&["a"])));
}

#[test]
fn a_misplaced_pod_stays_in_a_surge_until_another_serves() {
    let wet = || tainted("wet", "wet", "NoSchedule");
    let step = |states: &[(&str, bool)]| {
        let stray = daemon("wet-1", "wet", "before", true);
        let all = nodes().chain([wet(), stray]).chain(pods(states));
        changes(&with(rolling(1, 0), all))
    };
    let new = |ready| ("new", ready);
    let waits = [new(true), new(true), new(true), new(false)];
    assert_eq!(step(&waits), (names(&[]), names(&[])));
    assert_eq!(step(&[new(true); 4]), (names(&["wet-1"]), names(&[])));
}

#[test]
fn a_new_pod_counts_once_it_was_ready_for_long_enough() {
    let mut set = rolling(0, 1);
    set["spec"]["minReadySeconds"] = 130.into();
    let mut all = pods(&[("new", true), ("old", true), ("old", true), ("old", true)]);
    for pod in &mut all[1..] {
        pod["status"]["conditions"][0]["lastTransitionTime"] = ago(1000).into();
    }
    let objects = with(set, nodes().chain(all));
    assert_eq!(changes(&objects), (names(&[]), names(&[])));
    let decision = decide(&DaemonSets, &caches(&objects), KEY);
    assert_eq!(decision.after, Some(std::time::Duration::from_secs(30)));
}
