//! Volumes of classes that wait for a pod: our scheduler and Kubernetes' own choose the same ones,
//! and say the same of pods that find none. Our loop binds them.

use std::thread::sleep;
use std::time::Instant;

use crate::foreign::go_scheduler::{COMPONENTS, PATIENCE, POLL, scheduled_or_skip};
use crate::harness::cluster::kubectl_or_skip;
use crate::processes::up::Up;

const TEST: &str = "volumes that wait for a pod";
const CLASSES: &str = r#"
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: static}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: made}
provisioner: example.com/maker
volumeBindingMode: WaitForFirstConsumer
allowedTopologies: [{matchLabelExpressions: [{key: zone, values: [a]}]}]
"#;
/// Name, size, zone and label of each volume.
const VOLUMES: [[&str; 4]; 4] = [
    ["large-a", "5Gi", "a", "slow"],
    ["small-b", "1Gi", "b", "slow"],
    ["medium-b", "2Gi", "b", "fast"],
    ["tiny-c", "100Mi", "c", "slow"],
];
/// Name of each claim and its pod, class, size, selector of the claim, and of nodes.
const CLAIMS: [[&str; 5]; 6] = [
    ["big", "static", "3Gi", "{}", "{}"],
    ["small", "static", "500Mi", "{}", "{zone: b}"],
    [
        "chosen",
        "static",
        "500Mi",
        "{matchLabels: {disk: fast}}",
        "{}",
    ],
    ["huge", "static", "10Gi", "{}", "{}"],
    ["made", "made", "1Gi", "{}", "{}"],
    ["astray", "made", "1Gi", "{}", "{zone: b}"],
];
/// The claim that each volume gets.
const BOUND: &str = "large-a=big medium-b=chosen small-b=small tiny-c= ";
/// The volume that each claim gets, said by the loop that finishes what the scheduler began.
const CLAIMED: &str = "big=large-a chosen=medium-b small=small-b ";
const NO_VOLUME: &str =
    "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind.";
const NO_PLACE: &str = "0/3 nodes are available: 1 node(s) didn't find available persistent volumes to bind, 2 node(s) didn't match Pod's node affinity/selector.";

fn volume([name, size, zone, disk]: [&str; 4]) -> String {
    let zone = format!("{{key: zone, operator: In, values: [{zone}]}}");
    format!(
        "---
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}, labels: {{disk: {disk}}}}}
spec:
  capacity: {{storage: {size}}}
  accessModes: [ReadWriteOnce]
  storageClassName: static
  hostPath: {{path: /tmp/{name}}}
  nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [{zone}]}}]}}}}
"
    )
}

fn claim([name, class, size, selector, nodes]: [&str; 5]) -> String {
    let selector = match selector {
        "{}" => String::new(),
        selector => format!("selector: {selector}, "),
    };
    let resources = format!("{{requests: {{storage: {size}}}}}");
    format!(
        "---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}}}
spec: {{accessModes: [ReadWriteOnce], storageClassName: {class}, {selector}resources: {resources}}}
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers: [{{name: c, image: i}}]
  nodeSelector: {nodes}
  volumes: [{{name: v, persistentVolumeClaim: {{claimName: {name}}}}}]
"
    )
}

fn until_equal(what: &str, expected: &str, read: impl Fn() -> String) {
    let begun = Instant::now();
    loop {
        let found = read();
        if found == expected {
            return;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "{what}: {found:?}, not {expected:?}"
        );
        sleep(POLL);
    }
}

/// Checks what becomes of the claims in a cluster whose scheduler runs.
fn check(up: &Up) {
    for (node, zone) in ["zone=a", "zone=b", "zone=c"].iter().enumerate() {
        up.kubectl(&["label", "node", &format!("node-{node}"), zone]);
    }
    let volumes: String = VOLUMES.into_iter().map(volume).collect();
    let file = up.file("volumes.yaml", &format!("{CLASSES}{volumes}"));
    up.kubectl(&["apply", "-f", &file]);
    let phases = "jsonpath={range .items[*]}{.status.phase} {end}";
    until_equal("free volumes", &"Available ".repeat(VOLUMES.len()), || {
        up.kubectl(&["get", "pv", "-o", phases])
    });
    let claims: String = CLAIMS.into_iter().map(claim).collect();
    let file = up.file("claims.yaml", &claims);
    up.kubectl(&["apply", "-f", &file]);

    let path = "jsonpath={range .items[*]}{.metadata.name}={.spec.claimRef.name} {end}";
    until_equal("volumes", BOUND, || up.kubectl(&["get", "pv", "-o", path]));
    let path = "jsonpath={range .items[?(@.status.phase=='Bound')]}\
                {.metadata.name}={.spec.volumeName} {end}";
    until_equal("claims", CLAIMED, || {
        up.kubectl(&["get", "pvc", "-o", path])
    });
    let path = r"jsonpath={.metadata.annotations.volume\.kubernetes\.io/selected-node}";
    until_equal("a volume to make", "node-0", || {
        up.kubectl(&["get", "pvc", "made", "-o", path])
    });
    let path = "jsonpath={.status.conditions[?(@.type=='PodScheduled')].message}";
    for (pod, why) in [("huge", NO_VOLUME), ("astray", NO_PLACE)] {
        until_equal(pod, why, || {
            let told = up.kubectl(&["get", "pod", pod, "-o", path]);
            let told = told.split_once(" no new claims");
            told.map(|(told, _)| told.to_owned()).unwrap_or_default()
        });
    }
}

#[test]
fn our_scheduler_binds_them_as_kubernetes_does() {
    if !kubectl_or_skip(TEST) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let with_ours = format!("{COMPONENTS},scheduler");
    check(&Up::with(directory.path(), &[&with_ours]));
}

#[test]
fn the_scheduler_of_kubernetes_binds_them_so() {
    if let Some((_directory, up, _scheduler)) = scheduled_or_skip(TEST) {
        check(&up);
    }
}
