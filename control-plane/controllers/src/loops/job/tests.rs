mod by_index;
mod end;

use std::time::Duration;

use serde_json::{Value, json};

use super::*;
use crate::loops::Failure;
use crate::tests::fixtures::{ago, bodies, caches, decide, decide_after, lines, now, owner};

const KEY: (&str, &str) = ("n", "j");
const STATUS: &str = "update status of jobs n/j";

/// A job with these fields in its spec, that began 100 seconds ago.
fn job(spec: Value) -> Value {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"namespace": "n", "name": "j", "generation": 1},
        "spec": {
            "selector": {"matchLabels": {"job": "j"}},
            "template": {
                "metadata": {"labels": {"job": "j"}, "finalizers": ["example.com/mine"]},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
            },
        },
        "status": {"startTime": ago(100), "ready": 0, "terminating": 0,
            "uncountedTerminatedPods": {}},
    });
    for (key, value) in spec.as_object().unwrap() {
        job["spec"][key] = value.clone();
    }
    job
}

/// One of its pods, not counted yet; it ended 20 seconds ago if it did.
fn pod(name: &str, phase: &str) -> Value {
    let state = match phase {
        "Succeeded" => json!({"terminated": {"exitCode": 0, "finishedAt": ago(20)}}),
        "Failed" => json!({"terminated": {"exitCode": 3, "finishedAt": ago(20)}}),
        _ => json!({"running": {}}),
    };
    let ready = if phase == "Running" { "True" } else { "False" };
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": "n", "name": name, "labels": {"job": "j"}, "finalizers": [TRACKING],
            "ownerReferences": [owner("batch/v1", "Job", "j")],
        },
        "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]},
        "status": {
            "phase": phase,
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": ago(50)}],
            "containerStatuses": [{
                "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                "state": state,
            }],
        },
    })
}

fn deleting(pod: Value) -> Value {
    let mut pod = pod;
    pod["metadata"]["deletionTimestamp"] = ago(0).into();
    pod["metadata"]["deletionGracePeriodSeconds"] = 1.into();
    pod
}

/// A pod that is counted already.
fn untracked(pod: Value) -> Value {
    let mut pod = pod;
    pod["metadata"]["finalizers"] = json!([]);
    pod
}

fn decided(job: &Value, pods: &[Value]) -> Decision {
    decided_after(job, pods, None)
}

fn decided_after(job: &Value, pods: &[Value], failure: Option<&Failure>) -> Decision {
    let objects = [std::slice::from_ref(job), pods].concat();
    decide_after(&Jobs, &caches(&objects), KEY, failure)
}

/// The status that a decision writes.
fn status(decision: &Decision) -> Value {
    let at = lines(decision).iter().position(|line| line == STATUS);
    bodies(decision)[at.expect("the status is written")]["status"].clone()
}

/// The Events of the calls, if they succeed.
fn reasons(decision: &Decision) -> Vec<&'static str> {
    let notes = decision.steps.iter().filter_map(|step| step.done.as_ref());
    notes.map(|note| note.reason).collect()
}

#[test]
fn missing_pods_are_made_as_the_template_says() {
    let mut new = job(json!({"parallelism": 2, "completions": 3}));
    new["status"] = Value::Null;
    let decision = decided(&new, &[]);
    assert_eq!(
        lines(&decision),
        ["create pods n/", "create pods n/", STATUS]
    );
    let pod = &bodies(&decision)[0];
    assert_eq!(pod["metadata"]["generateName"], "j-");
    let finalizers = json!(["example.com/mine", TRACKING]);
    assert_eq!(pod["metadata"]["finalizers"], finalizers);
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "jobs/j");
    assert_eq!(pod["metadata"].get("annotations"), None);
    assert_eq!(pod["spec"].get("hostname"), None);
    let told = json!({
        "active": 2, "ready": 0, "terminating": 0, "startTime": ago(0),
        "uncountedTerminatedPods": {},
    });
    assert_eq!(status(&decision), told);
    assert_eq!(reasons(&decision), ["SuccessfulCreate"; 2]);
}

