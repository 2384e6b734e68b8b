//! Volumes of `stele-kube up`: from a claim to the node of its pod, and away with the claim.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness::cluster::{WITHIN, kubectl_or_skip};
use crate::processes::up::Up;

const SET: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: i, volumeMounts: [{name: data, mountPath: /data}]}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";
const SCRATCH: &str = "
apiVersion: v1
kind: Pod
metadata: {name: brief}
spec:
  containers: [{name: c, image: i}]
  volumes:
  - name: scratch
    ephemeral:
      volumeClaimTemplate:
        metadata: {labels: {app: brief}}
        spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
";
/// Long, because the machine may be busy with builds.
const TIMEOUT: &str = "--timeout=120s";
const POLL: Duration = Duration::from_millis(100);

/// One field of an object.
fn field(up: &Up, object: &str, path: &str) -> String {
    up.kubectl(&["get", object, "-o", &format!("jsonpath={{{path}}}")])
}

fn names(up: &Up, kind: &str) -> Vec<String> {
    let names = up.kubectl(&["get", kind, "-o", "name"]);
    names.lines().map(str::to_owned).collect()
}

/// The volume of a member's claim, which must be bound, and where the member is.
fn volume_of(up: &Up, ordinal: usize) -> String {
    let claim = format!("pvc/data-db-{ordinal}");
    assert_eq!(field(up, &claim, ".status.phase"), "Bound", "{claim}");
    assert_eq!(field(up, &claim, ".spec.storageClassName"), "standard");
    let uid = field(up, &claim, ".metadata.uid");
    let volume = field(up, &claim, ".spec.volumeName");
    assert_eq!(volume, format!("pvc-{uid}"));
    let at = ".spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values[0]";
    let node = field(up, &format!("pod/db-{ordinal}"), ".spec.nodeName");
    assert_eq!(field(up, &format!("pv/{volume}"), at), node);
    volume
}

#[test]
fn the_pods_of_a_stateful_set_have_volumes_until_their_claims_are_deleted() {
    if !kubectl_or_skip("volumes of a stateful set") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(home.path());
    up.kubectl(&["create", "-f", &up.file("set.yaml", SET)]);
    let rollout = ["rollout", "status", "statefulset/db", TIMEOUT];
    up.kubectl(&rollout);
    let volumes: Vec<String> = (0..3).map(|ordinal| volume_of(&up, ordinal)).collect();
    let made = field(&up, &format!("pv/{}", volumes[0]), ".metadata.annotations");
    assert!(made.contains("hollow.stele/volumes"), "{made}");
    let told = up.kubectl(&["events", "--for=persistentvolumeclaim/data-db-0"]);
    for reason in ["Provisioning", "ProvisioningSucceeded"] {
        let mut words = told.split_whitespace();
        assert!(words.any(|word| word == reason), "{reason}: {told}");
    }

    // The next pod of its name goes where the volume is.
    up.kubectl(&["delete", "pod", "db-1", TIMEOUT]);
    let phase = "jsonpath={.status.phase}";
    let begun = Instant::now();
    while up.kubectl(&["get", "pod", "db-1", "--ignore-not-found", "-o", phase]) != "Running" {
        assert!(begun.elapsed() < WITHIN, "db-1 does not come back");
        sleep(POLL);
    }
    assert_eq!(volume_of(&up, 1), volumes[1]);

    up.kubectl(&["delete", "statefulset", "db", TIMEOUT]);
    up.kubectl(&["wait", "--for=delete", "pod", "-l", "app=db", TIMEOUT]);
    assert_eq!(names(&up, "pv").len(), 3, "they outlive the set");
    up.kubectl(&["delete", "pvc", "data-db-2", TIMEOUT]);
    let gone = format!("pv/{}", volumes[2]);
    up.kubectl(&["wait", "--for=delete", &gone, TIMEOUT]);
    assert_eq!(names(&up, "pv").len(), 2);
    up.kubectl(&["delete", "pvc", "-l", "app=db", TIMEOUT]);
    up.kubectl(&["wait", "--for=delete", "pv", "--all", TIMEOUT]);
}

#[test]
fn an_ephemeral_volume_comes_and_goes_with_its_pod() {
    if !kubectl_or_skip("ephemeral volumes") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(home.path());
    up.kubectl(&["create", "-f", &up.file("brief.yaml", SCRATCH)]);
    up.kubectl(&["wait", "pod/brief", "--for=condition=Ready", TIMEOUT]);
    let claim = "pvc/brief-scratch";
    assert_eq!(field(&up, claim, ".metadata.labels.app"), "brief");
    let owner = field(&up, claim, ".metadata.ownerReferences[0].uid");
    assert_eq!(owner, field(&up, "pod/brief", ".metadata.uid"));
    assert_eq!(names(&up, "pv").len(), 1);
    up.kubectl(&["delete", "pod", "brief", TIMEOUT]);
    up.kubectl(&["wait", "--for=delete", claim, TIMEOUT]);
    up.kubectl(&["wait", "--for=delete", "pv", "--all", TIMEOUT]);
}

#[test]
fn the_default_class_is_made_once() {
    if !kubectl_or_skip("the default class of storage") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(home.path());
    assert_eq!(names(&up, "sc"), ["storageclass.storage.k8s.io/standard"]);
    let waits = field(&up, "sc/standard", ".volumeBindingMode");
    assert_eq!(waits, "WaitForFirstConsumer");
    let shown = up.kubectl(&["get", "sc"]);
    assert!(shown.contains("standard (default)"), "{shown}");
    up.signal("-KILL");
    // A crash changes nothing; a deletion is for good.
    let up = Up::start(home.path());
    assert_eq!(names(&up, "sc").len(), 1);
    up.kubectl(&["delete", "sc", "standard"]);
    up.signal("-KILL");
    let up = Up::start(home.path());
    assert!(names(&up, "sc").is_empty());
}

/// Nobody would make its volumes.
#[test]
fn a_cluster_without_nodes_has_no_default_class() {
    if !kubectl_or_skip("a cluster without nodes") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let up = Up::with(home.path(), &["--nodes=0"]);
    assert!(names(&up, "sc").is_empty());
}
