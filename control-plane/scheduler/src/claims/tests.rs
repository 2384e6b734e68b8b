use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::core::{Core, Decision, Preemption, Room};
use crate::tests::{asking, node, on, pod};

pub(super) const NOW: Duration = Duration::from_secs(1000);
/// After every back-off.
pub(super) const LATER: Duration = Duration::from_secs(1100);

pub(super) fn core() -> Core {
    let mut core = Core::new("default-scheduler", 1);
    core.node(&node("a", json!({})), NOW);
    core.node(&node("b", json!({})), NOW);
    let class = |name: &str, provisioner: &str, mode: &str| json!({"metadata": {"name": name}, "provisioner": provisioner, "volumeBindingMode": mode});
    for class in [
        class("now", "x.com/y", "Immediate"),
        class("late", "x.com/y", "WaitForFirstConsumer"),
        class("local", NO_PROVISIONER, "WaitForFirstConsumer"),
    ] {
        set(&mut core, "StorageClass", class);
    }
    core
}

pub(super) fn set(core: &mut Core, kind: &str, object: Value) {
    core.claims(NOW, |claims| claims.set(kind, &object));
}

pub(super) fn claim(name: &str, spec: Value, change: Value) -> Value {
    let claim = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
    machinery::patch::merge(&claim, &change)
}

pub(super) fn bound_to(volume: &str) -> (Value, Value) {
    let spec = json!({"storageClassName": "now", "volumeName": volume});
    (spec, json!({"metadata": {"annotations": {BOUND: "yes"}}}))
}

/// The claim `data`, whose volume waits for its pod, or is made for it on a node.
fn late(node: Option<&str>) -> Value {
    let change = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
    claim("data", json!({"storageClassName": "late"}), change)
}

/// Binds the claim `data` to a volume.
fn bind(core: &mut Core, volume: Value) {
    let volume = json!({"metadata": {"name": "disk"}, "spec": volume});
    set(core, "PersistentVolume", volume);
    let (spec, bound) = bound_to("disk");
    set(core, "PersistentVolumeClaim", claim("data", spec, bound));
}

/// A pod with a claim.
pub(super) fn with(name: &str, claim: &str) -> Arc<Pod> {
    let source = json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
    pod(name, json!({"spec": {"volumes": [source]}}))
}

/// The next decision as text.
pub(super) fn decided(core: &mut Core, now: Duration) -> String {
    match core.next(now) {
        Some(Decision::Bind { node, .. }) => format!("to {node}"),
        Some(Decision::Refuse { why, .. }) => why.to_string(),
        Some(Decision::Claim { node, plan, .. }) => {
            let bound = plan.bind.iter();
            let bound = bound.map(|one| format!("{} gets {}, ", one.claim, one.volume));
            let made = plan.provision.iter();
            let made: Vec<&str> = made.map(|one| one.claim.as_str()).collect();
            format!("{}{made:?} on {node}", bound.collect::<String>())
        }
        Some(Decision::TimedOut { pod }) => format!("{} waited too long", pod.name),
        None => "nothing".to_owned(),
    }
}

/// Which pods leave for this one, which has more priority.
pub(super) fn made_room(core: &mut Core, pod: &Arc<Pod>, now: Duration) -> Preemption {
    let mut urgent = Pod::clone(pod);
    urgent.spec.as_mut().unwrap().priority = Some(5);
    core.pod(Arc::new(urgent), now);
    match core.next(now) {
        Some(Decision::Refuse {
            room: Room::Made(preemption),
            ..
        }) => preemption,
        other => panic!("no preemption: {other:?}"),
    }
}

