//! How jobs end.

use super::*;

/// The condition that a status has last.
fn last(status: &Value) -> [&str; 3] {
    let condition = status["conditions"].as_array().unwrap().last().unwrap();
    ["type", "reason", "message"].map(|key| condition[key].as_str().unwrap())
}

fn at_once(spec: Value) -> Value {
    let mut all = json!({"parallelism": 1, "completions": 1, "backoffLimit": 0});
    all.as_object_mut()
        .unwrap()
        .extend(spec.as_object().unwrap().clone());
    job(all)
}

#[test]
fn a_job_completes_when_enough_pods_succeeded_and_are_counted() {
    let mut job = job(json!({"parallelism": 1, "completions": 2}));
    job["status"]["succeeded"] = 1.into();
    let decision = decided(&job, &[pod("a", "Succeeded")]);
    let reached = "Reached expected number of succeeded pods";
    let told = status(&decision);
    assert_eq!(
        last(&told),
        ["SuccessCriteriaMet", "CompletionsReached", reached]
    );
    assert_eq!(lines(&decision), [STATUS, "patch pods n/a"]);
    assert!(reasons(&decision).is_empty());
    job["status"] = told;
    let decision = decided(&job, &[untracked(pod("a", "Succeeded"))]);
    let told = status(&decision);
    assert_eq!(last(&told), ["Complete", "CompletionsReached", reached]);
    assert_eq!(
        (&told["succeeded"], &told["completionTime"]),
        (&2.into(), &ago(0).into())
    );
    assert_eq!(reasons(&decision), ["Completed"]);
    // And then nothing.
    job["status"] = told;
    assert!(decided(&job, &[]).steps.is_empty());
}

#[test]
fn more_successes_than_asked_for_are_told() {
    let mut job = job(json!({"parallelism": 1, "completions": 1}));
    job["status"]["succeeded"] = 2.into();
    job["status"]["conditions"] =
        json!([{"type": "SuccessCriteriaMet", "status": "True", "reason": "r", "message": "m"}]);
    let decision = decided(&job, &[]);
    assert_eq!(last(&status(&decision)), ["Complete", "r", "m"]);
    assert_eq!(decision.notes[0].reason, "TooManySucceededPods");
}

#[test]
fn too_many_failures_end_a_job_and_its_pods() {
    let mut job = at_once(json!({"parallelism": 2, "completions": 2}));
    let pods = [pod("bad", "Failed"), pod("on", "Running")];
    let decision = decided(&job, &pods);
    let message = "Job has reached the specified backoff limit";
    let told = status(&decision);
    assert_eq!(
        last(&told),
        ["FailureTarget", "BackoffLimitExceeded", message]
    );
    let expected = [
        "delete pods n/on",
        STATUS,
        "patch pods n/bad",
        "patch pods n/on",
    ];
    assert_eq!(lines(&decision), expected);
    // The pod that still ran has failed, too.
    let listed = json!({"failed": ["pods/bad", "pods/on"]});
    assert_eq!(told["uncountedTerminatedPods"], listed);
    assert_eq!(
        (told.get("active"), &told["terminating"]),
        (None, &1.into())
    );
    job["status"] = told;
    // The job has not failed before its pods have ended.
    let on = untracked(deleting(pod("on", "Running")));
    let decision = decided(&job, std::slice::from_ref(&on));
    let told = status(&decision);
    assert_eq!(
        (last(&told)[0], &told["failed"]),
        ("FailureTarget", &2.into())
    );
    job["status"] = told;
    assert!(decided(&job, &[on]).steps.is_empty());
    let decision = decided(&job, &[]);
    assert_eq!(
        last(&status(&decision)),
        ["Failed", "BackoffLimitExceeded", message]
    );
    assert_eq!(status(&decision).get("completionTime"), None);
    let note = decision.steps[0].done.as_ref().unwrap();
    assert_eq!((note.reason, note.warning), ("BackoffLimitExceeded", true));
    assert_eq!(note.message, message);
}

#[test]
fn containers_that_restart_too_often_end_a_job() {
    let mut job = job(json!({"parallelism": 1, "completions": 1, "backoffLimit": 2}));
    job["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure".into();
    let mut running = pod("a", "Running");
    running["status"]["containerStatuses"][0]["restartCount"] = 1.into();
    assert_eq!(
        status(&decided(&job, std::slice::from_ref(&running))).get("conditions"),
        None
    );
    running["status"]["containerStatuses"][0]["restartCount"] = 2.into();
    let decision = decided(&job, &[running]);
    assert_eq!(last(&status(&decision))[1], "BackoffLimitExceeded");
}

#[test]
fn a_job_may_not_run_longer_than_its_deadline() {
    let mut job = at_once(json!({"activeDeadlineSeconds": 130}));
    let decision = decided(&job, &[pod("a", "Running")]);
    assert_eq!(decision.after, Some(Duration::from_secs(30)));
    job["spec"]["activeDeadlineSeconds"] = 100.into();
    let decision = decided(&job, &[pod("a", "Running")]);
    let message = "Job was active longer than specified deadline";
    assert_eq!(
        last(&status(&decision)),
        ["FailureTarget", "DeadlineExceeded", message]
    );
    job["spec"]["suspend"] = true.into();
    assert_eq!(last(&status(&decided(&job, &[])))[0], "Suspended");
}

#[test]
fn a_pod_that_failed_in_a_fatal_way_ends_a_job() {
    let rules = json!([
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
        {"action": "FailJob",
            "onExitCodes": {"containerName": "c", "operator": "In", "values": [1, 3]}},
    ]);
    let job = job(json!({
        "parallelism": 1, "completions": 1, "backoffLimit": 6,
        "podFailurePolicy": {"rules": rules},
    }));
    let message =
        "Container c for pod n/a failed with exit code 3 matching FailJob rule at index 1";
    let decision = decided(&job, &[pod("a", "Failed")]);
    assert_eq!(
        last(&status(&decision)),
        ["FailureTarget", "PodFailurePolicy", message]
    );
    // A rule before that one ignores it.
    let mut disrupted = pod("a", "Failed");
    disrupted["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True"}]);
    let decision = decided(&job, &[disrupted]);
    let told = status(&decision);
    assert_eq!((told.get("failed"), told.get("conditions")), (None, None));
    assert_eq!(told["uncountedTerminatedPods"], json!({}));
    assert_eq!(lines(&decision).last().unwrap(), "patch pods n/a");
}

#[test]
fn conditions_and_codes_that_do_not_match_count() {
    let verdict = |rule: Value| {
        let policy = serde_json::from_value(json!({"rules": [rule]})).unwrap();
        let pod = serde_json::from_value(pod("a", "Failed")).unwrap();
        policy::verdict(Some(&policy), &pod)
    };
    let codes = |operator: &str, name: Value| {
        let codes = json!({"operator": operator, "values": [3], "containerName": name});
        verdict(json!({"action": "Ignore", "onExitCodes": codes}))
    };
    assert_eq!(codes("In", Value::Null), policy::Verdict::Ignored);
    assert_eq!(codes("In", "other".into()), policy::Verdict::Counts);
    assert_eq!(codes("NotIn", Value::Null), policy::Verdict::Counts);
    let pattern = |status: &str| {
        let pattern = json!([{"type": "Ready", "status": status}]);
        verdict(json!({"action": "FailJob", "onPodConditions": pattern}))
    };
    assert_eq!(pattern("True"), policy::Verdict::Counts);
    let message = "Pod n/a has condition Ready matching FailJob rule at index 0";
    assert_eq!(pattern("False"), policy::Verdict::FailsJob(message.into()));
}
