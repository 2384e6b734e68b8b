//! A node as the scheduler sees it: what it offers, and the pods on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Taint};

use crate::affinity::Labels;
use crate::images::Names;
use crate::pod::{HostPort, PodInfo};
use crate::resources::Resources;

/// A node and the pods on it.
#[derive(Debug, Clone, Default)]
pub struct NodeInfo {
    pub name: String,
    /// True once the object was seen. Its pods may be seen first; such a node accepts no pods.
    pub known: bool,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    pub unschedulable: bool,
    pub allocatable: Resources,
    /// The features that it declares.
    pub features: Vec<String>,
    /// The images that it has. The cache keeps them.
    pub images: Names,
    /// By uid.
    pub pods: BTreeMap<String, Arc<PodInfo>>,
    /// Invariant: the sum of the requests of `pods`.
    pub requested: Resources,
    /// Invariant: the sum of the amounts for scoring of `pods`.
    pub scored: Resources,
    /// Invariant: the ports of `pods`.
    pub ports: Vec<HostPort>,
}

impl NodeInfo {
    /// Copies the object's state. Returns whether the change can matter to a pod.
    pub fn update(&mut self, node: &Node) -> bool {
        let spec = node.spec.clone().unwrap_or_default();
        let status = node.status.as_ref();
        let labels = node.metadata.labels.clone().unwrap_or_default();
        let taints = spec.taints.unwrap_or_default();
        let unschedulable = spec.unschedulable.unwrap_or(false);
        let allocatable = Resources::read(status.and_then(|status| status.allocatable.as_ref()));
        let features = status.and_then(|status| status.declared_features.clone());
        let features = features.unwrap_or_default();
        let same = self.known
            && self.labels == labels
            && self.taints == taints
            && self.unschedulable == unschedulable
            && self.allocatable == allocatable
            && self.features == features;
        self.known = true;
        self.labels = labels;
        self.taints = taints;
        self.unschedulable = unschedulable;
        self.allocatable = allocatable;
        self.features = features;
        !same
    }

    /// Adds a pod to the node.
    pub fn add(&mut self, pod: Arc<PodInfo>) {
        self.requested.add(&pod.requests);
        self.scored.add(&pod.scored);
        self.ports.extend_from_slice(&pod.ports);
        let before = self.pods.insert(pod.uid.clone(), pod);
        assert!(before.is_none(), "a pod is on a node once");
    }

    /// Removes a pod from the node.
    pub fn remove(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let pod = self.pods.remove(uid)?;
        self.requested.subtract(&pod.requests);
        self.scored.subtract(&pod.scored);
        for port in &pod.ports {
            if let Some(at) = self.ports.iter().position(|one| one == port) {
                self.ports.swap_remove(at);
            }
        }
        Some(pod)
    }
}
