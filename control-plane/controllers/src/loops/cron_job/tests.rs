use api_client::Notice;
use machinery::object;
use serde_json::{Value, json};

use super::*;
use crate::cache::Destination;
use crate::known::kind_of;
use crate::manager::{Manager, Moment};
use crate::tests::fixtures::{ago, bodies, caches, decide, lines, now, owner};

const KEY: (&str, &str) = ("n", "c");
const STATUS: &str = "update status of cronjobs n/c";

/// A cron job with these fields in its spec, due at every full minute, made five minutes ago. It is
/// five seconds after a full minute.
fn cron(spec: Value) -> Value {
    let mut cron = json!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"namespace": "n", "name": "c", "creationTimestamp": ago(300)},
        "spec": {
            "schedule": "* * * * *",
            "jobTemplate": {
                "metadata": {"labels": {"a": "b"}, "annotations": {"note": "hello"}},
                "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
            },
        },
    });
    for (key, value) in spec.as_object().unwrap() {
        cron["spec"][key] = value.clone();
    }
    cron
}

/// Its job for a time so many seconds ago.
fn job(due: i64, end: Option<&str>) -> Value {
    let minutes = (now().seconds - due) / 60;
    named(&format!("c-{minutes}"), due, end)
}

fn named(name: &str, due: i64, end: Option<&str>) -> Value {
    let conditions = end.map(|end| json!([{"type": end, "status": "True"}]));
    let completed = (end == Some("Complete")).then(|| ago(due - 1));
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "namespace": "n", "name": name, "annotations": {DUE_AT: ago(due)},
            "ownerReferences": [owner("batch/v1", "CronJob", "c")],
        },
        "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}},
        "status": {
            "startTime": ago(due), "conditions": conditions.unwrap_or(json!([])),
            "completionTime": completed,
        },
    })
}

/// The cron job when it has started these jobs.
fn with_active(cron: Value, jobs: &[&Value], last: i64) -> Value {
    let mut cron = cron;
    let active = jobs.iter().map(|job| {
        let name = job["metadata"]["name"].as_str().unwrap();
        json!({
            "apiVersion": "batch/v1", "kind": "Job", "namespace": "n", "name": name,
            "uid": format!("jobs/{name}"), "resourceVersion": "2",
        })
    });
    let active: Vec<Value> = active.collect();
    cron["status"] = json!({"active": active, "lastScheduleTime": ago(last)});
    cron
}

fn decided(objects: &[Value]) -> Decision {
    decide(&CronJobs, &caches(objects), KEY)
}

fn status(decision: &Decision) -> Value {
    let at = lines(decision).iter().position(|line| line == STATUS);
    bodies(decision)[at.expect("the status is written")]["status"].clone()
}

fn notes(decision: &Decision) -> Vec<(&'static str, &str)> {
    let notes = decision.notes.iter();
    notes
        .map(|note| (note.reason, note.message.as_str()))
        .collect()
}

fn reasons(decision: &Decision) -> Vec<&'static str> {
    decision.notes.iter().map(|note| note.reason).collect()
}

#[test]
fn the_last_time_that_was_due_makes_a_job() {
    let decision = decided(&[cron(json!({"timeZone": "Asia/Tokyo"}))]);
    assert_eq!(lines(&decision), ["create jobs n/c-29455384"]);
    let job = &bodies(&decision)[0];
    let metadata = json!({
        "namespace": "n", "name": "c-29455384", "labels": {"a": "b"},
        "annotations": {"note": "hello", DUE_AT: "2026-01-02T12:04:00+09:00"},
        "ownerReferences": [owner("batch/v1", "CronJob", "c")],
    });
    assert_eq!(job["metadata"], metadata);
    assert_eq!(
        job["spec"]["template"]["spec"]["containers"][0]["image"],
        "i"
    );
    let made = decision.steps[0].done.as_ref().unwrap();
    assert_eq!(
        (made.reason, made.message.as_str()),
        ("SuccessfulCreate", "Created job {}")
    );
    // The next one is due in 55 seconds.
    assert_eq!(decision.after, Some(Duration::from_millis(55_100)));
}

