use serde_json::json;

use super::*;
use crate::loops::Failure;
use crate::tests::fixtures::{
    ago, bodies, caches, decide, decide_after, lines, owned, pod, replica_set,
    replication_controller,
};

const KEY: (&str, &str) = ("n", "web");

#[test]
fn what_is_worth_least_goes_first() {
    let mut pods = vec![
        replica_set("web", 3),
        owned(pod("runs-long", "a", true), "web"),
        owned(pod("cheap", "b", true), "web"),
        owned(pod("crowded-1", "c", true), "web"),
        owned(pod("crowded-2", "c", true), "web"),
        owned(pod("unready", "d", false), "web"),
        owned(pod("nowhere", "", false), "web"),
    ];
    pods[2]["metadata"]["annotations"] =
        json!({"controller.kubernetes.io/pod-deletion-cost": "-1"});
    pods[1]["status"]["conditions"][0]["lastTransitionTime"] = ago(5000).into();
    let caches = caches(&pods);
    let decision = decide(&ReplicaSets, &caches, KEY);
    assert_eq!(
        lines(&decision),
        [
            "update status of replicasets n/web",
            "delete pods n/nowhere",
            "delete pods n/unready",
            "delete pods n/cheap",
        ]
    );
}

#[test]
fn of_pods_made_together_the_one_that_was_unready_last_goes_first() {
    let since = |name: &str, seconds: i64| {
        let mut one = owned(pod(name, name, true), "web");
        one["metadata"]["creationTimestamp"] = ago(5000).into();
        one["status"]["conditions"][0]["lastTransitionTime"] = ago(seconds).into();
        one
    };
    let objects = [replica_set("web", 1), since("a", 4900), since("b", 100)];
    let decision = decide(&ReplicaSets, &caches(&objects), KEY);
    assert_eq!(lines(&decision)[1..], ["delete pods n/b"]);
}

#[test]
fn pods_that_match_are_taken_and_those_that_do_not_are_set_free() {
    let mut stray = owned(pod("stray", "a", true), "web");
    stray["metadata"]["labels"] = json!({"app": "other"});
    let caches = caches(&[replica_set("web", 1), pod("free", "a", true), stray]);
    let decision = decide(&ReplicaSets, &caches, KEY);
    assert_eq!(
        lines(&decision),
        ["patch pods n/stray", "patch pods n/free"]
    );
    let bodies = bodies(&decision);
    let change = &bodies[0]["metadata"]["ownerReferences"][0];
    assert_eq!(
        *change,
        json!({"$patch": "delete", "uid": "replicasets/web"})
    );
    let change = &bodies[1]["metadata"]["ownerReferences"][0];
    assert_eq!(change["uid"], "replicasets/web");
    assert_eq!(change["controller"], true);
}

#[test]
fn a_pod_counts_as_available_when_it_was_ready_for_long_enough() {
    let mut set = replica_set("web", 1);
    set["spec"]["minReadySeconds"] = 130.into();
    let caches = caches(&[set, owned(pod("p", "a", true), "web")]);
    let decision = decide(&ReplicaSets, &caches, KEY);
    let status = &bodies(&decision)[0]["status"];
    assert_eq!(
        (&status["readyReplicas"], &status["availableReplicas"]),
        (&1.into(), &0.into())
    );
    assert_eq!(decision.after, Some(std::time::Duration::from_secs(30)));
}

#[test]
fn what_kept_pods_from_being_made_is_told_until_they_are() {
    let failure = Failure {
        creating: true,
        deleting: false,
        message: "no account".into(),
    };
    let set = replica_set("web", 1);
    let decision = decide_after(
        &ReplicaSets,
        &caches(std::slice::from_ref(&set)),
        KEY,
        Some(&failure),
    );
    let told = &bodies(&decision)[0];
    let condition = &told["status"]["conditions"][0];
    assert_eq!(condition["type"], "ReplicaFailure");
    assert_eq!(condition["reason"], "FailedCreate");
    assert_eq!(condition["message"], "no account");
    assert_eq!(lines(&decision)[1], "create pods n/");
    let mut set = set;
    set["status"] = told["status"].clone();
    let caches = caches(&[set, owned(pod("p", "a", true), "web")]);
    let decision = decide(&ReplicaSets, &caches, KEY);
    assert_eq!(bodies(&decision)[0]["status"].get("conditions"), None);
}

#[test]
fn a_set_that_is_being_deleted_makes_nothing() {
    let mut set = replica_set("web", 2);
    set["metadata"]["deletionTimestamp"] = ago(1).into();
    set["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    let decision = decide(&ReplicaSets, &caches(&[set]), KEY);
    assert_eq!(lines(&decision), ["update status of replicasets n/web"]);
}

#[test]
fn a_replication_controller_keeps_its_pods_as_a_replica_set_does() {
    let more = replication_controller(2, [pod("p", "a", true)]);
    let decision = decide(&ReplicationControllers, &caches(&more), KEY);
    assert_eq!(
        lines(&decision),
        [
            "update status of replicationcontrollers n/web",
            "create pods n/"
        ]
    );
    let bodies = bodies(&decision);
    let status = &bodies[0]["status"];
    assert_eq!(
        (&status["replicas"], &status["availableReplicas"]),
        (&1.into(), &1.into())
    );
    let owner = &bodies[1]["metadata"]["ownerReferences"][0];
    assert_eq!(owner["apiVersion"], "v1");
    assert_eq!(owner["kind"], "ReplicationController");
    let note = decision.steps[1].done.as_ref().unwrap();
    assert_eq!(note.about["kind"], "ReplicationController");

    let less = replication_controller(1, [pod("p", "a", true), pod("unready", "b", false)]);
    let decision = decide(&ReplicationControllers, &caches(&less), KEY);
    assert_eq!(lines(&decision)[1..], ["delete pods n/unready"]);
    // The loop of replica sets leaves both alone.
    assert_eq!(decide(&ReplicaSets, &caches(&less), KEY).steps.len(), 0);
}

#[test]
fn a_replication_controller_that_waits_for_the_end_of_a_pod_writes_its_status_once() {
    let mut ends = pod("ends", "a", true);
    ends["metadata"]["deletionTimestamp"] = ago(1).into();
    let mut objects = replication_controller(0, [ends]);
    let first = decide(&ReplicationControllers, &caches(&objects), KEY);
    let status = bodies(&first)[0]["status"].clone();
    // Unlike replica sets they do not count the pods that end.
    assert_eq!(status.get("terminatingReplicas"), None);
    objects[0]["status"] = status;
    let next = decide(&ReplicationControllers, &caches(&objects), KEY);
    assert_eq!(lines(&next), [""; 0]);
}

#[test]
fn a_pod_wakes_the_replication_controller_that_has_it_or_may_take_it() {
    let objects = replication_controller(1, [pod("p", "a", true)]);
    let caches = caches(&objects);
    let free = pod("free", "a", true);
    let mut other = pod("other", "a", true);
    other["metadata"]["labels"] = json!({"app": "other"});
    for (pod, expected) in [(&objects[1], 1), (&free, 1), (&other, 0)] {
        let new = serde_json::from_value(pod.clone()).unwrap();
        let changed = Changed::Pod(Diff {
            old: None,
            new: Some(Shared::new(new)),
        });
        let mut woken = Vec::new();
        ReplicationControllers.wakes(&caches, &changed, &mut |key| woken.push(key));
        assert_eq!(woken.len(), expected, "{pod}");
    }
}
