//! A pod as the scheduler sees it, read from the object once.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, Pod, PodCondition, PodSpec, Toleration, TopologySpreadConstraint,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::affinity::{self, Labels, NodeTerms, PodTerm, Selector};
use crate::disk::Disk;
use crate::resources::Resources;

/// The scheduler of pods that name none.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The condition of a pod that is disrupted, and its reason if a scheduler preempts the pod.
pub const DISRUPTION_TARGET: &str = "DisruptionTarget";
pub const PREEMPTION_BY_SCHEDULER: &str = "PreemptionByScheduler";

/// The features that a pod can need of its node, as nodes declare them.
const RESTART_ALL: &str = "RestartAllContainersOnContainerExits";
const OWN_USERS_IN_HOST_NETWORK: &str = "UserNamespacesHostNetworkSupport";

/// A pod as scheduling sees it.
#[derive(Debug, Clone)]
pub struct PodInfo {
    /// The object itself; decisions refer to it.
    pub pod: Arc<Pod>,
    pub uid: String,
    pub namespace: String,
    pub name: String,
    pub labels: Labels,
    /// The uid of its controller, if that is one of those whose pods are spread by default.
    pub owner: Option<String>,
    /// The node it is bound to; empty for none.
    pub node: String,
    /// The node that it is to have when the pods that were preempted for it are gone; empty for none.
    pub nominated: String,
    pub scheduler: String,
    pub priority: i32,
    /// When its node took it on; `None` as long as none has.
    pub started: Option<Timestamp>,
    /// It has a deletion timestamp.
    pub ending: bool,
    /// It is ending because a scheduler preempted it.
    pub preempted: bool,
    /// Succeeded or failed: it uses no resources any more.
    pub finished: bool,
    /// It has scheduling gates.
    pub gated: bool,
    pub requests: Resources,
    /// The requests as the scores count them.
    pub scored: Resources,
    pub ports: Vec<HostPort>,
    /// The features that its node must declare.
    pub features: Vec<&'static str>,
    pub tolerations: Vec<Toleration>,
    /// The labels that a node must have.
    pub node_selector: Labels,
    /// Required node affinity.
    pub node_terms: Option<NodeTerms>,
    /// Preferred node affinity, with weights.
    pub node_preferences: Vec<(i64, NodeTerms)>,
    /// Required topology spread (`DoNotSchedule`).
    pub spread: Vec<Spread>,
    /// Preferred topology spread (`ScheduleAnyway`), or the default constraints by its owner.
    pub spread_preferences: Vec<Spread>,
    /// True if the pod has spread constraints; if not, the default constraints apply: by its owner,
    /// or else by the services that select it.
    pub names_spread: bool,
    pub affinity: Vec<PodTerm>,
    pub anti_affinity: Vec<PodTerm>,
    /// Preferred pod affinity, with weights; negative weights are anti-affinity.
    pub pod_preferences: Vec<(i64, PodTerm)>,
    pub volume_claims: Vec<VolumeRef>,
    pub disks: Vec<Disk>,
    /// The claims for devices; `None` for one that is not made yet.
    pub device_claims: Vec<Option<DeviceRef>>,
}

/// A host port that a pod uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// Empty for all addresses.
    pub ip: String,
    pub protocol: String,
    pub port: i32,
}

impl HostPort {
    /// True if two pods with these ports cannot share a node.
    pub fn conflicts(&self, other: &HostPort) -> bool {
        let all = self.ip.is_empty() || other.ip.is_empty();
        self.port == other.port && self.protocol == other.protocol && (all || self.ip == other.ip)
    }
}

/// A claim for a volume by a pod.
#[derive(Debug, Clone)]
pub struct VolumeRef {
    pub claim: String,
    /// The claim is made for the pod, which owns it.
    pub ephemeral: bool,
}

/// A claim for devices by a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRef {
    pub claim: String,
    /// The claim is made for the pod, which owns it.
    pub generated: bool,
}

/// A topology spread constraint.
#[derive(Debug, Clone)]
pub struct Spread {
    /// The topology key: the node label whose values are the domains.
    pub key: String,
    pub max_skew: i64,
    pub min_domains: i64,
    /// The pods that count.
    pub who: Who,
    /// True if only nodes count that the pod's node affinity allows.
    pub honor_affinity: bool,
    /// True if only nodes count whose taints the pod tolerates.
    pub honor_taints: bool,
}

