//! Stateful sets: our loop must leave the objects that Kubernetes' own leaves.

use serde_json::Value;

use super::world::World;
use super::{Scenario, compare, listed};

const NAMESPACE: &str = "sets";
/// The kinds that are compared in the namespace.
const WITHIN: &str = "statefulsets,controllerrevisions,pods,persistentvolumeclaims,services,\
     endpointslices,events";

const SCENARIO: Scenario = Scenario {
    steps: &[
        ("a set with its service", |world| {
            world.run(&["create", "namespace", NAMESPACE]);
            world.create(&format!("{SERVICE}{SET}"));
        }),
        ("another image", |world| {
            within(world, &["set", "image", "statefulset/web", "main=web:2"]);
            rolled_out(world);
        }),
        ("the image before", |world| {
            within(world, &["rollout", "undo", "statefulset/web"]);
            rolled_out(world);
            let history = within(world, &["rollout", "history", "statefulset/web"]);
            let numbers = history.lines().filter_map(|line| line.split(' ').next());
            assert_eq!(numbers.collect::<Vec<_>>()[2..4], ["2", "3"], "{history}");
        }),
        ("another image for the last pod", |world| {
            let partition = r#"{"spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}}}"#;
            within(world, &["patch", "statefulset/web", "--patch", partition]);
            within(world, &["set", "image", "statefulset/web", "main=web:3"]);
            rolled_out(world);
        }),
        ("a pod before the partition deleted", |world| {
            delete_pod(world, "web-0");
        }),
        ("five replicas", |world| {
            within(world, &["scale", "statefulset/web", "--replicas=5"]);
        }),
        ("two replicas", |world| {
            within(world, &["scale", "statefulset/web", "--replicas=2"]);
        }),
        ("a pod that failed", |world| {
            let failed = r#"{"status": {"phase": "Failed", "reason": "Evicted"}}"#;
            let patch = ["patch", "pod/web-1", "--subresource=status", "--type=merge"];
            within(world, &[&patch[..], &["--patch", failed]].concat());
        }),
        ("the set gone, its pods and revisions left", |world| {
            within(world, &["delete", "statefulset", "web", "--cascade=orphan"]);
        }),
        (
            "a pod renamed, the rest taken over by the same set",
            |world| {
                within(
                    world,
                    &["label", "pod", "web-1", "app=other", "--overwrite"],
                );
                world.create(SET);
            },
        ),
        ("the pod in the way gone", |world| {
            delete_pod(world, "web-1");
            rolled_out(world);
        }),
        ("pods that are replaced by hand", |world| {
            let strategy =
                r#"{"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": null}}}"#;
            within(world, &["patch", "statefulset/web", "--patch", strategy]);
            within(world, &["set", "image", "statefulset/web", "main=web:4"]);
            delete_pod(world, "web-1");
        }),
        ("a history of one", |world| {
            let limit = r#"{"spec": {"revisionHistoryLimit": 1}}"#;
            within(world, &["patch", "statefulset/web", "--patch", limit]);
        }),
        ("a parallel set with claims", |world| {
            world.create(CLAIMING);
        }),
        ("fewer pods with claims", |world| {
            within(world, &["scale", "statefulset/disk", "--replicas=1"]);
        }),
        ("claims that are kept", |world| {
            let policy = r#"{"spec": {"persistentVolumeClaimRetentionPolicy":
                {"whenScaled": "Retain", "whenDeleted": "Retain"}}}"#;
            within(world, &["patch", "statefulset/disk", "--patch", policy]);
        }),
        ("a set without claims gone", |world| {
            within(
                world,
                &["delete", "statefulset", "web", "--cascade=foreground"],
            );
        }),
        ("a set with claims gone", |world| {
            within(world, &["delete", "statefulset", "disk"]);
        }),
    ],
    objects,
};

#[test]
fn our_stateful_sets_are_those_of_kubernetes() {
    compare("stateful sets", "stateful_sets.txt", &SCENARIO, |_, _| {});
}

fn within(world: &World, args: &[&str]) -> String {
    world.run(&[&["-n", NAMESPACE], args].concat())
}

/// Deletes a pod that comes again under its name. If that is between two calls with which kubectl waits
/// for its end, kubectl waits for the end of the new one.
fn delete_pod(world: &World, name: &str) {
    within(world, &["delete", "pod", name, "--wait=false"]);
}

fn rolled_out(world: &World) {
    let status = ["rollout", "status", "statefulset/web", "--timeout=180s"];
    within(world, &status);
}

/// All objects that are compared. The nodes are among them for their names, which pods have. Not
/// Events about a claim that Kubernetes' loop changed before it saw its last change, and about a pod
/// that the scheduler saw before its claim had its volume.
fn objects(world: &World) -> Vec<Value> {
    let gets: [&[&str]; 2] = [&["nodes"], &["-n", NAMESPACE, WITHIN]];
    listed(world, &gets, &["FailedScheduling", "FailedUpdate"])
}

const SERVICE: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: sets}
spec:
  clusterIP: None
  selector: {app: web}
  ports: [{name: http, port: 80}]
---";

const SET: &str = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, namespace: sets, annotations: {note: hello}}
spec:
  replicas: 3
  serviceName: web
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {template: <note>}
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: web:1
        ports: [{name: http, containerPort: 80}]
";

/// A set with a volume for each of its claims.
const CLAIMING: &str = r#"
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk-10}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: sets, name: data-disk-10}
  hostPath: {path: /tmp/disk-10}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk-11}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: sets, name: data-disk-11}
  hostPath: {path: /tmp/disk-11}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk-12}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: sets, name: data-disk-12}
  hostPath: {path: /tmp/disk-12}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: disk, namespace: sets}
spec:
  replicas: 3
  minReadySeconds: 1
  ordinals: {start: 10}
  podManagementPolicy: Parallel
  persistentVolumeClaimRetentionPolicy: {whenScaled: Delete, whenDeleted: Delete}
  selector: {matchLabels: {app: disk}}
  template:
    metadata: {labels: {app: disk}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "disk:1", volumeMounts: [{name: data, mountPath: /data}]}]
      volumes: [{name: more, emptyDir: {}}]
  volumeClaimTemplates:
  - metadata:
      name: data
      labels: {kind: disk}
    spec:
      storageClassName: ""
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Gi}}
"#;
