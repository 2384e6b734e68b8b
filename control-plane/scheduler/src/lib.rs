//! The scheduler: it decides which node a pod goes to.
//!
//! [`core::Core`] is plain Rust without clock, network or threads: it is told of nodes, pods and
//! the time, and answers with decisions. It uses [`cache`] (what is on every node) with its
//! [`images`] and the [`services`] over the pods, [`queue`] (which pod is next), [`claims`] (whether
//! its volumes and devices are there; a [`disk`] needs no claim), [`filters`] (where a pod may go; a
//! [`refusal`] says why not), [`scores`] (where it goes best) and [`preemption`] (who makes room for
//! it). The shell, [`run`], watches an apiserver, passes the events to the core and carries its
//! decisions out.
//!
//! Rules, weights and messages are those of kube-scheduler 1.36 with its default profile. Not
//! implemented: devices that share counters or are shared, that have binding conditions, or that
//! extended resources stand for; extenders.
#![forbid(unsafe_code)]

pub mod affinity;
pub mod budgets;
pub mod cache;
pub mod claims;
pub mod core;
pub mod disk;
pub mod filters;
pub mod images;
pub mod node;
pub mod nominations;
pub mod pod;
pub mod preemption;
pub mod queue;
pub mod refusal;
pub mod resources;
pub mod scores;
mod search;
pub mod services;
mod shell;

pub use shell::{Config, run};

#[cfg(test)]
mod tests;