/// Which pods of the namespace count for a spread.
#[derive(Debug, Clone)]
pub enum Who {
    Selected(Selector),
    /// The pods of one controller, for the default constraints.
    OwnedBy(String),
}

impl Who {
    /// True if a pod is one of them.
    pub fn is(&self, pod: &PodInfo) -> bool {
        match self {
            Who::Selected(selector) => selector.matches(&pod.labels),
            Who::OwnedBy(owner) => pod.owner.as_ref() == Some(owner),
        }
    }
}

impl PodInfo {
    /// Reads a pod.
    pub fn read(pod: Arc<Pod>) -> PodInfo {
        let meta = &pod.metadata;
        let spec = pod.spec.clone().unwrap_or_default();
        let status = pod.status.clone().unwrap_or_default();
        let namespace = meta.namespace.clone().unwrap_or_default();
        let labels = meta.labels.clone().unwrap_or_default();
        let mut owners = meta.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.controller == Some(true));
        let owner = owner.filter(|owner| spreads(owner));
        let phase = status.phase.unwrap_or_default();
        let constraints = spec.topology_spread_constraints.clone().unwrap_or_default();
        let wanted = |when: &str| -> Vec<Spread> {
            let named = constraints
                .iter()
                .filter(|one| one.when_unsatisfiable == when);
            named.map(|one| read_spread(one, &labels)).collect()
        };
        let owner = owner.map(|owner| owner.uid.clone());
        let mut spread_preferences = wanted("ScheduleAnyway");
        if constraints.is_empty() {
            let who = owner.clone().map(Who::OwnedBy);
            spread_preferences = who.as_ref().map(default_spread).unwrap_or_default();
        }
        let affinity = affinity::read(spec.affinity.as_ref(), &namespace, &labels);
        PodInfo {
            uid: meta.uid.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            node: spec.node_name.clone().unwrap_or_default(),
            scheduler: spec
                .scheduler_name
                .clone()
                .unwrap_or_else(|| DEFAULT_SCHEDULER.to_owned()),
            priority: spec.priority.unwrap_or(0),
            nominated: status.nominated_node_name.unwrap_or_default(),
            started: status.start_time.map(|time| time.0),
            preempted: meta.deletion_timestamp.is_some()
                && is_preempted(status.conditions.as_deref().unwrap_or_default()),
            ending: meta.deletion_timestamp.is_some(),
            finished: phase == "Succeeded" || phase == "Failed",
            gated: spec.scheduling_gates.iter().flatten().next().is_some(),
            requests: Resources::of_pod(&spec),
            scored: Resources::of_pod_for_scores(&spec),
            ports: host_ports(&spec.containers, spec.init_containers.as_deref()),
            features: features_of(&spec),
            tolerations: spec.tolerations.unwrap_or_default(),
            node_selector: spec.node_selector.unwrap_or_default(),
            node_terms: affinity.node_terms,
            node_preferences: affinity.node_preferences,
            spread: wanted("DoNotSchedule"),
            spread_preferences,
            names_spread: !constraints.is_empty(),
            affinity: affinity.pods,
            anti_affinity: affinity.anti,
            pod_preferences: affinity.pod_preferences,
            volume_claims: volumes_of(&pod),
            disks: Disk::of(&pod),
            device_claims: devices_of(&pod),
            owner,
            namespace,
            labels,
            pod,
        }
    }

    /// `namespace/name`, for messages.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// True if the change from `old` can change where the pod may go.
    pub fn differs_for_scheduling(&self, old: &PodInfo) -> bool {
        let (ours, theirs) = (&self.pod.spec, &old.pod.spec);
        let claims = &self.device_claims;
        ours != theirs
            || self.labels != old.labels
            || self.gated != old.gated
            || *claims != old.device_claims
    }
}

fn is_preempted(conditions: &[PodCondition]) -> bool {
    let mut conditions = conditions.iter();
    let target = conditions.find(|one| one.type_ == DISRUPTION_TARGET);
    target.is_some_and(|one| {
        one.status == "True" && one.reason.as_deref() == Some(PREEMPTION_BY_SCHEDULER)
    })
}

