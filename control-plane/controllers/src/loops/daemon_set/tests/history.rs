//! The revisions of a set's template.

use super::*;

fn bodies_of(objects: &[Value]) -> Vec<(String, Value)> {
    let decision = decide(&DaemonSets, &caches(objects), KEY);
    lines(&decision)
        .into_iter()
        .zip(bodies(&decision))
        .collect()
}

#[test]
fn a_new_template_gets_a_revision_before_its_pods() {
    let objects = [
        set("two"),
        revision(&set("one"), "before", 4),
        ready_node("a"),
    ];
    let steps = bodies_of(&objects);
    let [(line, made)] = &steps[..] else {
        panic!("{steps:?}");
    };
    let hash = made["metadata"]["labels"][REVISION_HASH].as_str().unwrap();
    assert_eq!(*line, format!("create controllerrevisions n/agent-{hash}"));
    assert_eq!(made["revision"], 5);
    assert_eq!(made["metadata"]["labels"]["app"], "web");
    assert_eq!(made["metadata"]["annotations"], json!({GENERATION: "1"}));
    assert_eq!(
        made["metadata"]["ownerReferences"],
        json!([owner("apps/v1", "DaemonSet", "agent")])
    );
    let template = &made["data"]["spec"]["template"];
    assert_eq!(template["$patch"], "replace");
    assert_eq!(template["spec"]["containers"][0]["image"], "two");
}

#[test]
fn an_earlier_template_gets_the_next_number() {
    let objects = [
        set("one"),
        revision(&set("one"), "first", 1),
        revision(&set("two"), "second", 2),
    ];
    let steps = bodies_of(&objects);
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0].0, "patch controllerrevisions n/agent-first");
    assert_eq!(steps[0].1["revision"], 3);
}

#[test]
fn a_name_that_is_taken_is_a_collision() {
    let first = bodies_of(&[set("one")]).remove(0).1;
    let mut other = revision(&set("other"), "x", 1);
    other["metadata"]["name"] = first["metadata"]["name"].clone();
    other["metadata"]["ownerReferences"] = json!([owner("apps/v1", "DaemonSet", "another")]);
    let steps = bodies_of(&[set("one"), other.clone()]);
    assert_eq!(steps[0].0, "update status of daemonsets n/agent");
    assert_eq!(steps[0].1["status"]["collisionCount"], 1);
    assert!(
        steps[1]
            .0
            .starts_with("create controllerrevisions n/agent-")
    );
    assert_ne!(steps[1].1["metadata"]["name"], first["metadata"]["name"]);
    // One with the same template serves for both.
    other["data"] = first["data"].clone();
    other["metadata"]["labels"] = first["metadata"]["labels"].clone();
    let objects = [set("one"), other, ready_node("a")];
    let steps = bodies_of(&objects);
    let (_, pod) = steps.last().unwrap();
    assert_eq!(
        pod["metadata"]["labels"][REVISION_HASH],
        first["metadata"]["labels"][REVISION_HASH]
    );
}

#[test]
fn revisions_with_one_template_are_united() {
    let objects = [
        set("one"),
        revision(&set("one"), "first", 1),
        revision(&set("one"), "again", 2),
        ready_node("a"),
        daemon("a-1", "a", "first", true),
    ];
    let steps = bodies_of(&objects);
    let lines: Vec<&str> = steps.iter().map(|(line, _)| line.as_str()).collect();
    assert_eq!(
        lines,
        [
            "patch pods n/a-1",
            "delete controllerrevisions n/agent-first"
        ]
    );
    assert_eq!(
        steps[0].1["metadata"]["labels"],
        json!({REVISION_HASH: "again"})
    );
}

#[test]
fn a_revision_without_a_hash_gets_its_name() {
    let mut bare = revision(&set("one"), "x", 1);
    bare["metadata"]["labels"] = json!({"app": "web"});
    let steps = bodies_of(&[set("one"), bare]);
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0].0, "patch controllerrevisions n/agent-x");
    assert_eq!(
        steps[0].1["metadata"]["labels"],
        json!({REVISION_HASH: "agent-x"})
    );
}

#[test]
fn the_oldest_revisions_that_no_pod_has_go_beyond_the_limit() {
    let mut set_now = set("now");
    set_now["spec"]["revisionHistoryLimit"] = 1.into();
    let past = ["one", "two", "three"];
    let past = past.iter().zip(1..);
    let past = past.map(|(image, number)| revision(&set(image), image, number));
    let mut objects: Vec<Value> = past.collect();
    objects.push(revision(&set_now, "now", 4));
    objects.extend([set_now, ready_node("a"), daemon("a-1", "a", "one", true)]);
    let steps = bodies_of(&objects);
    let lines = steps.iter().map(|(line, _)| line.as_str());
    let gone: Vec<&str> = lines.filter(|line| line.contains("revisions")).collect();
    assert_eq!(
        gone,
        [
            "delete controllerrevisions n/agent-two",
            "delete controllerrevisions n/agent-three",
        ]
    );
}
