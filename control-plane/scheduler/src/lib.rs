//! Which node a pod goes to.
//!
//! The heart is plain Rust that knows no clock, network or thread: [`core::Core`] is told what
//! nodes and pods there are and what time it is, and answers with decisions. It stands on
//! [`cache`] (what is on every node), [`queue`] (which pod is next), [`filters`] (where a pod may
//! go) and [`scores`] (where it would best go). The shell, [`run`], watches an apiserver, feeds the
//! heart and carries its decisions out.
//!
//! Rules, weights and the words of messages are kube-scheduler 1.36's with its default profile.
//! Not here: preemption, volumes, dynamic resources, image locality, extenders.
#![forbid(unsafe_code)]

pub mod affinity;
pub mod cache;
pub mod core;
pub mod filters;
pub mod node;
pub mod pod;
pub mod queue;
pub mod resources;
pub mod scores;
mod shell;

pub use shell::{Config, run};

#[cfg(test)]
mod tests;
