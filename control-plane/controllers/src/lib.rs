//! The control loops: each brings the objects of one kind to their desired state.
//!
//! A loop is a pure function, [`loops::Loop::decide`]: from a key and the caches to the writes to
//! make, or to questions that must be answered before it can decide. [`manager`] connects loops,
//! caches and queues; only [`shell`] has clocks, tasks and an apiserver.
#![forbid(unsafe_code)]

mod cache;
mod decision;
mod gone;
mod graph;
mod job_pods;
mod kinds;
mod known;
mod loops;
mod manager;
mod meta;
mod pods;
mod recorder;
mod revisions;
mod scalings;
mod selection;
mod services;
pub mod shell;
mod sources;
mod used_claims;

#[cfg(test)]
mod tests;

pub use loops::certificates::signing::Signer;
pub use loops::node_ipam::{MaskSizes, NodeRanges};
pub use selection::Selection;
pub use shell::{Config, run};
