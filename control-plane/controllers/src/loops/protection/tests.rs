use api_client::Notice;
use machinery::api::kind_of;
use machinery::object;
use machinery::status::Status;
use serde_json::{Value, json};

use super::*;
use crate::cache::Destination;
use crate::loops::Loop;
use crate::tests::fixtures::{ago, bodies, caches, decide, lines, now, pod};

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";
const CLASS: &str = "kubernetes.io/vac-protection";
const NOTHING: Vec<String> = Vec::new();
/// The key of the deleted claims of the namespace.
const DELETED: (&str, &str) = ("n", "");

fn claim(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "n", "name": name, "finalizers": ["a", CLAIM, "b"]}})
}

fn volume(phase: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": "v", "finalizers": [VOLUME]}, "status": {"phase": phase}})
}

fn class() -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass",
        "metadata": {"name": "gold", "finalizers": [CLASS]}, "driverName": "d"})
}

fn deleting(object: Value) -> Value {
    let mut object = object;
    object::set(
        &mut object,
        &["metadata", "deletionTimestamp"],
        ago(1).into(),
    );
    object
}

/// A pod with one volume.
fn pod_with(name: &str, node: &str, source: Value) -> Value {
    let mut pod = pod(name, node, true);
    let mut volume = source;
    volume["name"] = "data".into();
    pod["spec"]["volumes"] = json!([{"name": "other", "emptyDir": {}}, volume]);
    pod
}

fn using(node: &str) -> Value {
    pod_with(
        "p",
        node,
        json!({"persistentVolumeClaim": {"claimName": "c"}}),
    )
}

fn decided(works: &dyn Loop, objects: &[Value], key: (&str, &str)) -> Vec<String> {
    lines(&decide(works, &caches(objects), key))
}

#[test]
fn what_has_no_finalizer_gets_it() {
    let mut claim = claim("c");
    claim["metadata"]["finalizers"] = json!(["a"]);
    let decision = decide(&ClaimProtection, &caches(&[claim]), ("n", "c"));
    assert_eq!(lines(&decision), ["patch persistentvolumeclaims n/c"]);
    let patch = &bodies(&decision)[0]["metadata"];
    assert_eq!(patch["finalizers"], json!(["a", CLAIM]));
    // The patch fails if somebody else has changed the object.
    assert_eq!(patch["resourceVersion"], "1");
    let (mut volume, mut class) = (volume("Bound"), class());
    for object in [&mut volume, &mut class] {
        object["metadata"]["finalizers"] = Value::Null;
    }
    assert_eq!(
        decided(&VolumeProtection, &[volume], ("", "v")),
        ["patch persistentvolumes v"]
    );
    assert_eq!(
        decided(&ClassProtection, &[class], ("", "gold")),
        ["patch volumeattributesclasses gold"]
    );
}

#[test]
fn nothing_is_done_to_what_stays_or_has_other_finalizers_only() {
    let mut foreign = deleting(claim("c"));
    foreign["metadata"]["finalizers"] = json!(["a"]);
    for claim in [claim("c"), foreign] {
        for key in [("n", "c"), DELETED] {
            let claims = [claim.clone()];
            assert_eq!(decided(&ClaimProtection, &claims, key), NOTHING);
        }
    }
}

#[test]
fn a_deleted_claim_goes_when_no_pod_on_a_node_uses_it() {
    let gone = deleting(claim("c"));
    let ended = |phase: &str| {
        let mut pod = using("a");
        pod["status"]["phase"] = phase.into();
        pod
    };
    for keeps in [using("a"), ended("Succeeded"), deleting(using("a"))] {
        let objects = [gone.clone(), keeps];
        assert_eq!(decided(&ClaimProtection, &objects, DELETED), NOTHING);
    }
    let mut elsewhere = using("a");
    elsewhere["metadata"]["namespace"] = "other".into();
    let other = json!({"persistentVolumeClaim": {"claimName": "d"}});
    for frees in [using(""), elsewhere, pod_with("p", "a", other)] {
        let objects = [gone.clone(), frees];
        let decision = decide(&ClaimProtection, &caches(&objects), DELETED);
        assert_eq!(
            lines(&decision),
            ["list pods n/", "patch persistentvolumeclaims n/c"]
        );
        assert_eq!(
            bodies(&decision)[1]["metadata"]["finalizers"],
            json!(["a", "b"])
        );
    }
}

/// Thousands may be deleted at once: the apiserver is not asked for the pods of each.
#[test]
fn one_list_of_pods_is_about_all_deleted_claims_of_a_namespace() {
    let mut elsewhere = deleting(claim("f"));
    elsewhere["metadata"]["namespace"] = "other".into();
    let mut objects: Vec<Value> = ["c", "d", "e"].map(|name| deleting(claim(name))).into();
    objects.extend([elsewhere, using("a")]);
    let decision = decide(&ClaimProtection, &caches(&objects), DELETED);
    let expected = [
        "list pods n/",
        "patch persistentvolumeclaims n/d",
        "patch persistentvolumeclaims n/e",
    ];
    assert_eq!(lines(&decision), expected);
    // One that cannot be changed does not keep the next from it.
    let error = Status::not_found("", "persistentvolumeclaims", "d");
    assert_eq!(decision.after_failure(1, &error), Some(2));
    assert_eq!(decision.after_failure(0, &error), None);
}