#[test]
fn a_job_that_was_made_is_listed_once() {
    let new = job(5, None);
    let decision = decided(&[cron(json!({})), new.clone()]);
    assert_eq!(lines(&decision), [STATUS]);
    let told = status(&decision);
    assert_eq!(told["lastScheduleTime"], ago(5));
    assert_eq!(
        told["active"][0]["uid"],
        new["metadata"]["uid"].as_str().unwrap_or("jobs/c-29455384")
    );
    let listed = with_active(cron(json!({})), &[&new], 5);
    assert!(decided(&[listed, new]).steps.is_empty());
}

#[test]
fn a_job_that_ended_is_told_of_and_its_success_noted() {
    let done = job(65, Some("Complete"));
    let listed = with_active(cron(json!({"suspend": true})), &[&done], 65);
    let decision = decided(&[listed, done]);
    let told = status(&decision);
    assert_eq!(
        (told.get("active"), &told["lastSuccessfulTime"]),
        (None, &ago(64).into())
    );
    let message = "Saw completed job: c-29455383, condition: Complete";
    assert_eq!(notes(&decision), [("SawCompletedJob", message)]);
    assert_eq!(decision.after, None);
    let failed = job(65, Some("Failed"));
    let listed = with_active(cron(json!({"suspend": true})), &[&failed], 65);
    let decision = decided(&[listed, failed]);
    assert_eq!(status(&decision).get("lastSuccessfulTime"), None);
    assert_eq!(reasons(&decision), ["SawCompletedJob"]);
}

#[test]
fn jobs_that_are_missing_or_unexpected_are_told_of() {
    let gone = job(65, None);
    let decision = decided(&[with_active(cron(json!({"suspend": true})), &[&gone], 65)]);
    assert_eq!(status(&decision).get("active"), None);
    assert_eq!(
        notes(&decision),
        [("MissingJob", "Active job went missing: c-29455383")]
    );
    let by_hand = named("by-hand", 65, None);
    let decision = decided(&[cron(json!({"suspend": true})), by_hand]);
    assert!(decision.steps.is_empty());
    let message = "Saw a job that the controller did not create or forgot: by-hand";
    assert_eq!(notes(&decision), [("UnexpectedJob", message)]);
}

#[test]
fn of_the_jobs_that_ended_the_oldest_go() {
    let limits = json!({
        "suspend": true, "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0,
    });
    let mut never = named("never", 60, Some("Failed"));
    never["status"]["startTime"] = Value::Null;
    let jobs = [
        named("b", 120, Some("Complete")),
        named("a", 180, Some("Complete")),
        named("newest", 60, Some("Complete")),
        never,
        named("failed", 60, Some("Failed")),
        named("runs", 600, None),
    ];
    let decision = decided(&[&[cron(limits)], &jobs[..]].concat());
    let expected = ["a", "b", "failed", "never"].map(|name| format!("delete jobs n/{name}"));
    assert_eq!(lines(&decision)[..4], expected);
    assert_eq!(bodies(&decision)[0]["propagationPolicy"], "Background");
    let note = decision.steps[0].done.as_ref().unwrap();
    assert_eq!(
        (note.reason, note.message.as_str()),
        ("SuccessfulDelete", "Deleted job a")
    );
    // Without limits all stay.
    let all = json!({
        "suspend": true, "successfulJobsHistoryLimit": 9, "failedJobsHistoryLimit": 9,
    });
    let decision = decided(&[&[cron(all)], &jobs[..]].concat());
    assert_eq!(lines(&decision), [STATUS]);
}

#[test]
fn a_run_that_is_still_on_forbids_the_next_or_is_replaced_by_it() {
    let on = job(65, None);
    let policy = |policy: &str| {
        let cron = cron(json!({"concurrencyPolicy": policy}));
        decided(&[with_active(cron, &[&on], 65), on.clone()])
    };
    let decision = policy("Forbid");
    assert!(decision.steps.is_empty() && decision.after.is_some());
    assert_eq!(reasons(&decision), ["JobAlreadyActive"]);
    assert_eq!(lines(&policy("Allow")), ["create jobs n/c-29455384"]);
    // The new one is made when the old one is gone.
    let decision = policy("Replace");
    assert_eq!(lines(&decision), ["delete jobs n/c-29455383", STATUS]);
    assert_eq!(status(&decision).get("active"), None);
    let cron = cron(json!({"concurrencyPolicy": "Replace"}));
    let decision = decided(&[with_active(cron, &[], 65)]);
    assert_eq!(lines(&decision), ["create jobs n/c-29455384"]);
}

