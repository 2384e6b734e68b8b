//! The filters: each checks one node for a pod; the first that refuses gives the reason.

mod pods;
pub(crate) mod spread;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Taint, Toleration};

use crate::cache::Cache;
use crate::claims::{Claims, Needs, Plan};
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::refusal::{Filter, Refusal, refuse};

/// Counts over all nodes that the filters need, computed once per pod.
#[derive(Debug)]
pub struct Prepared {
    counts: Counts,
    needs: Needs,
    /// Another pod has a claim that this one needs for itself.
    taken: bool,
}

impl Prepared {
    /// Computes the counts for a pod whose claims have these needs.
    pub fn new(cache: &Cache, pod: &PodInfo, needs: Needs) -> Prepared {
        Prepared {
            counts: Counts::new(cache, pod),
            taken: cache.index().has_claimed(needs.exclusive()),
            needs,
        }
    }

    /// Computes them again, after pods came or went.
    pub fn count_again(&mut self, cache: &Cache, pod: &PodInfo) {
        self.counts = Counts::new(cache, pod);
        self.taken = cache.index().has_claimed(self.needs.exclusive());
    }

    /// Ok if the pod may go to the node.
    pub fn check(&self, claims: &Claims, pod: &PodInfo, node: &NodeInfo) -> Result<(), Refusal> {
        self.check_by(&self.counts, claims, pod, node)
    }

    /// The same with other counts than its own.
    pub fn check_by(
        &self,
        counts: &Counts,
        claims: &Claims,
        pod: &PodInfo,
        node: &NodeInfo,
    ) -> Result<(), Refusal> {
        local(pod, node)?;
        if conflicts(pod, node) {
            let reason = "node(s) had no available disk";
            return Err(refuse(Filter::VolumeRestrictions, reason, true));
        }
        if self.taken {
            let reason = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod \
                 access mode already in-use by another pod";
            return Err(refuse(Filter::VolumeRestrictions, reason, true));
        }
        claims.check_limits(pod, node)?;
        self.needs.check_volumes(node)?;
        self.needs.check_zones(node)?;
        counts.spread.check(pod, node)?;
        counts.pods.check(pod, node)?;
        self.needs.check_devices(node)?;
        check_features(pod, node)
    }

    /// What the pod's claims ask for on the node that is chosen.
    pub fn plan(&self, node: &NodeInfo) -> Plan {
        self.needs.plan(node).unwrap_or_default()
    }
}

/// The pods in each domain, as the rules of one pod count them.
#[derive(Debug)]
pub struct Counts {
    spread: spread::Counts,
    pods: pods::Counts,
}

impl Counts {
    pub fn new(cache: &Cache, pod: &PodInfo) -> Counts {
        Counts {
            spread: spread::Counts::new(cache, pod),
            pods: pods::Counts::new(cache, pod),
        }
    }
}

/// The filters that need nothing but the pod and the node.
pub fn local(pod: &PodInfo, node: &NodeInfo) -> Result<(), Refusal> {
    let never = |filter, reason| Err(refuse(filter, reason, false));
    if node.unschedulable && !tolerates_unschedulable(pod) {
        return never(Filter::NodeUnschedulable, "node(s) were unschedulable");
    }
    if !pod.node.is_empty() && pod.node != node.name {
        let reason = "node(s) didn't match the requested node name";
        return never(Filter::NodeName, reason);
    }
    if untolerated(pod, node) {
        let reason = "node(s) had untolerated taint(s)";
        return never(Filter::TaintToleration, reason);
    }
    if !node_affinity(pod, node) {
        let reason = "node(s) didn't match Pod's node affinity/selector";
        return never(Filter::NodeAffinity, reason);
    }
    let taken = |port| node.ports.iter().any(|other| other.conflicts(port));
    if pod.ports.iter().any(taken) {
        let reason = "node(s) didn't have free ports for the requested pod ports";
        return Err(refuse(Filter::NodePorts, reason, true));
    }
    resources(pod, node)
}

/// True if the pod's node selector and required node affinity match the node.
pub fn node_affinity(pod: &PodInfo, node: &NodeInfo) -> bool {
    let labels = &node.labels;
    let selected = |(key, value): (&String, &String)| labels.get(key) == Some(value);
    let terms = pod.node_terms.as_ref();
    pod.node_selector.iter().all(selected)
        && terms.is_none_or(|terms| terms.matches(&node.name, labels))
}

/// True if the node has a taint that keeps the pod off.
pub fn untolerated(pod: &PodInfo, node: &NodeInfo) -> bool {
    let keeps_off = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    let mut taints = node.taints.iter().filter(keeps_off);
    taints.any(|taint| !tolerated(&pod.tolerations, taint))
}

/// True if one of the tolerations tolerates the taint.
pub fn tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|one| {
        let empty = |text: &Option<String>| text.as_deref().unwrap_or_default().is_empty();
        let effect = empty(&one.effect) || one.effect.as_deref() == Some(&*taint.effect);
        let key = empty(&one.key) || one.key.as_deref() == Some(&*taint.key);
        let value = match one.operator.as_deref().unwrap_or_default() {
            "Exists" => true,
            "" | "Equal" => {
                let ours = one.value.as_deref().unwrap_or_default();
                ours == taint.value.as_deref().unwrap_or_default()
            }
            _ => false,
        };
        effect && key && value
    })
}

/// True if a pod on the node has a disk that this one cannot share with it.
fn conflicts(pod: &PodInfo, node: &NodeInfo) -> bool {
    // Most pods have none, and need not look at all others.
    if pod.disks.is_empty() {
        return false;
    }
    let mut there = node.pods.values().flat_map(|there| &there.disks);
    there.any(|disk| pod.disks.iter().any(|one| one.conflicts(disk)))
}

fn check_features(pod: &PodInfo, node: &NodeInfo) -> Result<(), Refusal> {
    let declared = |feature: &&str| node.features.iter().any(|one| one == *feature);
    if pod.features.iter().all(declared) {
        return Ok(());
    }
    let reason = "node(s) didn't match Pod's required features";
    Err(refuse(Filter::NodeDeclaredFeatures, reason, false))
}

fn resources(pod: &PodInfo, node: &NodeInfo) -> Result<(), Refusal> {
    let mut reasons = Vec::new();
    let mut resolvable = true;
    if node.pods.len() as i64 + 1 > node.allocatable.pods {
        reasons.push(Cow::Borrowed("Too many pods"));
    }
    let (need, has, used) = (&pod.requests, &node.allocatable, &node.requested);
    let mut check = |need: i64, has: i64, used: i64, reason: &dyn Fn() -> Cow<'static, str>| {
        if need > 0 && need > has - used {
            reasons.push(reason());
            resolvable &= need <= has;
        }
    };
    check(need.cpu_milli, has.cpu_milli, used.cpu_milli, &|| {
        "Insufficient cpu".into()
    });
    check(need.memory, has.memory, used.memory, &|| {
        "Insufficient memory".into()
    });
    check(need.storage, has.storage, used.storage, &|| {
        "Insufficient ephemeral-storage".into()
    });
    for (name, need) in &need.others {
        let of = |amounts: &BTreeMap<String, i64>| amounts.get(name).copied().unwrap_or(0);
        check(*need, of(&has.others), of(&used.others), &|| {
            format!("Insufficient {name}").into()
        });
    }
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Refusal {
        filter: Filter::NodeResourcesFit,
        reasons,
        resolvable,
    })
}

fn tolerates_unschedulable(pod: &PodInfo) -> bool {
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    tolerated(&pod.tolerations, &taint)
}
