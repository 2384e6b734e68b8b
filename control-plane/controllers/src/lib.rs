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

use std::sync::Arc;

use loops::Loop;
pub use loops::certificates::signing::Signer;
pub use selection::Selection;
pub use shell::{Config, run};

/// The chosen loops, without those that lack what they need.
fn chosen_loops(config: &Config) -> Vec<Box<dyn Loop>> {
    let mut loops = all_loops(&config.root_ca, config.signer.as_ref());
    loops.retain(|one| config.loops.has(one.name()) && one.can_run());
    loops
}

/// The names of all loops.
fn loop_names() -> impl Iterator<Item = &'static str> {
    let loops = all_loops("", None);
    loops.into_iter().map(|one| one.name())
}

fn all_loops(root_ca: &str, signer: Option<&Arc<Signer>>) -> Vec<Box<dyn Loop>> {
    vec![
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
        Box::new(loops::certificates::signing::CertificateSigning(
            signer.cloned(),
        )),
        Box::new(loops::certificates::approving::CertificateApproving),
        Box::new(loops::certificates::cleaning::CertificateCleaning),
        Box::new(loops::root_ca::RootCa(root_ca.to_owned())),
    ]
}
