//! Jobs whose completions have indexes.

use super::look::{FAILURES, IGNORED, INDEX};
use super::*;

fn indexed(completions: i32, spec: Value) -> Value {
    let mut job = job(json!({
        "completionMode": "Indexed", "completions": completions, "parallelism": completions,
        "backoffLimit": 6,
    }));
    for (key, value) in spec.as_object().unwrap() {
        job["spec"][key] = value.clone();
    }
    job
}

fn at(index: i32, name: &str, phase: &str) -> Value {
    let mut pod = pod(name, phase);
    pod["metadata"]["annotations"] = json!({INDEX: index.to_string()});
    pod
}

#[test]
fn each_missing_index_gets_a_pod_that_knows_it() {
    let job = indexed(4, json!({}));
    let decision = decided(&job, &[at(1, "b", "Running"), at(2, "c", "Succeeded")]);
    let created = ["create pods n/", "create pods n/"];
    assert_eq!(lines(&decision)[..2], created);
    let pods = bodies(&decision);
    let pod = &pods[1];
    assert_eq!(pod["metadata"]["generateName"], "j-3-");
    assert_eq!(pod["metadata"]["labels"][INDEX], "3");
    assert_eq!(pod["metadata"]["annotations"], json!({INDEX: "3"}));
    assert_eq!(pod["spec"]["hostname"], "j-3");
    let path = "metadata.labels['batch.kubernetes.io/job-completion-index']";
    let variable = json!({
        "name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}},
    });
    assert_eq!(pod["spec"]["containers"][0]["env"], json!([variable]));
    assert_eq!(pods[0]["metadata"]["annotations"][INDEX], "0");
    // A succeeded index needs no list of uids.
    let told = status(&decision);
    assert_eq!(told["completedIndexes"], "2");
    assert_eq!(
        (&told["succeeded"], &told["uncountedTerminatedPods"]),
        (&1.into(), &json!({}))
    );
}

#[test]
fn long_names_keep_their_index() {
    let mut job = indexed(1, json!({}));
    job["metadata"]["name"] = "x".repeat(63).into();
    let key = ("n", &*"x".repeat(63));
    let decision = decide(&Jobs, &caches(&[job]), key);
    let name = format!("{}-0-", "x".repeat(55));
    assert_eq!(bodies(&decision)[0]["metadata"]["generateName"], name);
}

#[test]
fn of_two_pods_with_one_index_the_better_stays_and_what_has_no_index_goes() {
    let job = indexed(2, json!({}));
    let pods = [
        at(0, "a", "Running"),
        at(0, "late", "Pending"),
        at(1, "b", "Running"),
        at(2, "beyond", "Running"),
        pod("nameless", "Running"),
    ];
    let decision = decided(&job, &pods);
    let deleted: Vec<String> = lines(&decision)
        .into_iter()
        .filter_map(|line| line.strip_prefix("delete pods n/").map(str::to_owned))
        .collect();
    assert_eq!(deleted, ["late", "beyond", "nameless"]);
}

#[test]
fn a_job_may_shrink_and_grow() {
    let mut job = indexed(3, json!({}));
    job["status"]["completedIndexes"] = "1,4,5".into();
    job["status"]["succeeded"] = 3.into();
    let told = status(&decided(&job, &[]));
    assert_eq!(
        (&told["completedIndexes"], &told["succeeded"]),
        (&"1".into(), &1.into())
    );
}

