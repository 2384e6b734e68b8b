//! What scheduling needs to know of a pod, read once when the pod is seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod, Toleration, TopologySpreadConstraint};

use crate::affinity::{self, NodeTerms, PodTerm, Selector};
use crate::resources::Resources;

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// The scheduler that pods get that name none.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// A pod as scheduling sees it.
#[derive(Debug, Clone)]
pub struct PodInfo {
    /// The object itself; decisions name it.
    pub pod: Arc<Pod>,
    pub uid: String,
    pub namespace: String,
    pub name: String,
    pub labels: Labels,
    /// The controller that owns it.
    pub owner: Option<String>,
    /// The node it is on or asks for by name; empty for any.
    pub node: String,
    pub scheduler: String,
    pub priority: i32,
    /// Marked to be deleted.
    pub ending: bool,
    /// Succeeded or failed: it takes no place any more.
    pub finished: bool,
    /// Held back by scheduling gates.
    pub gated: bool,
    pub requests: Resources,
    /// The requests as nodes are compared by.
    pub scored: Resources,
    pub ports: Vec<HostPort>,
    pub tolerations: Vec<Toleration>,
    /// Labels the node must have.
    pub node_selector: Labels,
    /// Node affinity that must hold.
    pub node_terms: Option<NodeTerms>,
    /// Node affinity that is preferred, with weights.
    pub node_preferences: Vec<(i64, NodeTerms)>,
    /// Spread that must hold.
    pub spread: Vec<Spread>,
    /// Spread that is preferred.
    pub spread_preferences: Vec<Spread>,
    /// Whether it names any spread of its own; if not, the system's applies.
    pub names_spread: bool,
    pub affinity: Vec<PodTerm>,
    pub anti_affinity: Vec<PodTerm>,
    /// Affinity that is preferred, with weights; below zero is anti-affinity.
    pub pod_preferences: Vec<(i64, PodTerm)>,
}

/// A port of a node that a pod takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostPort {
    /// Empty for all addresses.
    pub ip: String,
    pub protocol: String,
    pub port: i32,
}

impl HostPort {
    /// Whether two pods with these ports cannot share a node.
    pub fn conflicts(&self, other: &HostPort) -> bool {
        let all = self.ip.is_empty() || other.ip.is_empty();
        self.port == other.port && self.protocol == other.protocol && (all || self.ip == other.ip)
    }
}

/// How evenly pods are to be spread.
#[derive(Debug, Clone)]
pub struct Spread {
    /// The label of nodes whose values are the domains.
    pub key: String,
    pub max_skew: i64,
    pub min_domains: i64,
    /// The pods that count.
    pub who: Who,
    /// Whether only nodes count that the pod's node affinity allows.
    pub honor_affinity: bool,
    /// Whether only nodes count whose taints the pod tolerates.
    pub honor_taints: bool,
}

/// Which pods of the namespace count for a spread.
#[derive(Debug, Clone)]
pub enum Who {
    Selected(Selector),
    /// Those of one controller: what the system's default spread counts.
    OwnedBy(String),
}

impl Who {
    /// Whether a pod is one of them.
    pub fn is(&self, pod: &PodInfo) -> bool {
        match self {
            Who::Selected(selector) => selector.matches(&pod.labels),
            Who::OwnedBy(owner) => pod.owner.as_ref() == Some(owner),
        }
    }

    /// Whether a pod on a node counts. One that ends does not, and a selector of everything
    /// counts nothing, as in Go.
    pub fn counts(&self, namespace: &str, pod: &PodInfo) -> bool {
        let everything = |selector: &Selector| selector.is_everything();
        let countable = !matches!(self, Who::Selected(selector) if everything(selector));
        countable && !pod.ending && pod.namespace == namespace && self.is(pod)
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
            spread_preferences = owner.as_deref().map(system_spread).unwrap_or_default();
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
            ending: meta.deletion_timestamp.is_some(),
            finished: phase == "Succeeded" || phase == "Failed",
            gated: spec.scheduling_gates.iter().flatten().next().is_some(),
            requests: Resources::of_pod(&spec),
            scored: Resources::of_pod_for_scores(&spec),
            ports: host_ports(&spec.containers, spec.init_containers.as_deref()),
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
            owner,
            namespace,
            labels,
            pod,
        }
    }

    /// How messages name it.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether a change of the object can change where it may go.
    pub fn differs_for_scheduling(&self, old: &PodInfo) -> bool {
        let (ours, theirs) = (&self.pod.spec, &old.pod.spec);
        ours != theirs || self.labels != old.labels || self.gated != old.gated
    }
}

/// What applies to a pod of a controller that names no spread: over nodes and over zones.
fn system_spread(owner: &str) -> Vec<Spread> {
    let over = |key: &str, max_skew| Spread {
        key: key.to_owned(),
        max_skew,
        min_domains: 1,
        who: Who::OwnedBy(owner.to_owned()),
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
