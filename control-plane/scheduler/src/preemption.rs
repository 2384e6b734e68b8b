//! Preemption: which pods of less priority leave a node, so that it takes a pod that no node takes.
//!
//! On each node that refused the pod for what is there, all pods of less priority are taken off. If
//! the pod fits then, as many of them as possible come back: first those that a disruption budget
//! protects, the more important ones before others. Of the nodes, the one is chosen where the least
//! is lost.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::budgets::Budgets;
use crate::cache::{Cache, Lifted};
use crate::claims::Claims;
use crate::filters::Prepared;
use crate::pod::PodInfo;
use crate::refusal::{Refusal, Unhelped};

/// The number of nodes to choose from: a share of those that could help, in percent, but not less than
/// the second number.
const NODES_PERCENT: usize = 10;
const NODES_LEAST: usize = 100;

/// The pods that leave a node.
#[derive(Debug)]
pub struct Victims {
    pub node: String,
    /// The most important one first; never empty.
    pub pods: Vec<Arc<PodInfo>>,
    /// The number of those that a budget protects.
    broken: usize,
}

/// A search for nodes that take a pod if others leave them.
#[derive(Debug)]
pub struct Trial<'a> {
    /// Changed meanwhile, and the same as before in the end.
    pub cache: &'a mut Cache,
    pub claims: &'a Claims,
    pub pod: &'a PodInfo,
    pub prepared: Prepared,
    /// The pods that it must leave room for, by node.
    pub before: BTreeMap<String, Vec<Arc<PodInfo>>>,
    pub budgets: &'a Budgets,
}

/// Whether a pod may preempt others, if its nominated node refused it like this.
pub fn may_preempt(
    cache: &Cache,
    pod: &PodInfo,
    nominated: Option<(&str, &Refusal)>,
) -> Result<(), Unhelped> {
    let spec = pod.pod.spec.as_ref();
    let policy = spec.and_then(|spec| spec.preemption_policy.as_deref());
    if policy == Some("Never") {
        let why = "not eligible due to preemptionPolicy=Never.";
        return Err(Unhelped::NotEligible(why));
    }
    let node = nominated
        .filter(|(_, refusal)| refusal.resolvable)
        .and_then(|(name, _)| cache.node(name));
    let mut there = node.into_iter().flat_map(|node| node.pods.values());
    if there.any(|other| other.priority < pod.priority && other.preempted) {
        let why = "not eligible due to a terminating pod on the nominated node.";
        return Err(Unhelped::NotEligible(why));
    }
    Ok(())
}

impl Trial<'_> {
    /// The pods that leave one of these nodes, each of which could help. The search begins at `start`.
    pub fn run(mut self, nodes: &[&str], start: usize) -> Result<Victims, Unhelped> {
        let enough = (nodes.len() * NODES_PERCENT / 100).max(NODES_LEAST);
        let (mut found, mut reasons): (Vec<Victims>, _) = (Vec::new(), Vec::new());
        let (before, after) = nodes.split_at(start.min(nodes.len()));
        for node in after.iter().chain(before) {
            match self.victims(node) {
                Ok(victims) => found.push(victims),
                Err(why) => reasons.extend(why),
            }
            if found.len() >= enough && found.iter().any(|one| one.broken == 0) {
                break;
            }
        }
        let best = found.into_iter().min_by_key(Victims::loss);
        best.ok_or(Unhelped::InVain(reasons))
    }

    /// Those that leave this node, or why that does not help.
    fn victims(&mut self, node: &str) -> Result<Victims, Vec<Cow<'static, str>>> {
        let less = |pod: &&Arc<PodInfo>| pod.priority < self.pod.priority;
        let there = self.cache.node(node).into_iter();
        let mut there: Vec<Arc<PodInfo>> = there
            .flat_map(|node| node.pods.values())
            .filter(less)
            .cloned()
            .collect();
        if there.is_empty() {
            return Err(vec!["No preemption victims found for incoming pod".into()]);
        }
        there.sort_by_key(|pod| importance(pod));
        let lifted = there.iter().filter_map(|pod| self.cache.lift(&pod.uid));
        let lifted: Vec<Lifted> = lifted.collect();
        if let Err(refusal) = self.fits(node) {
            lifted.into_iter().for_each(|one| self.cache.put_back(one));
            return Err(refusal.reasons);
        }
        let broken = self.budgets.broken_by(there.iter().map(|pod| &**pod));
        let (protected, others): (Vec<_>, Vec<_>) = lifted
            .into_iter()
            .zip(broken)
            .partition(|(_, broken)| *broken);
        let mut victims = Vec::new();
        let mut broken = 0;
        for (one, is_protected) in protected.into_iter().chain(others) {
            if let Some(victim) = self.spare(one, node) {
                broken += usize::from(is_protected);
                victims.push(victim);
            }
        }
        let mut pods: Vec<Arc<PodInfo>> = victims.iter().map(|one| one.pod.clone()).collect();
        victims.into_iter().for_each(|one| self.cache.put_back(one));
        pods.sort_by_key(|pod| importance(pod));
        if pods.is_empty() {
            let why = format!("expected at least one victim pod on node {node:?}");
            return Err(vec![why.into()]);
        }
        Ok(Victims {
            node: node.to_owned(),
            pods,
            broken,
        })
    }

    /// Puts a pod back on the node; returns it, taken off again, if it cannot stay.
    fn spare(&mut self, one: Lifted, node: &str) -> Option<Lifted> {
        let uid = one.pod.uid.clone();
        self.cache.put_back(one);
        if self.fits(node).is_ok() {
            return None;
        }
        self.cache.lift(&uid)
    }

    /// Whether the pod fits the node as the cache has it, with and without those that it must leave
    /// room for. They may be what it needs nearby, but need not come.
    fn fits(&mut self, node: &str) -> Result<(), Refusal> {
        let others = self.before.get(node).cloned().unwrap_or_default();
        if !others.is_empty() {
            for other in &others {
                self.cache.assume(other, node);
            }
            let with_them = self.check(node);
            for other in &others {
                self.cache.forget(&other.uid);
            }
            with_them?;
        }
        self.check(node)
    }

    fn check(&mut self, node: &str) -> Result<(), Refusal> {
        self.prepared.count_again(self.cache, self.pod);
        let node = self.cache.node(node).expect("a node that refused a pod");
        self.prepared.check(self.claims, self.pod, node)
    }
}

impl Victims {
    /// What is lost with them; the smallest loss is chosen.
    fn loss(&self) -> (usize, i32, i64, usize, Reverse<Timestamp>) {
        let highest = self.pods.first().map_or(i32::MIN, |pod| pod.priority);
        // As in Go, so that one more pod of a negative priority is no gain.
        let lifted = |pod: &Arc<PodInfo>| i64::from(pod.priority) + i64::from(i32::MAX) + 1;
        let highest_ones = self.pods.iter().filter(|pod| pod.priority == highest);
        let since = highest_ones.map(|pod| since(pod)).min();
        (
            self.broken,
            highest,
            self.pods.iter().map(lifted).sum(),
            self.pods.len(),
            Reverse(since.unwrap_or(Timestamp::MAX)),
        )
    }
}

/// Sorts the most important first: a higher priority, or an earlier start.
fn importance(pod: &PodInfo) -> (Reverse<i32>, Timestamp) {
    (Reverse(pod.priority), since(pod))
}

/// A pod that has not started counts as one that starts now.
fn since(pod: &PodInfo) -> Timestamp {
    pod.started.unwrap_or(Timestamp::MAX)
}
