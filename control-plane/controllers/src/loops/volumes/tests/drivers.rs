//! Classes, and drivers that make volumes.

use super::*;
use crate::tests::fixtures::pod;

const MAKER: &str = "example.com/maker";
const LATE: &str = "WaitForFirstConsumer";

#[test]
fn a_driver_is_told_to_make_a_volume() {
    let gold = class("gold", MAKER, "Immediate");
    let asking = of_class(&claim("c"), "gold");
    let decision = decided(&[asking.clone(), gold.clone()], CLAIM);
    assert_eq!(lines(&decision), ["patch persistentvolumeclaims n/c"]);
    assert_eq!(
        bodies(&decision)[0]["metadata"]["annotations"],
        json!({PROVISIONER: MAKER, OLD_PROVISIONER: MAKER})
    );
    let failed = told(&decision.steps[0].failed);
    assert_eq!(failed, [("ProvisioningFailed", "Error saving claim: {}")]);
    let asked = annotated(&asking, PROVISIONER, MAKER);
    let decision = decided(&[asked.clone(), gold.clone()], CLAIM);
    assert_eq!(lines(&decision), NOTHING);
    let text = "Waiting for a volume to be created either by the external provisioner \
                'example.com/maker' or manually by the system administrator. If volume creation is \
                delayed, please verify that the provisioner is running and correctly registered.";
    assert_eq!(said(&decision), [("ExternalProvisioning", text)]);
    // It made one, and named the claim.
    let made = promised(&volume("v", "1Gi"), "c", "persistentvolumeclaims/c");
    let made = with(&made, &["status", "phase"], "Pending");
    let decision = decided(&[asked.clone(), gold.clone(), made], CLAIM);
    assert_eq!(bodies(&decision)[0]["spec"], json!({"volumeName": "v"}));
    // One that is there already will do.
    let there = with(&volume("v", "1Gi"), &["spec", "storageClassName"], "gold");
    let decision = decided(&[asked, gold, there], CLAIM);
    assert_eq!(decision.takes.as_deref(), Some("v"));
}

#[test]
fn a_class_that_makes_nothing_says_so() {
    let asking = of_class(&claim("c"), "gold");
    for (class, why) in [
        (None, "storageclass.storage.k8s.io \"gold\" not found"),
        (
            Some("kubernetes.io/no-provisioner"),
            "no volume plugin matched name: kubernetes.io/no-provisioner",
        ),
    ] {
        let class = class.map(|maker| super::class("gold", maker, "Immediate"));
        let objects: Vec<Value> = [asking.clone()].into_iter().chain(class).collect();
        let decision = decided(&objects, CLAIM);
        assert_eq!(lines(&decision), NOTHING);
        assert_eq!(said(&decision), [("ProvisioningFailed", why)]);
        assert!(decision.notes[0].warning);
        assert_eq!(decision.after, Some(LOOK_AGAIN));
    }
}

#[test]
fn a_claim_may_wait_for_a_pod() {
    let late = class("late", MAKER, LATE);
    let waiting = of_class(&claim("c"), "late");
    let free = with(&volume("v", "1Gi"), &["spec", "storageClassName"], "late");
    let user = |name: &str, node: &str| {
        let mut pod = pod(name, node, false);
        pod["status"]["phase"] = "Pending".into();
        pod["spec"]["volumes"] =
            json!([{"name": "x", "persistentVolumeClaim": {"claimName": "c"}}]);
        pod
    };
    let first = "waiting for first consumer to be created before binding";
    for (pods, reason, text) in [
        (vec![], LATE, first),
        (vec![user("p", "a")], LATE, first),
        (
            vec![user("p", "")],
            "WaitForPodScheduled",
            "waiting for pod p to be scheduled",
        ),
        (
            vec![user("q", ""), user("p", "")],
            "WaitForPodScheduled",
            "waiting for pods p,q to be scheduled",
        ),
    ] {
        let objects = [vec![late.clone(), waiting.clone(), free.clone()], pods].concat();
        let decision = decided(&objects, CLAIM);
        assert_eq!(lines(&decision), NOTHING);
        assert_eq!(said(&decision), [(reason, text)]);
    }
    // The scheduler has found a place for a volume that is yet to be made, or has bound one.
    let placed = annotated(&waiting, SELECTED_NODE, "a");
    let decision = decided(&[late.clone(), placed, free.clone()], CLAIM);
    assert_eq!(
        bodies(&decision)[0]["metadata"]["annotations"][PROVISIONER],
        MAKER
    );
    let taken = promised(&free, "c", "persistentvolumeclaims/c");
    let decision = decided(&[late, waiting, taken], CLAIM);
    assert_eq!(bodies(&decision)[0]["spec"], json!({"volumeName": "v"}));
}

