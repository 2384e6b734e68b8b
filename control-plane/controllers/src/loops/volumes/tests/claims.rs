//! What becomes of claims.

use super::*;

/// The volume that a claim takes among these; empty for none.
fn taken(claim: &Value, volumes: &[Value]) -> String {
    let objects = [std::slice::from_ref(claim), volumes].concat();
    decided(&objects, CLAIM).takes.unwrap_or_default()
}

#[test]
fn a_claim_gets_the_smallest_volume_that_fits() {
    let volumes = [
        volume("a", "5Gi"),
        volume("b", "2Gi"),
        volume("c", "1023Mi"),
        volume("d", "2048Mi"),
    ];
    let decision = decided(&[&[claim("c")], &volumes[..]].concat(), CLAIM);
    assert_eq!(decision.takes.as_deref(), Some("b"));
    assert_eq!(
        lines(&decision),
        [
            "patch persistentvolumes b",
            "patch persistentvolumeclaims n/c"
        ]
    );
    let bodies = bodies(&decision);
    let reference = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "n", "name": "c",
        "uid": "persistentvolumeclaims/c", "resourceVersion": "1",
    });
    assert_eq!(bodies[0]["spec"], json!({"claimRef": reference}));
    assert_eq!(bodies[1]["spec"], json!({"volumeName": "b"}));
    let yes = json!({BOUND_BY_CONTROLLER: "yes"});
    assert_eq!(bodies[0]["metadata"]["annotations"], yes);
    let both = json!({BOUND_BY_CONTROLLER: "yes", BIND_COMPLETED: "yes"});
    assert_eq!(bodies[1]["metadata"]["annotations"], both);
    // Whoever was faster wins: the volume has this state, or the write fails.
    assert_eq!(bodies[0]["metadata"]["resourceVersion"], "3");
    assert_eq!(bodies[1]["metadata"]["resourceVersion"], "1");
}

#[test]
fn what_a_claim_asks_for_must_be_there() {
    let small = volume("small", "1Gi");
    let large = volume("large", "9Gi");
    let spec = |key| move |object: &Value, value: &str| with(object, &["spec", key], value);
    for (key, value) in [
        ("storageClassName", "gold"),
        ("volumeMode", "Block"),
        ("volumeAttributesClassName", "gold"),
    ] {
        let set = spec(key);
        let volumes = [small.clone(), set(&large, value)];
        assert_eq!(taken(&set(&claim("c"), value), &volumes), "large", "{key}");
        assert_eq!(taken(&claim("c"), &volumes), "small", "{key}");
        let none = [small.clone()];
        assert_eq!(taken(&set(&claim("c"), value), &none), "", "{key}");
    }
    let both = json!(["ReadWriteOnce", "ReadWriteMany"]);
    let shared = with(&large, &["spec", "accessModes"], both.clone());
    let sharing = with(&claim("c"), &["spec", "accessModes"], both);
    assert_eq!(taken(&sharing, &[small.clone(), shared]), "large");
    let labels = json!({"disk": "fast"});
    let fast = with(&large, &["metadata", "labels"], labels.clone());
    let selector = json!({"matchLabels": labels});
    let choosy = with(&claim("c"), &["spec", "selector"], selector);
    assert_eq!(taken(&choosy, &[small.clone(), fast]), "large");
    assert_eq!(taken(&choosy, &[small.clone(), large.clone()]), "");
    for (path, value) in [
        (["status", "phase"], "Pending".to_owned()),
        (["metadata", "deletionTimestamp"], ago(1)),
    ] {
        let other = with(&small, &path, value);
        assert_eq!(taken(&claim("c"), &[other, large.clone()]), "large");
    }
}

