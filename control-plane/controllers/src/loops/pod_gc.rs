//! Deletes pods that no node will delete: pods of nodes that are gone, pods deleted before they
//! were scheduled, and the oldest of too many finished pods.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use machinery::api::{Call, DeleteOptions};
use machinery::time::Timestamp;
use serde_json::json;

use crate::cache::{Caches, Changed};
use crate::decision::{Decision, delete_with};
use crate::known::{Key, Shared, kind_of};
use crate::loops::node_lifecycle::{is_ready, patch_status};
use crate::loops::{Context, Loop};
use crate::{meta, pods};

const PERIOD: Duration = Duration::from_secs(20);
/// How long a node must be missing before its pods are deleted.
const MISSING: Duration = Duration::from_secs(40);
/// Number of finished pods that are kept.
const ENDED_MAX: usize = 12_500;
/// Maximum number of pods deleted in one turn.
const BURST: usize = 1000;
/// The golden ratio, as a part of 2^64: its multiples spread evenly, whatever lies between them.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
pub(crate) const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

pub(crate) struct PodGc;

impl Loop for PodGc {
    fn name(&self) -> &'static str {
        "pod-garbage-collector"
    }

    fn wakes(&self, _: &Caches, _: &Changed, _: &mut dyn FnMut(Key)) {}

    fn period(&self) -> Option<Duration> {
        Some(PERIOD)
    }

    fn decide(&self, context: &Context<'_>, _: &Key) -> Decision {
        let mut decision = Decision::nothing();
        let victims = of_this_turn(victims(context), context.now);
        for alike in victims.chunk_by(|one, next| one.gone == next.gone) {
            take_alike(context, alike, &mut decision);
        }
        decision
    }
}

/// A pod to delete.
struct Victim<'a> {
    pod: &'a Shared<Pod>,
    /// Its node, if the pod goes because that is gone.
    gone: Option<&'a str>,
}

/// All pods to delete; those of one node follow each other.
fn victims<'a>(context: &Context<'a>) -> Vec<Victim<'a>> {
    let caches = context.caches;
    let finished = caches.pods.all().filter(|pod| pods::is_finished(pod));
    let mut ended: Vec<&Shared<Pod>> = finished.collect();
    ended.sort_by_key(|pod| rank(pod));
    ended.truncate(ended.len().saturating_sub(ENDED_MAX));
    let mut all: Vec<Victim<'_>> = Vec::new();
    all.extend(ended.into_iter().map(|pod| Victim { pod, gone: None }));
    for place in caches.pods.places() {
        let pods = caches.pods.placed_at(place);
        if place.is_empty() || is_out_of_service(caches, place) {
            let deleting = pods.filter(|pod| meta::is_deleting(&pod.metadata));
            all.extend(deleting.map(|pod| Victim { pod, gone: None }));
        } else if caches.nodes.get("", place).is_none() {
            let abandoned = pods.filter(|pod| is_abandoned(context, place, pod));
            let gone = Some(place);
            all.extend(abandoned.map(|pod| Victim { pod, gone }));
        }
    }
    all
}

/// As many as one turn deletes. Each turn begins elsewhere: the first ones may be such that nobody
/// can delete, and must not keep the others for good. Not one burst further on each time: turns
/// that take long would come back to the same places.
fn of_this_turn<T>(mut all: Vec<T>, now: Timestamp) -> Vec<T> {
    if all.len() > BURST {
        let part = now.seconds.unsigned_abs().wrapping_mul(SPREAD) >> 32;
        let start = (part * all.len() as u64) >> 32;
        all.rotate_left(start as usize);
        all.truncate(BURST);
    }
    all
}

/// Takes pods of one node that is gone, if the apiserver does not have it either: the watch may lag
/// behind, and pods that run must not end on its account. Pods of no such node just go.
fn take_alike(context: &Context<'_>, alike: &[Victim<'_>], into: &mut Decision) {
    let gone = alike.first().and_then(|one| one.gone);
    let Some(node) = gone else {
        alike
            .iter()
            .for_each(|one| take(context, one.pod, None, into));
        return;
    };
    let at = into.steps.len();
    into.push(Call::Get {
        kind: Arc::clone(kind_of::<Node>()),
        namespace: String::new(),
        name: node.to_owned(),
    })
    .absent = true;
    let why = Some("PodGC: node no longer exists");
    for one in alike {
        take(context, one.pod, why, into);
    }
    let of_node = into.steps.len() - at - 1;
    into.steps[at].only_for(of_node);
}

/// The order in which finished pods go: those that were evicted, which no loop counts, then the
/// oldest.
fn rank(pod: &Pod) -> (bool, Timestamp) {
    let reason = pod.status.as_ref().and_then(|one| one.reason.as_deref());
    (reason != Some("Evicted"), meta::created(&pod.metadata))
}

/// True if the pod's node has been missing for [`MISSING`], as far as this process has seen.
fn is_abandoned(context: &Context<'_>, node: &str, pod: &Pod) -> bool {
    let (namespace, name) = meta::key(&pod.metadata);
    let known: Option<Timestamp> = context.caches.pods.since(&namespace, &name);
    let lost = context.caches.nodes.lost_at("", node);
    let since = known.max(lost).unwrap_or(context.now);
    meta::left(since, MISSING, context.now).is_none()
}

fn is_out_of_service(caches: &Caches, node: &str) -> bool {
    let Some(node) = caches.nodes.get("", node) else {
        return false;
    };
    let mut taints = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten());
    !is_ready(node) && taints.any(|taint| taint.key == OUT_OF_SERVICE)
}

/// Marks an unfinished pod as failed, and deletes it with a grace period of 0.
fn take(context: &Context<'_>, pod: &Pod, why: Option<&str>, into: &mut Decision) {
    if !pods::is_finished(pod) {
        let mut status = json!({"phase": "Failed"});
        if let Some(why) = why {
            status["conditions"] = json!([{
                "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
                "message": why, "lastTransitionTime": context.now.to_seconds(),
            }]);
        }
        into.push(patch_status(pod, status)).only_for(1);
    }
    let options = DeleteOptions {
        grace_seconds: Some(0),
        ..DeleteOptions::default()
    };
    into.push(delete_with(pod, options)).only_for(0);
}