#[test]
fn indexes_fail_one_by_one() {
    let mut job = indexed(
        2,
        json!({"backoffLimitPerIndex": 1, "backoffLimit": i32::MAX}),
    );
    let told = decided(&job, &[]);
    assert_eq!(bodies(&told)[0]["metadata"]["annotations"][FAILURES], "0");
    assert_eq!(status(&told)["failedIndexes"], "");
    // The failed pod stays until the one that replaces it is there.
    let mut failed = at(0, "a", "Failed");
    failed["metadata"]["annotations"][FAILURES] = "0".into();
    let running = at(1, "b", "Running");
    let pods = [failed.clone(), running.clone()];
    let decision = decided(&job, &pods);
    assert_eq!(lines(&decision), ["create pods n/", STATUS]);
    assert_eq!(
        bodies(&decision)[0]["metadata"]["annotations"][FAILURES],
        "1"
    );
    let again = at(0, "c", "Running");
    let decision = decided(&job, &[failed, running.clone(), again]);
    assert_eq!(lines(&decision), [STATUS, "patch pods n/a"]);
    // The second failure is one too many, and then the job fails with what is left.
    let mut failed = at(0, "c", "Failed");
    failed["metadata"]["annotations"][FAILURES] = "1".into();
    let decision = decided(&job, &[failed.clone(), running]);
    let told = status(&decision);
    assert_eq!(
        (&told["failedIndexes"], told.get("conditions")),
        (&"0".into(), None)
    );
    job["status"] = told;
    let decision = decided(&job, &[untracked(failed), at(1, "b", "Succeeded")]);
    let told = status(&decision);
    assert_eq!(told["conditions"][0]["reason"], "FailedIndexes");
    assert_eq!(told["completedIndexes"], "1");
}

#[test]
fn each_index_waits_for_itself() {
    let job = indexed(
        2,
        json!({"backoffLimitPerIndex": 5, "backoffLimit": i32::MAX}),
    );
    let mut failed = at(0, "a", "Failed");
    failed["metadata"]["annotations"][FAILURES] = "2".into();
    failed["metadata"]["annotations"][IGNORED] = "1".into();
    let decision = decided(&job, &[failed]);
    assert_eq!(lines(&decision), ["create pods n/", STATUS]);
    assert_eq!(bodies(&decision)[0]["metadata"]["annotations"][INDEX], "1");
    // Four failures wait for 80 seconds; 20 are over.
    assert_eq!(decision.after, Some(Duration::from_secs(60)));
}

#[test]
fn too_many_failed_indexes_or_a_rule_fail_the_job_or_an_index() {
    let job = indexed(
        5,
        json!({
            "backoffLimitPerIndex": 9, "maxFailedIndexes": 1, "backoffLimit": i32::MAX,
            "podFailurePolicy": {"rules": [
                {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3]}},
            ]},
        }),
    );
    let pods = [at(0, "a", "Failed"), at(1, "b", "Failed")];
    let told = status(&decided(&job, &pods[..1]));
    assert_eq!(
        (&told["failedIndexes"], told.get("conditions")),
        (&"0".into(), None)
    );
    let told = status(&decided(&job, &pods));
    assert_eq!(told["failedIndexes"], "0,1");
    assert_eq!(told["conditions"][0]["reason"], "MaxFailedIndexesExceeded");
}

#[test]
fn some_indexes_may_be_enough() {
    let rules =
        json!([{"succeededIndexes": "0,4"}, {"succeededIndexes": "0-3", "succeededCount": 2}]);
    let mut job = indexed(5, json!({"successPolicy": {"rules": rules}}));
    job["status"]["completedIndexes"] = "0".into();
    let running = || at(4, "e", "Running");
    let told = status(&decided(&job, &[running()]));
    assert_eq!(told.get("conditions"), None);
    let decision = decided(&job, &[running(), at(2, "c", "Succeeded")]);
    let condition = &status(&decision)["conditions"][0];
    assert_eq!(condition["type"], "SuccessCriteriaMet");
    assert_eq!(condition["message"], "Matched rules at index 1");
    let expected = [
        "delete pods n/e",
        STATUS,
        "patch pods n/c",
        "patch pods n/e",
    ];
    assert_eq!(lines(&decision), expected);
    // What still ran has not failed.
    assert_eq!(status(&decision)["uncountedTerminatedPods"], json!({}));
}