#[test]
fn pods_wait_for_their_volumes_in_the_words_of_kube_scheduler() {
    let mut core = core();
    let lost = json!({"metadata": {"annotations": {BOUND: "yes"}}, "status": {"phase": "Lost"}});
    let ending = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    let of_class = |class: &str| json!({"storageClassName": class});
    let (spec, bound) = bound_to("gone");
    for claim in [
        claim("now", of_class("now"), json!({})),
        claim("classless", json!({}), json!({})),
        claim("unknown", of_class("unknown"), json!({})),
        claim(
            "named",
            json!({"storageClassName": "late", "volumeName": "v"}),
            json!({}),
        ),
        claim("nowhere", spec.clone(), bound),
        claim("lost", json!({"volumeName": "gone"}), lost),
        claim("ending", of_class("now"), ending),
        claim("local", of_class("local"), json!({})),
    ] {
        set(&mut core, "PersistentVolumeClaim", claim);
    }
    let unbound = "pod has unbound immediate PersistentVolumeClaims";
    for (claim, why) in [
        ("missing", "persistentvolumeclaim \"missing\" not found"),
        ("now", unbound),
        ("classless", unbound),
        ("unknown", unbound),
        ("named", unbound),
        ("nowhere", "persistentvolume \"gone\" not found"),
        (
            "lost",
            "persistentvolumeclaim \"lost\" bound to non-existent persistentvolume \"gone\"",
        ),
        (
            "ending",
            "persistentvolumeclaim \"ending\" is being deleted",
        ),
    ] {
        core.pod(with(claim, claim), NOW);
        let expected = format!("0/2 nodes are available: {why}. not found");
        assert_eq!(decided(&mut core, NOW), expected);
    }
    core.pod(with("p", "local"), NOW);
    assert_eq!(
        decided(&mut core, NOW),
        "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to bind. \
         no new claims to deallocate, preemption: 0/2 nodes are available: \
         2 Preemption is not helpful for scheduling."
    );
}

#[test]
fn a_pod_goes_where_its_volume_is_as_soon_as_it_is_bound() {
    let mut core = core();
    core.pod(with("p", "data"), NOW);
    assert!(decided(&mut core, NOW).contains("\"data\" not found"));
    let on_b = json!({"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]});
    let terms = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [on_b]}]}});
    bind(&mut core, json!({"nodeAffinity": terms}));
    assert_eq!(decided(&mut core, LATER), "to b");
}

#[test]
fn a_volume_that_waits_for_its_pod_is_made_on_the_node_that_is_chosen() {
    let mut core = core();
    core.node_gone("b", NOW);
    set(&mut core, "PersistentVolumeClaim", late(None));
    core.pod(with("p", "data"), NOW);
    assert_eq!(decided(&mut core, NOW), "[\"data\"] on a");
    set(&mut core, "PersistentVolumeClaim", late(Some("a")));
    assert_eq!(decided(&mut core, LATER), "nothing", "it is being made");
    bind(&mut core, json!({}));
    assert_eq!(decided(&mut core, LATER + LATER), "to a");
}

/// The node of a claim could not be told.
fn not_asked(claim: &str) -> Failed {
    Failed {
        claims: vec![("default".to_owned(), claim.to_owned())],
        ..Failed::default()
    }
}

#[test]
fn a_claim_of_two_pods_is_asked_for_once_at_a_time() {
    let mut core = core();
    let data = late(None);
    set(&mut core, "PersistentVolumeClaim", data.clone());
    core.pod(with("p", "data"), NOW);
    assert!(decided(&mut core, NOW).starts_with("[\"data\"] on "));
    core.pod(with("q", "data"), NOW);
    assert_eq!(decided(&mut core, NOW), "nothing", "it is under way");
    // An older state changes nothing, nor does it to the pod that asked.
    set(&mut core, "PersistentVolumeClaim", data.clone());
    assert_eq!(decided(&mut core, LATER), "nothing");
    core.claimed("p", &not_asked("data"), LATER);
    assert!(decided(&mut core, LATER * 2).starts_with("[\"data\"] on "));
    // A claim that is gone, and comes again, is another one.
    core.claims(LATER * 2, |claims| {
        claims.remove("PersistentVolumeClaim", &data);
        claims.set("PersistentVolumeClaim", &data);
    });
    assert!(decided(&mut core, LATER * 3).starts_with("[\"data\"] on "));
}

