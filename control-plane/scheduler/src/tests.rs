//! The whole scheduler: the order of pods, decisions that fail, and random clusters that must never
//! break a rule.

mod random;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use machinery::patch;
use serde_json::{Value, json};

use crate::cache::Cache;
use crate::core::{Core, Decision, Preemption, Room};
use crate::pod::PodInfo;

/// A node of 4 processors, 8 GiB and 110 pods, changed by a merge patch.
pub(crate) fn node(name: &str, change: Value) -> Node {
    let node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    });
    serde_json::from_value(patch::merge(&node, &change)).unwrap()
}

/// A pod of one container that asks for nothing, changed by a merge patch.
pub(crate) fn pod(name: &str, change: Value) -> Arc<Pod> {
    let pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    });
    Arc::new(serde_json::from_value(patch::merge(&pod, &change)).unwrap())
}

/// The same with requests.
pub(crate) fn asking(name: &str, cpu: &str, memory: &str) -> Arc<Pod> {
    let requests = json!({"cpu": cpu, "memory": memory});
    let main = json!({"name": "main", "image": "x", "resources": {"requests": requests}});
    pod(name, json!({"spec": {"containers": [main]}}))
}

pub(crate) fn info(pod: &Arc<Pod>) -> PodInfo {
    PodInfo::read(pod.clone())
}

/// A cache of these nodes, and of these pods on the nodes they name.
pub(crate) fn cache(nodes: &[Node], pods: &[Arc<Pod>]) -> Cache {
    let mut cache = Cache::default();
    for node in nodes {
        cache.set_node(node);
    }
    for pod in pods {
        cache.set_pod(Arc::new(info(pod)));
    }
    cache
}

pub(crate) fn on(node: &str, pod: &Arc<Pod>) -> Arc<Pod> {
    let mut pod = Pod::clone(pod);
    pod.spec.as_mut().unwrap().node_name = Some(node.to_owned());
    Arc::new(pod)
}

const START: Duration = Duration::from_secs(1000);

fn seconds(count: u64) -> Duration {
    START + Duration::from_secs(count)
}

fn bind(core: &mut Core, now: Duration) -> (String, String) {
    match core.next(now) {
        Some(Decision::Bind { pod, node, .. }) => (pod.name.clone(), node),
        other => panic!("no binding: {other:?}"),
    }
}

fn refusal(core: &mut Core, now: Duration) -> String {
    match core.next(now) {
        Some(Decision::Refuse { why, .. }) => why.to_string(),
        other => panic!("no refusal: {other:?}"),
    }
}

#[test]
fn higher_priority_goes_first_and_then_the_older() {
    let mut core = Core::new("default-scheduler", 1);
    core.node(&node("a", json!({})), START);
    core.pod(pod("old", json!({})), seconds(0));
    core.pod(pod("young", json!({})), seconds(1));
    core.pod(pod("high", json!({"spec": {"priority": 5}})), seconds(2));
    let order: Vec<String> = (0..3).map(|_| bind(&mut core, seconds(3)).0).collect();
    assert_eq!(order, ["high", "old", "young"]);
    assert!(core.next(seconds(3)).is_none());
}

#[test]
fn a_decision_counts_at_once_and_is_taken_back_when_the_store_refuses() {
    let mut core = Core::new("default-scheduler", 1);
    core.node(&node("a", json!({})), START);
    core.pod(asking("first", "3", "1Gi"), seconds(0));
    core.pod(asking("second", "3", "1Gi"), seconds(1));
    assert_eq!(bind(&mut core, seconds(2)).0, "first");
    assert_eq!(
        refusal(&mut core, seconds(2)),
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: \
         0/1 nodes are available: 1 No preemption victims found for incoming pod."
    );
    core.not_bound("first", seconds(2));
    assert!(core.next(seconds(2)).is_none(), "it backs off for a second");
    assert_eq!(bind(&mut core, seconds(3)).0, "first");
}

