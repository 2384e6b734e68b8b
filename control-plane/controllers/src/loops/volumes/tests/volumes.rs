//! What becomes of volumes.

use super::*;
use crate::tests::fixtures::pod;

const UID: &str = "persistentvolumeclaims/c";

/// The phase that a decision about the volume `v` writes; empty for none.
fn phase(objects: &[Value]) -> String {
    let decision = decided(objects, VOLUME);
    let last = bodies(&decision).pop().unwrap_or_default();
    object::text(&last, &["status", "phase"]).to_owned()
}

/// The volume, whose claim is gone, with a policy.
fn released(policy: &str) -> Value {
    let volume = promised(&volume("v", "1Gi"), "c", UID);
    let path = ["spec", "persistentVolumeReclaimPolicy"];
    let volume = with(&volume, &path, policy);
    with(&volume, &["status", "phase"], "Released")
}

#[test]
fn a_volume_is_available_while_it_is_nobodys() {
    let new = with(&volume("v", "1Gi"), &["status", "phase"], "Pending");
    let kept = promised(&new, "c", "");
    for volume in [
        new,
        kept,
        with(&released("Retain"), &["spec", "claimRef"], Value::Null),
    ] {
        assert_eq!(phase(&[volume.clone(), claim("c")]), "Available");
        let volume = with(&volume, &["status", "phase"], "Available");
        assert_eq!(phase(&[volume, claim("c")]), "");
    }
}

#[test]
fn a_volume_is_bound_when_its_claim_names_it() {
    let half = promised(&volume("v", "1Gi"), "c", UID);
    assert_eq!(phase(&[half.clone(), claim("c")]), "");
    let whole = [half, bound("c", "v")];
    assert_eq!(phase(&whole), "Bound");
    let failed = with(
        &released("Retain"),
        &["status"],
        json!({"phase": "Failed", "message": "no"}),
    );
    let decision = decided(&[failed, bound("c", "v")], VOLUME);
    assert_eq!(bodies(&decision)[0]["status"], json!({"phase": "Bound"}));
}

#[test]
fn a_volume_is_released_when_its_claim_is_gone_for_certain() {
    let volume = promised(&volume("v", "1Gi"), "c", UID);
    let again = with(&claim("c"), &["metadata", "uid"], "a later one");
    for objects in [vec![volume.clone()], vec![volume, again]] {
        let decision = decided(&objects, VOLUME);
        assert_eq!(
            lines(&decision),
            [
                "get persistentvolumeclaims n/c",
                "update status of persistentvolumes v"
            ]
        );
        assert_eq!(bodies(&decision)[1]["status"], json!({"phase": "Released"}));
        let verdict = |answer| decision.steps[0].verdict(&answer);
        let not_found = machinery::status::Status::not_found("", "persistentvolumeclaims", "c");
        verdict(Err(not_found)).unwrap();
        verdict(Ok(json!({"metadata": {"uid": "a later one"}}))).unwrap();
        // The watch of claims was late.
        let error = verdict(Ok(json!({"metadata": {"uid": UID}}))).unwrap_err();
        assert_eq!(error.reason, "Conflict");
        verdict(Err(machinery::status::Status::unavailable("no"))).unwrap_err();
    }
    assert_eq!(phase(&[released("Retain")]), "");
}

#[test]
fn a_volume_whose_claim_has_another_is_free_again() {
    let taken = annotated(
        &promised(&volume("v", "1Gi"), "c", UID),
        BOUND_BY_CONTROLLER,
        "yes",
    );
    let elsewhere = bound("c", "w");
    let patch = |volume: &Value| {
        let decision = decided(&[volume.clone(), elsewhere.clone()], VOLUME);
        assert_eq!(lines(&decision), ["patch persistentvolumes v"]);
        bodies(&decision).remove(0)
    };
    let freed = patch(&taken);
    assert_eq!(freed["spec"], json!({"claimRef": null}));
    assert_eq!(
        freed["metadata"]["annotations"],
        json!({BOUND_BY_CONTROLLER: null})
    );
    // One that was made for the claim is kept for it.
    let kept = patch(&promised(&volume("v", "1Gi"), "c", UID));
    assert_eq!(kept["spec"], json!({"claimRef": {"uid": null}}));
    // One that a driver made for it is the driver's to delete.
    let made = annotated(&taken, PROVISIONED_BY, "example.com/maker");
    assert_eq!(patch(&made)["spec"], json!({"claimRef": null}));
    let path = ["spec", "persistentVolumeReclaimPolicy"];
    let made = with(&made, &path, "Delete");
    assert_eq!(phase(&[made.clone(), elsewhere.clone()]), "Released");
    let made = with(&made, &["status", "phase"], "Released");
    assert_eq!(phase(&[made, elsewhere]), "");
}

