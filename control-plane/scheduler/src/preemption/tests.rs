use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use machinery::patch;
use serde_json::{Value, json};

use crate::core::{Core, Decision, Preemption, Room};
use crate::tests::{asking, node, on};

const START: Duration = Duration::from_secs(1000);

fn seconds(count: u64) -> Duration {
    START + Duration::from_secs(count)
}

/// A pod that asks for this many processors, with a priority.
fn ranked(name: &str, cpu: &str, priority: i32) -> Arc<Pod> {
    let priority = json!({"spec": {"priority": priority}});
    changed(&asking(name, cpu, "1Gi"), priority)
}

fn changed(pod: &Arc<Pod>, change: Value) -> Arc<Pod> {
    let pod = serde_json::to_value(&**pod).unwrap();
    Arc::new(serde_json::from_value(patch::merge(&pod, &change)).unwrap())
}

fn started(pod: &Arc<Pod>, hour: u32) -> Arc<Pod> {
    let time = format!("2026-01-01T{hour:02}:00:00Z");
    changed(pod, json!({"status": {"startTime": time}}))
}

fn labelled(pod: &Arc<Pod>, app: &str) -> Arc<Pod> {
    changed(pod, json!({"metadata": {"labels": {"app": app}}}))
}

/// Two nodes of four processors, with these pods on them.
fn cluster(pods: &[(&str, Arc<Pod>)]) -> Core {
    let mut core = Core::new("default-scheduler", 1);
    for name in ["a", "b"] {
        core.node(&node(name, json!({})), START);
    }
    for (at, pod) in pods {
        core.pod(on(at, pod), START);
    }
    core
}

/// What the next pod is told, and what is done for it.
fn refused(core: &mut Core, now: Duration) -> (String, Room) {
    match core.next(now) {
        Some(Decision::Refuse { why, room, .. }) => (why.to_string(), room),
        other => panic!("no refusal: {other:?}"),
    }
}

fn made(core: &mut Core, now: Duration) -> Preemption {
    match refused(core, now) {
        (_, Room::Made(preemption)) => preemption,
        other => panic!("no preemption: {other:?}"),
    }
}

fn names(preemption: &Preemption) -> (&str, Vec<&str>) {
    let victims = preemption.victims.iter();
    let victims = victims.map(|pod| pod.name.as_str()).collect();
    (&preemption.node, victims)
}

fn bound(core: &mut Core, now: Duration) -> (String, String) {
    match core.next(now) {
        Some(Decision::Bind { pod, node, .. }) => (pod.name.clone(), node),
        other => panic!("no binding: {other:?}"),
    }
}

#[test]
fn as_few_as_possible_leave_and_the_pod_comes_when_they_are_gone() {
    let mut core = cluster(&[
        ("a", ranked("high", "4", 9)),
        ("b", started(&ranked("old", "1", 0), 1)),
        ("b", started(&ranked("young", "1", 0), 2)),
        ("b", started(&ranked("higher", "2", 1), 3)),
    ]);
    core.pod(ranked("p", "1", 5), START);
    let (why, room) = refused(&mut core, START);
    assert_eq!(why, "0/2 nodes are available: 2 Insufficient cpu.");
    let Room::Made(preemption) = room else {
        panic!("nobody is preempted");
    };
    assert_eq!(names(&preemption), ("b", vec!["young"]));
    core.pod_gone("young", seconds(1));
    assert!(
        core.next(seconds(2)).is_none(),
        "it is not tried while others are being deleted for it"
    );
    core.preempted("p", true, seconds(3));
    assert_eq!(bound(&mut core, seconds(3)), ("p".into(), "b".into()));
}

#[test]
fn a_pod_whose_victims_could_not_be_deleted_is_tried_again() {
    let mut core = cluster(&[("a", ranked("x", "4", 9)), ("b", ranked("y", "4", 0))]);
    core.pod(ranked("p", "1", 5), START);
    made(&mut core, START);
    assert!(core.next(seconds(60)).is_none());
    core.preempted("p", false, seconds(60));
    assert_eq!(names(&made(&mut core, seconds(60))), ("b", vec!["y"]));
}

#[test]
fn pods_of_the_same_priority_stay_and_so_do_all_where_none_would_help() {
    let mut core = cluster(&[
        ("a", ranked("same", "4", 5)),
        ("b", ranked("same too", "3", 5)),
        ("b", ranked("less", "1", 0)),
    ]);
    core.pod(ranked("p", "2", 5), START);
    let (why, room) = refused(&mut core, START);
    assert!(matches!(room, Room::AsBefore));
    assert_eq!(
        why,
        "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: \
         0/2 nodes are available: 1 Insufficient cpu, \
         1 No preemption victims found for incoming pod."
    );
}