#[test]
fn a_volume_that_names_a_claim_is_for_that_alone() {
    let free = volume("free", "1Gi");
    let own = with(&volume("own", "9Gi"), &["status", "phase"], "Pending");
    let own = with(&own, &["spec", "storageClassName"], "other");
    let uid = "persistentvolumeclaims/c";
    for uid in ["", uid] {
        let own = promised(&own, "c", uid);
        let decision = decided(&[claim("c"), free.clone(), own], CLAIM);
        let bodies = bodies(&decision);
        let name = &bodies[bodies.len() - 1]["spec"]["volumeName"];
        assert_eq!(name, "own", "{uid:?}");
        // Who made the volume bound it.
        assert_eq!(decision.takes.is_some(), uid.is_empty());
        let of_volume = &bodies[0]["metadata"]["annotations"];
        assert!(!uid.is_empty() || of_volume.is_null());
    }
    for (name, uid) in [("other", ""), ("c", "an earlier one")] {
        let other = promised(&free, name, uid);
        assert_eq!(taken(&claim("c"), std::slice::from_ref(&other)), "");
        assert_eq!(taken(&claim("c"), &[other, volume("w", "3Gi")]), "w");
    }
    let half = promised(&volume("half", "9Gi"), "c", uid);
    let open = promised(&volume("open", "1Gi"), "c", "");
    let decision = decided(&[claim("c"), open.clone(), half], CLAIM);
    assert_eq!(bodies(&decision)[0]["spec"]["volumeName"], "half");
    let small = with(&open, &["spec", "capacity", "storage"], "1Mi");
    assert_eq!(taken(&claim("c"), &[small, free]), "free");
}

#[test]
fn the_status_comes_when_the_volume_is_bound() {
    let uid = "persistentvolumeclaims/c";
    let volume = promised(&volume("v", "3Gi"), "c", uid);
    let volume = with(&volume, &["spec", "volumeAttributesClassName"], "gold");
    let named = with(&claim("c"), &["spec", "volumeName"], "v");
    let named = annotated(&named, BIND_COMPLETED, "yes");
    let early = decided(&[named.clone(), volume.clone()], CLAIM);
    assert_eq!(lines(&early), NOTHING);
    let volume = with(&volume, &["status", "phase"], "Bound");
    let status = |claim: &Value, volume: &Value| {
        let decision = decided(&[claim.clone(), volume.clone()], CLAIM);
        bodies(&decision).first().map(|body| body["status"].clone())
    };
    let expected = json!({
        "phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "3Gi"},
        "currentVolumeAttributesClassName": "gold",
    });
    assert_eq!(status(&named, &volume), Some(expected.clone()));
    let done = with(&named, &["status"], expected);
    assert_eq!(status(&done, &volume), None);
    // The file system is smaller than its volume, until somebody enlarges it.
    let larger = with(&volume, &["spec", "capacity", "storage"], "5Gi");
    assert_eq!(status(&done, &larger), None);
    let key = "volume.alpha.kubernetes.io/pre-resize-capacity";
    for (told, shown) in [("2Gi", "2Gi"), ("much", "5Gi")] {
        let status = status(&named, &annotated(&larger, key, told)).unwrap();
        assert_eq!(status["capacity"]["storage"], shown);
    }
}

#[test]
fn a_claim_that_finds_nothing_says_why() {
    let decision = decided(&[claim("c")], CLAIM);
    assert_eq!(said(&decision), [("FailedBinding", WAITS)]);
    assert_eq!(decision.after, Some(LOOK_AGAIN));
    assert_eq!(lines(&decision), NOTHING);
    // What it had is taken back.
    let had = with(&claim("c"), &["status"], bound("c", "v")["status"].clone());
    let decision = decided(&[had], CLAIM);
    assert_eq!(
        lines(&decision),
        ["update status of persistentvolumeclaims n/c"]
    );
    assert_eq!(bodies(&decision)[0]["status"], json!({"phase": "Pending"}));
}

