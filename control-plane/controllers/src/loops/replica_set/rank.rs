//! The order in which extra pods are deleted: the least valuable first.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use machinery::time::Timestamp;

use super::replicated::Replicated;
use crate::cache::Caches;
use crate::known::Shared;
use crate::loops::Context;
use crate::{meta, pods};

const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// The rank of a pod; the smallest is deleted first.
///
/// In order: whether it is on a node, its phase, whether it is ready, its deletion-cost annotation,
/// how many sibling pods are on its node, how long it has been ready, its restarts, and its age.
/// The two times are powers of two, so that small differences leave the choice to the next rule.
/// The name comes last and makes the order total.
type Worth<'a> = (
    bool,
    u8,
    bool,
    i64,
    Reverse<usize>,
    u32,
    Reverse<i32>,
    u32,
    &'a str,
);

/// Selects `count` pods to delete.
pub(super) fn victims<'a, T: Replicated>(
    context: &Context<'_>,
    set: &T,
    active: &[&'a Shared<Pod>],
    count: usize,
) -> Vec<&'a Shared<Pod>> {
    let crowds = crowds(context.caches, set, active);
    let worth = |pod: &'a Pod| -> Worth<'a> {
        let phase = match pods::phase(pod) {
            "Pending" => 0,
            "Running" => 2,
            _ => 1,
        };
        let cost = meta::annotation(&pod.metadata, COST);
        let bucket = |since: Timestamp| (context.now.since(since).as_secs() + 1).ilog2();
        let ready = pods::ready_since(pod);
        let node = pods::node(pod);
        (
            !node.is_empty(),
            phase,
            ready.is_some(),
            cost.and_then(|cost| cost.parse().ok()).unwrap_or(0),
            Reverse(crowds.get(node).copied().unwrap_or(0)),
            ready.map_or(0, bucket),
            Reverse(pods::restarts(pod)),
            bucket(meta::created(&pod.metadata)),
            meta::name(&pod.metadata),
        )
    };
    let mut ranked: Vec<(Worth<'_>, &Shared<Pod>)> =
        active.iter().map(|pod| (worth(pod), *pod)).collect();
    ranked.sort_by(|a, b| a.0.cmp(&b.0));
    ranked.into_iter().take(count).map(|(_, pod)| pod).collect()
}

/// The number of active pods on each node, of this set and other sets of the same owner.
fn crowds<T: Replicated>(
    caches: &Caches,
    set: &T,
    active: &[&Shared<Pod>],
) -> BTreeMap<String, usize> {
    let mut crowds = BTreeMap::new();
    let mut count = |pod: &Pod| {
        if pods::is_active(pod) && !pods::node(pod).is_empty() {
            *crowds.entry(pods::node(pod).to_owned()).or_insert(0) += 1;
        }
    };
    match meta::controller(set.metadata()) {
        None => active.iter().for_each(|pod| count(pod)),
        Some(owner) => {
            let siblings = T::all(caches).controlled_by(&owner.uid);
            siblings
                .flat_map(|set| caches.pods.controlled_by(meta::uid(set.metadata())))
                .for_each(|pod| count(pod));
        }
    }
    crowds
}
