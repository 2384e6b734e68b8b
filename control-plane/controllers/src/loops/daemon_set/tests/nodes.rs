//! Which nodes have which pods.

use std::time::Duration;

use machinery::object;

use super::*;
use crate::known::kind_of;
use crate::tests::fixtures::now;

#[test]
fn a_new_pod_is_tied_to_its_node_and_tolerates_what_may_happen_there() {
    let mut set = set("one");
    let spec = &mut set["spec"]["template"]["spec"];
    spec["hostNetwork"] = true.into();
    let unreachable = "node.kubernetes.io/unreachable";
    spec["tolerations"] = json!([
        {"key": "dedicated", "operator": "Exists"},
        {"key": unreachable, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
    ]);
    spec["affinity"] = json!({
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "arch", "operator": "Exists"}]},
        ]}},
    });
    let mut node = ready_node("a");
    node["metadata"]["labels"] = json!({"arch": "arm64"});
    let decision = decide(&DaemonSets, &caches(&with(set, [node])), KEY);
    let bodies = bodies(&decision);
    let made = bodies.iter().find(|body| body["kind"] == "Pod").unwrap();
    assert_eq!(made["metadata"]["generateName"], "agent-");
    assert_eq!(
        made["metadata"]["labels"],
        json!({"app": "web", REVISION_HASH: "now", GENERATION_LABEL: "1"})
    );
    assert_eq!(
        made["metadata"]["ownerReferences"],
        json!([owner("apps/v1", "DaemonSet", "agent")])
    );
    assert_eq!(
        made["spec"]["affinity"],
        json!({
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["a"]},
                ]}],
            }},
        })
    );
    let exists = |key: &str, effect: &str| json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect});
    assert_eq!(
        made["spec"]["tolerations"],
        json!([
            {"key": "dedicated", "operator": "Exists"},
            exists("unreachable", "NoExecute"),
            exists("not-ready", "NoExecute"),
            exists("disk-pressure", "NoSchedule"),
            exists("memory-pressure", "NoSchedule"),
            exists("pid-pressure", "NoSchedule"),
            exists("unschedulable", "NoSchedule"),
            exists("network-unavailable", "NoSchedule"),
        ])
    );
}

#[test]
fn each_node_that_fits_gets_a_pod() {
    let mut set = set("one");
    set["spec"]["template"]["spec"]["affinity"] = json!({
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "size", "operator": "Gt", "values": ["3"]}]},
        ]}},
    });
    let sized = |name: &str, size: &str| {
        let mut node = ready_node(name);
        node["metadata"]["labels"] = json!({"size": size});
        node
    };
    let mut cordoned = sized("cordoned", "9");
    cordoned["spec"] = json!({
        "unschedulable": true,
        "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
    });
    let nodes = [
        sized("small", "2"),
        sized("large", "4"),
        cordoned,
        ready_node("plain"),
    ];
    let (_, created) = changes(&with(set, nodes));
    assert_eq!(created, names(&["cordoned", "large"]));
}

#[test]
fn a_template_with_the_name_of_a_node_is_for_that_node() {
    let mut set = set("one");
    set["spec"]["template"]["spec"]["nodeName"] = "b".into();
    let (_, created) = changes(&with(set, [ready_node("a"), ready_node("b")]));
    // The pod is tied to its node by both.
    assert_eq!(created, names(&["b"]));
}

#[test]
fn a_taint_keeps_new_pods_off_and_only_no_execute_ends_old_ones() {
    let objects = with(
        set("one"),
        [
            tainted("a", "wet", "NoSchedule"),
            tainted("b", "wet", "NoSchedule"),
            tainted("c", "wet", "NoExecute"),
            tainted("d", "wet", "PreferNoSchedule"),
            tainted("e", "node.kubernetes.io/not-ready", "NoExecute"),
            daemon("b-1", "b", "now", true),
            daemon("c-1", "c", "now", true),
        ],
    );
    let (deleted, created) = changes(&objects);
    assert_eq!(deleted, names(&["c-1"]));
    assert_eq!(created, names(&["d", "e"]));
    let told = status(&objects);
    assert_eq!(told["desiredNumberScheduled"], 2);
    assert_eq!(told["numberMisscheduled"], 2);
}

#[test]
fn a_node_that_no_longer_fits_loses_all_of_its_pods() {
    let mut set = set("one");
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"role": "worker"});
    let mut ends = daemon("a-3", "a", "now", true);
    ends["metadata"]["deletionTimestamp"] = ago(1).into();
    let pods = [
        daemon("a-1", "a", "now", true),
        daemon("a-2", "a", "before", true),
        ends,
    ];
    let objects = with(set, pods.into_iter().chain([ready_node("a")]));
    assert_eq!(changes(&objects), (names(&["a-1", "a-2"]), names(&[])));
}

#[test]
fn of_several_pods_on_a_node_the_bound_and_oldest_stays() {
    let mut waiting = daemon("a-0", "", "now", false);
    waiting["spec"]["affinity"] = json!(tied("a"));
    let aged = |name: &str, age| {
        let mut pod = daemon(name, "a", "now", true);
        pod["metadata"]["creationTimestamp"] = ago(age).into();
        pod
    };
    waiting["metadata"]["creationTimestamp"] = ago(900).into();
    let pods = [waiting, aged("a-1", 10), aged("a-2", 20)];
    let objects = with(set("one"), pods.into_iter().chain([ready_node("a")]));
    assert_eq!(changes(&objects), (names(&["a-1", "a-0"]), names(&[])));
}

