use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{ago, now, owner};

fn pod(name: &str, phase: &str, ended: i64) -> Pod {
    read(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "n", "name": name, "uid": name, "finalizers": [TRACKING],
            "ownerReferences": [owner("batch/v1", "Job", "j")],
        },
        "status": {"phase": phase, "containerStatuses": [ended_container("c", ended)]},
    }))
}

fn ended_container(name: &str, ended: i64) -> Value {
    json!({
        "name": name, "image": "i", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 1, "finishedAt": ago(ended)}},
    })
}

fn read(pod: Value) -> Pod {
    serde_json::from_value(pod).unwrap()
}

fn seconds_ago(stamp: Timestamp) -> u64 {
    now().since(stamp).as_secs()
}

#[test]
fn a_pod_ended_with_its_last_container_or_as_its_conditions_say() {
    let mut pod = json!(pod("p", "Failed", 30));
    assert_eq!(seconds_ago(ended_at(&read(pod.clone()))), 30);
    pod["spec"] = json!({"containers": [], "initContainers": [
        {"name": "first"}, {"name": "beside", "restartPolicy": "Always"},
    ]});
    let init = [ended_container("first", 5), ended_container("beside", 20)];
    pod["status"]["initContainerStatuses"] = json!(init);
    assert_eq!(seconds_ago(ended_at(&read(pod.clone()))), 20);
    pod["metadata"]["creationTimestamp"] = ago(90).into();
    pod["status"] = json!({"phase": "Failed"});
    assert_eq!(seconds_ago(ended_at(&read(pod.clone()))), 90);
    pod["metadata"]["deletionTimestamp"] = ago(0).into();
    pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    assert_eq!(seconds_ago(ended_at(&read(pod.clone()))), 30);
    pod["status"]["conditions"] =
        json!([{"type": "Ready", "status": "False", "lastTransitionTime": ago(7)}]);
    assert_eq!(seconds_ago(ended_at(&read(pod))), 7);
}

#[test]
fn the_delay_doubles_with_each_failure_up_to_ten_minutes() {
    let last = Timestamp::parse(&ago(5)).unwrap();
    let wait = |failures| delay(failures, last, now()).map(|left| left.as_secs());
    let expected = [
        (0, None),
        (1, Some(5)),
        (2, Some(15)),
        (3, Some(35)),
        (7, Some(595)),
    ];
    for (failures, left) in expected {
        assert_eq!(wait(failures), left, "{failures}");
    }
    assert_eq!(wait(1000), Some(595));
    assert_eq!(delay(1, Timestamp::parse(&ago(10)).unwrap(), now()), None);
}

#[test]
fn failures_count_until_a_later_success() {
    let mut failures = Failures::default();
    for (name, ended) in [("a", 50), ("b", 40), ("b", 40), ("c", 30)] {
        failures.note(&pod(name, "Failed", ended));
    }
    let known = |failures: &Failures| failures.of("jobs/j", true).map(|(count, _)| count);
    assert_eq!(known(&failures), Some(3));
    let (_, last) = failures.of("jobs/j", true).unwrap();
    assert_eq!(seconds_ago(last), 30);
    failures.note(&pod("d", "Succeeded", 40));
    assert_eq!(known(&failures), Some(1));
    failures.note(&pod("e", "Succeeded", 10));
    assert_eq!(known(&failures), None);
    failures.note(&pod("f", "Failed", 5));
    assert_eq!(known(&failures), Some(1));
    failures.forget("jobs/j");
    assert_eq!(known(&failures), None);
}

#[test]
fn what_is_deleted_has_failed_unless_that_waits_for_the_end() {
    let mut failures = Failures::default();
    let mut deleted = pod("a", "Running", 0);
    failures.note(&deleted);
    assert_eq!(failures.of("jobs/j", true), None);
    deleted.metadata.deletion_timestamp = Some(meta::time(now()));
    failures.note(&deleted);
    assert!(failures.of("jobs/j", true).is_some());
    assert_eq!(failures.of("jobs/j", false), None);
    // A pod that the job let go of before it was deleted did not fail.
    let mut surplus = deleted.clone();
    surplus.metadata.finalizers = None;
    surplus.metadata.uid = Some("b".into());
    failures.note(&surplus);
    assert_eq!(failures.of("jobs/j", true).unwrap().0, 1);
}
