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
use crate::loops::node_lifecycle::{condition, patch_status};
use crate::loops::{Context, Loop};
use crate::{meta, pods};

const PERIOD: Duration = Duration::from_secs(20);
/// How long a node must be missing before its pods are deleted.
const MISSING: Duration = Duration::from_secs(40);
/// Number of finished pods that are kept.
const ENDED_MAX: usize = 12_500;
/// Maximum number of pods deleted in one turn.
const BURST: usize = 500;
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

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
        let caches = context.caches;
        let mut decision = Decision::nothing();
        let mut ended: Vec<&Shared<Pod>> = caches
            .pods
            .all()
            .filter(|pod| pods::is_finished(pod))
            .collect();
        ended.sort_by_key(|pod| rank(pod));
        let extra = ended.len().saturating_sub(ENDED_MAX);
        for pod in ended.into_iter().take(extra) {
            take(context, pod, None, &mut decision);
        }
        for place in caches.pods.places() {
            let of_place = || caches.pods.placed_at(place);
            let deleting = |pod: &&Shared<Pod>| meta::is_deleting(&pod.metadata);
            if place.is_empty() {
                of_place()
                    .filter(deleting)
                    .for_each(|pod| take(context, pod, None, &mut decision));
            } else if is_out_of_service(caches, place) {
                of_place()
                    .filter(deleting)
                    .for_each(|pod| take(context, pod, None, &mut decision));
            } else if caches.nodes.get("", place).is_none() {
                let pods = of_place().filter(|pod| is_abandoned(context, place, pod));
                take_from(context, place, pods, &mut decision);
            }
        }
        decision.steps.truncate(2 * BURST);
        decision
    }
}

/// Takes the pods of a node that is gone, if the apiserver does not have it either: the watch may lag
/// behind, and pods that run must not end on its account.
fn take_from<'a>(
    context: &Context<'_>,
    node: &str,
    pods: impl Iterator<Item = &'a Shared<Pod>>,
    into: &mut Decision,
) {
    let mut pods = pods.peekable();
    if pods.peek().is_none() {
        return;
    }
    let at = into.steps.len();
    into.push(Call::Get {
        kind: Arc::clone(kind_of::<Node>()),
        namespace: String::new(),
        name: node.to_owned(),
    })
    .absent = true;
    pods.for_each(|pod| take(context, pod, Some("PodGC: node no longer exists"), into));
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
    let ready = condition(node, "Ready").is_some_and(|ready| ready.status == "True");
    !ready && taints.any(|taint| taint.key == OUT_OF_SERVICE)
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
