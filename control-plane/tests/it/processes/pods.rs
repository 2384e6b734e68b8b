//! Pods on hollow nodes, with our scheduler: they run, complete, stay pending and are deleted.

use crate::harness::cluster::kubectl_or_skip;
use crate::harness::parts::Parts;

const PICKY: &str = "
apiVersion: v1
kind: Pod
metadata: {name: picky}
spec:
  nodeSelector: {disk: ssd}
  containers: [{name: c, image: nginx, resources: {requests: {cpu: '6'}}}]
";

const BIG: &str = "
apiVersion: v1
kind: Pod
metadata: {name: big}
spec:
  containers: [{name: c, image: nginx, resources: {requests: {cpu: '6'}}}]
";

#[test]
fn pods_from_kubectl_get_a_node_run_end_and_go() {
    if !kubectl_or_skip("pods_from_kubectl_get_a_node_run_end_and_go") {
        return;
    }
    let parts = Parts::with_nodes(3);

    parts.run(&["run", "x", "--image=nginx"]);
    parts.wait("pod/x", &["--for=condition=Ready"]);
    let node = parts.field("pod/x", ".spec.nodeName");
    assert!(node.starts_with("node-"), "{node}");
    assert!(parts.field("pod/x", ".status.podIP").starts_with("10.244."));
    assert_eq!(parts.field("pod/x", ".status.phase"), "Running");
    parts.until("the event is there", |parts| {
        parts.notes("Scheduled") == format!("Successfully assigned default/x to {node}")
    });
    parts.until("its node tells of it too", |parts| {
        parts.notes("Started") == "Container started"
    });

    let once = [
        "run",
        "once",
        "--image=busybox",
        "--restart=Never",
        "--",
        "sleep",
        "1",
    ];
    parts.run(&once);
    parts.wait("pod/once", &["--for=jsonpath={.status.phase}=Succeeded"]);
    parts.run(&[
        "run",
        "bad",
        "--image=busybox",
        "--restart=Never",
        "--",
        "false",
    ]);
    parts.wait("pod/bad", &["--for=jsonpath={.status.phase}=Failed"]);

    // kubectl waits until the pods are gone, which happens only if a node stops them.
    parts.run(&["delete", "pod", "x", "once", "bad", "--timeout=120s"]);
    assert_eq!(parts.run(&["get", "pods", "-o", "name"]), "");
}

#[test]
fn a_pod_that_fits_nowhere_says_why_and_goes_where_it_can_once_it_can() {
    if !kubectl_or_skip("a_pod_that_fits_nowhere_says_why_and_goes_where_it_can_once_it_can") {
        return;
    }
    let mut parts = Parts::with_nodes(2);
    let unschedulable = "--for=jsonpath={.status.conditions[0].reason}=Unschedulable";
    let why_not = |parts: &Parts, pod: &str| parts.field(pod, ".status.conditions[0].message");
    parts.run(&["taint", "node", "node-0", "dedicated=db:NoSchedule"]);
    parts.run(&["create", "-f", &parts.file("picky.yaml", PICKY)]);
    parts.wait("pod/picky", &[unschedulable]);
    let why = why_not(&parts, "pod/picky");
    let selector = "node(s) didn't match Pod's node affinity/selector";
    assert!(why.starts_with("0/2 nodes are available: "), "{why}");
    assert!(why.contains(selector), "{why}");
    parts.run(&["label", "node", "node-1", "disk=ssd"]);
    parts.wait("pod/picky", &["--for=condition=Ready"]);
    assert_eq!(parts.field("pod/picky", ".spec.nodeName"), "node-1");

    // That node has 8 processors, 6 of them in use. The scheduler has seen its label, and so also
    // the earlier taint of the other node.
    parts.run(&["create", "-f", &parts.file("big.yaml", BIG)]);
    parts.wait("pod/big", &[unschedulable]);
    let why = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s). \
               no new claims to deallocate, preemption: 0/2 nodes are available: \
               1 No preemption victims found for incoming pod, \
               1 Preemption is not helpful for scheduling.";
    assert_eq!(why_not(&parts, "pod/big"), why);
    parts.until("the event is there", |parts| {
        parts.notes("FailedScheduling").contains(why)
    });

    // All their state is in the store: killed and restarted, they continue.
    parts.kill("scheduler");
    parts.kill("node");
    parts.run(&["delete", "pod", "picky", "--wait=false"]);
    parts.begin(&["node", "--count", "2"]);
    parts.begin(&["scheduler", "--leader-elect"]);
    parts.wait("pod/picky", &["--for=delete"]);
    parts.wait("pod/big", &["--for=condition=Ready"]);
    parts.until("there are leases", |parts| {
        let leases = parts.run(&["get", "leases", "--all-namespaces", "-o", "name"]);
        let mut wanted = ["kube-scheduler", "node-0", "node-1"].iter();
        wanted.all(|lease| leases.contains(lease))
    });
}
