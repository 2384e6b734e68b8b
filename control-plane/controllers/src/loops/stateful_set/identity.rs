//! What makes a pod the one of its ordinal: its name, labels, host name and volumes.

use std::ops::Range;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{REVISION, claims};
use crate::meta::{self, Labels};
use crate::{pods, revisions};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// The name of the set and the ordinal in the name of a pod.
pub(super) fn parts(name: &str) -> Option<(&str, i64)> {
    let (set, ordinal) = name.rsplit_once('-')?;
    let number: i32 = ordinal.parse().ok()?;
    (number.to_string() == ordinal).then_some((set, i64::from(number)))
}

/// True if an object has the name of one of the set's pods.
pub(super) fn is_member(set: &StatefulSet, metadata: &ObjectMeta) -> bool {
    let parts = parts(meta::name(metadata));
    parts.is_some_and(|(name, _)| name == meta::name(&set.metadata))
}

/// The ordinal of a pod of a set.
pub(super) fn ordinal(pod: &Pod) -> i64 {
    parts(meta::name(&pod.metadata)).map_or(-1, |(_, ordinal)| ordinal)
}

/// The ordinals that a set should have.
pub(super) fn ordinals(spec: &StatefulSetSpec) -> Range<i64> {
    let start = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start);
    let start = i64::from(start.unwrap_or(0));
    start..start + i64::from(spec.replicas.unwrap_or(1)).max(0)
}

pub(super) fn pod_name(set: &StatefulSet, ordinal: i64) -> String {
    format!("{}-{ordinal}", meta::name(&set.metadata))
}

/// The labels that name a pod and its ordinal.
pub(super) fn labels(set: &StatefulSet, ordinal: i64) -> Labels {
    Labels::from([
        (POD_NAME.to_owned(), pod_name(set, ordinal)),
        (POD_INDEX.to_owned(), ordinal.to_string()),
    ])
}

/// True if a pod of the set says its own name.
pub(super) fn is_named(pod: &Pod) -> bool {
    meta::label(&pod.metadata, POD_NAME) == Some(meta::name(&pod.metadata))
}

/// The pod of an ordinal in the form of a revision; `None` if the revision cannot be restored.
pub(super) fn new_pod(
    set: &StatefulSet,
    revision: &ControllerRevision,
    ordinal: i64,
) -> Option<Pod> {
    let restored = revisions::restored(set, revision)?;
    let mut pod = pods::from_template(set, &restored.spec?.template);
    let name = pod_name(set, ordinal);
    let mut all = labels(set, ordinal);
    all.insert(REVISION.into(), meta::name(&revision.metadata).into());
    pod.metadata.labels.get_or_insert_default().append(&mut all);
    pod.metadata.name = Some(name.clone());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name);
    let service = set.spec.as_ref().and_then(|of| of.service_name.clone());
    spec.subdomain = service.filter(|service| !service.is_empty());
    spec.volumes = claims::volumes(set, ordinal, spec.volumes.take());
    Some(pod)
}
