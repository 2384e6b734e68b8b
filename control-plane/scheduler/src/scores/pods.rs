//! The score for preferred pod affinity and anti-affinity: the pod's own preferences, and those of
//! existing pods.

use std::collections::HashMap;
use std::sync::Arc;

use super::BEST;
use crate::affinity::{Namespaces, PodTerm};
use crate::cache::Cache;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

/// The weight of an existing pod's required affinity to the pod. It is low because the existing
/// pod is already satisfied.
const HARD_WISH_OF_OTHERS: i64 = 1;

/// The sum of weights of each domain, by label and value.
type Worth<'a> = HashMap<&'a str, HashMap<&'a str, i64>>;

/// The score of every node; `None` if no preference applies.
pub(super) fn scores(cache: &Cache, pod: &PodInfo, nodes: &[&NodeInfo]) -> Option<Vec<i64>> {
    let mut worth = Worth::new();
    let namespaces = &cache.namespaces;
    if pod.pod_preferences.is_empty() {
        for (node, other) in cache.with_preferences() {
            wishes_of_other(&mut worth, pod, node, other, namespaces);
        }
    } else {
        for node in cache.nodes() {
            for other in node.pods.values() {
                for (weight, term) in &pod.pod_preferences {
                    if term.matches(other, namespaces) {
                        add(&mut worth, term, node, *weight);
                    }
                }
                wishes_of_other(&mut worth, pod, node, other, namespaces);
            }
        }
    }
    if worth.is_empty() {
        return None;
    }
    let found = nodes.iter().map(|node| {
        let domains = worth.iter().filter_map(|(key, values)| {
            let value = node.labels.get(*key)?;
            values.get(value.as_str())
        });
        domains.sum()
    });
    let found: Vec<i64> = found.collect();
    let (least, most) = (*found.iter().min()?, *found.iter().max()?);
    let stretched = found.iter().map(|score| match most - least {
        0 => 0,
        range => (BEST as f64 * ((score - least) as f64 / range as f64)) as i64,
    });
    Some(stretched.collect())
}

fn wishes_of_other<'a>(
    worth: &mut Worth<'a>,
    pod: &PodInfo,
    node: &'a NodeInfo,
    other: &'a Arc<PodInfo>,
    namespaces: &Namespaces,
) {
    let must = other
        .affinity
        .iter()
        .map(|term| (HARD_WISH_OF_OTHERS, term));
    let rather = other
        .pod_preferences
        .iter()
        .map(|(weight, term)| (*weight, term));
    for (weight, term) in must.chain(rather) {
        if term.matches(pod, namespaces) {
            add(worth, term, node, weight);
        }
    }
}

fn add<'a>(worth: &mut Worth<'a>, term: &'a PodTerm, node: &'a NodeInfo, weight: i64) {
    if let Some(value) = node.labels.get(&term.key) {
        let values = worth.entry(&term.key).or_default();
        *values.entry(value).or_default() += weight;
    }
}
