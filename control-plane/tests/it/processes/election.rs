//! Several copies of a part: one leads, and when it is killed, another takes over.

use crate::harness::cluster::kubectl_or_skip;
use crate::harness::parts::Parts;

const LOOPS: [&str; 2] = ["controller-manager", "--leader-elect"];
const LEASE: [&str; 4] = ["-n", "kube-system", "lease", "kube-controller-manager"];

fn of_lease(parts: &Parts, path: &str) -> String {
    let output = format!("jsonpath={{{path}}}");
    let rest = ["--ignore-not-found", "-o", &output];
    parts.run(&[&["get"], &LEASE[..], &rest].concat())
}

#[test]
fn a_copy_of_the_loops_takes_over_from_one_that_was_killed() {
    if !kubectl_or_skip("an election between copies of the loops") {
        return;
    }
    let mut parts = Parts::with_nodes(1);
    let holder = |parts: &Parts| of_lease(parts, ".spec.holderIdentity");
    parts.begin(&LOOPS);
    parts.until("the first copy leads", |parts| !holder(parts).is_empty());
    let first = holder(&parts);
    parts.begin(&LOOPS);
    parts.run(&["create", "deployment", "web", "--image=nginx"]);
    let rolled = ["rollout", "status", "deployment/web", "--timeout=120s"];
    parts.run(&rolled);
    // The first copy leads; the other one has only waited so far.
    parts.kill(LOOPS[0]);
    parts.until("the other copy leads", |parts| holder(parts) != first);
    assert_eq!(of_lease(&parts, ".spec.leaseTransitions"), "1");
    parts.run(&["scale", "deployment/web", "--replicas=3"]);
    parts.run(&rolled);
    assert_eq!(parts.field("deployment/web", ".status.readyReplicas"), "3");
}
