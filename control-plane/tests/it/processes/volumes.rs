//! Volumes and claims, bound by the loop that does so.

use serde_json::{Value, json};

use crate::harness::parts::Parts;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLASSES: &str = "/apis/storage.k8s.io/v1/storageclasses";
const LOOPS: &str = "--controllers=persistentvolume-binder-controller,\
     persistentvolumeclaim-protection-controller,persistentvolume-protection-controller";

fn claim(name: &str, size: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}}}})
}

fn volume(name: &str, size: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size},
            "hostPath": {"path": "/data"}}})
}

fn part(object: &Value, path: &str) -> Value {
    object.pointer(path).cloned().unwrap_or_default()
}

fn until(parts: &Parts, path: &str, pointer: &str, expected: &str) {
    parts.until(&format!("{path} has {expected}"), |parts| {
        part(&parts.get(path).expect(200), pointer) == expected
    });
}

#[test]
fn a_claim_gets_a_volume_keeps_it_and_leaves_it() {
    let mut parts = Parts::none();
    parts.begin(&["controller-manager", LOOPS]);
    for (name, size) in [("small", "1Gi"), ("large", "5Gi")] {
        parts.post(VOLUMES, &volume(name, size)).expect(201);
        until(
            &parts,
            &format!("{VOLUMES}/{name}"),
            "/status/phase",
            "Available",
        );
    }
    let (first, small) = (format!("{CLAIMS}/first"), format!("{VOLUMES}/small"));
    parts.post(CLAIMS, &claim("first", "500Mi")).expect(201);
    until(&parts, &first, "/status/phase", "Bound");
    let bound = parts.get(&first).expect(200);
    assert_eq!(bound["spec"]["volumeName"], "small");
    assert_eq!(bound["status"]["capacity"]["storage"], "1Gi");
    let given = parts.get(&small).expect(200);
    assert_eq!(given["status"]["phase"], "Bound");
    assert_eq!(given["spec"]["claimRef"]["uid"], bound["metadata"]["uid"]);

    // The claim is there, however often the loop begins anew.
    parts.kill("controller-manager");
    parts.begin(&["controller-manager", LOOPS]);
    parts.post(CLAIMS, &claim("second", "2Gi")).expect(201);
    until(
        &parts,
        &format!("{CLAIMS}/second"),
        "/status/phase",
        "Bound",
    );
    let again = parts.get(&first).expect(200);
    assert_eq!(
        again["metadata"]["resourceVersion"],
        bound["metadata"]["resourceVersion"]
    );

    parts.call("DELETE", &first).send().expect(200);
    until(&parts, &small, "/status/phase", "Released");
    let free = json!({"spec": {"claimRef": null}}).to_string();
    let call = parts.call("PATCH", &small);
    call.body("application/merge-patch+json", free)
        .send()
        .expect(200);
    parts.post(CLAIMS, &claim("third", "1Gi")).expect(201);
    until(
        &parts,
        &format!("{CLAIMS}/third"),
        "/spec/volumeName",
        "small",
    );
}

#[test]
fn a_claim_that_waits_is_told_why_and_gets_what_comes() {
    let mut parts = Parts::none();
    parts.begin(&["controller-manager", LOOPS]);
    parts.post(CLAIMS, &claim("c", "1Gi")).expect(201);
    let events = "/api/v1/namespaces/default/events?fieldSelector=reason%3D";
    let told = |reason: &str, text: &str| {
        parts.until(reason, |parts| {
            let list = parts.get(&format!("{events}{reason}")).expect(200);
            part(&list, "/items/0/message") == text
        });
    };
    told(
        "FailedBinding",
        "no persistent volumes available for this claim and no storage class is set",
    );
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "made",
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "example.com/maker"});
    parts.post(CLASSES, &class).expect(201);
    told(
        "ExternalProvisioning",
        "Waiting for a volume to be created either by the external provisioner 'example.com/maker' \
         or manually by the system administrator. If volume creation is delayed, please verify \
         that the provisioner is running and correctly registered.",
    );
    let path = format!("{CLAIMS}/c");
    let waiting = parts.get(&path).expect(200);
    assert_eq!(waiting["spec"]["storageClassName"], "made");
    let mut made = volume("made", "1Gi");
    made["metadata"]["annotations"] =
        json!({"pv.kubernetes.io/provisioned-by": "example.com/maker"});
    made["spec"]["storageClassName"] = "made".into();
    made["spec"]["claimRef"] = json!({"namespace": "default", "name": "c",
        "uid": waiting["metadata"]["uid"]});
    made["spec"]["persistentVolumeReclaimPolicy"] = "Delete".into();
    parts.post(VOLUMES, &made).expect(201);
    until(&parts, &path, "/status/phase", "Bound");
    // What the driver made is the driver's to delete.
    parts.call("DELETE", &path).send().expect(200);
    until(
        &parts,
        &format!("{VOLUMES}/made"),
        "/status/phase",
        "Released",
    );
}