#[test]
fn no_more_pods_run_than_completions_are_left() {
    let mut job = job(json!({"parallelism": 5, "completions": 3}));
    job["status"]["succeeded"] = 1.into();
    let decision = decided(&job, &[pod("a", "Running")]);
    assert_eq!(lines(&decision), ["create pods n/", STATUS]);
    assert_eq!(status(&decision)["active"], 2);
    assert_eq!(status(&decision)["ready"], 1);
}

#[test]
fn without_completions_the_others_run_on_after_the_first_success() {
    let job = job(json!({"parallelism": 3}));
    let decision = decided(&job, &[pod("a", "Running"), pod("b", "Succeeded")]);
    assert_eq!(lines(&decision), [STATUS, "patch pods n/b"]);
    assert_eq!(status(&decision).get("conditions"), None);
}

#[test]
fn surplus_pods_are_let_go_of_and_deleted_the_least_worth_first() {
    let job = job(json!({"parallelism": 1, "completions": 5}));
    let mut nowhere = pod("nowhere", "Pending");
    nowhere["spec"]["nodeName"] = Value::Null;
    let pods = [pod("runs", "Running"), nowhere, pod("waits", "Pending")];
    let decision = decided(&job, &pods);
    let expected = [
        "patch pods n/nowhere",
        "delete pods n/nowhere",
        "patch pods n/waits",
        "delete pods n/waits",
        STATUS,
    ];
    assert_eq!(lines(&decision), expected);
    let directive = "$deleteFromPrimitiveList/finalizers";
    let patch = &bodies(&decision)[0]["metadata"];
    assert_eq!(patch[directive], json!([TRACKING]));
    let told = status(&decision);
    assert_eq!(
        (&told["active"], &told["terminating"]),
        (&1.into(), &2.into())
    );
    assert_eq!(reasons(&decision), ["SuccessfulDelete"; 2]);
}

#[test]
fn pods_that_match_are_taken_with_the_finalizer_and_others_lose_both() {
    let mut free = untracked(pod("free", "Running"));
    free["metadata"]["ownerReferences"] = json!([]);
    let mut stray = pod("stray", "Running");
    stray["metadata"]["labels"] = json!({});
    let decision = decided(&job(json!({})), &[free, stray]);
    assert_eq!(
        lines(&decision),
        ["patch pods n/stray", "patch pods n/free"]
    );
    let bodies = bodies(&decision);
    let directive = "$deleteFromPrimitiveList/finalizers";
    assert_eq!(bodies[0]["metadata"][directive], json!([TRACKING]));
    let change = &bodies[0]["metadata"]["ownerReferences"][0];
    assert_eq!(*change, json!({"$patch": "delete", "uid": "jobs/j"}));
    assert_eq!(bodies[1]["metadata"]["finalizers"], json!([TRACKING]));
    assert_eq!(bodies[1]["metadata"]["ownerReferences"][0]["uid"], "jobs/j");
}

#[test]
fn what_ended_is_listed_then_let_go_of_then_a_number() {
    let mut job = job(json!({"parallelism": 1, "completions": 3, "backoffLimit": 6}));
    let ended = [
        pod("good", "Succeeded"),
        pod("bad", "Failed"),
        pod("on", "Running"),
    ];
    let decision = decided(&job, &ended);
    let expected = [STATUS, "patch pods n/bad", "patch pods n/good"];
    assert_eq!(lines(&decision), expected);
    let told = status(&decision);
    let listed = json!({"succeeded": ["pods/good"], "failed": ["pods/bad"]});
    assert_eq!(told["uncountedTerminatedPods"], listed);
    assert_eq!(told.get("succeeded"), None);
    // A crash before the pods are let go of: they are listed once.
    job["status"] = told;
    let decision = decided(&job, &ended);
    assert_eq!(lines(&decision), ["patch pods n/bad", "patch pods n/good"]);
    // One of them is let go of, the other is gone.
    let left = [untracked(pod("good", "Succeeded")), pod("on", "Running")];
    let told = status(&decided(&job, &left));
    assert_eq!(told["uncountedTerminatedPods"], json!({}));
    assert_eq!(
        (&told["succeeded"], &told["failed"]),
        (&1.into(), &1.into())
    );
}

