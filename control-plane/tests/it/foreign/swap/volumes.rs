//! Volumes and claims: our loops must leave the objects that Kubernetes' loops leave.

use serde_json::Value;

use super::world::World;
use super::{Scenario, compare, listed};

const NAMESPACE: &str = "volumes";
/// The kinds that are compared in the namespace.
const WITHIN: &str = "persistentvolumeclaims,pods,events";
/// Those outside of it. The nodes are among them for their names, which pods have.
const OUTSIDE: &str = "nodes,persistentvolumes,storageclasses";

const SCENARIO: Scenario = Scenario {
    steps: &[
        ("classes and volumes", |world| {
            world.run(&["create", "namespace", NAMESPACE]);
            world.create(include_str!("volumes/volumes.yaml"));
        }),
        (
            "claims that find volumes, and claims that find none",
            |world| {
                world.create(include_str!("volumes/claims.yaml"));
                for claim in ["small", "large", "chosen", "expected", "labelled"] {
                    phase(world, &format!("pvc/{claim}"), "Bound");
                }
            },
        ),
        ("a volume for a claim that waits", |world| {
            world.create(include_str!("volumes/late.yaml"));
            phase(world, "pvc/huge", "Bound");
        }),
        ("claims gone", |world| {
            within(world, &["delete", "pvc", "small", "large", "deleted"]);
            for volume in ["one", "five", "policy"] {
                phase(world, &format!("pv/{volume}"), "Released");
            }
        }),
        ("a volume that is free again", |world| {
            let free = r#"{"spec": {"claimRef": null}}"#;
            world.run(&["patch", "pv/one", "--type=merge", "--patch", free]);
            phase(world, "pv/one", "Available");
        }),
        ("a pod for a claim that waits for it", |world| {
            world.create(include_str!("volumes/pod.yaml"));
            phase(world, "pvc/patient", "Bound");
            phase(world, "pod/reader", "Running");
        }),
        ("a driver that makes a volume", |world| {
            world.create(include_str!("volumes/made.yaml"));
            phase(world, "pvc/made", "Bound");
        }),
        ("the made volume given back", |world| {
            within(world, &["delete", "pvc", "made"]);
            phase(world, "pv/made", "Released");
        }),
        ("a volume lost", |world| {
            world.run(&["delete", "pv", "chosen", "--wait=false"]);
            let unprotected = r#"{"metadata": {"finalizers": null}}"#;
            world.run(&["patch", "pv/chosen", "--type=merge", "--patch", unprotected]);
            phase(world, "pvc/chosen", "Lost");
        }),
        ("a claim that a pod brings", |world| {
            world.create(include_str!("volumes/ephemeral.yaml"));
            phase(world, "pvc/scratch-data", "Bound");
            phase(world, "pod/scratch", "Running");
        }),
        ("the pod gone with its claim", |world| {
            within(world, &["delete", "pod", "scratch"]);
            let gone = ["wait", "pvc/scratch-data", "--for=delete", "--timeout=180s"];
            within(world, &gone);
        }),
    ],
    objects,
};

#[test]
fn our_volumes_are_those_of_kubernetes() {
    compare("volumes", "volumes/golden.txt", &SCENARIO, |_, _| {});
}

fn within(world: &World, args: &[&str]) -> String {
    world.run(&[&["-n", NAMESPACE], args].concat())
}

fn phase(world: &World, what: &str, phase: &str) {
    let reached = format!("--for=jsonpath={{.status.phase}}={phase}");
    within(world, &["wait", what, &reached, "--timeout=180s"]);
}

/// All objects that are compared. Not Events about a pod that the scheduler saw before its claim or its
/// volume, and about a claim that was looked at between its pod and the place of that.
fn objects(world: &World) -> Vec<Value> {
    let gets: [&[&str]; 2] = [&[OUTSIDE], &["-n", NAMESPACE, WITHIN]];
    listed(world, &gets, &["FailedScheduling", "WaitForPodScheduled"])
}
