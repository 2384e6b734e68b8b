//! A pod's affinity rules: which nodes it may or should run on, and near which pods.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher};

use k8s_openapi::api::core::v1::{
    Affinity, NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use machinery::selector::{LabelSelector, Operator, Requirement};

/// Labels of an object.
pub type Labels = BTreeMap<String, String>;

/// The labels of every namespace, by name.
pub type Namespaces = HashMap<String, Labels>;

/// A label selector that may also select nothing, as a missing or an invalid one does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(Option<LabelSelector>);

impl Hash for Selector {
    /// Of the keys and values alone, which are equal where selectors are.
    fn hash<H: Hasher>(&self, state: &mut H) {
        for one in self.0.iter().flat_map(|selector| &selector.requirements) {
            one.key.hash(state);
            one.values.hash(state);
        }
    }
}

impl Selector {
    /// Reads a selector.
    pub fn read(selector: Option<&meta::LabelSelector>) -> Selector {
        let value = selector.and_then(|selector| serde_json::to_value(selector).ok());
        Selector(value.and_then(|value| LabelSelector::from_object(&value).ok()))
    }

    /// True if the labels satisfy it.
    pub fn matches(&self, labels: &Labels) -> bool {
        let Some(selector) = &self.0 else {
            return false;
        };
        let mut all = selector.requirements.iter();
        all.all(|one| one.matches(labels.get(&one.key).map(String::as_str)))
    }

    /// True if it has no requirements, and so selects everything.
    pub fn is_everything(&self) -> bool {
        self.0.as_ref().is_some_and(LabelSelector::is_empty)
    }

    /// Adds requirements that these labels have the pod's values (`same`) or do not have them.
    pub fn require(&mut self, keys: Option<&[String]>, labels: &Labels, same: bool) {
        let Some(selector) = &mut self.0 else {
            return;
        };
        let operator = if same { Operator::In } else { Operator::NotIn };
        for key in keys.into_iter().flatten() {
            let Some(value) = labels.get(key) else {
                continue;
            };
            if let Ok(one) = Requirement::new(key, operator, vec![value.clone()]) {
                selector.requirements.push(one);
            }
        }
    }
}

/// Node affinity terms, of which one must match.
#[derive(Debug, Clone, Default)]
pub struct NodeTerms(Vec<NodeTerm>);

/// Requirements on a node, all of which must hold.
#[derive(Debug, Clone)]
struct NodeTerm {
    labels: Vec<Requirement>,
    /// Requirements on the name of the node.
    fields: Vec<Requirement>,
    /// True if a requirement could not be read: the term then matches nothing.
    broken: bool,
}

impl NodeTerms {
    /// Reads terms.
    pub fn read(terms: &[NodeSelectorTerm]) -> NodeTerms {
        NodeTerms(terms.iter().map(NodeTerm::read).collect())
    }

    /// True if a node with this name and these labels matches one of the terms.
    pub fn matches(&self, name: &str, labels: &Labels) -> bool {
        self.0.iter().any(|term| term.matches(name, labels))
    }

    /// The names of the only nodes that can match, if every term names nodes.
    pub fn names(&self) -> Option<BTreeSet<&str>> {
        let mut all = BTreeSet::new();
        if self.0.is_empty() {
            return None;
        }
        for term in &self.0 {
            let listed = term
                .fields
                .iter()
                .filter(|one| one.operator == Operator::In);
            let mut sets = listed.map(|one| {
                one.values
                    .iter()
                    .map(String::as_str)
                    .collect::<BTreeSet<_>>()
            });
            let first = sets.next()?;
            all.extend(sets.fold(first, |set, other| &set & &other));
        }
        Some(all)
    }
}

impl NodeTerm {
    fn read(term: &NodeSelectorTerm) -> NodeTerm {
        let mut broken = false;
        let mut labels = Vec::new();
        for one in term.match_expressions.iter().flatten() {
            let values = one.values.clone().unwrap_or_default();
            let requirement = operator(one)
                .and_then(|operator| Requirement::new(&one.key, operator, values).ok());
            broken |= requirement.is_none();
            labels.extend(requirement);
        }
        // Node names may be longer than label values, so the rules for label values do not apply.
        let mut fields = Vec::new();
        for one in term.match_fields.iter().flatten() {
            let operator = operator(one);
            broken |= one.key != "metadata.name" || operator.is_none();
            fields.extend(operator.map(|operator| Requirement {
                key: one.key.clone(),
                operator,
                values: one.values.clone().unwrap_or_default(),
            }));
        }
        NodeTerm {
            labels,
            fields,
            broken,
        }
    }

    fn matches(&self, name: &str, labels: &Labels) -> bool {
        let asks = !self.labels.is_empty() || !self.fields.is_empty();
        let value = |one: &Requirement| labels.get(&one.key).map(String::as_str);
        asks && !self.broken
            && self.labels.iter().all(|one| one.matches(value(one)))
            && self.fields.iter().all(|one| one.matches(Some(name)))
    }
}

fn operator(one: &NodeSelectorRequirement) -> Option<Operator> {
    match one.operator.as_str() {
        "In" => Some(Operator::In),
        "NotIn" => Some(Operator::NotIn),
        "Exists" => Some(Operator::Exists),
        "DoesNotExist" => Some(Operator::DoesNotExist),
        "Gt" => Some(Operator::GreaterThan),
        "Lt" => Some(Operator::LessThan),
        _ => None,
    }
}

/// A term of pod affinity or anti-affinity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// The topology key: the node label whose value must be equal for two nodes to be near.
    pub key: String,
    selector: Selector,
    namespaces: BTreeSet<String>,
    namespace_selector: Option<Selector>,
}

