//! What becomes of the objects of a definition that is deleted, where something comes between.

use std::thread;
use std::time::Duration;

use serde_json::json;

use super::{DEFINITIONS, WIDGETS, condition, create, until, widget};
use crate::admission::unreadable::{damage, remove};
use crate::harness::cluster::Cluster;
use crate::requests::http::Answer;

/// Longer than the pause between two looks at what is left.
const SEVERAL_LOOKS: Duration = Duration::from_secs(2);

fn path() -> String {
    format!("{DEFINITIONS}/widgets.shop.example.com")
}

#[test]
fn the_cleanup_of_a_definition_spares_the_objects_of_the_next_one() {
    let cluster = Cluster::start();
    create(&cluster, "Widget", "widgets");
    let mut held = widget("held");
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    cluster.post(WIDGETS, &held).expect(201);
    cluster.call("DELETE", &path()).send().expect(200);
    let is_deleting = |answer: &Answer| {
        let held = answer.object();
        held["metadata"].get("deletionTimestamp").is_some()
    };
    until(|| cluster.get(&format!("{WIDGETS}/held")), is_deleting);
    // Somebody lets the definition go while its cleanup waits, as another server would.
    let free = json!({"metadata": {"finalizers": []}}).to_string();
    let patch = cluster.call("PATCH", &path());
    let patch = patch.body("application/merge-patch+json", free);
    patch.send().expect(200);
    until(|| cluster.get(&path()), |answer| answer.code == 404);

    create(&cluster, "Widget", "widgets");
    let made = until(
        || cluster.post(WIDGETS, &widget("new")),
        |answer| answer.code == 201,
    );
    thread::sleep(SEVERAL_LOOKS);
    let kept = cluster.get(&format!("{WIDGETS}/new")).expect(200);
    assert_eq!(kept, made.object());
}

#[test]
fn a_cleanup_that_fails_says_so_once_and_is_tried_again() {
    const KEY: &str = "/registry/shop.example.com/widgets/default/damaged";
    let cluster = Cluster::start();
    create(&cluster, "Widget", "widgets");
    damage(&cluster, KEY);
    cluster.call("DELETE", &path()).send().expect(200);
    let has_failed = |answer: &Answer| {
        let (_, reason) = condition(&answer.object(), "Terminating");
        reason == "InstanceDeletionFailed"
    };
    let told = until(|| cluster.get(&path()), has_failed);
    thread::sleep(SEVERAL_LOOKS);
    assert_eq!(cluster.get(&path()).object(), told.object());
    remove(&cluster, KEY);
    until(|| cluster.get(&path()), |answer| answer.code == 404);
}
