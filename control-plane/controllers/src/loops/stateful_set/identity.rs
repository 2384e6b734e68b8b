//! What makes a pod the one of its ordinal: its labels, host name and volumes.

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::Pod;

use super::claims;
use super::names::pod_name;
use crate::cache::REVISION_HASH;
use crate::meta::{self, Labels};
use crate::{pods, revisions};

const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

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
    all.insert(REVISION_HASH.into(), meta::name(&revision.metadata).into());
    pod.metadata.labels.get_or_insert_default().append(&mut all);
    pod.metadata.name = Some(name.clone());
    let spec = pod.spec.get_or_insert_default();
    spec.hostname = Some(name);
    let service = set.spec.as_ref().and_then(|of| of.service_name.clone());
    spec.subdomain = service.filter(|service| !service.is_empty());
    spec.volumes = claims::volumes(set, ordinal, spec.volumes.take());
    Some(pod)
}
