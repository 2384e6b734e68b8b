//! The score for preferred pod affinity and anti-affinity: the pod's own preferences, and those of
//! existing pods.

use std::collections::HashMap;

use super::BEST;
use crate::affinity::PodTerm;
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
    for (wishes, places) in cache.index().wishes() {
        let must = wishes.affinity.iter();
        let must = must.map(|term| (HARD_WISH_OF_OTHERS, term));
        let rather = wishes.preferences.iter();
        for (weight, term) in must.chain(rather.map(|(weight, term)| (*weight, term))) {
            if term.selects(&pod.namespace, &pod.labels, namespaces) {
                add(&mut worth, term, cache.places(places), weight);
            }
        }
    }
    if !pod.pod_preferences.is_empty() {
        for (namespace, labels, places) in cache.index().groups() {
            for (weight, term) in &pod.pod_preferences {
                if term.selects(namespace, labels, namespaces) {
                    add(&mut worth, term, cache.places(places), *weight);
                }
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

fn add<'a>(
    worth: &mut Worth<'a>,
    term: &'a PodTerm,
    places: impl Iterator<Item = (&'a NodeInfo, i64)>,
    weight: i64,
) {
    for (node, pods) in places {
        if let Some(value) = node.labels.get(&term.key) {
            let values = worth.entry(&term.key).or_default();
            *values.entry(value).or_default() += weight * pods;
        }
    }
}