/// True for the controllers by whose selector kube-scheduler spreads pods that say nothing about
/// it. All pods of one have the labels of its template, so they are counted by their owner. Services
/// that select some of them select all, and change nothing.
fn spreads(owner: &OwnerReference) -> bool {
    [
        ("v1", "ReplicationController"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
    ]
    .contains(&(owner.api_version.as_str(), owner.kind.as_str()))
}

/// The default constraints: over nodes and over zones.
pub(crate) fn default_spread(who: &Who) -> Vec<Spread> {
    let over = |key: &str, max_skew| Spread {
        key: key.to_owned(),
        max_skew,
        min_domains: 1,
        who: who.clone(),
        honor_affinity: true,
        honor_taints: false,
    };
    vec![
        over("kubernetes.io/hostname", 3),
        over("topology.kubernetes.io/zone", 5),
    ]
}

fn read_spread(constraint: &TopologySpreadConstraint, labels: &Labels) -> Spread {
    let mut selector = Selector::read(constraint.label_selector.as_ref());
    selector.require(constraint.match_label_keys.as_deref(), labels, true);
    Spread {
        key: constraint.topology_key.clone(),
        max_skew: i64::from(constraint.max_skew),
        min_domains: i64::from(constraint.min_domains.unwrap_or(1)),
        who: Who::Selected(selector),
        honor_affinity: constraint.node_affinity_policy.as_deref() != Some("Ignore"),
        honor_taints: constraint.node_taints_policy.as_deref() == Some("Honor"),
    }
}

fn host_ports(containers: &[Container], init: Option<&[Container]>) -> Vec<HostPort> {
    let sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
    let sidecars = init.into_iter().flatten().filter(sidecar);
    let mut found = Vec::new();
    for port in containers
        .iter()
        .chain(sidecars)
        .flat_map(|one| one.ports.iter().flatten())
    {
        let Some(number) = port.host_port.filter(|number| *number > 0) else {
            continue;
        };
        let ip = port.host_ip.clone().unwrap_or_default();
        found.push(HostPort {
            ip: if ip == "0.0.0.0" { String::new() } else { ip },
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            port: number,
        });
    }
    found
}

fn features_of(spec: &PodSpec) -> Vec<&'static str> {
    let init = spec.init_containers.iter().flatten();
    let containers = spec.containers.iter().chain(init);
    let mut rules = containers.flat_map(|one| one.restart_policy_rules.iter().flatten());
    let own_users = spec.host_users == Some(false);
    let mut features = Vec::new();
    if rules.any(|rule| rule.action == "RestartAllContainers") {
        features.push(RESTART_ALL);
    }
    if own_users && spec.host_network == Some(true) {
        features.push(OWN_USERS_IN_HOST_NETWORK);
    }
    features
}

/// The claims for volumes of a pod.
fn volumes_of(pod: &Pod) -> Vec<VolumeRef> {
    let own = pod.metadata.name.as_deref().unwrap_or_default();
    let volumes = pod
        .spec
        .iter()
        .flat_map(|spec| spec.volumes.iter().flatten());
    let claims = volumes.filter_map(|volume| {
        if volume.ephemeral.is_some() {
            let claim = format!("{own}-{}", volume.name);
            return Some(VolumeRef {
                claim,
                ephemeral: true,
            });
        }
        let source = volume.persistent_volume_claim.as_ref()?;
        Some(VolumeRef {
            claim: source.claim_name.clone(),
            ephemeral: false,
        })
    });
    claims.collect()
}

/// The claims for devices of a pod; `None` for one that is not made yet.
fn devices_of(pod: &Pod) -> Vec<Option<DeviceRef>> {
    let claims = pod
        .spec
        .iter()
        .flat_map(|spec| spec.resource_claims.iter().flatten());
    let made = |name: &str| {
        let status = pod.status.as_ref()?;
        let mut all = status.resource_claim_statuses.iter().flatten();
        all.find(|one| one.name == name)
    };
    let reference = |claim: &String, generated| DeviceRef {
        claim: claim.clone(),
        generated,
    };
    let named = claims.filter_map(|claim| match &claim.resource_claim_name {
        Some(name) => Some(Some(reference(name, false))),
        // A status without a name says that the pod needs no claim after all.
        None => match made(&claim.name) {
            Some(status) => {
                let name = status.resource_claim_name.as_ref()?;
                Some(Some(reference(name, true)))
            }
            None => Some(None),
        },
    });
    named.collect()
}
