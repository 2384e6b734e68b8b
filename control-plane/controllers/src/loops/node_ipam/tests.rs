use std::collections::BTreeSet;

use machinery::status::Status;

use super::*;
use crate::cache::Diff;
use crate::decision::{Answers, Step};
use crate::loops::Failure;
use crate::tests::fixtures::{ago, bodies, caches, decide, lines, now};

/// A node of this age with these ranges.
fn node(name: &str, age: i64, ranges: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "creationTimestamp": ago(age)},
        "spec": {"podCIDRs": ranges},
    })
}

fn decided(cluster: &str, objects: &[Value]) -> Decision {
    let ranges = NodeRanges::parse(cluster, MaskSizes::default()).unwrap();
    decide(&NodeIpam(Some(ranges)), &caches(objects), ("", ""))
}

/// The ranges that nodes get, in order.
fn given(cluster: &str, objects: &[Value]) -> Vec<String> {
    let all = bodies(&decided(cluster, objects)).into_iter();
    all.map(|patch| patch["spec"]["podCIDRs"].to_string())
        .collect()
}

#[test]
fn the_oldest_node_gets_the_lowest_free_range_of_each_family() {
    let objects = [
        node("a", 10, json!([])),
        node("b", 20, json!([])),
        node("c", 5, json!(["10.244.1.0/24", "fd00:10:244::/64"])),
    ];
    let decision = decided("10.244.0.0/16,fd00:10:244::/48", &objects);
    assert_eq!(lines(&decision), ["patch nodes b", "patch nodes a"]);
    let first = json!({
        "metadata": {"uid": "nodes/b"},
        "spec": {
            "podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24", "fd00:10:244:1::/64"],
        },
    });
    let second = json!(["10.244.2.0/24", "fd00:10:244:2::/64"]);
    let bodies = bodies(&decision);
    assert_eq!(bodies[0], first);
    assert_eq!(bodies[1]["spec"]["podCIDRs"], second);
    // A node that nobody changes keeps no other from its range.
    let dependents = decision.steps.iter().map(|step| step.dependent);
    assert!(dependents.eq([Some(0), Some(0)]));
}

#[test]
fn ranges_that_meet_others_are_left_out() {
    let new = || node("new", 1, json!([]));
    let with = |range: &str| [node("old", 2, json!([range])), new()];
    for (range, expected) in [
        ("10.244.0.128/25", "10.244.1.0/24"),
        ("10.244.0.0/22", "10.244.4.0/24"),
        ("192.168.0.0/24", "10.244.0.0/24"),
        ("fd00::/64", "10.244.0.0/24"),
    ] {
        let found = given("10.244.0.0/16", &with(range));
        assert_eq!(found, [format!("[{expected:?}]")], "{range}");
    }
    let services = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.244.0.0/23"]},
    });
    let found = given("10.244.0.0/16", &[services, new()]);
    assert_eq!(found, ["[\"10.244.2.0/24\"]"]);
    let sizes = MaskSizes {
        any: Some(26),
        ..MaskSizes::default()
    };
    let smaller = NodeIpam(Some(NodeRanges::parse("10.244.0.0/16", sizes).unwrap()));
    let decision = decide(&smaller, &caches(&with("10.244.0.64/26")), ("", ""));
    assert_eq!(bodies(&decision)[0]["spec"]["podCIDR"], "10.244.0.0/26");
    let decision = decide(&smaller, &caches(&with("10.244.0.0/24")), ("", ""));
    assert_eq!(bodies(&decision)[0]["spec"]["podCIDR"], "10.244.1.0/26");
}

#[test]
fn after_a_failure_ranges_are_in_use_that_only_the_apiserver_knows() {
    let ranges = NodeRanges::parse("10.244.0.0/16", MaskSizes::default()).unwrap();
    let works = NodeIpam(Some(ranges));
    let caches = caches(&[node("a", 10, json!([])), node("b", 5, json!([]))]);
    let failure = Failure {
        creating: false,
        deleting: false,
        message: "no answer".to_owned(),
    };
    let decided_with = |answers: &Answers| {
        let context = Context {
            caches: &caches,
            now: now(),
            failure: Some(&failure),
            taken: &BTreeSet::new(),
            answers,
        };
        works.decide(&context, &turn())
    };
    let mut answers = Answers::default();
    let asked = decided_with(&answers);
    assert!(asked.steps.is_empty());
    let [list] = &asked.questions[..] else {
        panic!("{asked:?}");
    };
    // Node `a` got its range from a call that was not answered.
    let mut stored = node("a", 10, json!(["10.244.0.0/24"]));
    stored["metadata"]["uid"] = "nodes/a".into();
    answers.add(list, Ok(json!({"items": [stored]})));
    let decision = decided_with(&answers);
    assert_eq!(lines(&decision), ["patch nodes b"]);
    assert_eq!(bodies(&decision)[0]["spec"]["podCIDR"], "10.244.1.0/24");
    answers.add(list, Err(Status::unavailable("away")));
    let decision = decided_with(&answers);
    assert!(matches!(
        decision.steps[..],
        [Step {
            call: Call::List { .. },
            ..
        }]
    ));
}