#[test]
fn a_parked_pod_is_woken_by_what_makes_room_and_by_nothing_else() {
    let mut core = Core::new("default-scheduler", 1);
    core.node(&node("a", json!({})), START);
    core.pod(on("a", &asking("there", "3", "1Gi")), START);
    core.pod(asking("waiting", "2", "1Gi"), START);
    refusal(&mut core, START);
    core.node(
        &node("tiny", json!({"status": {"allocatable": {"cpu": "1"}}})),
        seconds(5),
    );
    core.pod(on("a", &asking("more", "1", "1Gi")), seconds(6));
    assert!(core.next(seconds(20)).is_none(), "neither is of any help");
    core.pod_gone("there", seconds(30));
    assert_eq!(bind(&mut core, seconds(30)), ("waiting".into(), "a".into()));
}

#[test]
fn a_placed_pod_that_is_resized_to_less_makes_room() {
    let mut core = Core::new("default-scheduler", 1);
    core.node(&node("a", json!({})), START);
    core.pod(on("a", &asking("there", "3", "1Gi")), START);
    core.pod(asking("waiting", "2", "1Gi"), START);
    refusal(&mut core, START);
    core.pod(on("a", &asking("there", "3", "2Gi")), seconds(5));
    assert!(core.next(seconds(20)).is_none(), "that took room");
    core.pod(on("a", &asking("there", "1", "2Gi")), seconds(30));
    assert_eq!(bind(&mut core, seconds(30)), ("waiting".into(), "a".into()));
}

#[test]
fn a_placed_pod_with_other_labels_lets_in_who_would_not_be_beside_it() {
    let labelled = |app: &str| pod("there", json!({"metadata": {"labels": {"app": app}}}));
    let term = json!({
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "db"}},
    });
    let apart = json!({"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [term],
    }});
    let mut core = Core::new("default-scheduler", 1);
    core.node(&node("a", json!({})), START);
    core.pod(on("a", &labelled("db")), START);
    core.pod(pod("waiting", json!({"spec": {"affinity": apart}})), START);
    refusal(&mut core, START);
    core.pod(on("a", &labelled("cache")), seconds(30));
    assert_eq!(bind(&mut core, seconds(30)), ("waiting".into(), "a".into()));
}

#[test]
fn a_pod_that_nothing_wakes_is_tried_again_after_five_minutes() {
    let mut core = Core::new("default-scheduler", 1);
    core.pod(pod("lonely", json!({})), START);
    assert_eq!(
        refusal(&mut core, START),
        "no nodes available to schedule pods"
    );
    assert_eq!(core.wake_at(), Some(seconds(300)));
    assert!(core.next(seconds(299)).is_none());
    refusal(&mut core, seconds(300));
    core.node(&node("a", json!({})), seconds(301));
    assert!(
        core.next(seconds(301)).is_none(),
        "its second failure backs off 2 s"
    );
    assert_eq!(bind(&mut core, seconds(302)).0, "lonely");
}

#[test]
fn pods_of_other_schedulers_gated_ended_and_placed_pods_are_left_alone() {
    let mut core = Core::new("default-scheduler", 1);
    core.node(&node("a", json!({})), START);
    core.pod(
        pod("other", json!({"spec": {"schedulerName": "mine"}})),
        START,
    );
    core.pod(pod("done", json!({"status": {"phase": "Failed"}})), START);
    core.pod(on("a", &pod("placed", json!({}))), START);
    let ending = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    core.pod(pod("ending", ending), START);
    let gated = json!({"spec": {"schedulingGates": [{"name": "example.com/wait"}]}});
    core.pod(pod("gated", gated), START);
    assert!(core.next(START).is_none());
    core.pod(pod("gated", json!({})), seconds(1));
    assert_eq!(bind(&mut core, seconds(1)).0, "gated");
}

