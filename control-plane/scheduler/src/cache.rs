//! What is on every node: what the informers said, and pods assumed to be where a binding that is
//! still on its way puts them.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use crate::affinity::Namespaces;
use crate::node::NodeInfo;
use crate::pod::PodInfo;

/// All nodes and the pods on them.
#[derive(Debug, Default)]
pub struct Cache {
    /// In no order that means anything; [`Cache::by_name`] finds them.
    nodes: Vec<NodeInfo>,
    by_name: HashMap<String, usize>,
    /// Where each pod is, by uid. Invariant: the node there has it.
    placed: HashMap<String, Place>,
    /// Pods whose anti-affinity must hold, so that who comes need not look at everybody.
    with_anti_affinity: BTreeSet<String>,
    /// Pods with affinity that counts for who comes later.
    with_preferences: BTreeSet<String>,
    /// Nodes that are known, not only named by a pod.
    known: usize,
    /// Labels of namespaces.
    pub namespaces: Namespaces,
}

#[derive(Debug)]
struct Place {
    node: String,
    assumed: bool,
}

impl Cache {
    /// The nodes that are known.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeInfo> {
        self.nodes.iter().filter(|node| node.known)
    }

    /// All nodes from some place on and around; for a fair share of looks.
    pub fn nodes_from(&self, start: usize) -> impl Iterator<Item = &NodeInfo> {
        let start = start.min(self.nodes.len());
        let (before, after) = self.nodes.split_at(start);
        after.iter().chain(before).filter(|node| node.known)
    }

    /// How many nodes are known.
    pub fn node_count(&self) -> usize {
        self.known
    }

    /// How many nodes have a place, known or not.
    pub fn slots(&self) -> usize {
        self.nodes.len()
    }

    /// A node.
    pub fn node(&self, name: &str) -> Option<&NodeInfo> {
        self.by_name.get(name).map(|at| &self.nodes[*at])
    }

    /// The pods with anti-affinity that must hold, and the nodes they are on.
    pub fn with_anti_affinity(&self) -> impl Iterator<Item = (&NodeInfo, &Arc<PodInfo>)> {
        self.placed_among(&self.with_anti_affinity)
    }

    /// The pods with affinity that counts for others, and the nodes they are on.
    pub fn with_preferences(&self) -> impl Iterator<Item = (&NodeInfo, &Arc<PodInfo>)> {
        self.placed_among(&self.with_preferences)
    }

    /// The node a pod is on or assumed to be on.
    pub fn place(&self, uid: &str) -> Option<&str> {
        self.placed.get(uid).map(|place| place.node.as_str())
    }

    /// Whether a pod is on its node only by our own word so far.
    pub fn is_assumed(&self, uid: &str) -> bool {
        self.placed.get(uid).is_some_and(|place| place.assumed)
    }

    /// Takes a node as it is now. Answers whether a pod could find it changed.
    pub fn set_node(&mut self, node: &Node) -> bool {
        let name = node.metadata.name.clone().unwrap_or_default();
        let at = self.slot(&name);
        self.known += usize::from(!self.nodes[at].known);
        self.nodes[at].update(node)
    }

    /// Forgets a node. Pods on it stay until they are gone themselves.
    pub fn remove_node(&mut self, name: &str) {
        let Some(at) = self.by_name.get(name).copied() else {
            return;
        };
        self.known -= usize::from(self.nodes[at].known);
        self.nodes[at].known = false;
        self.drop_if_empty(name);
    }

    /// Takes a pod that is on a node, as it is now. An assumed pod is confirmed, wherever it is.
    pub fn set_pod(&mut self, pod: Arc<PodInfo>) {
        self.remove_pod(&pod.uid);
        let node = pod.node.clone();
        self.put(pod, node, false);
    }

    /// Counts a pod on a node before the store says so.
    pub fn assume(&mut self, pod: &Arc<PodInfo>, node: &str) {
        assert!(!self.placed.contains_key(&pod.uid), "a pod is bound once");
        self.put(pod.clone(), node.to_owned(), true);
    }

    /// Takes back an assumption whose binding failed, if there was one.
    pub fn forget(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        if self.is_assumed(uid) {
            self.remove_pod(uid)
        } else {
            None
        }
    }

    /// Takes a pod off its node.
    pub fn remove_pod(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let place = self.placed.remove(uid)?;
        self.with_anti_affinity.remove(uid);
        self.with_preferences.remove(uid);
        let at = self.by_name[&place.node];
        let pod = self.nodes[at].remove(uid);
        self.drop_if_empty(&place.node);
        pod
    }

    /// The pods that are on nodes or assumed to be.
    pub fn placed(&self) -> Vec<String> {
        self.placed.keys().cloned().collect()
    }

    fn put(&mut self, pod: Arc<PodInfo>, node: String, assumed: bool) {
        let uid = pod.uid.clone();
        if !pod.anti_affinity.is_empty() {
            self.with_anti_affinity.insert(uid.clone());
        }
        if !pod.affinity.is_empty() || !pod.pod_preferences.is_empty() {
            self.with_preferences.insert(uid.clone());
        }
        let at = self.slot(&node);
        self.nodes[at].add(pod);
        self.placed.insert(uid, Place { node, assumed });
    }

    fn placed_among<'a>(
        &'a self,
        uids: &'a BTreeSet<String>,
    ) -> impl Iterator<Item = (&'a NodeInfo, &'a Arc<PodInfo>)> {
        uids.iter().filter_map(|uid| {
            let node = self.node(&self.placed.get(uid)?.node)?;
            Some((node, node.pods.get(uid)?))
        })
    }

    fn slot(&mut self, name: &str) -> usize {
        if let Some(at) = self.by_name.get(name) {
            return *at;
        }
        self.nodes.push(NodeInfo {
            name: name.to_owned(),
            ..NodeInfo::default()
        });
        self.by_name.insert(name.to_owned(), self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    fn drop_if_empty(&mut self, name: &str) {
        let Some(at) = self.by_name.get(name).copied() else {
            return;
        };
        let node = &self.nodes[at];
        if node.known || !node.pods.is_empty() {
            return;
        }
        self.by_name.remove(name);
        self.nodes.swap_remove(at);
        if let Some(moved) = self.nodes.get(at) {
            self.by_name.insert(moved.name.clone(), at);
        }
    }
}