#[test]
fn a_pod_that_never_preempts_takes_nobodys_place() {
    let mut core = cluster(&[("a", ranked("x", "4", 0)), ("b", ranked("y", "4", 0))]);
    let never = json!({"spec": {"preemptionPolicy": "Never"}});
    core.pod(changed(&ranked("p", "1", 5), never), START);
    let (why, room) = refused(&mut core, START);
    assert!(matches!(room, Room::AsBefore));
    assert!(why.ends_with("preemption: not eligible due to preemptionPolicy=Never."));
}

#[test]
fn the_node_is_chosen_where_the_least_is_lost() {
    // What is on each of two nodes. The second loses less, by the first rule that tells them apart.
    let cases = [
        (
            vec![ranked("a1", "4", 3)],
            vec![ranked("b1", "2", 2), ranked("b2", "2", 2)],
            "the highest priority of a victim",
        ),
        (
            vec![ranked("a1", "2", 2), ranked("a2", "2", 2)],
            vec![ranked("b1", "2", 2), ranked("b2", "2", 1)],
            "the sum of priorities",
        ),
        (
            vec![ranked("a1", "2", 2), ranked("a2", "2", -1)],
            vec![ranked("b1", "4", 2)],
            "fewer victims, though the priorities of the others add up to less",
        ),
        (
            vec![started(&ranked("a1", "4", 2), 1)],
            vec![started(&ranked("b1", "4", 2), 2)],
            "the shorter run",
        ),
        (
            vec![started(&ranked("a1", "4", 2), 1)],
            vec![ranked("b1", "4", 2)],
            "one that has not started",
        ),
    ];
    for (a, b, rule) in cases {
        let on_a = a.into_iter().map(|pod| ("a", pod));
        let on_b = b.into_iter().map(|pod| ("b", pod));
        let mut core = cluster(&on_a.chain(on_b).collect::<Vec<_>>());
        core.pod(ranked("p", "4", 5), START);
        assert_eq!(made(&mut core, START).node, "b", "{rule}");
    }
}

fn set_budget(core: &mut Core, app: &str, allowed: i32, disrupted: Value) {
    let budget = json!({
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": disrupted,
            "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
    });
    let budget = serde_json::from_value(budget).unwrap();
    core.budgets().set(&budget);
}

#[test]
fn pods_that_a_budget_protects_stay_if_others_can_go() {
    let db = |name| labelled(&ranked(name, "2", 0), "db");
    // Others on the same node.
    let mut core = cluster(&[
        ("a", ranked("full", "4", 9)),
        ("b", started(&db("protected"), 2)),
        ("b", started(&ranked("older", "2", 0), 1)),
    ]);
    set_budget(&mut core, "db", 0, json!({}));
    core.pod(ranked("p", "2", 5), START);
    assert_eq!(names(&made(&mut core, START)).1, ["older"]);
    // Another on another node, though it has a higher priority.
    let pods = [
        ("a", db("one")),
        ("a", db("two")),
        ("b", ranked("c", "4", 3)),
    ];
    for (allowed, disrupted, node) in [
        (1, json!({}), "b"),
        (2, json!({}), "a"),
        (1, json!({"one": "2026-01-01T00:00:00Z"}), "a"),
    ] {
        let mut core = cluster(&pods);
        set_budget(&mut core, "db", allowed, disrupted);
        core.pod(ranked("p", "4", 5), START);
        assert_eq!(made(&mut core, START).node, node, "{allowed} may go");
    }
    // Nobody else can go.
    let mut core = cluster(&[("a", ranked("full", "4", 9)), ("b", db("protected"))]);
    set_budget(&mut core, "db", 0, json!({}));
    core.pod(ranked("p", "3", 5), START);
    assert_eq!(names(&made(&mut core, START)).1, ["protected"]);
}

/// One pod preempts another on `b`, which is gone.
fn preempting() -> Core {
    let mut core = cluster(&[("a", ranked("x", "4", 9)), ("b", ranked("y", "4", 0))]);
    core.pod(ranked("p", "4", 5), START);
    assert_eq!(names(&made(&mut core, START)), ("b", vec!["y"]));
    // An older state of it may come after the decision.
    core.pod(ranked("p", "4", 5), START);
    core.pod_gone("y", seconds(1));
    core
}