#[test]
fn a_node_for_which_no_range_is_left_is_told() {
    let objects = ["a", "b", "c"].map(|name| node(name, 1, json!([])));
    let decision = decided("10.244.0.0/23", &objects);
    assert_eq!(lines(&decision), ["patch nodes a", "patch nodes b"]);
    let notes = decision.notes.iter().map(|note| note.message.as_str());
    assert!(notes.eq(["Node c status is now: CIDRNotAvailable"]));
    let all = [node("old", 2, json!(["10.0.0.0/8"])), objects[0].clone()];
    let decision = decided("10.244.0.0/23", &all);
    assert_eq!((decision.steps.len(), decision.notes.len()), (0, 1));
}

#[test]
fn a_node_that_goes_or_has_its_range_wants_none() {
    let mut going = node("going", 1, json!([]));
    going["metadata"]["deletionTimestamp"] = ago(0).into();
    let has = node("has", 1, json!(["10.0.0.0/24"]));
    assert!(given("10.244.0.0/16", &[going, has]).is_empty());
}

#[test]
fn nodes_wake_it_when_they_come_or_go_and_by_their_ranges() {
    let works = NodeIpam(None);
    assert!(!works.can_run());
    let read = |node: Value| Some(Shared::new(serde_json::from_value::<Node>(node).unwrap()));
    let without = || read(node("a", 1, json!([])));
    let with = || read(node("a", 1, json!(["10.0.0.0/24"])));
    let older = read(node("a", 2, json!([])));
    for (old, new, expected) in [
        (None, without(), 1),
        (without(), older, 0),
        (without(), with(), 1),
        (with(), None, 1),
    ] {
        let mut woken = Vec::new();
        let changed = Changed::Node(Diff { old, new });
        works.wakes(&caches(&[]), &changed, &mut |key| woken.push(key));
        assert_eq!(woken.len(), expected);
    }
}

#[test]
fn flags_are_refused_in_the_words_of_kubernetes() {
    let sizes = |any: u32, v4: u32, v6: u32| MaskSizes {
        any: Some(any),
        v4: Some(v4),
        v6: Some(v6),
    };
    let none = MaskSizes::default();
    let dual = "10.0.0.0/8,fd00::/56";
    for (list, sizes, why) in [
        ("", none, "Must specify --cluster-cidr"),
        ("10.0.0.0", none, "failed to parse cidr value:\"10.0.0.0\""),
        ("10.0.0.0/8,11.0.0.0/8", none, "len of ClusterCIDRs==2"),
        (
            "10.0.0.0/8,fd00::/56,11.0.0.0/8",
            none,
            "length of clusterCIDRs is:3",
        ),
        (
            dual,
            sizes(24, 0, 0),
            "usage of --node-cidr-mask-size is not allowed with",
        ),
        (
            "10.0.0.0/8",
            sizes(24, 24, 0),
            "usage of --node-cidr-mask-size-ipv4 and",
        ),
        (
            "10.0.0.0/8",
            sizes(0, 0, 64),
            "usage of --node-cidr-mask-size-ipv6 is not",
        ),
        (
            "fd00::/56",
            sizes(0, 24, 0),
            "usage of --node-cidr-mask-size-ipv4 is not",
        ),
        ("10.0.0.0/24", sizes(16, 0, 0), "Invalid --cluster-cidr"),
        ("10.0.0.0/24", sizes(33, 0, 0), "New CIDR set failed"),
        ("fd00::/32", none, "New CIDR set failed"),
    ] {
        let error = NodeRanges::parse(list, sizes).unwrap_err();
        assert!(error.starts_with(why), "{list}: {error}");
    }
    NodeRanges::parse(dual, sizes(0, 25, 72)).unwrap();
    NodeRanges::parse("0.0.0.0/0", sizes(32, 0, 0)).unwrap();
}
