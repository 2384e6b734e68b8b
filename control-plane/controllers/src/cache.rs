//! The caches of the loops: the objects that informers reported, and the loops' own writes.
//!
//! The response to a loop's own write enters the cache at once, so a loop never decides on a state
//! from before its last write. This replaces Kubernetes' expectations. A watch that lags behind
//! cannot bring back an older object: the versions of the objects show it.

mod daemon_failures;
mod freed_claims;
mod pod_usage;
mod store;
mod taints_seen;
#[cfg(test)]
mod tests;
mod unbound;

use std::sync::Arc;

use api_client::Notice;
use k8s_openapi::api::apps::v1::{
    ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet,
};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod,
    ReplicationController, ResourceQuota, Secret, Service, ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceClaimTemplate};
use k8s_openapi::api::storage::v1::{
    CSIDriver, StorageClass, VolumeAttachment, VolumeAttributesClass,
};
use machinery::object::{self, Object};
use machinery::schema::Kind;
use machinery::time::Timestamp;
use serde::de::DeserializeOwned;

use crate::graph::Graph;
use crate::job_pods::Failures;
use crate::kinds::Kinds;
use crate::known::kind_of;
use crate::meta;
use crate::scalings::Scalings;
pub(crate) use daemon_failures::{DaemonFailures, REVISION_HASH};
use freed_claims::FreedClaims;
use pod_usage::PodUsage;
pub(crate) use store::{Diff, Store};
use taints_seen::TaintsSeen;
pub(crate) use unbound::{
    BIND_COMPLETED, STORAGE, STORAGE_CLASS, Shape, Unbound, is_free, is_waiting, selector_of,
    size_of,
};

/// Which caches an informer feeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Both: it delivers whole objects, and all objects of the kind.
    Both,
    /// Only the graph: it delivers the metadata of all objects of the kind.
    Graph,
    /// Only the store: it delivers whole objects, but not all of the kind.
    Store,
}

/// Declares the kinds whose whole objects are cached: a store and a `Changed` variant for each.
macro_rules! caches {
    ($($field:ident: $type:ident,)*) => {
        /// The caches that all loops share.
        #[derive(Default)]
        pub(crate) struct Caches {
            $(pub(crate) $field: Store<$type>,)*
            /// The metadata of every object that can be deleted.
            pub(crate) graph: Graph,
            /// The kinds that the apiserver serves.
            pub(crate) kinds: Arc<Kinds>,
            /// How often the pods of daemon sets failed.
            pub(crate) daemon_failures: DaemonFailures,
            /// The deleted claims that nothing uses.
            pub(crate) freed_claims: FreedClaims,
            /// How the pods of jobs failed.
            pub(crate) job_failures: Failures,
            /// What pods use that quotas count.
            pub(crate) pod_usage: PodUsage,
            /// What the loop for autoscalers remembers of them.
            pub(crate) scalings: Scalings,
            /// Since when nodes have the taints that do not say so.
            pub(crate) taints_seen: TaintsSeen,
            /// The volumes and the claims that wait for each other.
            pub(crate) unbound: Unbound,
        }

        /// A change in one of the stores.
        #[expect(dead_code, reason = "some kinds are only read")]
        pub(crate) enum Changed {
            $($type(Diff<$type>),)*
        }

        impl Caches {
            /// True if whole objects of this kind are cached.
            pub(crate) fn reads(kind: &Arc<Kind>) -> bool {
                $(Arc::ptr_eq(kind, kind_of::<$type>()))||*
            }

            fn put(&mut self, kind: &Arc<Kind>, object: Object, now: Timestamp) -> Vec<Changed> {
                $(if Arc::ptr_eq(kind, kind_of::<$type>()) {
                    let diff = read(object).and_then(|object| self.$field.put(object, now));
                    return diff.map(Changed::$type).into_iter().collect();
                })*
                Vec::new()
            }

            fn take(
                &mut self,
                kind: &Arc<Kind>,
                object: &Object,
                now: Timestamp,
            ) -> Vec<Changed> {
                $(if Arc::ptr_eq(kind, kind_of::<$type>()) {
                    let diff = self.$field.take(object, now);
                    return diff.map(Changed::$type).into_iter().collect();
                })*
                Vec::new()
            }

            fn replace(
                &mut self,
                kind: &Arc<Kind>,
                objects: Vec<Object>,
                now: Timestamp,
            ) -> Vec<Changed> {
                $(if Arc::ptr_eq(kind, kind_of::<$type>()) {
                    let objects = objects.into_iter().filter_map(read).collect();
                    let diffs = self.$field.replace(objects, now);
                    return diffs.into_iter().map(Changed::$type).collect();
                })*
                Vec::new()
            }
        }
    };
}

caches! {
    addresses: IPAddress,
    attachments: VolumeAttachment,
    attribute_classes: VolumeAttributesClass,
    autoscalers: HorizontalPodAutoscaler,
    budgets: PodDisruptionBudget,
    cluster_roles: ClusterRole,
    config_maps: ConfigMap,
    cron_jobs: CronJob,
    daemon_sets: DaemonSet,
    deployments: Deployment,
    device_claim_templates: ResourceClaimTemplate,
    device_claims: ResourceClaim,
    drivers: CSIDriver,
    endpoint_slices: EndpointSlice,
    endpoints: Endpoints,
    jobs: Job,
    leases: Lease,
    namespaces: Namespace,
    nodes: Node,
    pods: Pod,
    quotas: ResourceQuota,
    replica_sets: ReplicaSet,
    replication_controllers: ReplicationController,
    revisions: ControllerRevision,
    secrets: Secret,
    service_accounts: ServiceAccount,
    service_ranges: ServiceCIDR,
    services: Service,
    signing_requests: CertificateSigningRequest,
    stateful_sets: StatefulSet,
    storage_classes: StorageClass,
    volume_claims: PersistentVolumeClaim,
    volumes: PersistentVolume,
}