#[test]
fn the_room_is_kept_from_pods_of_the_same_priority_and_less() {
    let mut core = preempting();
    core.pod(ranked("same", "1", 5), seconds(1));
    let (why, _) = refused(&mut core, seconds(1));
    assert!(why.starts_with("0/2 nodes are available: 2 Insufficient cpu."));
    core.preempted("p", true, seconds(1));
    assert_eq!(bound(&mut core, seconds(2)).0, "p");

    let mut core = preempting();
    core.pod(ranked("higher", "1", 6), seconds(1));
    assert_eq!(bound(&mut core, seconds(1)).0, "higher");
}

#[test]
fn who_waits_for_kept_room_gets_it_when_the_other_is_deleted() {
    let mut core = preempting();
    core.pod(ranked("same", "1", 5), seconds(1));
    refused(&mut core, seconds(1));
    core.preempted("p", true, seconds(1));
    core.pod_gone("p", seconds(1));
    assert_eq!(bound(&mut core, seconds(2)).0, "same");
}

#[test]
fn a_higher_priority_takes_the_room_and_the_nomination() {
    let mut core = cluster(&[("a", ranked("x", "4", 9)), ("b", ranked("y", "4", 0))]);
    core.pod(ranked("p", "4", 5), START);
    made(&mut core, START);
    core.pod(ranked("q", "4", 6), seconds(1));
    let preemption = made(&mut core, seconds(1));
    assert_eq!(names(&preemption), ("b", vec!["y"]));
    assert_eq!(preemption.outdone.len(), 1);
    assert_eq!(preemption.outdone[0].name, "p");
}

#[test]
fn nobody_else_leaves_while_a_victim_still_ends() {
    let mut core = cluster(&[("a", ranked("x", "4", 0)), ("b", ranked("y", "4", 0))]);
    core.pod(ranked("p", "4", 5), START);
    let preemption = made(&mut core, START);
    let victim = &preemption.victims[0];
    let ending = json!({
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"},
        ]},
    });
    let ending = on(&preemption.node, &changed(&victim.pod, ending));
    core.pod(ending, seconds(1));
    core.preempted("p", true, seconds(1));
    let nominated = json!({"status": {"nominatedNodeName": preemption.node},
        "metadata": {"labels": {"it": "changed"}}});
    core.pod(changed(&ranked("p", "4", 5), nominated), seconds(9));
    let (why, room) = refused(&mut core, seconds(9));
    assert!(matches!(room, Room::AsBefore));
    assert!(why.ends_with("not eligible due to a terminating pod on the nominated node."));
    core.pod_gone(&victim.uid, seconds(20));
    assert_eq!(bound(&mut core, seconds(20)), ("p".into(), preemption.node));
}

#[test]
fn a_pod_that_nothing_helps_any_more_is_nominated_for_no_node() {
    let mut core = cluster(&[("a", ranked("x", "4", 9)), ("b", ranked("y", "4", 9))]);
    let nominated = json!({"status": {"nominatedNodeName": "b"}});
    core.pod(changed(&ranked("p", "4", 5), nominated), START);
    let (_, room) = refused(&mut core, START);
    assert!(matches!(room, Room::GivenUp));
}

#[test]
fn a_pod_goes_to_its_nominated_node_though_another_is_better() {
    let mut core = cluster(&[("b", ranked("y", "3", 9))]);
    let nominated = json!({"status": {"nominatedNodeName": "b"}});
    core.pod(changed(&ranked("p", "1", 5), nominated), START);
    assert_eq!(bound(&mut core, START).1, "b");
}

#[test]
fn who_keeps_a_pod_off_by_anti_affinity_leaves() {
    let term = json!({"topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "db"}}});
    let apart = json!({"spec": {"affinity": {"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [term]}}}});
    let db = |name, priority| labelled(&ranked(name, "1", priority), "db");
    let mut core = cluster(&[
        ("a", db("equal", 5)),
        ("b", db("less", 0)),
        ("b", ranked("other", "1", 0)),
    ]);
    core.pod(changed(&ranked("p", "1", 5), apart), START);
    assert_eq!(names(&made(&mut core, START)), ("b", vec!["less"]));
}

#[test]
fn a_trial_leaves_everything_as_it_was() {
    let mut core = cluster(&[("a", ranked("x", "2", 0)), ("b", ranked("y", "4", 9))]);
    let state = |core: &Core| {
        let node = core.cache().node("a").unwrap();
        let pods: Vec<&String> = node.pods.keys().collect();
        format!("{:?} {pods:?}", node.requested)
    };
    let before = state(&core);
    core.pod(ranked("p", "3", 5), START);
    made(&mut core, START);
    assert_eq!(state(&core), before);
    assert_eq!(core.cache().place("x"), Some("a"));
    assert!(!core.cache().is_assumed("x"));
}