/// A pod with a claim that leaves little of a node.
fn large(name: &str, claim: &str) -> Arc<Pod> {
    let source = json!({"name": "v", "persistentVolumeClaim": {"claimName": claim}});
    let requests = json!({"cpu": "3", "memory": "1Gi"});
    let main = json!({"name": "main", "image": "x", "resources": {"requests": requests}});
    pod(
        name,
        json!({"spec": {"volumes": [source], "containers": [main]}}),
    )
}

#[test]
fn a_pod_has_its_place_while_its_volumes_are_made() {
    let mut core = core();
    core.node_gone("b", NOW);
    set(&mut core, "PersistentVolumeClaim", late(None));
    core.pod(large("first", "data"), NOW);
    assert_eq!(decided(&mut core, NOW), "[\"data\"] on a");
    core.claimed("first", &Failed::default(), NOW);
    core.pod(asking("second", "3", "1Gi"), NOW);
    assert!(decided(&mut core, NOW).contains("Insufficient cpu"));
    // It loses the place if the apiserver refuses what was asked.
    core.claimed("first", &not_asked("data"), NOW);
    core.pod(asking("third", "3", "1Gi"), NOW);
    assert_eq!(decided(&mut core, NOW), "to a");
    core.pod_gone("third", LATER);
    assert_eq!(decided(&mut core, LATER), "[\"data\"] on a");
    assert!(decided(&mut core, LATER).contains("Insufficient cpu"));
    // And if it is deleted.
    let ending = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    core.pod(pod("first", ending), LATER);
    assert_eq!(decided(&mut core, LATER * 2), "to a");
}

#[test]
fn a_pod_goes_soon_after_its_volumes_are_there_however_long_that_took() {
    let mut core = core();
    set(&mut core, "PersistentVolumeClaim", late(None));
    core.pod(with("p", "data"), NOW);
    assert!(decided(&mut core, NOW).starts_with("[\"data\"] on "));
    let after = |seconds| NOW + Duration::from_secs(seconds);
    let selected = late(Some("a"));
    // Each of these lets it look again, in vain.
    for seconds in 1..6 {
        let now = after(seconds);
        core.claims(now, |claims| claims.set("PersistentVolumeClaim", &selected));
        assert_eq!(decided(&mut core, now), "nothing");
    }
    bind(&mut core, json!({}));
    assert!(decided(&mut core, after(6)).starts_with("to "));
}

#[test]
fn a_pod_that_waits_too_long_for_its_volume_loses_its_place_and_is_tried_again() {
    let mut core = core();
    core.node_gone("b", NOW);
    set(&mut core, "PersistentVolumeClaim", late(None));
    core.pod(large("first", "data"), NOW);
    assert_eq!(decided(&mut core, NOW), "[\"data\"] on a");
    let after = |seconds| NOW + Duration::from_secs(seconds);
    // That its driver is told, or that it is looked at again, gives it no more time.
    let told = late(Some("a"));
    core.claims(after(500), |claims| {
        claims.set("PersistentVolumeClaim", &told);
    });
    assert_eq!(decided(&mut core, after(500)), "nothing");
    core.pod(asking("second", "3", "1Gi"), after(590));
    assert!(decided(&mut core, after(590)).contains("Insufficient cpu"));
    assert_eq!(core.wake_at(), Some(after(600)));
    assert_eq!(decided(&mut core, after(600)), "first waited too long");
    assert_eq!(decided(&mut core, after(600)), "to a", "that is second");
    assert!(decided(&mut core, after(602)).contains("Insufficient cpu"));
    core.pod_gone("second", after(700));
    // It gets as much time as before.
    assert_eq!(decided(&mut core, after(700)), "nothing");
    assert_eq!(decided(&mut core, after(1290)), "nothing");
    assert_eq!(decided(&mut core, after(1300)), "first waited too long");
    bind(&mut core, json!({}));
    assert_eq!(decided(&mut core, after(1400)), "to a");
}

