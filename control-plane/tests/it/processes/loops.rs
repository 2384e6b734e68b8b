//! What the loops make of objects that users write.

use serde_json::{Value, json};

use crate::harness::cluster::kubectl_or_skip;
use crate::harness::parts::Parts;

const CONTROLLER: &str = "
apiVersion: v1
kind: ReplicationController
metadata: {name: old}
spec:
  replicas: 2
  selector: {app: old}
  template:
    metadata: {labels: {app: old}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: nginx}]
";

#[test]
fn a_replication_controller_has_its_pods_and_says_so() {
    if !kubectl_or_skip("a_replication_controller_has_its_pods_and_says_so") {
        return;
    }
    let mut parts = Parts::with_nodes(2);
    parts.begin(&["controller-manager"]);
    parts.run(&["create", "-f", &parts.file("old.yaml", CONTROLLER)]);
    parts.wait("rc/old", &["--for=jsonpath={.status.availableReplicas}=2"]);
    assert_eq!(
        parts.field("pods", ".items[*].metadata.ownerReferences[0].kind"),
        "ReplicationController ReplicationController"
    );
    parts.until("the Events are there", |parts| {
        parts
            .notes("SuccessfulCreate")
            .matches("Created pod: old-")
            .count()
            == 2
    });
    parts.run(&["scale", "rc/old", "--replicas=1"]);
    parts.wait("rc/old", &["--for=jsonpath={.status.replicas}=1"]);
    parts.run(&["expose", "rc/old", "--port=80"]);
    assert_eq!(parts.field("service/old", ".spec.selector.app"), "old");
    parts.run(&["delete", "rc/old", "--timeout=120s"]);
    parts.until("its pods are gone", |parts| {
        parts.run(&["get", "pods", "-o", "name"]).is_empty()
    });
}

const SUM: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: sum}
aggregationRule: {clusterRoleSelectors: [{matchLabels: {into: sum}}]}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: one, labels: {into: sum}}
rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]
";

#[test]
fn an_aggregating_role_shows_the_rules_of_the_roles_that_it_selects() {
    if !kubectl_or_skip("an_aggregating_role_shows_the_rules_of_the_roles_that_it_selects") {
        return;
    }
    let mut parts = Parts::none();
    parts.begin(&["controller-manager"]);
    parts.run(&["create", "-f", &parts.file("roles.yaml", SUM)]);
    let resources = |parts: &Parts| parts.field("clusterrole/sum", ".rules[*].resources[*]");
    parts.until("the rule is there", |parts| resources(parts) == "pods");
    let managers = ".metadata.managedFields[?(@.operation==\"Apply\")].manager";
    assert_eq!(
        parts.field("clusterrole/sum", managers),
        "clusterrole-aggregation-controller"
    );
    let two = ["create", "clusterrole", "two", "--verb=list"];
    parts.run(&[&two[..], &["--resource=secrets"]].concat());
    parts.run(&["label", "clusterrole/two", "into=sum"]);
    parts.until("the second rule is there", |parts| {
        resources(parts) == "pods secrets"
    });
    parts.run(&["delete", "clusterrole/one", "clusterrole/two"]);
    parts.until("the rules are gone", |parts| resources(parts).is_empty());
}

const DISK: &str = "
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  storageClassName: ''
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  csi: {driver: disk.stele.test, volumeHandle: disk}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec:
  storageClassName: ''
  volumeName: disk
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: disk}
spec:
  nodeName: node-0
  terminationGracePeriodSeconds: 1
  containers: [{name: c, image: nginx, volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: disk}}]
";
/// Kubernetes' name for the attachment of the disk to node-0.
const ATTACHMENT: &str = "volumeattachment.storage.k8s.io/\
     csi-9c415c46844288400ead1f3c7a1e882b2689c593fd8c6ab65cd81a6dc2060581";

#[test]
fn a_volume_is_attached_for_a_pod_and_detached_after_it() {
    if !kubectl_or_skip("a_volume_is_attached_for_a_pod_and_detached_after_it") {
        return;
    }
    let mut parts = Parts::with_nodes(1);
    parts.begin(&["controller-manager"]);
    let managed = "volumes.kubernetes.io/controller-managed-attach-detach=true";
    parts.run(&["annotate", "node", "node-0", managed]);
    parts.run(&["create", "-f", &parts.file("disk.yaml", DISK)]);
    // So that it does not matter whether a loop binds the claim.
    let uid = parts.field("pvc/disk", ".metadata.uid");
    let claim = format!(
        r#"{{"spec": {{"claimRef": {{"namespace": "default", "name": "disk", "uid": "{uid}"}}}}}}"#
    );
    let patch = |object: &str, patch: &str, flags: &[&str]| {
        let all = ["patch", object, "--type=merge", "--patch", patch];
        parts.run(&[&all[..], flags].concat());
    };
    let status = ["--subresource=status"];
    patch("pv/disk", &claim, &[]);
    patch("pvc/disk", r#"{"status": {"phase": "Bound"}}"#, &status);
    let attachments = |parts: &Parts| parts.run(&["get", "volumeattachments", "-o", "name"]);
    parts.until("the attachment is there", |parts| {
        attachments(parts).trim() == ATTACHMENT
    });
    patch(ATTACHMENT, r#"{"status": {"attached": true}}"#, &status);
    let attached = |parts: &Parts| parts.field("node/node-0", ".status.volumesAttached[*].name");
    parts.until("the node says what is attached", |parts| {
        attached(parts) == "kubernetes.io/csi/disk.stele.test^disk"
    });
    parts.until("the pod has an Event", |parts| {
        parts.notes("SuccessfulAttachVolume").trim()
            == "AttachVolume.Attach succeeded for volume \"disk\""
    });
    parts.run(&["delete", "pod", "disk", "--timeout=120s"]);
    parts.until("the attachment is gone", |parts| {
        attachments(parts).is_empty()
    });
    assert_eq!(attached(&parts), "");
}

#[test]
fn a_node_without_ranges_gets_some_and_leaves_them_to_the_next() {
    let mut parts = Parts::none();
    parts.begin(&[
        "controller-manager",
        "--controllers=nodeipam",
        "--allocate-node-cidrs=true",
        "--cluster-cidr=10.1.0.0/16,fd01::/48",
        "--node-cidr-mask-size-ipv4=25",
    ]);
    let path = |name: &str| format!("/api/v1/nodes/{name}");
    let ranges = |parts: &Parts, name: &str| -> Value {
        let node = parts.get(&path(name)).expect(200);
        node["spec"]["podCIDRs"].clone()
    };
    let registered = |name: &str| {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        parts.post("/api/v1/nodes", &node).expect(201);
        let what = format!("{name} has ranges");
        parts.until(&what, |parts| !ranges(parts, name).is_null());
        ranges(&parts, name)
    };
    let first = json!(["10.1.0.0/25", "fd01::/64"]);
    assert_eq!(registered("one"), first);
    let second = json!(["10.1.0.128/25", "fd01:0:0:1::/64"]);
    assert_eq!(registered("two"), second);
    parts.call("DELETE", &path("one")).send().expect(200);
    // The loop may not have heard of it yet, and give the third range.
    let third = json!(["10.1.1.0/25", "fd01:0:0:2::/64"]);
    let found = registered("three");
    assert!(found == first || found == third, "{found}");
}
