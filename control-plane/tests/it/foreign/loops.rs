//! Kubernetes' own controller manager with all the loops that it starts by itself, and its own
//! scheduler, with the flags and the users that kubeadm gives them, on our apiserver: each step of
//! the scenario must leave the objects that it leaves on Kubernetes' own apiserver, and their logs
//! must not complain of the apiserver.
//!
//! Kubernetes' result is kept in `loops/golden.txt`. `STELE_LOOPS=go` plays the scenario on
//! Kubernetes' apiserver instead of ours, and `UPDATE=1` with it rewrites the file.

mod certificates;
mod complaints;
mod scenario;

use std::path::PathBuf;

use testkit::Kubernetes;

use crate::foreign::swap::world::World;
use crate::foreign::swap::{Scenario, play, record};
use crate::harness::cluster::kubectl_or_skip;

const SCENARIO: Scenario = Scenario {
    steps: scenario::STEPS,
    objects: scenario::objects,
};

#[test]
fn all_loops_of_kubernetes_leave_the_objects_that_they_leave_on_kubernetes() {
    const TEST: &str = "all of Kubernetes' loops";
    if !kubectl_or_skip(TEST) {
        return;
    }
    for program in [Kubernetes::ControllerManager, Kubernetes::Scheduler] {
        if program.or_skip(TEST).is_none() {
            return;
        }
    }
    let go = std::env::var("STELE_LOOPS").is_ok_and(|asked| asked == "go");
    let golden =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/it/foreign/loops/golden.txt");
    let world = World::with_all_loops(go);
    if go && std::env::var_os("UPDATE").is_some() {
        std::fs::write(golden, record(&world, &SCENARIO)).unwrap();
    } else {
        play(&world, &SCENARIO, &std::fs::read_to_string(golden).unwrap());
    }
    complaints::none(&world);
}
