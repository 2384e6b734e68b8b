use serde_json::{Value, json};

use super::*;
use crate::tests::fixtures::{bodies, caches, decide, lines};

const KEY: (&str, &str) = ("n", "data");
const WAITING: &str = "waiting for an external controller to expand this PVC";

fn claim(requested: &str, capacity: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"namespace": "n", "name": "data"},
        "spec": {"volumeName": "v", "resources": {"requests": {"storage": requested}}},
        "status": {"phase": "Bound", "capacity": {"storage": capacity}},
    })
}

fn volume_of(claim_uid: &str, source: &str) -> Value {
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"},
        "spec": {"claimRef": {"namespace": "n", "name": "data", "uid": claim_uid}},
    });
    volume["spec"][source] = match source {
        "csi" => json!({"driver": "d", "volumeHandle": "h"}),
        "flexVolume" => json!({"driver": "d"}),
        _ => json!({"volumeID": "h"}),
    };
    volume
}

fn decided(claim: Value, volume: Value) -> Decision {
    decide(&VolumeExpander, &caches(&[claim, volume]), KEY)
}

fn messages(decision: &Decision) -> Vec<&str> {
    let notes = decision.notes.iter();
    notes.map(|note| note.message.as_str()).collect()
}

#[test]
fn a_claim_that_asks_for_more_says_that_it_waits_for_its_driver() {
    let ours = "persistentvolumeclaims/data";
    let grown = decided(claim("2Gi", "1Gi"), volume_of(ours, "csi"));
    assert_eq!(messages(&grown), [WAITING]);
    assert_eq!(lines(&grown), [""; 0]);
    let note = &grown.notes[0];
    assert_eq!((note.reason, note.warning), ("ExternalExpanding", false));
    for (claim, volume) in [
        (claim("1Gi", "1Gi"), volume_of(ours, "csi")),
        (claim("2Gi", "1Gi"), volume_of("another", "csi")),
        (claim("2Gi", "1Gi"), volume_of(ours, "flexVolume")),
    ] {
        let decision = decided(claim, volume);
        assert!(decision.notes.is_empty() && decision.steps.is_empty());
    }
    let mut unfinished = volume_of(ours, "csi");
    unfinished["metadata"]["annotations"] = json!({BEFORE: "1Gi"});
    let decision = decided(claim("2Gi", "2Gi"), unfinished);
    assert_eq!(messages(&decision), [WAITING]);
}

#[test]
fn a_claim_of_a_volume_that_was_part_of_kubernetes_names_its_driver() {
    let volume = volume_of("persistentvolumeclaims/data", "awsElasticBlockStore");
    let mut claim = claim("2Gi", "1Gi");
    let decision = decided(claim.clone(), volume.clone());
    assert_eq!(
        messages(&decision),
        [
            "CSI migration enabled for kubernetes.io/aws-ebs; waiting for external resizer to \
             expand the pvc"
        ]
    );
    assert_eq!(lines(&decision), ["patch persistentvolumeclaims n/data"]);
    let annotations = bodies(&decision)[0]["metadata"]["annotations"].clone();
    assert_eq!(annotations, json!({RESIZER: "ebs.csi.aws.com"}));
    claim["metadata"]["annotations"] = annotations;
    assert_eq!(lines(&decided(claim, volume)), [""; 0]);
}

#[test]
fn a_claim_is_looked_at_when_it_appears_and_when_a_size_grows() {
    let one = |requested: &str, capacity: &str| {
        Some(Arc::new(
            serde_json::from_value::<PersistentVolumeClaim>(claim(requested, capacity)).unwrap(),
        ))
    };
    let woken = |old, new| {
        let changed = Changed::PersistentVolumeClaim(Diff { old, new });
        let mut count = 0;
        VolumeExpander.wakes(&caches(&[]), &changed, &mut |_| count += 1);
        count
    };
    assert_eq!(woken(None, one("1Gi", "1Gi")), 1);
    assert_eq!(woken(one("1Gi", "1Gi"), one("2Gi", "1Gi")), 1);
    assert_eq!(woken(one("2Gi", "1Gi"), one("2Gi", "2Gi")), 1);
    assert_eq!(woken(one("2Gi", "1Gi"), one("2Gi", "1Gi")), 0);
    assert_eq!(woken(one("1Gi", "1Gi"), None), 0);
    let mut pending = one("2Gi", "1Gi");
    let status = Arc::make_mut(pending.as_mut().unwrap()).status.as_mut();
    status.unwrap().phase = Some("Pending".into());
    assert_eq!(woken(None, pending), 0);
}
