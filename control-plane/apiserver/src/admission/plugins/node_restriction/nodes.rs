//! Nodes and claims: a node registers itself and reports states, but does not choose which pods
//! come to it.

use std::collections::BTreeSet;

use machinery::object;
use serde_json::Value;

use super::{Refusal, Write};
use crate::admission::{CREATE, UPDATE};

/// Labels of Kubernetes that a node sets on itself.
const LABELS: [&str; 11] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
/// Domains of further such labels.
const LABEL_DOMAINS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// Domains of the labels that belong to Kubernetes.
const KUBERNETES_DOMAINS: [&str; 2] = ["kubernetes.io", "k8s.io"];
/// Domain of the labels that nodes never set: pods choose their nodes by them.
const RESTRICTED_DOMAIN: &str = "node-restriction.kubernetes.io";

/// What a node reports of a claim.
const CLAIM_STATUS: [&str; 4] = [
    "allocatedResourceStatuses",
    "allocatedResources",
    "capacity",
    "conditions",
];

impl Write<'_> {
    /// Allows a node to write itself, except for what steers pods.
    pub(super) fn own_node(&self) -> Result<(), Refusal> {
        let (node, name) = (self.node, self.attributes.name);
        if name != node {
            return Err(format!("node {node:?} is not allowed to modify node {name:?}").into());
        }
        match (self.attributes.operation, self.attributes.old) {
            (CREATE, _) => self.new_node(),
            (UPDATE, Some(old)) => self.changed_node(old),
            _ => Ok(()),
        }
    }

    fn new_node(&self) -> Result<(), Refusal> {
        let (node, new) = (self.node, self.object);
        if config_source(new).is_some() {
            return Err(format!(
                "node {node:?} is not allowed to create pods with a non-nil configSource"
            )
            .into());
        }
        let labels = forbidden_labels(new, &Value::Null);
        if labels.is_empty() {
            return Ok(());
        }
        let labels = labels.join(", ");
        Err(format!("node {node:?} is not allowed to set the following labels: {labels}").into())
    }

    fn changed_node(&self, old: &Value) -> Result<(), Refusal> {
        let (node, new) = (self.node, self.object);
        if config_source(new).is_some() && config_source(new) != config_source(old) {
            return Err(format!(
                "node {node:?} is not allowed to update configSource to a new non-nil configSource"
            )
            .into());
        }
        let taints = |of| object::items(of, &["spec", "taints"]).to_vec();
        if taints(new) != taints(old) {
            return Err(format!("node {node:?} is not allowed to modify taints").into());
        }
        if object::owner_references(new) != object::owner_references(old) {
            return Err(format!("node {node:?} is not allowed to modify ownerReferences").into());
        }
        let labels = forbidden_labels(new, old);
        if labels.is_empty() {
            return Ok(());
        }
        let labels = labels.join(", ");
        Err(format!("is not allowed to modify labels: {labels}").into())
    }

    /// Allows a node to report the size of a claim, and nothing else of it.
    pub(super) fn claim_status(&self) -> Result<(), Refusal> {
        let (UPDATE, Some(old)) = (self.attributes.operation, self.attributes.old) else {
            return Err(self.unexpected_operation());
        };
        let compared = |claim: &Value| {
            let mut claim = claim.clone();
            // An update without it is one of any state.
            object::remove(&mut claim, &["metadata", "resourceVersion"]);
            object::remove(&mut claim, &["metadata", "managedFields"]);
            for key in CLAIM_STATUS {
                object::remove(&mut claim, &["status", key]);
            }
            claim
        };
        let (old, new) = (compared(old), compared(self.object));
        let changed = changed_fields(&old, &new);
        if changed.is_empty() {
            return Ok(());
        }
        let (node, changed) = (self.node, changed.join(", "));
        Err(format!(
            "node {node:?} is not allowed to update fields other than status.quantity and status.conditions: {changed}"
        )
        .into())
    }
}

fn config_source(node: &Value) -> Option<&Value> {
    object::at(node, &["spec", "configSource"]).filter(|source| !source.is_null())
}

/// The labels that differ, and that a node may not change.
pub(super) fn forbidden_labels<'a>(new: &'a Value, old: &'a Value) -> Vec<&'a str> {
    let keys = [new, old].into_iter().filter_map(object::labels);
    let keys: BTreeSet<&str> = keys.flatten().map(|(key, _)| key.as_str()).collect();
    keys.into_iter()
        .filter(|key| object::label(new, key) != object::label(old, key))
        .filter(|key| is_forbidden(key))
        .collect()
}

fn is_forbidden(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let is_in = |parent: &&str| {
        let above = domain.strip_suffix(*parent);
        above.is_some_and(|above| above.is_empty() || above.ends_with('.'))
    };
    let is_own = LABELS.contains(&label) || LABEL_DOMAINS.iter().any(is_in);
    is_in(&RESTRICTED_DOMAIN) || KUBERNETES_DOMAINS.iter().any(is_in) && !is_own
}

/// The fields that differ, at most two levels deep. What is empty is as good as missing.
pub(super) fn changed_fields(old: &Value, new: &Value) -> Vec<String> {
    let keys = |of: &Value| {
        let keys = of.as_object().into_iter().flatten();
        keys.map(|(key, _)| key.clone()).collect::<Vec<_>>()
    };
    let part = |of: &Value, key: &str| match of.get(key) {
        Some(Value::Object(map)) if map.is_empty() => Value::Null,
        Some(Value::Array(list)) if list.is_empty() => Value::Null,
        Some(value) => value.clone(),
        None => Value::Null,
    };
    let both = |one: &Value, two: &Value| -> BTreeSet<String> {
        keys(one).into_iter().chain(keys(two)).collect()
    };
    let mut changed = Vec::new();
    for key in both(old, new) {
        let (old, new) = (part(old, &key), part(new, &key));
        if old == new {
            continue;
        }
        if !old.is_object() && !new.is_object() {
            changed.push(key);
            continue;
        }
        for inner in both(&old, &new) {
            if part(&old, &inner) != part(&new, &inner) {
                changed.push(format!("{key}.{inner}"));
            }
        }
    }
    changed
}
