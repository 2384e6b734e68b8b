//! The scores: which of the fitting nodes is best for a pod.
//!
//! Each score is from 0 to 100; a node's total is their weighted sum, with the weights of
//! kube-scheduler's default profile.

mod images;
mod pods;
mod spread;
#[cfg(test)]
mod tests;

use crate::cache::Cache;
use crate::filters;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::resources::Resources;

/// The highest score of one kind.
const BEST: i64 = 100;

const WEIGHT_TAINTS: i64 = 3;
const WEIGHT_NODE_AFFINITY: i64 = 2;
const WEIGHT_SPREAD: i64 = 2;
const WEIGHT_PODS: i64 = 2;
const WEIGHT_FREE: i64 = 1;
const WEIGHT_BALANCE: i64 = 1;
const WEIGHT_IMAGES: i64 = 1;

/// The total score of every node, in the order of `nodes`.
pub fn total(cache: &Cache, pod: &PodInfo, nodes: &[&NodeInfo]) -> Vec<i64> {
    let mut totals = vec![0; nodes.len()];
    let mut add = |weight: i64, scores: Vec<i64>| {
        for (total, score) in totals.iter_mut().zip(scores) {
            *total += weight * score;
        }
    };
    let each = |of: &dyn Fn(&NodeInfo) -> i64| nodes.iter().map(|node| of(node)).collect();
    add(WEIGHT_TAINTS, taints(pod, nodes));
    if !pod.node_preferences.is_empty() {
        let found = each(&|node| node_affinity(pod, node));
        add(WEIGHT_NODE_AFFINITY, stretch(found, false));
    }
    if let Some(scores) = spread::scores(cache, pod, nodes) {
        add(WEIGHT_SPREAD, scores);
    }
    if let Some(scores) = pods::scores(cache, pod, nodes) {
        add(WEIGHT_PODS, scores);
    }
    add(WEIGHT_FREE, each(&|node| least_allocated(pod, node)));
    // Without requests, this score would send all such pods to the same best-balanced node.
    if pod.requests.cpu_milli != 0 || pod.requests.memory != 0 {
        add(WEIGHT_BALANCE, each(&|node| balance(pod, node)));
    }
    if let Some(scores) = images::scores(cache, pod, nodes) {
        add(WEIGHT_IMAGES, scores);
    }
    totals
}

/// Fewer untolerated `PreferNoSchedule` taints are better.
fn taints(pod: &PodInfo, nodes: &[&NodeInfo]) -> Vec<i64> {
    let found = nodes.iter().map(|node| {
        let soft = node
            .taints
            .iter()
            .filter(|one| one.effect == "PreferNoSchedule");
        soft.filter(|taint| !filters::tolerated(&pod.tolerations, taint))
            .count() as i64
    });
    stretch(found.collect(), true)
}

/// The sum of the weights of the matching preferences.
fn node_affinity(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let preferences = pod.node_preferences.iter();
    let held = preferences.filter(|(_, terms)| terms.matches(&node.name, &node.labels));
    held.map(|(weight, _)| weight).sum()
}

/// The free share of CPU and memory, averaged.
fn least_allocated(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let (mut sum, mut kinds) = (0, 0);
    for (has, used, need) in processor_and_memory(node, &node.scored, &pod.scored) {
        if has > 0 {
            let requested = used + need;
            sum += if requested > has {
                0
            } else {
                (has - requested) * BEST / has
            };
            kinds += 1;
        }
    }
    if kinds == 0 { 0 } else { sum / kinds }
}

/// Whether the pod brings the used shares of CPU and memory closer together: 75 if it changes
/// nothing, up to 100 if it does, down to 50 if it moves them apart.
fn balance(pod: &PodInfo, node: &NodeInfo) -> i64 {
    let shares = processor_and_memory(node, &node.requested, &pod.requests);
    let score = |with_pod: bool| {
        let shares = shares.iter().filter(|(has, ..)| *has > 0);
        let shares = shares.map(|(has, used, need)| {
            let used = used + if with_pod { *need } else { 0 };
            (used as f64 / *has as f64).min(1.0)
        });
        let apart = match shares.collect::<Vec<f64>>()[..] {
            [cpu, memory] => ((cpu - memory) / 2.0).abs(),
            _ => 0.0,
        };
        ((1.0 - apart) * BEST as f64) as i64
    };
    BEST / 2 + (BEST / 2 + score(true) - score(false)) / 2
}

fn processor_and_memory(
    node: &NodeInfo,
    used: &Resources,
    need: &Resources,
) -> [(i64, i64, i64); 2] {
    let has = &node.allocatable;
    [
        (has.cpu_milli, used.cpu_milli, need.cpu_milli),
        (has.memory, used.memory, need.memory),
    ]
}

/// Scales values so that the largest becomes 100; or 0, if less is better.
fn stretch(mut found: Vec<i64>, less_is_better: bool) -> Vec<i64> {
    let most = found.iter().copied().max().unwrap_or(0);
    for score in &mut found {
        if most > 0 {
            *score = *score * BEST / most;
        }
        if less_is_better {
            *score = BEST - *score;
        }
    }
    found
}