/// The effects of a notice: changed objects, and uids in the graph to check again.
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) changed: Vec<Changed>,
    pub(crate) touched: Vec<String>,
    /// Kinds of which objects are gone, with their namespace if that is known.
    pub(crate) deleted: Vec<(Arc<Kind>, Option<String>)>,
}

impl Caches {
    /// Applies a notice from an informer.
    pub(crate) fn observe(
        &mut self,
        kind: &Arc<Kind>,
        destination: Destination,
        notice: Notice,
        now: Timestamp,
    ) -> Effects {
        let mut effects = Effects::default();
        if destination != Destination::Store {
            effects.deleted = match &notice {
                // Some may have gone while nobody watched.
                Notice::Replaced(_) => vec![(Arc::clone(kind), None)],
                Notice::Applied(_) => Vec::new(),
                Notice::Deleted(object) => vec![of_namespace(kind, object)],
            };
            effects.touched = match &notice {
                Notice::Replaced(objects) => self.graph.replace(kind, objects),
                Notice::Applied(object) => self.graph.put(kind, object),
                Notice::Deleted(object) => self.graph.take(object),
            };
        }
        if destination != Destination::Graph {
            effects.changed = match notice {
                Notice::Replaced(objects) => self.replace(kind, objects, now),
                Notice::Applied(object) => self.put(kind, object, now),
                Notice::Deleted(object) => self.take(kind, &object, now),
            };
        }
        self.remember(&effects.changed, now);
        effects
    }

    /// Applies the response to a loop's own write.
    pub(crate) fn wrote(&mut self, kind: &Arc<Kind>, object: Object, now: Timestamp) -> Effects {
        if is_gone(&object) {
            return self.deleted(kind, &object, now);
        }
        // The answer is older than the list, which alone says that the object is gone.
        if self.graph.is_missed(object::uid(&object)) {
            return Effects::default();
        }
        let effects = Effects {
            touched: self.graph.put(kind, &object),
            changed: self.put(kind, object, now),
            deleted: Vec::new(),
        };
        self.remember(&effects.changed, now);
        effects
    }

    /// Applies a deletion that a loop's own call made.
    pub(crate) fn deleted(&mut self, kind: &Arc<Kind>, object: &Object, now: Timestamp) -> Effects {
        let effects = Effects {
            touched: self.graph.take(object),
            changed: self.take(kind, object, now),
            deleted: vec![of_namespace(kind, object)],
        };
        self.remember(&effects.changed, now);
        effects
    }

    /// Keeps what loops must know of objects beside the objects.
    fn remember(&mut self, changed: &[Changed], now: Timestamp) {
        for one in changed {
            match one {
                Changed::Pod(diff) => {
                    self.daemon_failures.note(diff, now);
                    self.unbound.note_pod(diff);
                    let (claims, pods) = (&self.volume_claims, &self.pods);
                    self.freed_claims
                        .note_pod(diff, claims, pods, &self.unbound);
                    self.pod_usage.note_pod(diff, &self.quotas);
                    if let Some(pod) = &diff.new {
                        self.job_failures.note(pod);
                    }
                }
                Changed::ResourceQuota(diff) => {
                    self.pod_usage.note_quota(diff, &self.quotas, &self.pods);
                }
                Changed::Node(diff) => self.taints_seen.note(diff, now),
                Changed::PersistentVolume(diff) => self.unbound.note_volume(diff),
                Changed::PersistentVolumeClaim(diff) => {
                    self.unbound.note_claim(diff);
                    let (pods, unbound) = (&self.pods, &self.unbound);
                    self.freed_claims.note_claim(diff, pods, unbound);
                }
                Changed::Job(Diff {
                    old: Some(job),
                    new: None,
                }) => self.job_failures.forget(meta::uid(&job.metadata)),
                Changed::HorizontalPodAutoscaler(Diff {
                    old: Some(autoscaler),
                    new: None,
                }) => self.scalings.forget(&meta::key(&autoscaler.metadata)),
                _ => {}
            }
        }
    }
}

/// Decodes an object; one that does not decode is skipped. The apiserver stores no such object.
fn read<T: DeserializeOwned>(object: Object) -> Option<T> {
    let what = format!("{}/{}", object::namespace(&object), object::name(&object));
    match serde_json::from_value(object) {
        Ok(read) => Some(read),
        Err(error) => {
            tracing::warn!(%what, %error, "an object is not what its kind says");
            None
        }
    }
}

fn of_namespace(kind: &Arc<Kind>, object: &Object) -> (Arc<Kind>, Option<String>) {
    let namespace = object::namespace(object).to_owned();
    (Arc::clone(kind), Some(namespace))
}

/// True if the response to a write shows an object that nothing holds any longer.
pub(crate) fn is_gone(object: &Object) -> bool {
    object::is_deleting(object)
        && object::finalizers(object).next().is_none()
        && object::deletion_grace_seconds(object).unwrap_or(0) == 0
        && object::items(object, &["spec", "finalizers"]).is_empty()
}
