//! The changes that wake the loop.

use api_client::Notice;
use machinery::api::kind_of;
use machinery::object;

use super::*;
use crate::cache::Destination;
use crate::tests::fixtures::now;

/// The daemon sets that a change of one object wakes.
fn woken(objects: &[Value], changed: &Value) -> Vec<String> {
    let mut caches = caches(objects);
    let mut changed = changed.clone();
    let kind = kind_of(&changed);
    let uid = format!("{}/{}", kind.plural(), object::name(&changed));
    object::set(&mut changed, &["metadata", "uid"], uid.into());
    object::set_resource_version(&mut changed, 100);
    let notice = Notice::Applied(changed);
    let effects = caches.observe(kind, Destination::Both, notice, now());
    let mut woken = Vec::new();
    for one in &effects.changed {
        DaemonSets.wakes(&caches, one, &mut |key| woken.push(key.1));
    }
    woken
}

#[test]
fn pods_and_revisions_wake_their_owner_or_those_that_may_adopt_them() {
    let set = set("one");
    let objects = [set.clone()];
    assert_eq!(woken(&objects, &daemon("p", "a", "x", true)), ["agent"]);
    assert_eq!(woken(&objects, &revision(&set, "x", 1)), ["agent"]);
    assert_eq!(woken(&objects, &pod("free", "a", true)), ["agent"]);
    let mut other = pod("free", "a", true);
    other["metadata"]["labels"] = json!({"app": "other"});
    assert_eq!(woken(&objects, &other), [""; 0]);
    // A pod that is let go wakes the one that had it.
    let objects = [set, daemon("p", "a", "x", true)];
    assert_eq!(woken(&objects, &pod("p", "a", true)), ["agent", "agent"]);
}

#[test]
fn a_node_wakes_the_sets_that_have_something_to_do_there() {
    let here = daemon("a-1", "a", "now", true);
    let bare = ready_node("a");
    let wet = tainted("a", "wet", "NoExecute");
    let lacks = [set("one")];
    assert_eq!(woken(&lacks, &bare), ["agent"]);
    assert_eq!(woken(&lacks, &wet), [""; 0]);
    let has = [set("one"), bare.clone(), here.clone()];
    assert_eq!(woken(&has, &wet), ["agent"]);
    // Labels that do not matter, and heartbeats.
    let mut labelled = bare.clone();
    labelled["metadata"]["labels"] = json!({"x": "y"});
    assert_eq!(woken(&has, &labelled), [""; 0]);
    let mut beats = bare.clone();
    beats["status"]["conditions"][0]["lastHeartbeatTime"] = ago(-10).into();
    assert_eq!(woken(&lacks_with(&bare), &beats), [""; 0]);
    // One that was misplaced may fit now.
    let mut misplaced = set("one");
    misplaced["status"] = json!({
        "numberMisscheduled": 1, "currentNumberScheduled": 0, "desiredNumberScheduled": 0,
        "numberReady": 0,
    });
    let objects = [misplaced, tainted("a", "wet", "NoSchedule"), here];
    assert_eq!(woken(&objects, &bare), ["agent"]);
}

fn lacks_with(node: &Value) -> [Value; 2] {
    [set("one"), node.clone()]
}
