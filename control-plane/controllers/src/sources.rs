//! The informers of the loops: one or two per kind, shared by all loops.

use std::sync::Arc;

use api_client::Informer;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, ReplicationController, Secret};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use k8s_openapi::api::storage::v1::{CSIDriver, StorageClass, VolumeAttachment};
use machinery::schema::Kind;

use crate::cache::{Caches, Destination};
use crate::known::kind_of;
use crate::loops::{bootstrap_tokens, root_ca};

/// The loops that read bootstrap tokens, and no other secret.
const TOKEN_READERS: [&str; 2] = ["bootstrap-signer", "token-cleaner"];

/// The informers of a kind and the caches each one feeds, if these loops run.
pub(crate) fn sources_of(
    kind: &Arc<Kind>,
    runs: impl Fn(&str) -> bool,
) -> Vec<(Informer, Destination)> {
    if let Some(fields) = selected(kind, &runs) {
        let some = Informer::of(Arc::clone(kind)).with_fields(&fields);
        let all = Informer::metadata_of(Arc::clone(kind));
        return vec![(all, Destination::Graph), (some, Destination::Store)];
    }
    let readers = only_readers(kind);
    if Caches::reads(kind) && (readers.is_empty() || readers.iter().any(|one| runs(one))) {
        vec![(Informer::of(Arc::clone(kind)), Destination::Both)]
    } else {
        vec![(Informer::metadata_of(Arc::clone(kind)), Destination::Graph)]
    }
}

/// The loops that read a kind, if no other loop does: without them its metadata is enough.
fn only_readers(kind: &Arc<Kind>) -> &'static [&'static str] {
    if kind == kind_of::<ControllerRevision>() {
        &["daemonset", "statefulset"]
    } else if kind == kind_of::<DaemonSet>() {
        &["daemonset"]
    } else if kind == kind_of::<StatefulSet>() {
        &["disruption", "statefulset"]
    } else if kind == kind_of::<ReplicationController>() {
        &["disruption", "replicationcontroller"]
    } else if kind == kind_of::<Secret>() {
        &TOKEN_READERS
    } else if kind == kind_of::<ClusterRole>() {
        &["clusterrole-aggregation"]
    } else if kind == kind_of::<CSIDriver>() || kind == kind_of::<VolumeAttachment>() {
        &["persistentvolume-attach-detach"]
    } else if kind == kind_of::<CronJob>() {
        &["cronjob"]
    } else if kind == kind_of::<Job>() {
        &["cronjob", "job", "ttl-after-finished"]
    } else if kind == kind_of::<Endpoints>() {
        &["endpoints", "endpointslice-mirroring"]
    } else if kind == kind_of::<EndpointSlice>() {
        &["endpointslice", "endpointslice-mirroring"]
    } else if kind == kind_of::<StorageClass>() {
        &["persistentvolume-binder"]
    } else if kind == kind_of::<HorizontalPodAutoscaler>() {
        &["horizontal-pod-autoscaler"]
    } else if kind == kind_of::<ResourceClaimTemplate>() {
        &["resourceclaim"]
    } else {
        &[]
    }
}

/// The selector of the few objects that the loops read of a kind whose objects may be many or
/// large.
fn selected(kind: &Arc<Kind>, runs: impl Fn(&str) -> bool) -> Option<String> {
    if kind == kind_of::<ConfigMap>() {
        // The signer reads one of another name, and there is no selector for both.
        (!runs("bootstrap-signer")).then(|| format!("metadata.name={}", root_ca::NAME))
    } else if kind == kind_of::<Secret>() {
        let is_read = TOKEN_READERS.iter().any(|one| runs(one));
        is_read.then(|| format!("type={}", bootstrap_tokens::TYPE))
    } else if kind == kind_of::<Lease>() {
        Some("metadata.namespace=kube-node-lease".to_owned())
    } else {
        None
    }
}