/// Nor does each of their pods make the loop look at all of them: it says which claims it freed.
#[test]
fn a_pod_that_goes_frees_its_own_claims() {
    let other = json!({"persistentVolumeClaim": {"claimName": "d"}});
    let objects = [
        deleting(claim("c")),
        deleting(claim("d")),
        using("a"),
        pod_with("q", "a", other),
    ];
    let mut caches = caches(&objects);
    assert_eq!(caches.freed_claims.of("n").count(), 0);
    let mut gone = using("a");
    gone["metadata"]["uid"] = "pods/p".into();
    let kind = kind_of(&gone);
    let notice = Notice::Deleted(gone);
    let effects = caches.observe(kind, Destination::Both, notice, now());
    let freed: Vec<&Key> = caches.freed_claims.of("n").collect();
    assert_eq!(freed, [&("n".to_owned(), "c".to_owned())]);
    let mut woken = Vec::new();
    for changed in &effects.changed {
        ClaimProtection.wakes(&caches, changed, &mut |key| woken.push(key));
    }
    assert_eq!(woken, [("n".to_owned(), String::new())]);
}

/// The cache may not have the pod yet that the list of the apiserver has.
#[test]
fn a_pod_that_only_the_apiserver_knows_keeps_a_claim() {
    let objects = [deleting(claim("b")), deleting(claim("c"))];
    let decision = decide(&ClaimProtection, &caches(&objects), DELETED);
    let verdict = |pods: Value| decision.steps[0].verdict(&Ok(json!({"items": pods})));
    verdict(json!([])).unwrap();
    verdict(json!([using(""), pod("q", "a", true)])).unwrap();
    let error = verdict(json!([pod("q", "a", true), using("a")])).unwrap_err();
    assert_eq!(error.message, "a pod uses the claim n/c");
    verdict(json!([{"spec": {"nodeName": 1}}])).unwrap_err();
}

#[test]
fn the_claim_of_an_ephemeral_volume_goes_when_its_pod_is_shut_down() {
    let mut own = deleting(claim("p-data"));
    own["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pods/p", "controller": true,
    }]);
    let pod = pod_with("p", "a", json!({"ephemeral": {}}));
    let key = DELETED;
    let objects = [own.clone(), pod.clone()];
    assert_eq!(decided(&ClaimProtection, &objects, key), NOTHING);
    // A claim with the same name that was not made for the pod.
    let mut foreign = own.clone();
    foreign["metadata"]["ownerReferences"] = Value::Null;
    let objects = [foreign, pod.clone()];
    assert_eq!(decided(&ClaimProtection, &objects, key).len(), 2);
    let mut ends = deleting(pod);
    ends["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    let objects = [own.clone(), ends.clone()];
    assert_eq!(decided(&ClaimProtection, &objects, key), NOTHING);
    ends["metadata"]["deletionGracePeriodSeconds"] = 0.into();
    let objects = [own, ends];
    assert_eq!(decided(&ClaimProtection, &objects, key).len(), 2);
}

#[test]
fn a_deleted_volume_goes_when_it_is_not_bound() {
    for (phase, calls) in [("Bound", 0), ("Released", 1), ("Available", 1)] {
        let objects = [deleting(volume(phase))];
        let decision = decided(&VolumeProtection, &objects, ("", "v"));
        assert_eq!(decision.len(), calls, "{phase}");
    }
    let bound = [volume("Released")];
    assert_eq!(decided(&VolumeProtection, &bound, ("", "v")), NOTHING);
}

#[test]
fn a_deleted_class_goes_when_no_claim_and_no_volume_names_it() {
    let with = |object: Value, path: &[&str], name: &str| {
        let mut object = object;
        object::set(&mut object, path, name.into());
        object
    };
    let uses = [
        (volume("Bound"), vec!["spec", "volumeAttributesClassName"]),
        (claim("c"), vec!["spec", "volumeAttributesClassName"]),
        (
            claim("c"),
            vec!["status", "currentVolumeAttributesClassName"],
        ),
        (
            claim("c"),
            vec![
                "status",
                "modifyVolumeStatus",
                "targetVolumeAttributesClassName",
            ],
        ),
    ];
    for (object, path) in uses {
        let mut object = object;
        if path[1] == "modifyVolumeStatus" {
            object["status"]["modifyVolumeStatus"]["status"] = "Pending".into();
        }
        let objects = [deleting(class()), with(object.clone(), &path, "gold")];
        assert_eq!(
            decided(&ClassProtection, &objects, ("", "gold")),
            NOTHING,
            "{path:?}"
        );
        let objects = [deleting(class()), with(object, &path, "silver")];
        let decision = decided(&ClassProtection, &objects, ("", "gold"));
        assert_eq!(decision, ["patch volumeattributesclasses gold"]);
    }
}