#[test]
fn older_words_about_a_bound_pod_do_not_queue_it_again() {
    let mut core = Core::new("default-scheduler", 1);
    core.node(&node("a", json!({})), START);
    core.pod(pod("x", json!({})), START);
    bind(&mut core, START);
    core.pod(
        pod("x", json!({"metadata": {"labels": {"new": "label"}}})),
        START,
    );
    core.bound("x");
    core.pod(pod("x", json!({})), START);
    assert!(core.next(seconds(400)).is_none());
    core.pod(on("a", &pod("x", json!({}))), START);
    assert!(!core.cache().is_assumed("x"));
    assert_eq!(core.cache().place("x"), Some("a"));
}

#[test]
fn a_list_of_a_server_that_lags_behind_does_not_take_a_pod_off_its_node() {
    let mut core = Core::new("default-scheduler", 1);
    core.node(&node("a", json!({})), START);
    core.pod(on("a", &pod("x", json!({}))), START);
    core.only_pods(&HashSet::from(["x".to_owned()]), seconds(1));
    core.pod(pod("x", json!({})), seconds(1));
    assert!(core.next(seconds(1)).is_none());
    assert_eq!(core.cache().place("x"), Some("a"));
}

#[test]
fn a_binding_that_fails_is_tried_again_with_the_newest_state_of_the_pod() {
    let mut core = Core::new("default-scheduler", 1);
    core.node(&node("a", json!({})), START);
    core.pod(pod("x", json!({})), START);
    bind(&mut core, START);
    let labelled = json!({"metadata": {"labels": {"new": "label"}}});
    core.pod(pod("x", labelled), START);
    core.not_bound("x", START);
    match core.next(seconds(1)) {
        Some(Decision::Bind { pod, .. }) => assert_eq!(pod.labels["new"], "label"),
        other => panic!("no binding: {other:?}"),
    }
    // One that is being deleted is bound nowhere, though a finalizer keeps it.
    let ending = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    core.pod(pod("x", ending), seconds(1));
    core.not_bound("x", seconds(1));
    assert!(core.next(seconds(400)).is_none());
}

#[test]
fn what_vanished_while_nobody_watched_is_forgotten() {
    let mut core = Core::new("default-scheduler", 1);
    core.node(&node("a", json!({})), START);
    core.node(&node("b", json!({})), START);
    core.pod(on("a", &asking("stays", "3", "1Gi")), START);
    core.pod(on("a", &asking("goes", "1", "1Gi")), START);
    core.pod(pod("queued", json!({})), START);
    core.only_pods(&HashSet::from(["stays".to_owned()]), START);
    core.only_nodes(&HashSet::from(["a".to_owned()]), START);
    assert!(core.next(START).is_none());
    assert_eq!(core.cache().node_count(), 1);
    assert_eq!(core.cache().node("a").unwrap().requested.cpu_milli, 3000);
}

#[test]
fn the_same_seed_makes_the_same_choice_and_ties_are_not_always_the_same_node() {
    let choice = |seed| {
        let mut core = Core::new("default-scheduler", seed);
        for name in ["a", "b", "c"] {
            core.node(&node(name, json!({})), START);
        }
        core.pod(pod("x", json!({})), START);
        bind(&mut core, START).1
    };
    let choices: HashSet<String> = (0..50).map(choice).collect();
    assert_eq!(choices.len(), 3);
    assert_eq!(choice(7), choice(7));
}

#[test]
fn among_many_nodes_every_one_gets_its_turn() {
    let mut core = Core::new("default-scheduler", 3);
    for number in 0..300 {
        core.node(&node(&format!("n{number}"), json!({})), START);
    }
    for number in 0..300 {
        core.pod(asking(&format!("p{number}"), "3", "1Gi"), START);
    }
    let used: HashSet<String> = (0..300).map(|_| bind(&mut core, START).1).collect();
    assert_eq!(used.len(), 300);
}
