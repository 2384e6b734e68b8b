//! The control loops: each brings the objects of one kind to their desired state.
//!
//! A loop is a pure function, [`loops::Loop::decide`]: from a key and the caches to the writes to
//! make. [`manager`] connects loops, caches and queues; only [`shell`] has clocks, tasks and an
//! apiserver.
#![forbid(unsafe_code)]

mod cache;
mod decision;
mod graph;
mod kinds;
mod loops;
mod manager;
mod meta;
mod pods;
mod recorder;
mod selection;
pub mod shell;
mod sources;

#[cfg(test)]
mod tests;

use loops::Loop;
pub use selection::Selection;
pub use shell::{Config, run};

/// The chosen loops. The loop for the root CA certificate runs only if there is a certificate.
fn chosen_loops(config: &Config) -> Vec<Box<dyn Loop>> {
    let mut loops = all_loops(&config.root_ca);
    loops.retain(|one| config.loops.has(one.name()));
    loops
}

/// The names of all loops.
fn loop_names() -> impl Iterator<Item = &'static str> {
    let loops = all_loops("a certificate");
    loops.into_iter().map(|one| one.name())
}

fn all_loops(root_ca: &str) -> Vec<Box<dyn Loop>> {
    let mut loops: Vec<Box<dyn Loop>> = vec![
        Box::new(loops::namespace::Namespaces),
        Box::new(loops::service_account::ServiceAccounts),
        Box::new(loops::replica_set::ReplicaSets),
        Box::new(loops::deployment::Deployments),
        Box::new(loops::garbage::Garbage),
        Box::new(loops::endpoint_slice::EndpointSlices),
        Box::new(loops::node_lifecycle::NodeLifecycle),
        Box::new(loops::taint_eviction::TaintEviction),
        Box::new(loops::pod_gc::PodGc),
        Box::new(loops::disruption::Disruption),
        Box::new(loops::resource_quota::ResourceQuotas),
        Box::new(loops::protection::ClaimProtection),
        Box::new(loops::protection::VolumeProtection),
        Box::new(loops::protection::ClassProtection),
        Box::new(loops::service_cidr::ServiceCidrs),
    ];
    if !root_ca.is_empty() {
        loops.push(Box::new(loops::root_ca::RootCa(root_ca.to_owned())));
    }
    loops
}