#[test]
fn a_pod_keeps_its_place_though_its_claim_is_seen_before_its_volume() {
    let mut core = core();
    core.node_gone("b", NOW);
    set(&mut core, "PersistentVolumeClaim", late(None));
    core.pod(large("first", "data"), NOW);
    assert_eq!(decided(&mut core, NOW), "[\"data\"] on a");
    let (spec, bound) = bound_to("disk");
    set(
        &mut core,
        "PersistentVolumeClaim",
        claim("data", spec, bound),
    );
    core.pod(asking("second", "3", "1Gi"), LATER);
    assert!(decided(&mut core, LATER).contains("Insufficient cpu"));
    let disk = json!({"metadata": {"name": "disk"}});
    set(&mut core, "PersistentVolume", disk);
    assert_eq!(decided(&mut core, LATER * 2), "to a");
}

#[test]
fn a_pod_whose_volume_could_not_be_made_backs_off_without_its_place() {
    let mut core = core();
    core.node_gone("b", NOW);
    set(&mut core, "PersistentVolumeClaim", late(None));
    core.pod(large("first", "data"), NOW);
    assert_eq!(decided(&mut core, NOW), "[\"data\"] on a");
    set(&mut core, "PersistentVolumeClaim", late(Some("a")));
    // Whoever was to make the volume gives it back.
    set(&mut core, "PersistentVolumeClaim", late(None));
    let after = |seconds| NOW + Duration::from_secs(seconds);
    core.pod(asking("second", "3", "1Gi"), after(2));
    assert_eq!(decided(&mut core, after(2)), "to a");
    assert_eq!(decided(&mut core, after(2)), "nothing");
    assert!(decided(&mut core, after(3)).contains("Insufficient cpu"));
}

#[test]
fn a_pod_has_its_place_after_a_restart_too() {
    let mut core = core();
    core.node_gone("b", NOW);
    set(&mut core, "PersistentVolumeClaim", late(Some("a")));
    core.pod(on("a", &asking("there", "3", "1Gi")), NOW);
    core.pod(large("first", "data"), NOW);
    assert!(decided(&mut core, NOW).contains("Insufficient cpu"));
    core.pod_gone("there", NOW);
    assert_eq!(decided(&mut core, LATER * 2), "nothing");
    core.pod(asking("second", "3", "1Gi"), LATER * 2);
    assert!(decided(&mut core, LATER * 2).contains("Insufficient cpu"));
}

#[test]
fn a_pod_whose_volume_is_made_where_it_cannot_go_says_so() {
    let mut core = core();
    set(&mut core, "PersistentVolumeClaim", late(Some("c")));
    core.pod(with("p", "data"), NOW);
    let nowhere = "0/2 nodes are available: 2 node(s) didn't find available persistent volumes to \
                   bind. no new claims to deallocate, preemption: 0/2 nodes are available: \
                   2 Preemption is not helpful for scheduling.";
    assert_eq!(decided(&mut core, NOW), nowhere);
    core.node(&node("c", json!({})), NOW);
    assert_eq!(decided(&mut core, LATER), "nothing", "it waits there");
    core.node_gone("c", LATER);
    assert_eq!(decided(&mut core, LATER * 2), nowhere);
    bind(&mut core, json!({}));
    assert!(decided(&mut core, LATER * 3).starts_with("to "));
}

#[test]
fn a_volume_is_asked_for_beside_one_that_is_being_made() {
    let mut core = core();
    set(&mut core, "PersistentVolumeClaim", late(Some("b")));
    let more = claim("more", json!({"storageClassName": "late"}), json!({}));
    set(&mut core, "PersistentVolumeClaim", more);
    let volume =
        |claim: &str| json!({"name": claim, "persistentVolumeClaim": {"claimName": claim}});
    let volumes = json!([volume("data"), volume("more")]);
    core.pod(pod("p", json!({"spec": {"volumes": volumes}})), NOW);
    assert_eq!(decided(&mut core, NOW), "[\"more\"] on b");
    assert_eq!(decided(&mut core, LATER), "nothing");
}

