//! Hollow nodes: nodes that register, keep their leases and run pods in name only. Whoever only
//! looks at the API cannot tell their pods from a kubelet's.
//!
//! What a pod does is decided by pure functions of the pod as it is and the time: [`pod::decide`]
//! gives the calls to make. All a node needs to know is in the objects, so that it may be stopped
//! at any moment and go on later. [`fleet`] does that for any number of nodes in one process, with
//! one informer for all of their pods; [`run`] is the shell around it.
//!
//! ## How long containers run
//!
//! Nothing is executed, so a pod has to say what its containers would do:
//!
//! - by annotations: `hollow.stele/exit-after: 5s` ends its containers that long after their
//!   start, with `hollow.stele/exit-code: 1` if it is not 0; `hollow.stele/ready: "false"` never
//!   lets them be ready; `hollow.stele/stop-after: 2s` is how long they take to stop when the pod
//!   is deleted;
//! - by their command, as far as it is `sleep 5`, `true`, `false`, `exit 3` or a shell's `-c` with
//!   a list of those;
//! - otherwise containers of a Job's pods end well after a second, init containers at once, and
//!   everything else runs until it is deleted.
//!
//! What a pod's restart policy then makes of an end is the same as everywhere.
#![forbid(unsafe_code)]

pub mod address;
pub mod container;
pub mod events;
pub mod fleet;
pub mod hints;
pub mod host;
pub mod pod;
mod shell;
pub mod status;

pub use shell::{Config, run};