#[test]
fn a_claim_that_names_a_volume_waits_for_it() {
    let named = with(&claim("c"), &["spec", "volumeName"], "v");
    let decision = decided(std::slice::from_ref(&named), CLAIM);
    assert_eq!((lines(&decision), said(&decision)), (vec![], vec![]));
    // Its size and class do not matter to a volume that names the claim.
    let small = with(&volume("v", "1Mi"), &["spec", "storageClassName"], "other");
    for volume in [volume("v", "1Gi"), promised(&small, "c", "")] {
        let decision = decided(&[named.clone(), volume], CLAIM);
        assert_eq!(
            lines(&decision),
            [
                "patch persistentvolumes v",
                "patch persistentvolumeclaims n/c"
            ]
        );
        let annotations = &bodies(&decision)[1]["metadata"]["annotations"];
        assert_eq!(*annotations, json!({BIND_COMPLETED: "yes"}));
    }
    let other = promised(&volume("v", "1Gi"), "other", "");
    let decision = decided(&[named.clone(), other.clone()], CLAIM);
    let text = "volume \"v\" already bound to a different claim.";
    assert_eq!(said(&decision), [("FailedBinding", text)]);
    assert!(decision.notes[0].warning);
    let unmarked = annotated(&named, BOUND_BY_CONTROLLER, "yes");
    let unmarked = with(&unmarked, &["status", "phase"], "Bound");
    let decision = decided(&[unmarked, other], CLAIM);
    assert_eq!(said(&decision), [("FailedBinding", text)]);
    assert_eq!(lines(&decision), NOTHING);
}

#[test]
fn a_claim_that_names_what_does_not_fit_says_what() {
    let named = with(&claim("c"), &["spec", "volumeName"], "v");
    let block = |key: &str, value: &str| with(&volume("v", "1Gi"), &["spec", key], value);
    let deleted = with(
        &volume("v", "1Gi"),
        &["metadata", "deletionTimestamp"],
        ago(1),
    );
    let modes = with(
        &volume("v", "1Gi"),
        &["spec", "accessModes"],
        json!(["ReadOnlyMany"]),
    );
    for (volume, why) in [
        (deleted, "the volume is marked for deletion \"v\""),
        (volume("v", "1Mi"), "requested PV is too small"),
        (
            block("storageClassName", "gold"),
            "storageClassName does not match",
        ),
        (
            block("volumeAttributesClassName", "gold"),
            "volumeAttributesClassName does not match",
        ),
        (block("volumeMode", "Block"), "incompatible volumeMode"),
        (modes, "incompatible accessMode"),
    ] {
        let decision = decided(&[named.clone(), volume], CLAIM);
        let text = format!("Cannot bind to requested volume \"v\": {why}");
        assert_eq!(said(&decision), [("VolumeMismatch", text.as_str())]);
        assert_eq!(lines(&decision), NOTHING);
    }
}

#[test]
fn a_bound_claim_is_lost_with_its_volume() {
    let uid = "persistentvolumeclaims/c";
    let had = bound("c", "v");
    let unnamed = with(&had, &["spec", "volumeName"], Value::Null);
    let other = promised(&volume("v", "1Gi"), "c", "another");
    for (objects, asks, reason, text) in [
        (
            vec![unnamed],
            false,
            "ClaimLost",
            "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
        ),
        (
            vec![had.clone()],
            true,
            "ClaimLost",
            "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
        ),
        (
            vec![had.clone(), other],
            false,
            "ClaimMisbound",
            "Two claims are bound to the same volume, this one is bound incorrectly",
        ),
    ] {
        let mut lost = objects.clone();
        let decision = decided(&objects, CLAIM);
        let mut calls = lines(&decision);
        let written = calls.pop().unwrap();
        assert_eq!(written, "update status of persistentvolumeclaims n/c");
        assert_eq!(!calls.is_empty(), asks);
        assert_eq!(asks, decision.steps[0].absent);
        let last = decision.steps.last().unwrap();
        assert_eq!(told(&last.done), [(reason, text)]);
        let status = bodies(&decision).pop().unwrap()["status"].clone();
        assert_eq!(status, json!({"phase": "Lost"}));
        lost[0]["status"] = status;
        assert_eq!(lines(&decided(&lost, CLAIM)), NOTHING);
    }
    // It comes back with the volume, as one does from a backup.
    let lost = with(&had, &["status"], json!({"phase": "Lost"}));
    let decision = decided(&[lost.clone(), volume("v", "1Gi")], CLAIM);
    assert_eq!(lines(&decision), ["patch persistentvolumes v"]);
    let volume = promised(&volume("v", "1Gi"), "c", uid);
    let volume = with(&volume, &["status", "phase"], "Bound");
    let decision = decided(&[lost, volume.clone()], CLAIM);
    assert_eq!(bodies(&decision)[0]["status"]["phase"], "Bound");
    assert_eq!(lines(&decided(&[had, volume], CLAIM)), NOTHING);
}
