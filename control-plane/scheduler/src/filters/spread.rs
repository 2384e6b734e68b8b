//! The filter for topology spread: no domain may exceed the emptiest one by more than the skew.

use std::collections::HashMap;

use crate::cache::Cache;
use crate::cache::index::Counted;
use crate::node::NodeInfo;
use crate::pod::{PodInfo, Spread};
use crate::refusal::{Filter, Refusal, refuse};

/// The number of counted pods in each domain, for each of the pod's constraints.
#[derive(Debug, Default)]
pub(super) struct Counts {
    domains: Vec<HashMap<String, i64>>,
    /// The count of the emptiest domain; 0 if there are fewer domains than `minDomains`.
    fewest: Vec<i64>,
}

impl Counts {
    pub(super) fn new(cache: &Cache, pod: &PodInfo) -> Counts {
        let spreads = &pod.spread;
        if spreads.is_empty() {
            return Counts::default();
        }
        let mut domains: Vec<HashMap<String, i64>> = vec![HashMap::new(); spreads.len()];
        let counted = spreads.iter().map(|spread| count(cache, spread, pod));
        let counted: Vec<Counted> = counted.collect();
        for node in cache.nodes() {
            if !spreads.iter().all(|one| node.labels.contains_key(&one.key)) {
                continue;
            }
            for (at, spread) in spreads.iter().enumerate() {
                if includes(spread, pod, node) {
                    let domain = node.labels[&spread.key].clone();
                    *domains[at].entry(domain).or_default() += counted[at].on(&node.name);
                }
            }
        }
        let fewest = spreads.iter().zip(&domains).map(|(spread, domains)| {
            let enough = domains.len() as i64 >= spread.min_domains;
            let fewest = domains.values().min().copied();
            // As in Go: without any domain, no node exceeds the skew.
            if enough {
                fewest.unwrap_or(i64::from(i32::MAX))
            } else {
                0
            }
        });
        let fewest = fewest.collect();
        Counts { domains, fewest }
    }

    pub(super) fn check(&self, pod: &PodInfo, node: &NodeInfo) -> Result<(), Refusal> {
        for (at, spread) in pod.spread.iter().enumerate() {
            let filter = Filter::PodTopologySpread;
            let Some(domain) = node.labels.get(&spread.key) else {
                let reason =
                    "node(s) didn't match pod topology spread constraints (missing required label)";
                return Err(refuse(filter, reason, false));
            };
            let ours = i64::from(spread.who.is(pod));
            let there = self.domains[at].get(domain).copied().unwrap_or(0);
            if there + ours - self.fewest[at] > spread.max_skew {
                let reason = "node(s) didn't match pod topology spread constraints";
                return Err(refuse(filter, reason, true));
            }
        }
        Ok(())
    }
}

/// True if the pods of a node count for the constraint.
pub(crate) fn includes(spread: &Spread, pod: &PodInfo, node: &NodeInfo) -> bool {
    let affinity = !spread.honor_affinity || super::node_affinity(pod, node);
    affinity && (!spread.honor_taints || !super::untolerated(pod, node))
}

/// The pods that count for the constraint.
pub(crate) fn count<'a>(cache: &'a Cache, spread: &Spread, pod: &PodInfo) -> Counted<'a> {
    cache.index().counted(&pod.namespace, &spread.who)
}
