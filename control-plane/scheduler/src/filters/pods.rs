//! The filter for required pod affinity and anti-affinity.

use std::collections::HashMap;

use crate::affinity::PodTerm;
use crate::cache::Cache;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::refusal::{Filter, Refusal, refuse};

/// The number of pods in each domain, by label and value.
type Domains = HashMap<(String, String), i64>;

/// The pods in each domain, as far as the pod's rules and those of existing pods need them.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Existing pods that match all of the pod's affinity terms.
    wanted: Domains,
    /// Existing pods that match one of its anti-affinity terms.
    unwanted: Domains,
    /// Existing pods with an anti-affinity term that matches the pod.
    unwelcome: Domains,
    /// The pod matches its own terms, so it may be the first of its kind.
    own_kind: bool,
}

impl Counts {
    pub(super) fn new(cache: &Cache, pod: &PodInfo) -> Counts {
        let namespaces = &cache.namespaces;
        let selects = |term: &&PodTerm| term.selects(&pod.namespace, &pod.labels, namespaces);
        let mut counts = Counts::default();
        for (terms, places) in cache.index().anti_affinity() {
            for term in terms.iter().filter(selects) {
                count(&mut counts.unwelcome, term, cache.places(places));
            }
        }
        if pod.affinity.is_empty() && pod.anti_affinity.is_empty() {
            return counts;
        }
        for (namespace, labels, places) in cache.index().groups() {
            let fits = |term: &PodTerm| term.selects(namespace, labels, namespaces);
            if !pod.affinity.is_empty() && pod.affinity.iter().all(fits) {
                for term in &pod.affinity {
                    count(&mut counts.wanted, term, cache.places(places));
                }
            }
            for term in pod.anti_affinity.iter().filter(|term| fits(term)) {
                count(&mut counts.unwanted, term, cache.places(places));
            }
        }
        let mut terms = pod.affinity.iter();
        counts.own_kind = terms.all(|term| selects(&term));
        counts
    }

    pub(super) fn check(&self, pod: &PodInfo, node: &NodeInfo) -> Result<(), Refusal> {
        let filter = Filter::InterPodAffinity;
        if !self.near(pod, node) {
            let reason = "node(s) didn't match pod affinity rules";
            return Err(refuse(filter, reason, false));
        }
        let here = |domains: &Domains, key: &String| {
            let value = node.labels.get(key);
            value.is_some_and(|value| domains.contains_key(&(key.clone(), value.clone())))
        };
        let mut terms = pod.anti_affinity.iter();
        if terms.any(|term| here(&self.unwanted, &term.key)) {
            let reason = "node(s) didn't match pod anti-affinity rules";
            return Err(refuse(filter, reason, true));
        }
        let mut keys = node.labels.keys();
        if !self.unwelcome.is_empty() && keys.any(|key| here(&self.unwelcome, key)) {
            let reason = "node(s) didn't satisfy existing pods anti-affinity rules";
            return Err(refuse(filter, reason, true));
        }
        Ok(())
    }

    /// True if every affinity term has a pod in the node's domain, or if the pod is the first of
    /// its kind in the cluster and the node has the labels.
    fn near(&self, pod: &PodInfo, node: &NodeInfo) -> bool {
        let mut all_there = true;
        for term in &pod.affinity {
            let Some(value) = node.labels.get(&term.key) else {
                return false;
            };
            let domain = (term.key.clone(), value.clone());
            all_there &= self.wanted.contains_key(&domain);
        }
        all_there || (self.wanted.is_empty() && self.own_kind)
    }
}

fn count<'a>(
    domains: &mut Domains,
    term: &PodTerm,
    places: impl Iterator<Item = (&'a NodeInfo, i64)>,
) {
    for (node, pods) in places {
        if let Some(value) = node.labels.get(&term.key) {
            let domain = (term.key.clone(), value.clone());
            *domains.entry(domain).or_default() += pods;
        }
    }
}
