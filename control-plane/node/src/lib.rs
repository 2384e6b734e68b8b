//! Hollow nodes: they register, renew their leases and run pods in name only. Through the API their
//! pods look like those of a kubelet.
//!
//! A pure function decides what a pod does: [`pod::decide`] returns the calls to make, given the
//! pod and the time. All state of a node is in the objects, so it may be stopped at any moment and
//! continue later. [`fleet`] does this for any number of nodes in one process, with one informer
//! for all of their pods; [`run`] is the shell around it. [`provisioner`] makes volumes for claims,
//! which are as hollow as the nodes.
//!
//! ## How long containers run
//!
//! Nothing is executed, so the pod itself describes what its containers do:
//!
//! - by annotations: with `hollow.stele/exit-after: 5s` its containers end 5 s after their start,
//!   with the exit code of `hollow.stele/exit-code: 1`, or else 0; with
//!   `hollow.stele/ready: "false"` they never become ready; with `hollow.stele/stop-after: 2s` they
//!   take 2 s to stop when the pod is deleted;
//! - by their command, if it is `sleep 5`, `true`, `false`, `exit 3` or similar, or a shell's `-c`
//!   with a list of those;
//! - otherwise containers of a Job's pods succeed after a second, init containers at once, and all
//!   others run until they are deleted.
//!
//! The pod's restart policy applies as usual. Its first container waits for the pod's claims, as on
//! any node.
#![forbid(unsafe_code)]

pub mod address;
pub mod container;
pub mod events;
pub mod fleet;
pub mod hints;
pub mod host;
pub mod pod;
pub mod provisioner;
mod shell;
pub mod status;

pub use address::Family;
pub use shell::{Config, run};
