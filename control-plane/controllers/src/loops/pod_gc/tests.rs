use machinery::status::Status;
use serde_json::json;

use super::*;
use crate::tests::fixtures::{ago, bodies, caches, caches_since, decide, lines, node, now, pod};

fn long_ago() -> Timestamp {
    let mut then = now();
    then.seconds -= 41;
    then
}

#[test]
fn pods_of_a_node_that_is_gone_end_after_a_while() {
    let pods = [
        pod("p", "gone", true),
        pod("q", "here", true),
        node("here", "True"),
    ];
    assert_eq!(
        lines(&decide(&PodGc, &caches(&pods), ("", ""))),
        Vec::<String>::new()
    );
    let decision = decide(&PodGc, &caches_since(&pods, long_ago()), ("", ""));
    assert_eq!(
        lines(&decision),
        [
            "get nodes gone",
            "patch status of pods n/p",
            "delete pods n/p"
        ]
    );
    let bodies = bodies(&decision);
    assert_eq!(bodies[1]["status"]["phase"], "Failed");
    assert_eq!(bodies[2]["gracePeriodSeconds"], 0);
    // The watch of nodes may lag behind.
    let asks = &decision.steps[0];
    let found = asks.verdict(&Ok(json!({}))).unwrap_err();
    assert_eq!(found.reason, "Conflict");
    assert_eq!(decision.steps[0].dependent, Some(2));
    let not_found = Err(Status::not_found("", "nodes", "gone"));
    assert!(asks.verdict(&not_found).is_ok());
}

#[test]
fn pods_that_were_deleted_before_any_node_had_them_go() {
    let mut waiting = pod("p", "", false);
    waiting["metadata"]["deletionTimestamp"] = ago(1).into();
    let decision = decide(&PodGc, &caches(&[waiting, pod("q", "", false)]), ("", ""));
    assert_eq!(
        lines(&decision),
        ["patch status of pods n/p", "delete pods n/p"]
    );
}

#[test]
fn a_node_out_of_service_does_not_hold_its_pods() {
    let mut out = node("a", "Unknown");
    out["spec"]["taints"] = json!([{"key": OUT_OF_SERVICE, "effect": "NoExecute"}]);
    let mut ends = pod("p", "a", true);
    ends["metadata"]["deletionTimestamp"] = ago(1).into();
    let decision = decide(&PodGc, &caches(&[out, ends, pod("q", "a", true)]), ("", ""));
    assert_eq!(
        lines(&decision),
        ["patch status of pods n/p", "delete pods n/p"]
    );
}

#[test]
fn of_too_many_finished_pods_the_evicted_go_first() {
    let ended = |name: &str, age: i64, reason: &str| -> Pod {
        let mut one = pod(name, "here", false);
        one["metadata"]["creationTimestamp"] = ago(age).into();
        one["status"] = json!({"phase": "Failed", "reason": reason});
        serde_json::from_value(one).unwrap()
    };
    let pods = [
        ended("old", 30, ""),
        ended("new", 10, ""),
        ended("evicted", 5, "Evicted"),
    ];
    let mut pods: Vec<&Pod> = pods.iter().collect();
    pods.sort_by_key(|pod| rank(pod));
    let names: Vec<&str> = pods.iter().map(|pod| meta::name(&pod.metadata)).collect();
    assert_eq!(names, ["evicted", "old", "new"]);
}

#[test]
fn pods_that_cannot_be_deleted_do_not_keep_the_others() {
    let few: Vec<usize> = (0..BURST).collect();
    assert_eq!(of_this_turn(few.clone(), now()), few);
    // Turns may take as long as the pause between them, or longer.
    for (count, periods) in [(3 * BURST + 7, 1), (2 * BURST, 2), (3 * BURST, 3)] {
        let many: Vec<usize> = (0..count).collect();
        let mut left: std::collections::BTreeSet<usize> = many.iter().copied().collect();
        let mut then = now();
        for _ in 0..20 {
            let taken = of_this_turn(many.clone(), then);
            assert_eq!(taken.len(), BURST);
            left.retain(|one| !taken.contains(one));
            then.seconds += periods * PERIOD.as_secs() as i64;
        }
        assert!(left.is_empty(), "{periods}: {} are never taken", left.len());
    }
}

#[test]
fn nodes_that_are_gone_are_asked_for_one_by_one() {
    let pods = [
        pod("a", "gone", true),
        pod("b", "gone", true),
        pod("c", "lost", true),
    ];
    let decision = decide(&PodGc, &caches_since(&pods, long_ago()), ("", ""));
    let asked = decision.steps.iter().filter(|step| step.absent);
    let dependent: Vec<_> = asked.map(|step| step.dependent).collect();
    assert_eq!(dependent, [Some(4), Some(2)]);
}