#[test]
fn a_volume_of_another_mode_than_its_claim_says_so() {
    let block = with(&volume("v", "1Gi"), &["spec", "volumeMode"], "Block");
    let decision = decided(&[promised(&block, "c", UID), claim("c")], VOLUME);
    assert_eq!(lines(&decision), NOTHING);
    assert_eq!(
        said(&decision),
        [
            (
                "VolumeMismatch",
                "Cannot bind PersistentVolume to requested PersistentVolumeClaim \"c\" due to \
                 incompatible volumeMode."
            ),
            (
                "VolumeMismatch",
                "Cannot bind PersistentVolume \"v\" to requested PersistentVolumeClaim due to \
                 incompatible volumeMode."
            ),
        ]
    );
}

#[test]
fn what_nobody_deletes_has_failed() {
    let by = |maker: &str| annotated(&released("Delete"), PROVISIONED_BY, maker);
    let nfs = json!({"server": "s", "path": "/"});
    let nfs = with(&released("Delete"), &["spec", "nfs"], nfs);
    let kept = "kubernetes.io/pv-controller";
    let path = ["metadata", "finalizers"];
    let of_kubernetes = with(&by("kubernetes.io/host-path"), &path, json!([kept]));
    for (volume, why) in [
        (
            released("Delete"),
            "error getting deleter volume plugin for volume \"v\": no volume plugin matched",
        ),
        (
            nfs,
            "error getting deleter volume plugin for volume \"v\": no deletable volume plugin \
             matched",
        ),
        (
            of_kubernetes,
            "no volume plugin matched name: kubernetes.io/host-path",
        ),
    ] {
        let decision = decided(std::slice::from_ref(&volume), VOLUME);
        let status = json!({"phase": "Failed", "message": why});
        assert_eq!(bodies(&decision)[0]["status"], status);
        assert_eq!(told(&decision.steps[0].done), [("VolumeFailedDelete", why)]);
        let failed = with(&volume, &["status"], status);
        assert_eq!(lines(&decided(&[failed], VOLUME)), NOTHING);
    }
    let csi = json!({"driver": "example.com/disks", "volumeHandle": "h"});
    let csi = with(&released("Delete"), &["spec", "csi"], csi);
    let moved = annotated(
        &by("kubernetes.io/aws-ebs"),
        migration::MIGRATED_TO,
        "ebs.csi.aws.com",
    );
    for volume in [by("example.com/maker"), csi, moved, released("Retain")] {
        assert_eq!(lines(&decided(&[volume], VOLUME)), NOTHING);
    }
}

#[test]
fn what_nobody_empties_has_failed_unless_it_is_in_use() {
    let mut user = pod("p", "a", true);
    user["spec"]["volumes"] = json!([{"name": "x", "persistentVolumeClaim": {"claimName": "c"}}]);
    let decision = decided(&[released("Recycle"), user.clone()], VOLUME);
    assert_eq!(lines(&decision), NOTHING);
    let used = [("VolumeFailedRecycle", "Volume is used by pods: n/p")];
    assert_eq!(said(&decision), used);
    assert!(decision.after.is_some());
    let ended = with(&user, &["status", "phase"], "Succeeded");
    let later = with(&claim("c"), &["metadata", "uid"], "a later one");
    for objects in [vec![], vec![ended], vec![user, later]] {
        let objects = [vec![released("Recycle")], objects].concat();
        let decision = decided(&objects, VOLUME);
        let text = "No recycler plugin found for the volume!";
        let status = json!({"phase": "Failed", "message": text});
        assert_eq!(bodies(&decision)[0]["status"], status);
        assert_eq!(
            told(&decision.steps[0].done),
            [("VolumeFailedRecycle", text)]
        );
    }
}
