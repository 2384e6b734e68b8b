//! The names of a set's pods, and the ordinals in them.

use std::ops::Range;

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::meta;

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
