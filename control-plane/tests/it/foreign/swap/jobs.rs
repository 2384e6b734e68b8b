//! Jobs and cron jobs: our loops must leave the objects that Kubernetes' loops leave.

use serde_json::Value;

use super::world::World;
use super::{Scenario, Step, compare, listed};

const SCENARIO: Scenario = Scenario {
    steps: &STEPS,
    objects,
};
const NAMESPACE: &str = "jobs";

#[test]
fn our_jobs_and_cron_jobs_are_those_of_kubernetes() {
    compare("jobs", "jobs/golden.txt", &SCENARIO, |_, _| {});
}

const STEPS: [Step; 13] = [
    ("jobs that complete", |world| {
        world.run(&["create", "namespace", NAMESPACE]);
        create(world, include_str!("jobs/complete.yaml"));
        for job in ["once", "three", "pool", "indexed", "enough", "nothing"] {
            wait(world, &format!("job/{job}"), "condition=Complete");
        }
    }),
    ("jobs that fail", |world| {
        create(world, include_str!("jobs/fail.yaml"));
        for job in ["twice", "fatal", "late", "each", "many"] {
            wait(world, &format!("job/{job}"), "condition=Failed");
        }
    }),
    ("the jobs gone", |world| {
        within(world, &["delete", "jobs", "--all"]);
    }),
    ("jobs that run, and one that is suspended", |world| {
        create(world, include_str!("jobs/change.yaml"));
        wait(world, "job/long", "jsonpath={.status.ready}=2");
        wait(world, "job/elastic", "jsonpath={.status.ready}=3");
    }),
    ("one resumed, others smaller", |world| {
        patch(world, "job/still", r#"{"spec": {"suspend": false}}"#);
        patch(world, "job/long", r#"{"spec": {"parallelism": 1}}"#);
        let fewer = r#"{"spec": {"parallelism": 2, "completions": 2}}"#;
        patch(world, "job/elastic", fewer);
        wait(world, "job/still", "condition=Complete");
    }),
    ("larger, and one suspended", |world| {
        patch(world, "job/long", r#"{"spec": {"parallelism": 3}}"#);
        patch(world, "job/elastic", r#"{"spec": {"suspend": true}}"#);
        wait(world, "job/long", "jsonpath={.status.ready}=3");
    }),
    ("pods deleted, and replaced after a while", |world| {
        within(world, &["delete", "jobs", "--all"]);
        create(world, include_str!("jobs/lost.yaml"));
        let jobs = ["job/soon", "job/then"];
        for job in jobs {
            wait(world, job, "jsonpath={.status.ready}=1");
        }
        within(world, &["delete", "pods", "-l", "purpose=lost"]);
        for job in jobs {
            wait(world, job, "jsonpath={.status.failed}=1");
            wait(world, job, "jsonpath={.status.ready}=1");
        }
    }),
    ("the jobs gone, their pods left", |world| {
        within(world, &["delete", "jobs", "--all", "--cascade=orphan"]);
    }),
    ("the pods taken over, and one too many", |world| {
        create(world, include_str!("jobs/adopts.yaml"));
    }),
    ("a job that goes by itself", |world| {
        within(world, &["delete", "jobs", "--all"]);
        create(world, include_str!("jobs/brief.yaml"));
        within(
            world,
            &["wait", "job/brief", "--for=delete", "--timeout=180s"],
        );
    }),
    ("a cron job that is due once", |world| {
        create(world, include_str!("jobs/cron.yaml"));
        wait(
            world,
            "cronjob/minutely",
            "jsonpath={.status.lastScheduleTime}",
        );
        patch(world, "cronjob/minutely", r#"{"spec": {"suspend": true}}"#);
        wait(
            world,
            "cronjob/minutely",
            "jsonpath={.status.lastSuccessfulTime}",
        );
    }),
    ("jobs by hand, of which one is kept", |world| {
        for job in ["first", "second"] {
            within(world, &["create", "job", job, "--from=cronjob/nightly"]);
            wait(world, &format!("job/{job}"), "condition=Complete");
        }
        within(
            world,
            &["wait", "job/first", "--for=delete", "--timeout=180s"],
        );
    }),
    ("one run after the other, or instead of it", |world| {
        create(world, include_str!("jobs/overlap.yaml"));
        let skipped = [
            "get",
            "events",
            "--field-selector=reason=JobAlreadyActive",
            "-o",
            "name",
        ];
        world.wait_for_text(&[&["-n", NAMESPACE], &skipped[..]].concat());
        let deleted = ["get", "events", "--field-selector=reason=SuccessfulDelete"];
        let replaced = "jsonpath={.items[?(@.involvedObject.name==\"replaces\")].reason}";
        let deleted = [&["-n", NAMESPACE], &deleted[..], &["-o", replaced]].concat();
        world.wait_for_text(&deleted);
        for cron in ["cronjob/waits", "cronjob/replaces"] {
            patch(world, cron, r#"{"spec": {"suspend": true}}"#);
        }
    }),
];

fn within(world: &World, args: &[&str]) {
    world.run(&[&["-n", NAMESPACE], args].concat());
}

fn create(world: &World, manifest: &str) {
    let manifest = world.file("manifest.yaml", manifest);
    within(world, &["create", "-f", &manifest]);
}

fn patch(world: &World, object: &str, patch: &str) {
    within(world, &["patch", object, "--type=merge", "--patch", patch]);
}

fn wait(world: &World, object: &str, until: &str) {
    let until = format!("--for={until}");
    within(world, &["wait", object, &until, "--timeout=180s"]);
}

/// All objects that are compared.
fn objects(world: &World) -> Vec<Value> {
    let gets: [&[&str]; 2] = [&["nodes"], &["-n", NAMESPACE, "jobs,cronjobs,pods,events"]];
    let text = serde_json::to_string(&listed(world, &gets, &[])).unwrap();
    serde_json::from_str(&without_minutes(&text)).unwrap()
}

/// The names of the jobs of cron jobs without the minute for which they were made.
fn without_minutes(text: &str) -> String {
    const DIGITS: usize = 8;
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('-') {
        let (before, after) = rest.split_at(at + 1);
        out += before;
        let mut words = after.split(|c: char| !c.is_ascii_alphanumeric());
        let word = words.next().unwrap_or_default();
        let is_minute = word.len() == DIGITS && word.bytes().all(|byte| byte.is_ascii_digit());
        out += if is_minute { "minute" } else { "" };
        rest = &after[if is_minute { DIGITS } else { 0 }..];
    }
    out + rest
}
