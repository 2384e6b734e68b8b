//! The nodes and the pods on them: what the informers reported, and pods that are assumed to be on
//! a node while their binding is in flight or their volumes are made.

pub mod index;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;

use crate::affinity::Namespaces;
use crate::images::Images;
use crate::node::NodeInfo;
use crate::pod::PodInfo;
use crate::services::Services;
use index::{Index, Places};

/// All nodes and the pods on them.
#[derive(Debug, Default)]
pub struct Cache {
    /// In no particular order; [`Cache::by_name`] is the index.
    nodes: Vec<NodeInfo>,
    by_name: HashMap<String, usize>,
    /// The node of each pod, by uid. Invariant: that node has the pod.
    assigned: HashMap<String, Assignment>,
    /// Invariant: it counts the pods of all nodes, so that a search need not look at every pod.
    index: Index,
    /// Invariant: it counts the images of all known nodes.
    images: Images,
    /// The number of nodes whose object has been seen; others are only named by a pod.
    known: usize,
    /// Labels of namespaces.
    pub namespaces: Namespaces,
    pub services: Services,
}

#[derive(Debug)]
struct Assignment {
    node: String,
    assumed: bool,
}

/// A pod that was taken off its node for a trial.
#[derive(Debug)]
pub struct Lifted {
    pub pod: Arc<PodInfo>,
    node: String,
    assumed: bool,
}

impl Cache {
    /// The nodes whose object has been seen.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeInfo> {
        self.nodes.iter().filter(|node| node.known)
    }

    /// The known nodes in a circle from index `start`, so that searches spread over all nodes.
    pub fn nodes_from(&self, start: usize) -> impl Iterator<Item = &NodeInfo> {
        let start = start.min(self.nodes.len());
        let (before, after) = self.nodes.split_at(start);
        after.iter().chain(before).filter(|node| node.known)
    }

    /// The number of known nodes.
    pub fn node_count(&self) -> usize {
        self.known
    }

    /// The number of nodes in the list, known or not.
    pub fn slots(&self) -> usize {
        self.nodes.len()
    }

    /// The node with this name.
    pub fn node(&self, name: &str) -> Option<&NodeInfo> {
        self.by_name.get(name).map(|at| &self.nodes[*at])
    }

    /// The pods on nodes, in groups.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The images that nodes have.
    pub fn images(&self) -> &Images {
        &self.images
    }

    /// The known nodes of a group of pods, and its number of pods on each.
    pub fn places<'a>(&'a self, places: &'a Places) -> impl Iterator<Item = (&'a NodeInfo, i64)> {
        let nodes = places
            .iter()
            .filter_map(|(name, count)| Some((self.node(name)?, *count)));
        nodes.filter(|(node, _)| node.known)
    }

    /// The name of the node that a pod is on or assumed to be on.
    pub fn place(&self, uid: &str) -> Option<&str> {
        self.assigned
            .get(uid)
            .map(|assignment| assignment.node.as_str())
    }

    /// True if a pod is only assumed to be on its node.
    pub fn is_assumed(&self, uid: &str) -> bool {
        self.assigned
            .get(uid)
            .is_some_and(|assignment| assignment.assumed)
    }

    /// Stores a node's current state. Returns whether the change can matter to a pod.
    pub fn set_node(&mut self, node: &Node) -> bool {
        let name = node.metadata.name.clone().unwrap_or_default();
        let at = self.slot(&name);
        self.known += usize::from(!self.nodes[at].known);
        let images = node.status.as_ref();
        let images = images.and_then(|status| status.images.as_deref());
        // First, so that the only node with an image can report another size of it.
        let before = std::mem::take(&mut self.nodes[at].images);
        self.images.remove(&before);
        self.nodes[at].images = self.images.add(images.unwrap_or_default());
        self.nodes[at].update(node)
    }

    /// Removes a node. Pods on it stay until they are removed themselves.
    pub fn remove_node(&mut self, name: &str) {
        let Some(at) = self.by_name.get(name).copied() else {
            return;
        };
        self.known -= usize::from(self.nodes[at].known);
        self.nodes[at].known = false;
        self.images
            .remove(&std::mem::take(&mut self.nodes[at].images));
        self.drop_if_empty(name);
    }

    /// Stores a pod that is on a node. This confirms an assumed pod, whichever node it is on.
    pub fn set_pod(&mut self, pod: Arc<PodInfo>) {
        self.remove_pod(&pod.uid);
        let node = pod.node.clone();
        self.put(pod, node, false);
    }

    /// Counts a pod on a node before the apiserver has confirmed the binding.
    pub fn assume(&mut self, pod: &Arc<PodInfo>, node: &str) {
        assert!(!self.assigned.contains_key(&pod.uid), "a pod is bound once");
        self.put(pod.clone(), node.to_owned(), true);
    }

    /// Removes an assumed pod whose binding failed, if it is still assumed.
    pub fn forget(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        if self.is_assumed(uid) {
            self.remove_pod(uid)
        } else {
            None
        }
    }

    /// Removes a pod from its node.
    pub fn remove_pod(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let assignment = self.assigned.remove(uid)?;
        let at = self.by_name[&assignment.node];
        let pod = self.nodes[at].remove(uid);
        if let Some(pod) = &pod {
            self.index.remove(&assignment.node, pod);
        }
        self.drop_if_empty(&assignment.node);
        pod
    }

    /// Takes a pod off its node, to see how that would be. [`Cache::put_back`] undoes it.
    pub fn lift(&mut self, uid: &str) -> Option<Lifted> {
        let Assignment { node, assumed } = self.assigned.remove(uid)?;
        let at = self.by_name[&node];
        let pod = self.nodes[at].remove(uid)?;
        self.index.remove(&node, &pod);
        Some(Lifted { pod, node, assumed })
    }

    /// Puts a lifted pod back on its node.
    pub fn put_back(&mut self, lifted: Lifted) {
        self.put(lifted.pod, lifted.node, lifted.assumed);
    }

    /// The uids of the pods that are on nodes or assumed to be.
    pub fn assigned(&self) -> Vec<String> {
        self.assigned.keys().cloned().collect()
    }

    fn put(&mut self, pod: Arc<PodInfo>, node: String, assumed: bool) {
        let uid = pod.uid.clone();
        self.index.add(&node, &pod);
        let at = self.slot(&node);
        self.nodes[at].add(pod);
        self.assigned.insert(uid, Assignment { node, assumed });
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
