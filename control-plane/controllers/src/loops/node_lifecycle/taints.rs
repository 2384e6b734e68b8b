//! The taints that follow from a node's conditions.
//!
//! Taints that evict pods are set for one node at a time. They are not set while every node is
//! silent: then it is more likely that this process cannot reach the nodes.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::json;

use super::{LOOK, condition, is_ready};
use crate::decision::{Decision, change};
use crate::known::Shared;
use crate::loops::Context;
use crate::meta;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(super) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
pub(crate) const NO_EXECUTE: &str = "NoExecute";
const NO_SCHEDULE: &str = "NoSchedule";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Condition, status, and the taint for that status.
const OF_CONDITIONS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    (
        "MemoryPressure",
        "True",
        "node.kubernetes.io/memory-pressure",
    ),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    (
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
    ),
];

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
/// Delay between two nodes of a zone: 0.1 nodes per second.
const BETWEEN: Duration = Duration::from_secs(10);
/// Delay in a large zone in which at least [`SICK_PERCENT`] of the nodes are not ready.
const BETWEEN_SICK: Duration = Duration::from_secs(100);
const SICK_PERCENT: usize = 55;
/// In such a zone with at most this many nodes, no node gets an evicting taint.
const LARGE: usize = 50;

/// Writes the taints if they differ from what the conditions require.
pub(super) fn bring(context: &Context<'_>, node: &Node, into: &mut Decision) {
    let spec = node.spec.clone().unwrap_or_default();
    let has = spec.taints.unwrap_or_default();
    let mut wanted: Vec<Taint> = has
        .iter()
        .filter(|taint| !is_ours(taint))
        .cloned()
        .collect();
    let mut want = |key: &str, effect: &str| {
        let old = has
            .iter()
            .find(|taint| taint.key == key && taint.effect == effect);
        wanted.push(old.cloned().unwrap_or_else(|| Taint {
            key: key.into(),
            effect: effect.into(),
            time_added: Some(meta::time(context.now)),
            value: None,
        }));
    };
    for (kind, status, taint) in OF_CONDITIONS {
        if condition(node, kind).is_some_and(|has| has.status == status) {
            want(taint, NO_SCHEDULE);
        }
    }
    if spec.unschedulable == Some(true) {
        want(UNSCHEDULABLE, NO_SCHEDULE);
    }
    let ready = condition(node, "Ready").map(|ready| ready.status.as_str());
    let sends_off = match ready {
        Some("False") => Some(NOT_READY),
        Some("Unknown") => Some(UNREACHABLE),
        _ => None,
    };
    if let Some(key) = sends_off {
        let executes = |taint: &&Taint| taint.effect == NO_EXECUTE && is_ours(taint);
        let already = has.iter().any(|taint| executes(&taint));
        match delay(context, node) {
            // A node that is already tainted keeps `NoExecute`; only the key may change.
            _ if already => want(key, NO_EXECUTE),
            Some(delay) if delay.is_zero() => want(key, NO_EXECUTE),
            Some(delay) => into.again(delay),
            None => into.again(LOOK),
        }
    }
    let order = |taints: &[Taint]| {
        let mut pairs: Vec<(String, String)> = taints
            .iter()
            .map(|t| (t.key.clone(), t.effect.clone()))
            .collect();
        pairs.sort();
        pairs
    };
    if order(&wanted) != order(&has) {
        into.push(change(node, json!({"spec": {"taints": wanted}})));
    }
}

/// True for a taint that this loop sets and removes.
fn is_ours(taint: &Taint) -> bool {
    let of_condition = OF_CONDITIONS.iter().any(|(.., key)| taint.key == *key);
    match taint.effect.as_str() {
        NO_SCHEDULE => of_condition || taint.key == UNSCHEDULABLE,
        NO_EXECUTE => [NOT_READY, UNREACHABLE].contains(&taint.key.as_str()),
        _ => false,
    }
}

/// The delay before the node gets an evicting taint; `None` if it gets none for now.
fn delay(context: &Context<'_>, node: &Node) -> Option<Duration> {
    let all = context.caches.nodes.all();
    if all.into_iter().all(|one| !is_ready(one)) {
        return None;
    }
    let of_zone: Vec<&Shared<Node>> = context
        .caches
        .nodes
        .all()
        .filter(|one| zone(one) == zone(node))
        .collect();
    let silent = of_zone.iter().filter(|one| !is_ready(one)).count();
    // A zone that is wholly gone, beside others that are not, is emptied like a healthy one.
    let is_gone = silent == of_zone.len();
    let sick = !is_gone && silent > 2 && silent * 100 >= SICK_PERCENT * of_zone.len();
    let between = if !sick {
        BETWEEN
    } else if of_zone.len() > LARGE {
        BETWEEN_SICK
    } else {
        return None;
    };
    let emptied = of_zone.iter().flat_map(|one| one.spec.iter());
    let last = emptied
        .flat_map(|spec| spec.taints.iter().flatten())
        .filter(|taint| taint.effect == NO_EXECUTE && is_ours(taint))
        .filter_map(|taint| taint.time_added.as_ref().map(meta::stamp))
        .max();
    let left = last.and_then(|last| meta::left(last, between, context.now));
    Some(left.unwrap_or_default())
}

fn zone(node: &Node) -> (Option<&str>, Option<&str>) {
    (
        meta::label(&node.metadata, REGION),
        meta::label(&node.metadata, ZONE),
    )
}