#[test]
fn a_claim_without_a_class_gets_the_default_once_there_is_one() {
    let default = |name: &str, seconds: i64| {
        let class = class(name, MAKER, "Immediate");
        let class = annotated(
            &class,
            "storageclass.kubernetes.io/is-default-class",
            "true",
        );
        with(&class, &["metadata", "creationTimestamp"], ago(seconds))
    };
    let open = with(&claim("c"), &["spec", "storageClassName"], Value::Null);
    let classes = [
        class("a", MAKER, "Immediate"),
        default("b", 60),
        default("c", 10),
        default("d", 10),
    ];
    let decision = decided(&[&classes[..], std::slice::from_ref(&open)].concat(), CLAIM);
    assert_eq!(lines(&decision), ["patch persistentvolumeclaims n/c"]);
    assert_eq!(
        bodies(&decision)[0]["spec"],
        json!({"storageClassName": "c"})
    );
    // A volume without a class comes first.
    let objects = [&classes[..], &[open.clone(), volume("v", "1Gi")]].concat();
    assert_eq!(decided(&objects, CLAIM).takes.as_deref(), Some("v"));
    let older = annotated(&open, crate::cache::STORAGE_CLASS, "");
    for none in [vec![claim("c")], vec![older]] {
        let decision = decided(&[&classes[..], &none].concat(), CLAIM);
        assert_eq!(said(&decision), [("FailedBinding", WAITS)]);
    }
    let decision = decided(&[classes[0].clone(), open], CLAIM);
    assert_eq!(said(&decision), [("FailedBinding", WAITS)]);
}

#[test]
fn drivers_take_the_place_of_what_was_part_of_kubernetes() {
    let (was, driver) = ("kubernetes.io/aws-ebs", "ebs.csi.aws.com");
    let asking = of_class(&claim("c"), "gold");
    let decision = decided(&[asking.clone(), class("gold", was, "Immediate")], CLAIM);
    let annotations = &bodies(&decision)[0]["metadata"]["annotations"];
    assert_eq!(annotations[PROVISIONER], driver);
    let annotations = |object: &Value, key| {
        let decision = decided(std::slice::from_ref(object), key);
        let body = bodies(&decision).into_iter().next().unwrap_or_default();
        body["metadata"]["annotations"].clone()
    };
    let moved = json!({(migration::MIGRATED_TO): driver});
    for annotation in [PROVISIONER, OLD_PROVISIONER] {
        let old = annotated(&asking, annotation, was);
        assert_eq!(annotations(&old, CLAIM), moved);
        let done = annotated(&old, migration::MIGRATED_TO, driver);
        assert_ne!(annotations(&done, CLAIM), moved);
    }
    let old = annotated(&volume("v", "1Gi"), PROVISIONED_BY, was);
    assert_eq!(annotations(&old, VOLUME), moved);
    let stays = annotated(&volume("v", "1Gi"), PROVISIONED_BY, MAKER);
    let wrong = annotated(&stays, migration::MIGRATED_TO, driver);
    assert_eq!(
        annotations(&wrong, VOLUME),
        json!({(migration::MIGRATED_TO): null})
    );
    assert_eq!(annotations(&stays, VOLUME), Value::Null);
}

#[test]
fn volumes_of_kubernetes_itself_have_its_finalizer_while_they_are_to_be_deleted() {
    let (own, of_drivers) = (
        "kubernetes.io/pv-controller",
        "external-provisioner.volume.kubernetes.io/finalizer",
    );
    let finalizers = |maker: &str, policy: &str, before: &[&str]| {
        let volume = annotated(&volume("v", "1Gi"), PROVISIONED_BY, maker);
        let path = ["spec", "persistentVolumeReclaimPolicy"];
        let volume = with(&volume, &path, policy);
        let volume = with(&volume, &["metadata", "finalizers"], json!(before));
        let decision = decided(&[volume], VOLUME);
        let body = bodies(&decision).into_iter().next().unwrap_or_default();
        body["metadata"]["finalizers"].clone()
    };
    let of_kubernetes = "kubernetes.io/host-path";
    for (policy, before, after) in [
        ("Delete", vec!["a", of_drivers], json!(["a", own])),
        ("Delete", vec![own], Value::Null),
        ("Retain", vec![own, "a"], json!(["a"])),
        ("Retain", vec!["a"], Value::Null),
    ] {
        assert_eq!(finalizers(of_kubernetes, policy, &before), after);
    }
    assert_eq!(finalizers(MAKER, "Delete", &[of_drivers]), Value::Null);
    let moved = finalizers("kubernetes.io/aws-ebs", "Delete", &[own, of_drivers]);
    assert_eq!(moved, json!([of_drivers]));
}
