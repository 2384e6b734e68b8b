//! Devices of `stele-kube up`: a pod gets one by a template, and the next one gets it when it goes.

use crate::harness::cluster::kubectl_or_skip;
use crate::processes::up::Up;

/// Two devices on one of the nodes, of which the template wants one.
const DEVICES: &str = "
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: chip}
spec:
  selectors: [{cel: {expression: 'device.driver == \"chip.stele.test\"'}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: chips}
spec:
  driver: chip.stele.test
  nodeName: node-0
  pool: {name: node-0, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: small, attributes: {size: {int: 1}}}
  - {name: large, attributes: {size: {int: 9}}}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: large}
spec:
  spec:
    devices:
      requests:
      - name: chip
        exactly:
          deviceClassName: chip
          selectors: [{cel: {expression: 'device.attributes[\"chip.stele.test\"].size > 5'}}]
";
const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: NAME}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: chip, resourceClaimTemplateName: large}]
  containers: [{name: main, image: app, resources: {claims: [{name: chip}]}}]
";
/// Long, because the machine may be busy with builds.
const TIMEOUT: &str = "--timeout=120s";

fn create(up: &Up, pod: &str) {
    let file = up.file(&format!("{pod}.yaml"), &POD.replace("NAME", pod));
    up.kubectl(&["create", "-f", &file]);
}

fn field(up: &Up, object: &str, path: &str) -> String {
    up.kubectl(&["get", object, "-o", &format!("jsonpath={{{path}}}")])
}

/// The claim that was made for a pod.
fn claim_of(up: &Up, pod: &str) -> String {
    let path = ".status.resourceClaimStatuses[0].resourceClaimName";
    let name = field(up, &format!("pod/{pod}"), path);
    assert!(name.starts_with(&format!("{pod}-chip-")), "{name:?}");
    format!("resourceclaim/{name}")
}

#[test]
fn a_device_goes_from_pod_to_pod() {
    if !kubectl_or_skip("a_device_goes_from_pod_to_pod") {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let up = Up::start(home.path());
    up.kubectl(&["create", "-f", &up.file("devices.yaml", DEVICES)]);
    create(&up, "first");
    up.kubectl(&["wait", "pod/first", "--for=condition=Ready", TIMEOUT]);
    assert_eq!(field(&up, "pod/first", ".spec.nodeName"), "node-0");
    let claim = claim_of(&up, "first");
    let device = ".status.allocation.devices.results[0].device";
    assert_eq!(field(&up, &claim, device), "large");
    let user = field(&up, &claim, ".status.reservedFor[0].uid");
    assert_eq!(user, field(&up, "pod/first", ".metadata.uid"));
    assert_eq!(
        field(&up, &claim, ".metadata.finalizers[0]"),
        "resource.kubernetes.io/delete-protection"
    );

    create(&up, "second");
    let waits = "--for=jsonpath={.status.conditions[0].reason}=Unschedulable";
    up.kubectl(&["wait", "pod/second", waits, TIMEOUT]);
    let why = field(&up, "pod/second", ".status.conditions[0].message");
    assert!(why.contains("cannot allocate all claims"), "{why}");

    up.kubectl(&["delete", "pod", "first", TIMEOUT]);
    up.kubectl(&["wait", "--for=delete", &claim, TIMEOUT]);
    up.kubectl(&["wait", "pod/second", "--for=condition=Ready", TIMEOUT]);
    assert_eq!(field(&up, &claim_of(&up, "second"), device), "large");
}
