//! Deletes pods that do not tolerate a taint of their node, at once or when a toleration ends.

#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};
use machinery::time::Timestamp;
use serde_json::json;

use crate::cache::{Caches, Changed, Diff};
use crate::decision::{Decision, Note, delete};
use crate::known::Key;
use crate::loops::node_lifecycle::{NO_EXECUTE, patch_status};
use crate::loops::{Context, Loop};
use crate::{meta, pods};

pub(crate) struct TaintEviction;

impl Loop for TaintEviction {
    fn name(&self) -> &'static str {
        "taint-eviction"
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::Pod(Diff {
                old,
                new: Some(pod),
            }) => {
                let moved = old.as_ref().is_none_or(|old| {
                    let same = |pod: &Pod| pod.spec.as_ref().map(|s| s.tolerations.clone());
                    pods::node(old) != pods::node(pod) || same(old) != same(pod)
                });
                if moved && !pods::node(pod).is_empty() {
                    wake(meta::key(&pod.metadata));
                }
            }
            Changed::Node(Diff { old, new }) => {
                let taints = |node: &Option<_>| node.as_deref().map(evicting).unwrap_or_default();
                if let Some(node) = new
                    && taints(old) != taints(new)
                {
                    let of_node = caches.pods.placed_at(meta::name(&node.metadata));
                    of_node.for_each(|pod| wake(meta::key(&pod.metadata)));
                }
            }
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        let Some(pod) = caches.pods.at(key).filter(|pod| pods::is_active(pod)) else {
            return Decision::nothing();
        };
        let Some(node) = caches.nodes.get("", pods::node(pod)) else {
            return Decision::nothing();
        };
        match patience(pod, &dated(caches, node), context.now) {
            Patience::Endless => Decision::nothing(),
            Patience::Until(end) if end > context.now => {
                let mut decision = Decision::nothing();
                decision.again(end.since(context.now));
                decision
            }
            Patience::Until(_) => evict(context, pod),
        }
    }
}

/// How long a pod may stay.
#[derive(Debug, PartialEq, Eq)]
enum Patience {
    Endless,
    Until(Timestamp),
}

fn evicting(node: &Node) -> Vec<Taint> {
    let taints = node
        .spec
        .iter()
        .flat_map(|spec| spec.taints.iter().flatten());
    taints
        .filter(|taint| taint.effect == NO_EXECUTE)
        .cloned()
        .collect()
}

/// The same, with the time at which it was first seen in one that names none.
fn dated(caches: &Caches, node: &Node) -> Vec<Taint> {
    let mut taints = evicting(node);
    for taint in taints.iter_mut().filter(|one| one.time_added.is_none()) {
        let seen = caches.taints_seen.since(meta::name(&node.metadata), taint);
        taint.time_added = seen.map(meta::time);
    }
    taints
}

/// A taint without a matching toleration ends the stay at once. Of several that match, the first
/// counts. Among those with a time limit, the earliest end counts.
fn patience(pod: &Pod, taints: &[Taint], now: Timestamp) -> Patience {
    let none = Vec::new();
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_ref());
    let tolerations = tolerations.unwrap_or(&none);
    let mut ends: Vec<Timestamp> = Vec::new();
    for taint in taints {
        let since = taint.time_added.as_ref().map_or(now, meta::stamp);
        // A pod that came after the taint may stay as long as one that was there before.
        let since = since.max(placed(pod));
        let tolerating = tolerations.iter().find(|one| tolerates(one, taint));
        let Some(tolerating) = tolerating else {
            return Patience::Until(now);
        };
        let limited = tolerating.toleration_seconds;
        ends.extend(limited.map(|limit| since.plus(meta::seconds(limit.max(0)))));
    }
    ends.into_iter()
        .min()
        .map_or(Patience::Endless, Patience::Until)
}

/// When a pod came to its node.
fn placed(pod: &Pod) -> Timestamp {
    let scheduled = pods::condition(pod, "PodScheduled").filter(|one| one.status == "True");
    let since = scheduled.and_then(|one| one.last_transition_time.as_ref());
    since.map_or_else(|| meta::created(&pod.metadata), meta::stamp)
}

pub(crate) fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let effect = text(&toleration.effect);
    let key = text(&toleration.key);
    let exists = toleration.operator.as_deref() == Some("Exists");
    (effect.is_empty() || effect == taint.effect)
        && (key == taint.key || key.is_empty() && exists)
        && (exists || text(&toleration.value) == text(&taint.value))
}

fn evict(context: &Context<'_>, pod: &Pod) -> Decision {
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": context.now.to_seconds(),
    });
    let mut decision = Decision::nothing();
    if pods::condition(pod, "DisruptionTarget").is_none() {
        decision.push(patch_status(pod, json!({"conditions": [condition]})));
    }
    let (namespace, name) = meta::key(&pod.metadata);
    let text = format!("Marking for deletion Pod {namespace}/{name}");
    decision
        .push(delete(pod))
        .tell(Note::new(pod, "TaintManagerEviction", text));
    decision
}
