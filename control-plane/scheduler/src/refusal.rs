//! Why a pod may not go to a node, and why no node fits it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The filters, in the order in which they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Filter {
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    NodeDeclaredFeatures,
}

/// Why a node was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub filter: Filter,
    pub reasons: Vec<Cow<'static, str>>,
    /// Whether the removal of other pods could make the node fit.
    pub resolvable: bool,
}

/// Why no node fits a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unfit {
    /// There are no nodes at all.
    NoNodes,
    /// No node was checked: the pod contradicts itself, or its claims cannot be used.
    Nowhere {
        nodes: usize,
        filter: Filter,
        reason: String,
    },
    /// Every node was refused.
    Refused {
        nodes: usize,
        refusals: Vec<Refusal>,
        /// Number of nodes not checked, because the pod names other nodes.
        absent: usize,
        /// Why no pod is preempted for it; `None` if some are.
        unhelped: Option<Unhelped>,
        /// A claim of the pod that is deallocated, so that it may find devices elsewhere.
        freed: Option<Box<Freed>>,
    },
}

/// A claim that loses its devices, because its pod cannot go where they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Freed {
    pub claim: String,
    pub uid: String,
    /// The state of the claim that was looked at.
    pub version: String,
}

/// Why no pod is preempted for one that no node takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unhelped {
    /// It must not preempt any.
    NotEligible(&'static str),
    /// No node would take it without the pods of less priority either: the reasons of those that could
    /// have, one or more of each.
    InVain(Vec<Cow<'static, str>>),
}

/// The reason in kube-scheduler's words.
impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (nodes, refusals, absent, unhelped, freed) = match self {
            Unfit::NoNodes => return f.write_str("no nodes available to schedule pods"),
            Unfit::Nowhere {
                nodes,
                filter: Filter::DynamicResources,
                reason,
            } => {
                return write!(
                    f,
                    "0/{nodes} nodes are available: {reason}. no new claims to deallocate, \
                     preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful \
                     for scheduling."
                );
            }
            // kube-scheduler finds nothing that it could take back, which is what it says at the end.
            Unfit::Nowhere { nodes, reason, .. } => {
                return write!(f, "0/{nodes} nodes are available: {reason}. not found");
            }
            Unfit::Refused {
                nodes,
                refusals,
                absent,
                unhelped,
                freed,
            } => (nodes, refusals, absent, unhelped, freed),
        };
        let elsewhere = "node(s) didn't satisfy plugin(s) [NodeAffinity]";
        let reasons = refusals.iter().flat_map(|one| &one.reasons);
        let reasons = reasons.map(|reason| (reason.as_ref(), 1));
        write_counts(f, *nodes, reasons.chain([(elsewhere, *absent)]))?;
        let Some(unhelped) = unhelped else {
            return Ok(());
        };
        let mut filters = refusals.iter().map(|one| one.filter);
        f.write_str(if freed.is_some() {
            " deallocation of ResourceClaim completed,"
        } else if filters.any(|one| one == Filter::DynamicResources) {
            " still not schedulable,"
        } else {
            " no new claims to deallocate,"
        })?;
        f.write_str(" preemption: ")?;
        match unhelped {
            Unhelped::NotEligible(why) => f.write_str(why),
            Unhelped::InVain(reasons) => {
                let could = refusals.iter().filter(|one| one.resolvable).count();
                let reasons = reasons.iter().map(|reason| (reason.as_ref(), 1));
                let others = ("Preemption is not helpful for scheduling", nodes - could);
                write_counts(f, *nodes, reasons.chain([others]))
            }
        }
    }
}

pub(crate) fn refuse(filter: Filter, reason: &'static str, resolvable: bool) -> Refusal {
    Refusal {
        filter,
        reasons: vec![Cow::Borrowed(reason)],
        resolvable,
    }
}

fn write_counts<'a>(
    f: &mut std::fmt::Formatter<'_>,
    nodes: usize,
    reasons: impl Iterator<Item = (&'a str, usize)>,
) -> std::fmt::Result {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (reason, count) in reasons.filter(|(_, count)| *count > 0) {
        *counts.entry(reason).or_default() += count;
    }
    // Sorted as text including the number, as in Go: "10 .." comes before "2 ..".
    let texts = counts
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"));
    let texts: BTreeSet<String> = texts.collect();
    let texts: Vec<String> = texts.into_iter().collect();
    write!(f, "0/{nodes} nodes are available: {}.", texts.join(", "))
}
