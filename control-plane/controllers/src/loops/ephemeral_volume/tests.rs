use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{ago, bodies, caches, decide, lines, owner, pod};

const KEY: (&str, &str) = ("n", "p-1");

/// A pod with these ephemeral volumes, and others.
fn pod_with(volumes: &[&str]) -> Value {
    let own = volumes.iter().map(|name| {
        json!({"name": name, "ephemeral": {"volumeClaimTemplate": {
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "spec": {
                "accessModes": ["ReadWriteOnce"], "storageClassName": "standard",
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }}})
    });
    let others = [
        json!({"name": "scratch", "emptyDir": {}}),
        json!({"name": "kept", "persistentVolumeClaim": {"claimName": "kept"}}),
    ];
    let mut pod = pod("p-1", "", false);
    pod["spec"]["volumes"] = others.into_iter().chain(own).collect();
    pod
}

/// A claim that this pod controls.
fn claim(name: &str, pod: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {
        "namespace": "n", "name": name, "ownerReferences": [owner("v1", "Pod", pod)],
    }})
}

/// The keys that a change wakes, given the objects that there are.
fn woken(objects: &[Value], changed: &Changed) -> Vec<String> {
    let mut keys = Vec::new();
    EphemeralVolumes.wakes(&caches(objects), changed, &mut |(_, name)| keys.push(name));
    keys
}

fn pod_change(old: Option<&Value>, new: Option<&Value>) -> Changed {
    let read = |pod: &Value| {
        let caches = caches(std::slice::from_ref(pod));
        caches.pods.all().next().cloned().unwrap()
    };
    Changed::Pod(Diff {
        old: old.map(read),
        new: new.map(read),
    })
}

#[test]
fn each_volume_gets_a_claim_from_its_template_that_goes_with_the_pod() {
    let known = caches(&[pod_with(&["data", "logs"]), claim("p-1-logs", "p-1")]);
    let decision = decide(&EphemeralVolumes, &known, KEY);
    assert_eq!(
        lines(&decision),
        ["create persistentvolumeclaims n/p-1-data"]
    );
    let made = &bodies(&decision)[0];
    assert_eq!(
        made["metadata"],
        json!({
            "namespace": "n", "name": "p-1-data",
            "labels": {"a": "b"}, "annotations": {"c": "d"},
            "ownerReferences": [owner("v1", "Pod", "p-1")],
        })
    );
    assert_eq!(made["spec"]["storageClassName"], "standard");
    assert_eq!(made["spec"]["resources"]["requests"]["storage"], "1Gi");
    let failed = &decision.steps[0].failed[0];
    assert_eq!((failed.reason, failed.warning), ("FailedBinding", true));
    assert_eq!(
        failed.message,
        "ephemeral volume data: create PVC p-1-data: {}"
    );
    assert_eq!(EphemeralVolumes.component(), "ephemeral_volume");
}

#[test]
fn a_claim_of_somebody_else_is_told_and_left_alone() {
    let mut nobodys = claim("p-1-data", "p-1");
    nobodys["metadata"]["ownerReferences"] = Value::Null;
    // A pod of the same name that is gone.
    let mut earlier = claim("p-1-data", "p-1");
    earlier["metadata"]["ownerReferences"][0]["uid"] = "another".into();
    for other in [nobodys, earlier, claim("p-1-data", "p-2")] {
        let known = caches(&[pod_with(&["data", "logs"]), other]);
        let decision = decide(&EphemeralVolumes, &known, KEY);
        assert_eq!(lines(&decision), [""; 0]);
        let [note] = &decision.notes[..] else {
            panic!("{:?}", decision.notes);
        };
        assert_eq!((note.reason, note.warning), ("FailedBinding", true));
        assert_eq!(note.about["name"], "p-1");
        assert_eq!(
            note.message,
            "ephemeral volume data: PVC n/p-1-data was not created for pod n/p-1 (pod is not owner)"
        );
    }
}

#[test]
fn nothing_is_made_for_a_pod_that_goes_or_has_no_such_volumes() {
    let mut going = pod_with(&["data"]);
    going["metadata"]["deletionTimestamp"] = ago(1).into();
    for pod in [going, pod_with(&[])] {
        let decision = decide(&EphemeralVolumes, &caches(&[pod]), KEY);
        assert!(decision.steps.is_empty() && decision.notes.is_empty());
    }
    assert!(
        decide(&EphemeralVolumes, &caches(&[]), KEY)
            .steps
            .is_empty()
    );
}

#[test]
fn a_pod_is_looked_at_when_it_is_new_and_not_when_it_changes() {
    let pod = pod_with(&["data"]);
    let mut again = pod.clone();
    again["metadata"]["uid"] = "another".into();
    assert_eq!(woken(&[], &pod_change(None, Some(&pod))), ["p-1"]);
    assert_eq!(woken(&[], &pod_change(Some(&pod), Some(&again))), ["p-1"]);
    assert_eq!(woken(&[], &pod_change(Some(&pod), Some(&pod))), [""; 0]);
    assert_eq!(woken(&[], &pod_change(Some(&pod), None)), [""; 0]);
    let plain = pod_with(&[]);
    assert_eq!(woken(&[], &pod_change(None, Some(&plain))), [""; 0]);
}

#[test]
fn a_pod_is_looked_at_when_a_claim_of_that_name_is_gone() {
    let gone = |name: &str| {
        let caches = caches(&[claim(name, "p-2")]);
        let old = caches.volume_claims.get("n", name).cloned();
        Changed::PersistentVolumeClaim(Diff { old, new: None })
    };
    let objects = [pod_with(&["data", "more-data"])];
    assert_eq!(woken(&objects, &gone("p-1-data")), ["p-1"]);
    assert_eq!(woken(&objects, &gone("p-1-more-data")), ["p-1"]);
    // Not the claims that it names itself, nor those of other pods.
    for other in ["kept", "p-1-kept", "p-1-scratch", "p-data", "p-10-data"] {
        assert_eq!(woken(&objects, &gone(other)), [""; 0], "{other}");
    }
}