#[test]
fn a_pod_that_waits_for_its_volumes_is_preempted_without_being_deleted() {
    let mut core = core();
    core.node_gone("b", NOW);
    set(&mut core, "PersistentVolumeClaim", late(None));
    core.pod(large("first", "data"), NOW);
    assert_eq!(decided(&mut core, NOW), "[\"data\"] on a");
    let preemption = made_room(&mut core, &asking("urgent", "3", "1Gi"), NOW);
    assert!(preemption.victims.is_empty());
    assert_eq!(preemption.sent_back[0].name, "first");
    core.preempted("urgent", true, NOW);
    assert_eq!(decided(&mut core, LATER), "to a");
    assert_eq!(decided(&mut core, LATER), "nothing", "it waits on");
    core.pod_gone("urgent", LATER);
    bind(&mut core, json!({}));
    assert_eq!(decided(&mut core, LATER * 2), "to a");
}

#[test]
fn a_pod_goes_where_its_volumes_were_made() {
    let mut core = core();
    set(&mut core, "PersistentVolumeClaim", late(None));
    core.pod(large("p", "data"), NOW);
    let chosen = match core.next(NOW) {
        Some(Decision::Claim { node, .. }) => node,
        other => panic!("no claim: {other:?}"),
    };
    // The other node would be better by now.
    core.pod(on(&chosen, &asking("more", "1", "4Gi")), NOW);
    bind(&mut core, json!({}));
    assert_eq!(decided(&mut core, LATER), format!("to {chosen}"));
}

#[test]
fn a_volume_made_for_a_pod_is_its_own() {
    let mut core = core();
    let own = pod(
        "p",
        json!({"spec": {"volumes": [{"name": "v", "ephemeral": {}}]}}),
    );
    core.pod(own, NOW);
    let waits =
        "waiting for ephemeral volume controller to create the persistentvolumeclaim \"p-v\"";
    assert!(decided(&mut core, NOW).contains(waits));
    set(
        &mut core,
        "PersistentVolume",
        json!({"metadata": {"name": "disk"}}),
    );
    let (spec, bound) = bound_to("disk");
    let foreign = claim("p-v", spec, bound);
    set(&mut core, "PersistentVolumeClaim", foreign.clone());
    let not_own = "PVC default/p-v was not created for pod default/p (pod is not owner)";
    assert!(decided(&mut core, LATER).contains(not_own));
    let owner = json!({"metadata": {"ownerReferences": [{"uid": "p", "controller": true}]}});
    let own = machinery::patch::merge(&foreign, &owner);
    set(&mut core, "PersistentVolumeClaim", own);
    assert!(decided(&mut core, LATER + LATER).starts_with("to "));
}

#[test]
fn a_claim_for_one_pod_is_used_by_one_pod() {
    let mut core = core();
    let (mut spec, bound) = bound_to("v");
    spec["accessModes"] = json!([EXCLUSIVE]);
    set(
        &mut core,
        "PersistentVolume",
        json!({"metadata": {"name": "v"}, "spec": {}}),
    );
    set(
        &mut core,
        "PersistentVolumeClaim",
        claim("alone", spec, bound),
    );
    core.pod(on("a", &with("first", "alone")), NOW);
    core.pod(with("second", "alone"), NOW);
    let told = decided(&mut core, NOW);
    let why = "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with \
               ReadWriteOncePod access mode already in-use by another pod.";
    assert!(told.starts_with(why), "{told}");
    core.pod_gone("first", LATER);
    assert!(decided(&mut core, LATER).starts_with("to "));
    // One of more priority takes it from the pod that has it.
    let victims = made_room(&mut core, &with("third", "alone"), LATER).victims;
    let victims: Vec<&str> = victims.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(victims, ["second"]);
}
