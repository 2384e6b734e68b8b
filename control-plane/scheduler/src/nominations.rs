//! Pods that wait for a place which others were preempted for: the node of each. Until the pod is
//! bound, a pod of the same priority or less must not take that place.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::pod::PodInfo;

#[derive(Debug)]
struct Nomination {
    node: String,
    pod: Arc<PodInfo>,
    /// The object has said so. Before that, older states of it may still arrive.
    is_stored: bool,
}

/// The nominated pods, by uid.
#[derive(Debug, Default)]
pub struct Nominations(HashMap<String, Nomination>);

impl Nominations {
    /// The object of a pod that waits is new or changed.
    pub fn seen(&mut self, pod: &Arc<PodInfo>) {
        if !pod.nominated.is_empty() {
            let is_stored = true;
            return self.insert(pod, &pod.nominated, is_stored);
        }
        match self.0.get_mut(&pod.uid) {
            Some(one) if one.is_stored => drop(self.0.remove(&pod.uid)),
            Some(one) => one.pod = Arc::clone(pod),
            None => {}
        }
    }

    /// A pod is nominated for a node, which its object does not say yet.
    pub fn set(&mut self, pod: &Arc<PodInfo>, node: &str) {
        self.insert(pod, node, pod.nominated == node);
    }

    /// Returns the pod if it was nominated.
    pub fn remove(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        self.0.remove(uid).map(|one| one.pod)
    }

    /// The node that a pod is nominated for.
    pub fn node(&self, uid: &str) -> Option<&str> {
        self.0.get(uid).map(|one| one.node.as_str())
    }

    /// The pods that `pod` must leave room for, by node.
    pub fn before(&self, pod: &PodInfo) -> BTreeMap<String, Vec<Arc<PodInfo>>> {
        let mut found: BTreeMap<String, Vec<Arc<PodInfo>>> = BTreeMap::new();
        let others = self.0.values().filter(|one| one.pod.uid != pod.uid);
        for one in others.filter(|one| one.pod.priority >= pod.priority) {
            let here = found.entry(one.node.clone()).or_default();
            here.push(Arc::clone(&one.pod));
        }
        found
    }

    /// Removes the pods of less priority than this that are nominated for the node.
    pub fn clear_below(&mut self, priority: i32, node: &str) -> Vec<Arc<PodInfo>> {
        let is_below = |one: &Nomination| one.node == node && one.pod.priority < priority;
        let cleared = self.0.extract_if(|_, one| is_below(one));
        cleared.map(|(_, one)| one.pod).collect()
    }

    fn insert(&mut self, pod: &Arc<PodInfo>, node: &str, is_stored: bool) {
        let nomination = Nomination {
            node: node.to_owned(),
            pod: Arc::clone(pod),
            is_stored,
        };
        self.0.insert(pod.uid.clone(), nomination);
    }
}
