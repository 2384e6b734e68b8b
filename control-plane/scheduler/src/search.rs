//! The search for nodes that take a pod: all nodes of a small cluster, some of a large one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::cache::Cache;
use crate::claims::{Claims, Needs};
use crate::filters::{Counts, Prepared};
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::refusal::Refusal;
use crate::scores;

/// Below this number of nodes every node is checked; in larger clusters a share of them.
const LOOK_AT_ALL: usize = 100;
/// The smallest share of nodes to find, in percent.
const SHARE_LEAST: usize = 5;

/// A search for nodes: those that fit, and the refusals of those that do not.
pub(crate) struct Search<'a> {
    pod: &'a PodInfo,
    claims: &'a Claims,
    pub(crate) prepared: Prepared,
    crowded: Crowded,
    enough: usize,
    pub(crate) fit: Vec<&'a NodeInfo>,
    pub(crate) refused: Vec<(&'a NodeInfo, Refusal)>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        cache: &'a Cache,
        claims: &'a Claims,
        pod: &'a PodInfo,
        needs: Needs,
        crowded: Crowded,
        enough: usize,
    ) -> Search<'a> {
        Search {
            pod,
            claims,
            prepared: Prepared::new(cache, pod, needs),
            crowded,
            enough,
            fit: Vec::new(),
            refused: Vec::new(),
        }
    }

    pub(crate) fn look(&mut self, nodes: impl Iterator<Item = &'a NodeInfo>) {
        for node in nodes {
            match self.check(node) {
                Ok(()) => self.fit.push(node),
                Err(refusal) => self.refused.push((node, refusal)),
            }
            if self.fit.len() == self.enough {
                break;
            }
        }
    }

    fn check(&self, node: &NodeInfo) -> Result<(), Refusal> {
        let (claims, pod) = (self.claims, self.pod);
        if let Some((crowded, counts)) = self.crowded.get(&node.name) {
            self.prepared.check_by(counts, claims, pod, crowded)?;
        }
        self.prepared.check(claims, pod, node)
    }
}

/// The nodes that others are nominated for, as they will be when those have come.
pub(crate) type Crowded = HashMap<String, (NodeInfo, Counts)>;

pub(crate) fn crowded(
    cache: &mut Cache,
    pod: &PodInfo,
    before: &BTreeMap<String, Vec<Arc<PodInfo>>>,
) -> Crowded {
    let mut crowded = Crowded::new();
    for (name, others) in before {
        let is_known = cache.node(name).is_some_and(|node| node.known);
        if !is_known {
            continue;
        }
        others.iter().for_each(|other| cache.assume(other, name));
        if let Some(node) = cache.node(name).cloned() {
            crowded.insert(name.clone(), (node, Counts::new(cache, pod)));
        }
        for other in others {
            cache.forget(&other.uid);
        }
    }
    crowded
}

/// The number of fitting nodes after which a search ends.
pub(crate) fn enough(nodes: usize) -> usize {
    if nodes < LOOK_AT_ALL {
        return nodes;
    }
    let share = 50_usize.saturating_sub(nodes / 125).max(SHARE_LEAST);
    (nodes * share / 100).max(LOOK_AT_ALL)
}

/// The node with the highest score; ties are broken at random.
pub(crate) fn best(
    cache: &Cache,
    pod: &PodInfo,
    fit: &[&NodeInfo],
    random: &mut fastrand::Rng,
) -> String {
    if let [only] = fit {
        return only.name.clone();
    }
    let scores = scores::total(cache, pod, fit);
    let most = scores.iter().max().copied().unwrap_or(0);
    let best = fit.iter().zip(&scores).filter(|(_, score)| **score == most);
    let best: Vec<&NodeInfo> = best.map(|(node, _)| *node).collect();
    best[random.usize(..best.len())].name.clone()
}
