//! The loops, and their interface: the changes that wake a loop, and its decisions.

pub(crate) mod attach_detach;
pub(crate) mod autoscaler;
pub(crate) mod bootstrap_tokens;
pub(crate) mod certificates;
pub(crate) mod cluster_role_aggregation;
pub(crate) mod cron_job;
pub(crate) mod daemon_set;
pub(crate) mod deployment;
pub(crate) mod disruption;
pub(crate) mod endpoint_mirroring;
pub(crate) mod endpoint_slice;
pub(crate) mod endpoints;
pub(crate) mod ephemeral_volume;
pub(crate) mod garbage;
pub(crate) mod job;
pub(crate) mod namespace;
pub(crate) mod node_ipam;
pub(crate) mod node_lifecycle;
pub(crate) mod pod_gc;
mod prefix;
pub(crate) mod protection;
pub(crate) mod replica_set;
pub(crate) mod resource_claim;
pub(crate) mod resource_quota;
pub(crate) mod root_ca;
pub(crate) mod service_account;
pub(crate) mod service_cidr;
pub(crate) mod stateful_set;
pub(crate) mod taint_eviction;
pub(crate) mod ttl_after_finished;
pub(crate) mod volume_expander;
pub(crate) mod volumes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use machinery::schema::Kind;
use machinery::time::Timestamp;

use crate::cache::{Caches, Changed};
use crate::decision::{Answers, Decision, Note};
use crate::known::Key;
use certificates::signing::Signer;
use node_ipam::NodeRanges;

/// A loop brings objects to their desired state, key by key. It keeps no state between decisions,
/// so a restarted loop continues where the last one stopped; what a decision needs that no object
/// says is in the caches, and lost with them.
pub(crate) trait Loop: Send + Sync {
    /// Its name in Kubernetes.
    fn name(&self) -> &'static str;

    /// The `source.component` of its Events.
    fn component(&self) -> String {
        format!("{}-controller", self.name())
    }

    /// False if something that it needs is not configured.
    fn can_run(&self) -> bool {
        true
    }

    /// Calls `wake` for each key that a change concerns.
    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key));

    /// Calls `wake` for each key that a change concerns later, with how much later.
    fn wakes_later(&self, _: &Caches, _: &Changed, _: Timestamp, _: &mut dyn FnMut(Key, Duration)) {
    }

    /// Calls `wake` for each key that a touched uid of the graph concerns.
    fn touched(&self, _: &Caches, _: &str, _: &mut dyn FnMut(Key)) {}

    /// Calls `wake` for each key that the deletion of objects of a kind concerns. `None` is any
    /// namespace.
    fn deleted(&self, _: &Caches, _: &Arc<Kind>, _: Option<&str>, _: &mut dyn FnMut(Key)) {}

    /// The Event for a change, independent of any decision.
    fn note(&self, _: &Changed) -> Option<Note> {
        None
    }

    /// The period of a loop that also runs by time, with a key without a name.
    fn period(&self) -> Option<Duration> {
        None
    }

    /// Decides what to do about a key, from what the caches hold now.
    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision;
}

/// The input of a decision.
pub(crate) struct Context<'a> {
    pub(crate) caches: &'a Caches,
    pub(crate) now: Timestamp,
    /// The failure of the last attempt for this key.
    pub(crate) failure: Option<&'a Failure>,
    /// What decisions about other keys take that are in progress.
    pub(crate) taken: &'a BTreeSet<String>,
    /// The answers to what the loop asked about this key.
    pub(crate) answers: &'a Answers,
}

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The call was a create; if `deleting`, a delete; otherwise a change.
    pub(crate) creating: bool,
    pub(crate) deleting: bool,
    pub(crate) message: String,
}

/// The key for [`Loop::period`].
pub(crate) fn turn() -> Key {
    (String::new(), String::new())
}

/// The names of all loops.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let loops = all("", None, None);
    loops.into_iter().map(|one| one.name())
}

/// All loops. Those for certificates sign with `signer`, and nodes get ranges out of `node_ranges`.
pub(crate) fn all(
    root_ca: &str,
    signer: Option<&Arc<Signer>>,
    node_ranges: Option<&NodeRanges>,
) -> Vec<Box<dyn Loop>> {
    vec![
        Box::new(namespace::Namespaces),
        Box::new(service_account::ServiceAccounts),
        Box::new(replica_set::ReplicaSets),
        Box::new(replica_set::ReplicationControllers),
        Box::new(deployment::Deployments),
        Box::new(daemon_set::DaemonSets),
        Box::new(stateful_set::StatefulSets),
        Box::new(job::Jobs),
        Box::new(ttl_after_finished::TtlAfterFinished),
        Box::new(cron_job::CronJobs),
        Box::new(garbage::Garbage),
        Box::new(endpoints::EndpointsOfServices),
        Box::new(endpoint_slice::EndpointSlices),
        Box::new(endpoint_mirroring::EndpointMirroring),
        Box::new(node_ipam::NodeIpam(node_ranges.cloned())),
        Box::new(node_lifecycle::NodeLifecycle),
        Box::new(taint_eviction::TaintEviction),
        Box::new(pod_gc::PodGc),
        Box::new(disruption::Disruption),
        Box::new(autoscaler::Autoscalers),
        Box::new(resource_quota::ResourceQuotas),
        Box::new(ephemeral_volume::EphemeralVolumes),
        Box::new(resource_claim::ResourceClaims),
        Box::new(volumes::VolumeBinder),
        Box::new(protection::ClaimProtection),
        Box::new(protection::VolumeProtection),
        Box::new(protection::ClassProtection),
        Box::new(volume_expander::VolumeExpander),
        Box::new(attach_detach::AttachDetach),
        Box::new(service_cidr::ServiceCidrs),
        Box::new(cluster_role_aggregation::ClusterRoleAggregation),
        Box::new(certificates::signing::CertificateSigning(signer.cloned())),
        Box::new(certificates::approving::CertificateApproving),
        Box::new(certificates::cleaning::CertificateCleaning),
        Box::new(bootstrap_tokens::BootstrapSigner),
        Box::new(bootstrap_tokens::TokenCleaner),
        Box::new(root_ca::RootCa(root_ca.to_owned())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `kubectl get events` shows them for Kubernetes' own, which does not name all alike.
    #[test]
    fn events_come_from_whom_they_come_in_kubernetes() {
        let loops = all("", None, None);
        let component = |name: &str| {
            let found = loops.iter().find(|one| one.name() == name);
            found.unwrap().component()
        };
        for (name, expected) in [
            ("deployment", "deployment-controller"),
            ("disruption", "controllermanager"),
            ("endpoints", "endpoint-controller"),
            ("endpointslice", "endpoint-slice-controller"),
            (
                "endpointslice-mirroring",
                "endpoint-slice-mirroring-controller",
            ),
            ("node-ipam", "cidrAllocator"),
            ("node-lifecycle", "node-controller"),
        ] {
            assert_eq!(component(name), expected);
        }
    }
}