#[test]
fn at_most_five_hundred_pods_are_listed_at_once() {
    let job = job(json!({"parallelism": 600, "completions": 600}));
    let pods: Vec<Value> = (0..600)
        .map(|at| pod(&format!("p{at}"), "Succeeded"))
        .collect();
    let decision = decided(&job, &pods);
    assert_eq!(lines(&decision).len(), 1 + 500);
    let told = status(&decision);
    let listed = told["uncountedTerminatedPods"]["succeeded"].as_array();
    assert_eq!(listed.unwrap().len(), 500);
    assert_eq!(told["conditions"][0]["type"], "SuccessCriteriaMet");
}

#[test]
fn a_pod_that_is_deleted_is_replaced_at_once_or_when_it_has_ended() {
    let mut job = job(json!({"parallelism": 1, "completions": 1, "backoffLimit": 6}));
    let mut old = deleting(pod("old", "Running"));
    old["status"]["containerStatuses"][0]["state"] =
        json!({"terminated": {"exitCode": 1, "finishedAt": ago(20)}});
    let decision = decided(&job, std::slice::from_ref(&old));
    let expected = ["create pods n/", STATUS, "patch pods n/old"];
    assert_eq!(lines(&decision), expected);
    job["spec"]["podReplacementPolicy"] = "Failed".into();
    let decision = decided(&job, &[old]);
    assert_eq!(lines(&decision), [STATUS]);
    assert_eq!(status(&decision)["terminating"], 1);
}

#[test]
fn the_next_pod_waits_longer_after_each_failure() {
    let job = job(json!({"parallelism": 1, "completions": 1, "backoffLimit": 6}));
    // The delay of ten seconds is over.
    let one = [pod("a", "Failed")];
    assert_eq!(lines(&decided(&job, &one))[0], "create pods n/");
    // They are known to have failed even when they are counted and gone.
    let four = ["a", "b", "c", "d"].map(|name| pod(name, "Failed"));
    let counted = four.clone().map(untracked);
    let decision = decided(&job, &[four, counted].concat());
    assert!(decision.steps.is_empty());
    assert_eq!(decision.after, Some(Duration::from_secs(60)));
}

#[test]
fn a_suspended_job_has_no_pods_and_no_start() {
    let mut job = job(json!({"parallelism": 1, "completions": 1, "suspend": true}));
    let decision = decided(&job, &[pod("a", "Running")]);
    assert_eq!(
        lines(&decision),
        ["patch pods n/a", "delete pods n/a", STATUS]
    );
    let told = status(&decision);
    assert_eq!(told.get("startTime"), None);
    assert_eq!(told["terminating"], 1);
    let condition = json!({
        "type": "Suspended", "status": "True", "reason": "JobSuspended",
        "message": "Job suspended", "lastProbeTime": ago(0), "lastTransitionTime": ago(0),
    });
    assert_eq!(told["conditions"], json!([condition]));
    assert_eq!(reasons(&decision), ["SuccessfulDelete", "Suspended"]);
    // Resumed, it begins anew.
    job["status"] = told;
    job["spec"]["suspend"] = false.into();
    let decision = decided(&job, &[]);
    let told = status(&decision);
    let condition = &told["conditions"][0];
    assert_eq!(
        (&condition["status"], &condition["reason"]),
        (&"False".into(), &"JobResumed".into())
    );
    assert_eq!(told["startTime"], ago(0));
    assert_eq!(reasons(&decision), ["SuccessfulCreate", "Resumed"]);
}

#[test]
fn what_could_not_be_made_is_told_before_it_is_tried_again() {
    let failure = Failure {
        creating: true,
        deleting: false,
        message: "no quota".into(),
    };
    let mut job = job(json!({"parallelism": 3, "completions": 3}));
    let pods = [pod("a", "Running")];
    let decision = decided_after(&job, &pods, Some(&failure));
    assert_eq!(lines(&decision), [STATUS]);
    assert_eq!(status(&decision)["active"], 1);
    job["status"] = status(&decision);
    let decision = decided_after(&job, &pods, Some(&failure));
    assert_eq!(
        lines(&decision),
        ["create pods n/", "create pods n/", STATUS]
    );
}