#[test]
fn a_time_that_is_past_its_deadline_is_missed() {
    let hourly = json!({"schedule": "4 3 * * *", "startingDeadlineSeconds": 6});
    assert_eq!(
        lines(&decided(&[cron(hourly)])),
        ["create jobs n/c-29455384"]
    );
    let mut late = cron(json!({"schedule": "3 3 * * *", "startingDeadlineSeconds": 10}));
    let decision = decided(std::slice::from_ref(&late));
    assert!(decision.steps.is_empty() && decision.notes.is_empty());
    late["spec"]["startingDeadlineSeconds"] = 100.into();
    assert_eq!(lines(&decided(&[late])), ["create jobs n/c-29455383"]);
}

#[test]
fn many_missed_times_make_one_job_and_a_warning() {
    let mut old = cron(json!({}));
    old["metadata"]["creationTimestamp"] = ago(60 * 60 * 24 * 365).into();
    let decision = decided(&[old]);
    assert_eq!(reasons(&decision), ["TooManyMissedTimes"]);
    assert_eq!(lines(&decision), ["create jobs n/c-29455384"]);
}

#[test]
fn what_is_no_schedule_or_no_zone_is_told_of_and_never_due() {
    for (spec, reason) in [
        (json!({"timeZone": "Mars/Olympus"}), "UnknownTimeZone"),
        (json!({"schedule": "often"}), "UnparseableSchedule"),
        (json!({"schedule": "0 0 31 2 *"}), "InvalidSchedule"),
    ] {
        let decision = decided(&[cron(spec)]);
        assert!(decision.steps.is_empty() && decision.after.is_none());
        assert_eq!(reasons(&decision), [reason]);
    }
}

#[test]
fn a_cron_job_that_is_being_deleted_starts_nothing() {
    let mut going = cron(json!({}));
    going["metadata"]["deletionTimestamp"] = ago(1).into();
    going["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    assert!(decided(&[going]).steps.is_empty());
}

#[test]
fn a_new_schedule_waits_for_its_next_time() {
    let caches = caches(&[cron(json!({})), job(65, None)]);
    let old = caches.cron_jobs.get("n", "c").cloned();
    let mut new = CronJob::clone(old.as_ref().unwrap());
    new.spec.schedule = "*/10 * * * *".into();
    let new = Some(Shared::new(new));
    let woken = |changed: Changed| {
        let mut keys = Vec::new();
        CronJobs.wakes(&caches, &changed, &mut |key| keys.push(key.1));
        let mut wait = None;
        CronJobs.wakes_later(&caches, &changed, now(), &mut |_, after| wait = Some(after));
        (keys, wait)
    };
    let same = Diff {
        old: old.clone(),
        new: old.clone(),
    };
    assert_eq!(woken(Changed::CronJob(same)), (vec!["c".into()], None));
    let wait = Duration::from_millis(355_100);
    assert_eq!(
        woken(Changed::CronJob(Diff { old, new })),
        (Vec::new(), Some(wait))
    );
    let old = caches.jobs.get("n", "c-29455383").cloned();
    assert_eq!(woken(Changed::Job(Diff { old, new: None })).0, ["c"]);
}

#[test]
fn what_was_due_by_a_new_schedule_before_is_not_made_up_for() {
    let mut manager = Manager::new(vec![Box::new(CronJobs)]);
    let moment = Moment {
        since_start: Duration::ZERO,
        wall: now(),
    };
    let mut show = |schedule: &str, version: i64| {
        let mut cron = cron(json!({"schedule": schedule}));
        object::set_resource_version(&mut cron, version);
        let kind = kind_of::<CronJob>();
        manager.observe(kind, Destination::Both, Notice::Applied(cron), moment);
        assert!(manager.next(moment).is_none());
        manager.wake_at().unwrap()
    };
    assert!(show("0 0 1 1 *", 1) > Duration::from_secs(3600));
    assert_eq!(show("* * * * *", 2), Duration::from_millis(55_100));
}
