use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{ago, bodies, caches, decide, lines};

fn ended(seconds_ago: i64, stays: Value) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "n", "name": "j"},
        "spec": {"ttlSecondsAfterFinished": stays, "template": {"spec": {"containers": []}}},
        "status": {"conditions": [
            {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": ago(500)},
            {"type": "Complete", "status": "True", "lastTransitionTime": ago(seconds_ago)},
        ]},
    })
}

fn decision(job: Value) -> Decision {
    decide(&TtlAfterFinished, &caches(&[job]), ("n", "j"))
}

#[test]
fn a_job_goes_when_its_time_is_over() {
    let decision = decision(ended(60, 60.into()));
    assert_eq!(lines(&decision), ["delete jobs n/j"]);
    let options = &bodies(&decision)[0];
    assert_eq!(options["propagationPolicy"], "Foreground");
    let only = json!({"uid": "jobs/j", "resourceVersion": "1"});
    assert_eq!(options["preconditions"], only);
}

#[test]
fn a_job_stays_until_then() {
    let decision = decision(ended(20, 60.into()));
    assert!(decision.steps.is_empty());
    assert_eq!(decision.after, Some(std::time::Duration::from_secs(40)));
}

#[test]
fn a_job_stays_if_nothing_says_how_long_or_it_runs_or_goes_already() {
    let mut running = ended(60, 0.into());
    running["status"] = json!({"active": 1});
    let mut going = ended(60, 0.into());
    going["metadata"]["deletionTimestamp"] = ago(1).into();
    going["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    for job in [ended(60, Value::Null), running, going] {
        let decision = decision(job);
        assert!(decision.steps.is_empty() && decision.after.is_none());
    }
}
