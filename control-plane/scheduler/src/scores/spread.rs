//! The score for preferred topology spread: fewer counted pods in the node's domains are better.

use std::borrow::Cow;
use std::collections::HashMap;

use super::BEST;
use crate::cache::Cache;
use crate::cache::index::Counted;
use crate::filters::spread::{count, includes};
use crate::node::NodeInfo;
use crate::pod::{PodInfo, Spread, Who, default_spread};

const HOSTNAME: &str = "kubernetes.io/hostname";

/// The score of every node; `None` if the pod has no preference.
pub(super) fn scores(cache: &Cache, pod: &PodInfo, nodes: &[&NodeInfo]) -> Option<Vec<i64>> {
    let spreads = preferences(cache, pod);
    if spreads.is_empty() {
        return None;
    }
    // With the default constraints, a node without a zone still counts, by its name.
    let ignored = |node: &NodeInfo| {
        pod.names_spread && !spreads.iter().all(|one| node.labels.contains_key(&one.key))
    };
    let counted: Vec<&&NodeInfo> = nodes.iter().filter(|node| !ignored(node)).collect();
    let pods: Vec<Counted> = spreads.iter().map(|one| count(cache, one, pod)).collect();
    let domains: Vec<HashMap<&str, i64>> = spreads
        .iter()
        .zip(&pods)
        .map(|(spread, pods)| domains(cache, pod, (spread, pods), &counted, &ignored))
        .collect();
    let found = nodes.iter().map(|node| {
        if ignored(node) {
            return None;
        }
        let mut score = 0.0;
        for ((spread, there), domains) in spreads.iter().zip(&pods).zip(&domains) {
            let Some(domain) = node.labels.get(&spread.key) else {
                continue;
            };
            let (pods, size) = if spread.key == HOSTNAME {
                (there.on(&node.name), counted.len())
            } else {
                (
                    domains.get(domain.as_str()).copied().unwrap_or(0),
                    domains.len(),
                )
            };
            // Constraints with few domains weigh less, so that they do not dominate the others.
            let weight = ((size + 2) as f64).ln();
            score += pods as f64 * weight + (spread.max_skew - 1) as f64;
        }
        Some(score.round() as i64)
    });
    let found: Vec<Option<i64>> = found.collect();
    let most = found.iter().flatten().copied().max().unwrap_or(0);
    let least = found.iter().flatten().copied().min().unwrap_or(0);
    let stretched = found.into_iter().map(|score| match score {
        None => 0,
        Some(_) if most == 0 => BEST,
        Some(score) => BEST * (most + least - score) / most,
    });
    Some(stretched.collect())
}

/// The pod's own constraints, or the default ones.
fn preferences<'a>(cache: &Cache, pod: &'a PodInfo) -> Cow<'a, [Spread]> {
    let own = pod.spread_preferences.as_slice();
    if pod.names_spread || !own.is_empty() {
        return Cow::Borrowed(own);
    }
    let by_services = cache.services.selector(pod).map(Who::Selected);
    Cow::Owned(by_services.as_ref().map(default_spread).unwrap_or_default())
}

/// The number of counted pods in each domain of a candidate. For the key `hostname` this is empty:
/// the caller counts each candidate's own pods.
fn domains<'a>(
    cache: &'a Cache,
    pod: &PodInfo,
    (spread, pods): (&Spread, &Counted<'_>),
    candidates: &[&&'a NodeInfo],
    ignored: &dyn Fn(&NodeInfo) -> bool,
) -> HashMap<&'a str, i64> {
    let mut domains = HashMap::new();
    if spread.key == HOSTNAME {
        return domains;
    }
    for node in candidates {
        // Nodes without the label form a domain too, with an empty name.
        let domain = node.labels.get(&spread.key).map_or("", String::as_str);
        domains.insert(domain, 0);
    }
    for node in cache.nodes().filter(|node| !ignored(node)) {
        let domain = node.labels.get(&spread.key).map_or("", String::as_str);
        if let Some(sum) = domains.get_mut(domain)
            && includes(spread, pod, node)
        {
            *sum += pods.on(&node.name);
        }
    }
    domains
}
