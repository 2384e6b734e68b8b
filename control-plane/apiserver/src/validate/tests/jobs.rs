//! Jobs and cron jobs after they were made.

use serde_json::{Value, json};

use super::{Policy, changed, job, made, resource, strategy, told, wrong};

const IMMUTABLE: &str = "field is immutable";

fn cron_job(schedule: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "spec": {
        "schedule": schedule, "jobTemplate": {"spec": job(json!({}))["spec"]}}})
}

fn label(job: &mut Value) {
    job["metadata"]["labels"] = json!({"a": "b"});
}

fn needs_more(job: &mut Value) {
    let container = &mut job["spec"]["template"]["spec"]["containers"][0];
    container["resources"] = json!({"requests": {"cpu": "2"}});
}

fn has_another_image(job: &mut Value) {
    job["spec"]["template"]["spec"]["containers"][0]["image"] = "j".into();
}

/// What an update of a job in this state is refused for, up to the value.
fn refused(suspend: bool, status: Value, change: fn(&mut Value)) -> Vec<String> {
    let mut old = made(job(json!({"suspend": suspend})));
    old["status"] = status;
    let mut new = old.clone();
    change(&mut new);
    let resource = &resource(&old);
    let rules = &strategy::of(resource).rules;
    let causes = rules.update(resource, "", (&old, &new), Policy::default());
    let told = told(causes.into());
    assert!(told.iter().all(|one| one.ends_with(IMMUTABLE)), "{told:?}");
    let places = told.iter().filter_map(|one| one.split(':').next());
    places.map(str::to_owned).collect()
}

#[test]
fn the_pods_of_a_job_at_rest_may_need_something_else() {
    let started = |active: i64, suspended: &str| {
        json!({
            "startTime": "2026-01-01T00:00:00Z", "active": active,
            "conditions": [{"type": "Suspended", "status": suspended}],
        })
    };
    let none: [&str; 0] = [];
    for status in [json!({}), started(0, "True")] {
        assert_eq!(refused(true, status.clone(), needs_more), none, "{status}");
        let place = ["spec.template.spec"];
        assert_eq!(refused(true, status, has_another_image), place);
    }
    for (suspend, status) in [
        (false, json!({})),
        (true, json!({"active": 1})),
        (true, started(0, "False")),
        (true, started(1, "True")),
    ] {
        let place = ["spec.template"];
        assert_eq!(
            refused(suspend, status.clone(), needs_more),
            place,
            "{status}"
        );
    }
}

#[test]
fn an_indexed_job_gets_completions_along_with_its_parallelism() {
    let indexed = || job(json!({"completionMode": "Indexed", "completions": 3, "parallelism": 2}));
    let to = |completions: i64, parallelism: i64| {
        changed(indexed(), |job| {
            job["spec"]["completions"] = completions.into();
            job["spec"]["parallelism"] = parallelism.into();
        })
    };
    assert_eq!(to(3, 1), [""; 0]);
    assert_eq!(to(4, 4), [""; 0]);
    assert_eq!(
        to(4, 2),
        [
            "spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism"
        ]
    );
}

#[test]
fn a_job_from_before_the_labels_with_a_prefix_needs_none() {
    let mut old = made(job(json!({})));
    let labels = old.pointer_mut("/spec/template/metadata/labels").unwrap();
    let labels = labels.as_object_mut().unwrap();
    labels.retain(|label, _| !label.starts_with("batch.kubernetes.io/"));
    let uid = labels["controller-uid"].clone();
    old["spec"]["selector"] = json!({"matchLabels": {"controller-uid": uid}});
    let resource = &resource(&old);
    let rules = &strategy::of(resource).rules;
    let mut new = old.clone();
    label(&mut new);
    let causes = rules.update(resource, "", (&old, &new), Policy::default());
    assert_eq!(told(causes.into()), [""; 0]);
    let causes = rules.create(resource, &old, Policy::default());
    assert_ne!(told(causes.into()), [""; 0]);
}

#[test]
fn a_cron_job_keeps_its_zone_and_its_name() {
    let zoned = "TZ=UTC 0 3 * * *";
    let why = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
    let field = format!("spec.schedule: Invalid value: \"{zoned}\"");
    assert_eq!(wrong(cron_job(zoned)), [format!("{field}: {why}")]);
    assert_eq!(changed(cron_job(zoned), label), [""; 0]);
    let both = changed(cron_job(zoned), |job| {
        job["spec"]["timeZone"] = "Etc/UTC".into();
    });
    let why = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
    assert_eq!(both, [format!("{field}: {why}")]);
    let newly = changed(cron_job("0 3 * * *"), |job| {
        job["spec"]["schedule"] = zoned.into();
    });
    assert_eq!(newly.len(), 1, "{newly:?}");

    let mut gone = cron_job("0 3 * * *");
    gone["spec"]["timeZone"] = "No/Where".into();
    assert_eq!(wrong(gone.clone()).len(), 1);
    assert_eq!(changed(gone, label), [""; 0]);

    let mut long = cron_job("0 3 * * *");
    long["metadata"] = json!({"name": "a".repeat(53)});
    assert_eq!(wrong(long.clone()).len(), 1);
    assert_eq!(changed(long, label), [""; 0]);
}

#[test]
fn the_jobs_of_a_cron_job_have_no_selector_by_hand() {
    let mut cron_job = cron_job("0 3 * * *");
    cron_job["spec"]["jobTemplate"]["spec"]["manualSelector"] = true.into();
    assert_eq!(
        wrong(cron_job),
        [
            "spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: \"nil\", \
             \"false\""
        ]
    );
}
