//! Which nodes a daemon set's pods belong to, and how a pod is tied to its node.

use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, Taint,
    Toleration,
};
use scheduler::affinity::NodeTerms;
use scheduler::filters::tolerated;

use crate::meta::{self, Labels};
use crate::pods;

const NO_EXECUTE: &str = "NoExecute";
const NO_SCHEDULE: &str = "NoSchedule";
/// The field of a node that a pod's affinity names.
const NODE_NAME: &str = "metadata.name";

/// Conditions of a node that every daemon tolerates, as taints.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
];
/// The one that a daemon in the node's own network tolerates, too.
const NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE);

/// What a node is to a daemon set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// It should have a pod.
    Runs,
    /// It gets no new pod, but one that it has may stay.
    Stays,
    /// It should have no pod.
    Leaves,
}

/// The rules of a pod template about nodes.
pub(super) struct Placement {
    node: Option<String>,
    labels: Labels,
    terms: Option<NodeTerms>,
    tolerations: Vec<Toleration>,
}

impl Placement {
    pub(super) fn of(template: &PodSpec) -> Placement {
        let affinity = template.affinity.as_ref();
        let affinity = affinity.and_then(|all| all.node_affinity.as_ref());
        let required = affinity.and_then(|one| {
            one.required_during_scheduling_ignored_during_execution
                .as_ref()
        });
        let node = template.node_name.clone();
        Placement {
            node: node.filter(|name| !name.is_empty()),
            labels: template.node_selector.clone().unwrap_or_default(),
            terms: required.map(|one| NodeTerms::read(&one.node_selector_terms)),
            tolerations: tolerations(template),
        }
    }

    /// What this node is to the daemon set.
    pub(super) fn fit(&self, node: &Node) -> Fit {
        if !self.selects(node) {
            return Fit::Leaves;
        }
        let taints = node
            .spec
            .iter()
            .flat_map(|spec| spec.taints.iter().flatten());
        let repelling = taints.filter(|taint| !tolerated(&self.tolerations, taint));
        let repelling: Vec<&Taint> = repelling.collect();
        let any = |effect: &str| repelling.iter().any(|taint| taint.effect == effect);
        if any(NO_EXECUTE) {
            Fit::Leaves
        } else if any(NO_SCHEDULE) {
            Fit::Stays
        } else {
            Fit::Runs
        }
    }

    fn selects(&self, node: &Node) -> bool {
        let name = meta::name(&node.metadata);
        let none = Labels::new();
        let labels = node.metadata.labels.as_ref().unwrap_or(&none);
        let has = |(key, value): (&String, &String)| labels.get(key) == Some(value);
        self.node.as_ref().is_none_or(|wanted| wanted == name)
            && self.labels.iter().all(has)
            && self
                .terms
                .as_ref()
                .is_none_or(|terms| terms.matches(name, labels))
    }
}

/// The tolerations of a template, and those that every daemon has. One of the template's that
/// differs only in how long it lasts lasts forever.
pub(super) fn tolerations(template: &PodSpec) -> Vec<Toleration> {
    let mut all = template.tolerations.clone().unwrap_or_default();
    let in_host_network = template.host_network == Some(true);
    let network = in_host_network.then_some(NETWORK);
    for (key, effect) in TOLERATED.into_iter().chain(network) {
        let wanted = Toleration {
            key: Some(key.into()),
            operator: Some("Exists".into()),
            effect: Some(effect.into()),
            ..Toleration::default()
        };
        let mut has = false;
        for one in all.iter_mut().filter(|one| is_alike(one, &wanted)) {
            one.clone_from(&wanted);
            has = true;
        }
        if !has {
            all.push(wanted);
        }
    }
    all
}

/// True if two tolerations differ only in how long they last.
fn is_alike(a: &Toleration, b: &Toleration) -> bool {
    let fields = |one: &Toleration| {
        let all = [&one.key, &one.operator, &one.effect, &one.value];
        all.map(|text| text.clone().unwrap_or_default())
    };
    fields(a) == fields(b)
}

/// The affinity that ties a pod to a node. It takes the place of all required node affinity, which
/// the node has met.
pub(super) fn tied_to(node: &str, affinity: Option<Affinity>) -> Affinity {
    let mut affinity = affinity.unwrap_or_default();
    let of_node = affinity.node_affinity.get_or_insert_default();
    let named = NodeSelectorRequirement {
        key: NODE_NAME.into(),
        operator: "In".into(),
        values: Some(vec![node.into()]),
    };
    of_node.required_during_scheduling_ignored_during_execution = Some(NodeSelector {
        node_selector_terms: vec![NodeSelectorTerm {
            match_fields: Some(vec![named]),
            ..NodeSelectorTerm::default()
        }],
    });
    affinity
}

/// The node that a pod is on, or is tied to.
pub(super) fn target(pod: &Pod) -> Option<&str> {
    let on = pods::node(pod);
    if !on.is_empty() {
        return Some(on);
    }
    let affinity = pod.spec.as_ref()?.affinity.as_ref()?;
    let required = affinity
        .node_affinity
        .as_ref()?
        .required_during_scheduling_ignored_during_execution
        .as_ref()?;
    let terms = required.node_selector_terms.iter();
    let mut fields = terms.flat_map(|term| term.match_fields.iter().flatten());
    let named = fields.find(|one| one.key == NODE_NAME && one.operator == "In")?;
    match named.values.as_deref() {
        Some([name]) => Some(name),
        _ => None,
    }
}