impl PodTerm {
    /// True if the term selects pods of this namespace with these labels.
    pub fn selects(&self, namespace: &str, labels: &Labels, namespaces: &Namespaces) -> bool {
        let by_labels = || {
            let labels = namespaces.get(namespace);
            let selector = self.namespace_selector.as_ref();
            selector.is_some_and(|selector| match labels {
                Some(labels) => selector.matches(labels),
                None => selector.matches(&Labels::new()),
            })
        };
        let there = self.namespaces.contains(namespace) || by_labels();
        there && self.selector.matches(labels)
    }

    fn read(term: &PodAffinityTerm, namespace: &str, labels: &Labels) -> PodTerm {
        let mut selector = Selector::read(term.label_selector.as_ref());
        selector.require(term.match_label_keys.as_deref(), labels, true);
        selector.require(term.mismatch_label_keys.as_deref(), labels, false);
        let mut namespaces: BTreeSet<String> = term.namespaces.iter().flatten().cloned().collect();
        if namespaces.is_empty() && term.namespace_selector.is_none() {
            namespaces.insert(namespace.to_owned());
        }
        let wanted = term.namespace_selector.as_ref();
        PodTerm {
            key: term.topology_key.clone(),
            selector,
            namespaces,
            namespace_selector: wanted.map(|selector| Selector::read(Some(selector))),
        }
    }
}

/// All affinity rules of a pod.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) node_terms: Option<NodeTerms>,
    pub(crate) node_preferences: Vec<(i64, NodeTerms)>,
    pub(crate) pods: Vec<PodTerm>,
    pub(crate) anti: Vec<PodTerm>,
    pub(crate) pod_preferences: Vec<(i64, PodTerm)>,
}

/// Reads a pod's affinity.
pub(crate) fn read(affinity: Option<&Affinity>, namespace: &str, labels: &Labels) -> Rules {
    let mut rules = Rules::default();
    let Some(affinity) = affinity else {
        return rules;
    };
    if let Some(node) = &affinity.node_affinity {
        let required = node
            .required_during_scheduling_ignored_during_execution
            .as_ref();
        rules.node_terms = required.map(|one| NodeTerms::read(&one.node_selector_terms));
        let preferred = node
            .preferred_during_scheduling_ignored_during_execution
            .iter();
        for one in preferred.flatten() {
            let terms = NodeTerms::read(std::slice::from_ref(&one.preference));
            rules.node_preferences.push((i64::from(one.weight), terms));
        }
    }
    let read = |term: &PodAffinityTerm| PodTerm::read(term, namespace, labels);
    if let Some(near) = &affinity.pod_affinity {
        let required = near
            .required_during_scheduling_ignored_during_execution
            .iter();
        rules.pods = required.flatten().map(read).collect();
        let preferred = near
            .preferred_during_scheduling_ignored_during_execution
            .iter();
        for one in preferred.flatten() {
            let term = read(&one.pod_affinity_term);
            rules.pod_preferences.push((i64::from(one.weight), term));
        }
    }
    if let Some(far) = &affinity.pod_anti_affinity {
        let required = far
            .required_during_scheduling_ignored_during_execution
            .iter();
        rules.anti = required.flatten().map(read).collect();
        let preferred = far
            .preferred_during_scheduling_ignored_during_execution
            .iter();
        for one in preferred.flatten() {
            let term = read(&one.pod_affinity_term);
            rules.pod_preferences.push((-i64::from(one.weight), term));
        }
    }
    rules
}