#[test]
fn a_job_that_another_controller_manages_is_left_alone() {
    let mut job = job(json!({"parallelism": 1}));
    job["spec"]["managedBy"] = "example.com/other".into();
    assert!(decided(&job, &[pod("a", "Failed")]).steps.is_empty());
    job["spec"]["managedBy"] = "kubernetes.io/job-controller".into();
    assert!(!decided(&job, &[pod("a", "Failed")]).steps.is_empty());
}

#[test]
fn a_job_that_is_being_deleted_makes_nothing_and_lets_go_of_its_pods() {
    let mut job = job(json!({"parallelism": 2}));
    job["metadata"]["deletionTimestamp"] = ago(1).into();
    job["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    let decision = decided(&job, &[pod("a", "Running")]);
    assert_eq!(lines(&decision), [STATUS, "patch pods n/a"]);
}

#[test]
fn pods_that_no_job_will_count_are_let_go_of() {
    let mut free = pod("free", "Running");
    free["metadata"]["ownerReferences"] = json!([]);
    let mut ended = job(json!({}));
    ended["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
    let mut foreign = ended.clone();
    foreign["spec"]["managedBy"] = "example.com/other".into();
    let mut of_set = pod("mine", "Running");
    of_set["metadata"]["ownerReferences"] = json!([owner("apps/v1", "ReplicaSet", "j")]);
    let mine = || pod("mine", "Running");
    let cases = [
        (vec![free], "free", true),
        (vec![mine()], "mine", true),
        (vec![mine(), ended], "mine", true),
        (vec![mine(), job(json!({}))], "mine", false),
        (vec![mine(), foreign], "mine", false),
        (vec![of_set], "mine", false),
        (vec![untracked(mine())], "mine", false),
    ];
    for (objects, name, let_go) in cases {
        let caches = caches(&objects);
        let decision = decide(&Jobs, &caches, ("n", &format!("pods/{name}")));
        let expected = [format!("patch pods n/{name}")];
        let expected = if let_go { &expected[..] } else { &[] };
        assert_eq!(lines(&decision), expected, "{objects:?}");
    }
}

#[test]
fn a_job_looks_at_once_when_it_changes_and_after_a_second_when_its_pods_do() {
    let caches = caches(&[job(json!({})), pod("mine", "Running")]);
    let woken = |changed: Changed| {
        let (mut keys, mut later) = (Vec::new(), Vec::new());
        Jobs.wakes(&caches, &changed, &mut |key| keys.push(key.1));
        Jobs.wakes_later(&caches, &changed, now(), &mut |key, after| {
            assert_eq!(after, Duration::from_secs(1));
            later.push(key.1);
        });
        later.dedup();
        (keys, later)
    };
    let expect = |at_once: &[&str], later: &[&str]| {
        let owned = |keys: &[&str]| keys.iter().map(|&key| key.to_owned()).collect();
        (owned(at_once), owned(later))
    };
    let mine = caches.pods.get("n", "mine").cloned();
    let mut free = Pod::clone(mine.as_ref().unwrap());
    free.metadata.owner_references = None;
    let (old, new) = (mine, Some(free.into()));
    let pod = Changed::Pod(Diff { old, new });
    assert_eq!(woken(pod), expect(&["pods/mine"], &["j"]));
    let job = caches.jobs.get("n", "j").cloned();
    let (old, new) = (job.clone(), job.clone());
    assert_eq!(woken(Changed::Job(Diff { old, new })), expect(&[], &["j"]));
    let mut scaled = Job::clone(job.as_ref().unwrap());
    scaled.metadata.generation = Some(2);
    let (old, new) = (job.clone(), Some(scaled.into()));
    assert_eq!(woken(Changed::Job(Diff { old, new })), expect(&["j"], &[]));
    let (old, new) = (job, None);
    let gone = Changed::Job(Diff { old, new });
    assert_eq!(woken(gone), expect(&["j", "pods/mine"], &[]));
}
