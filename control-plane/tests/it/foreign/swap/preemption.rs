//! Pods that take the place of others: our scheduler must leave the objects that Kubernetes' leaves,
//! and tell the same.

use serde_json::Value;

use super::world::World;
use super::{Scenario, Step, compare, listed};

const SCENARIO: Scenario = Scenario {
    steps: &STEPS,
    objects,
};

const STEPS: [Step; 5] = [
    ("a node that is full", |world| {
        world.run(&["create", "namespace", "p"]);
        world.run(&["create", "priorityclass", "high", "--value=1000"]);
        world.run(&["create", "priorityclass", "low", "--value=-5"]);
        let never = "--preemption-policy=Never";
        world.run(&["create", "priorityclass", "never", "--value=2000", never]);
        let pods = [
            pod("kept", "high", 3, ""),
            pod("protected", "low", 2, "db"),
            pod("spare", "", 3, ""),
        ];
        world.create(&pods.concat());
        let ready = "--for=condition=Ready";
        world.run(&["wait", "-n", "p", "pod", "--all", ready, "--timeout=180s"]);
        let budget = "--min-available=1";
        world.run(&[
            "create",
            "pdb",
            "-n",
            "p",
            "db",
            "--selector=app=db",
            budget,
        ]);
    }),
    ("a pod that preempts none", |world| {
        world.create(&pod("patient", "never", 1, ""));
    }),
    ("a pod of the least priority", |world| {
        world.create(&pod("least", "low", 1, ""));
    }),
    ("a pod that one has to leave for", |world| {
        world.create(&pod("first", "high", 2, ""));
    }),
    ("a pod that nothing makes room for", |world| {
        world.create(&pod("second", "high", 6, ""));
    }),
];

/// A pod for the first node that asks for this many of its eight processors.
fn pod(name: &str, class: &str, cpu: u32, app: &str) -> String {
    format!(
        "
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: p, labels: {{app: '{app}'}}}}
spec:
  nodeSelector: {{kubernetes.io/hostname: node-0}}
  priorityClassName: '{class}'
  terminationGracePeriodSeconds: 1
  containers: [{{name: main, image: nginx:1, resources: {{requests: {{cpu: {cpu}}}}}}}]
"
    )
}

fn objects(world: &World) -> Vec<Value> {
    listed(world, &[&["-n", "p", "pods,events"]], &[])
}

#[test]
fn our_scheduler_preempts_whom_kubernetes_preempts() {
    compare("preemption", "preemption.txt", &SCENARIO, |_, _| {});
}