fn tied(node: &str) -> Value {
    json!(placement::tied_to(node, None))
}

#[test]
fn a_pod_that_is_being_deleted_keeps_its_node_until_it_is_gone_or_has_ended() {
    let mut ends = daemon("a-1", "a", "now", true);
    ends["metadata"]["deletionTimestamp"] = ago(1).into();
    let objects = with(set("one"), [ready_node("a"), ends.clone()]);
    assert_eq!(changes(&objects), (names(&[]), names(&[])));
    ends["status"]["phase"] = "Succeeded".into();
    let objects = with(set("one"), [ready_node("a"), ends]);
    assert_eq!(changes(&objects), (names(&[]), names(&["a"])));
}

#[test]
fn a_pod_that_ended_is_deleted_and_told_of() {
    let ended = |phase: &str| {
        let mut pod = daemon("a-1", "a", "now", false);
        pod["status"]["phase"] = phase.into();
        let objects = with(set("one"), [ready_node("a"), pod]);
        let decision = decide(&DaemonSets, &caches(&objects), KEY);
        assert_eq!(changes_of(&decision), (names(&["a-1"]), names(&[])));
        let [note] = &decision.notes[..] else {
            panic!("{:?}", decision.notes);
        };
        (note.warning, note.reason, note.message.clone())
    };
    let failed = "Found failed daemon pod n/a-1 on node a, will try to kill it";
    assert_eq!(
        ended("Failed"),
        (true, "FailedDaemonPod", failed.to_owned())
    );
    let succeeded = "Found succeeded daemon pod n/a-1 on node a, will try to delete it";
    assert_eq!(
        ended("Succeeded"),
        (false, "SucceededDaemonPod", succeeded.to_owned())
    );
}

#[test]
fn a_pod_that_fails_again_is_left_for_a_while() {
    let failed = |name: &str| {
        let mut pod = daemon(name, "a", "now", false);
        pod["status"]["phase"] = "Failed".into();
        pod
    };
    let mut caches = caches(&with(set("one"), [ready_node("a"), failed("a-1")]));
    let mut again = failed("a-2");
    object::set(&mut again, &["metadata", "uid"], "u".into());
    object::set_resource_version(&mut again, 99);
    let pods = kind_of::<Pod>();
    let first = json!({"metadata": {"namespace": "n", "name": "a-1", "uid": "pods/a-1"}});
    caches.deleted(pods, &first, now());
    caches.wrote(pods, again, now());
    let decision = decide(&DaemonSets, &caches, KEY);
    assert_eq!(changes_of(&decision), (names(&[]), names(&[])));
    assert_eq!(decision.notes.len(), 0);
    assert_eq!(decision.after, Some(Duration::from_secs(1)));
}

#[test]
fn a_pod_that_waits_for_a_node_that_is_gone_is_deleted() {
    let mut waits = daemon("waits", "", "now", false);
    waits["spec"]["affinity"] = tied("gone");
    let mut ends = waits.clone();
    ends["metadata"]["name"] = "ends".into();
    ends["metadata"]["deletionTimestamp"] = ago(1).into();
    let bound = daemon("bound", "gone", "now", true);
    let objects = with(set("one"), [waits, ends, bound]);
    assert_eq!(changes(&objects), (names(&["waits"]), names(&[])));
}

#[test]
fn a_decision_creates_and_deletes_a_limited_number_of_pods() {
    let nodes = (0..300).map(|n| ready_node(&format!("node-{n:03}")));
    let stray = (0..300).map(|n| {
        let name = format!("stray-{n:03}");
        daemon(&name, &format!("wet-{n:03}"), "now", true)
    });
    let wet = (0..300).map(|n| tainted(&format!("wet-{n:03}"), "wet", "NoExecute"));
    let objects = with(set("one"), nodes.chain(stray).chain(wet));
    let (deleted, created) = changes(&objects);
    assert_eq!((deleted.len(), created.len()), (250, 250));
}

#[test]
fn creates_and_deletes_are_told_of() {
    let objects = with(
        set("one"),
        [
            ready_node("a"),
            tainted("b", "wet", "NoExecute"),
            daemon("b-1", "b", "now", true),
        ],
    );
    let decision = decide(&DaemonSets, &caches(&objects), KEY);
    let told = |note: Option<&crate::decision::Note>| {
        let note = note.unwrap();
        (note.warning, note.reason, note.message.clone())
    };
    let steps = &decision.steps[1..];
    let text = |text: &str| text.to_owned();
    assert_eq!(
        told(steps[0].done.as_ref()),
        (false, "SuccessfulDelete", text("Deleted pod: b-1"))
    );
    assert_eq!(
        told(steps[0].failed.first()),
        (true, "FailedDelete", text("Error deleting: {}"))
    );
    assert_eq!(
        told(steps[1].done.as_ref()),
        (false, "SuccessfulCreate", text("Created pod: {}"))
    );
    assert_eq!(
        told(steps[1].failed.first()),
        (true, "FailedCreate", text("Error creating: {}"))
    );
    assert_eq!(DaemonSets.component(), "daemonset-controller");
}
