//! The pure core of the scheduler: it is told of events and the time, and decides which pod goes to
//! which node.
//!
//! Pods are decided one at a time, each against all earlier decisions: a decision counts at once,
//! before the apiserver has stored it, and is undone if the apiserver refuses it.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};

use crate::cache::Cache;
use crate::claims::{Claims, Needs, Plan, Standing};
use crate::filters::{Filter, Prepared, Refusal, Unfit};
use crate::node::NodeInfo;
use crate::pod::{Labels, PodInfo};
use crate::queue::{Event, Queue};
use crate::scores;

/// Below this number of nodes every node is checked; in larger clusters a share of them.
const LOOK_AT_ALL: usize = 100;
/// The filters of a pod that waits for its claims.
const BY_CLAIMS: [Filter; 2] = [Filter::VolumeBinding, Filter::DynamicResources];
/// The smallest share of nodes to find, in percent.
const SHARE_LEAST: usize = 5;

/// A decision for the caller to carry out.
#[derive(Debug)]
pub enum Decision {
    /// Bind the pod to the node.
    Bind { pod: Arc<PodInfo>, node: String },
    /// No node fits the pod.
    Refuse { pod: Arc<PodInfo>, why: Unfit },
    /// Ask for the volumes of the pod's claims on the node. The pod waits for them.
    Claim {
        pod: Arc<PodInfo>,
        node: String,
        plan: Plan,
    },
}

/// The scheduler without I/O.
#[derive(Debug)]
pub struct Core {
    /// Its name in `spec.schedulerName`.
    name: String,
    cache: Cache,
    claims: Claims,
    queue: Queue,
    /// The index where the next search begins, so that searches spread over all nodes.
    start: usize,
    random: fastrand::Rng,
}

impl Core {
    /// A scheduler with this name. The seed breaks ties between equally good nodes.
    pub fn new(name: &str, seed: u64) -> Core {
        Core {
            name: name.to_owned(),
            cache: Cache::default(),
            claims: Claims::default(),
            queue: Queue::default(),
            start: 0,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// The nodes and the pods on them.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The pods that wait for a node.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// A node is new or changed.
    pub fn node(&mut self, node: &Node, now: Duration) {
        if self.cache.set_node(node) {
            let name = node.metadata.name.as_deref().unwrap_or_default();
            let node = self.cache.node(name).expect("it was set just now");
            self.queue.wake(&Event::Node(node), now);
        }
    }

    /// A node is gone.
    pub fn node_gone(&mut self, name: &str, now: Duration) {
        self.cache.remove_node(name);
        self.queue.wake(&Event::NodeGone, now);
    }

    /// A namespace is new or changed.
    pub fn namespace(&mut self, name: &str, labels: Labels, now: Duration) {
        let old = self.cache.namespaces.insert(name.to_owned(), labels);
        if old.as_ref() != self.cache.namespaces.get(name) {
            self.queue.wake(&Event::Namespace, now);
        }
    }

    /// A namespace is gone.
    pub fn namespace_gone(&mut self, name: &str) {
        self.cache.namespaces.remove(name);
    }

    /// Claims changed, or what they depend on.
    pub fn claims(&mut self, now: Duration, change: impl FnOnce(&mut Claims)) {
        change(&mut self.claims);
        self.queue.wake(&Event::Claim, now);
    }

    /// A pod is new or changed.
    pub fn pod(&mut self, pod: Arc<Pod>, now: Duration) {
        let pod = Arc::new(PodInfo::read(pod));
        if pod.finished {
            return self.pod_gone(&pod.uid, now);
        }
        if !pod.node.is_empty() {
            return self.placed(pod, now);
        }
        // Until a watch shows the pod as bound, older states of it may still arrive.
        if pod.scheduler != self.name || self.cache.is_assumed(&pod.uid) {
            return;
        }
        if pod.ending {
            return self.queue.remove(&pod.uid);
        }
        self.queue.set(pod, now);
    }

    /// A pod is gone.
    pub fn pod_gone(&mut self, uid: &str, now: Duration) {
        self.queue.remove(uid);
        if let Some(pod) = self.cache.remove_pod(uid) {
            self.queue.wake(&Event::PodGone(&pod), now);
        }
    }

    /// Removes all pods except these, after the informer listed again.
    pub fn only_pods(&mut self, there: &HashSet<String>, now: Duration) {
        let mut known = self.queue.uids();
        known.extend(self.cache.assigned());
        for uid in known.iter().filter(|uid| !there.contains(*uid)) {
            self.pod_gone(uid, now);
        }
    }

    /// Removes all nodes except these.
    pub fn only_nodes(&mut self, there: &HashSet<String>, now: Duration) {
        let known: Vec<String> = self.cache.nodes().map(|node| node.name.clone()).collect();
        for name in known.iter().filter(|name| !there.contains(*name)) {
            self.node_gone(name, now);
        }
    }

    /// Takes the next pod from the queue and decides on it.
    pub fn next(&mut self, now: Duration) -> Option<Decision> {
        loop {
            let pod = self.queue.pop(now)?;
            let standing = self.claims.of(&pod);
            if let Standing::Waits = standing {
                self.queue.park(&pod.uid, BY_CLAIMS.into(), now);
                continue;
            }
            return Some(match self.place(&pod, standing) {
                Ok((node, plan)) if plan.is_empty() => {
                    self.cache.assume(&pod, &node);
                    self.queue.wake(&Event::PodPlaced(&pod), now);
                    Decision::Bind { pod, node }
                }
                Ok((node, plan)) => {
                    self.claims.assume(&plan.bind);
                    self.queue.park(&pod.uid, BY_CLAIMS.into(), now);
                    Decision::Claim { pod, node, plan }
                }
                Err(why) => {
                    self.queue.park(&pod.uid, refused_by(&why), now);
                    Decision::Refuse { pod, why }
                }
            });
        }
    }

    /// The apiserver accepted a binding; the watch will show the pod on its node.
    pub fn bound(&mut self, uid: &str) {
        self.queue.remove(uid);
    }

    /// The apiserver refused a binding. The pod is retried, unless it is gone or bound otherwise.
    pub fn not_bound(&mut self, uid: &str, now: Duration) {
        if let Some(pod) = self.cache.forget(uid) {
            self.queue.retry(uid, now);
            self.queue.wake(&Event::PodGone(&pod), now);
        }
    }

    /// When to call [`next`](Self::next) even if nothing happens.
    pub fn wake_at(&self) -> Option<Duration> {
        self.queue.wake_at()
    }

    fn placed(&mut self, pod: Arc<PodInfo>, now: Duration) {
        self.queue.remove(&pod.uid);
        let before = self.cache.remove_pod(&pod.uid);
        self.cache.set_pod(pod.clone());
        let news =
            before.is_none_or(|before| before.labels != pod.labels || before.ending != pod.ending);
        if news {
            self.queue.wake(&Event::PodPlaced(&pod), now);
        }
    }

    /// The node for a pod, and what its claims ask for there first.
    fn place(&mut self, pod: &PodInfo, standing: Standing) -> Result<(String, Plan), Unfit> {
        let nodes = self.cache.node_count();
        if nodes == 0 {
            return Err(Unfit::NoNodes);
        }
        let policy = pod
            .pod
            .spec
            .as_ref()
            .and_then(|spec| spec.preemption_policy.as_deref());
        let never_preempts = policy == Some("Never");
        let names = pod.node_terms.as_ref().and_then(|terms| terms.names());
        let nowhere = |filter, reason| Unfit::Nowhere {
            nodes,
            filter,
            reason,
        };
        if names.as_ref().is_some_and(BTreeSet::is_empty) {
            let reason = "pod affinity terms conflict".to_owned();
            return Err(nowhere(Filter::NodeAffinity, reason));
        }
        let needs = match standing {
            Standing::Known(needs) => needs,
            Standing::Refused(reason) => return Err(nowhere(Filter::VolumeBinding, reason)),
            Standing::Waits => Needs::default(),
        };
        let mut search = Search::new(&self.cache, pod, needs, enough(nodes));
        match names {
            Some(names) => {
                let named = names.iter().filter_map(|name| self.cache.node(name));
                search.look(named.filter(|node| node.known));
            }
            None => search.look(self.cache.nodes_from(self.start)),
        }
        let looked = search.fit.len() + search.refusals.len();
        if search.fit.is_empty() {
            return Err(Unfit::Refused {
                nodes,
                absent: nodes - looked,
                refusals: search.refusals,
                never_preempts,
            });
        }
        let best = best(&self.cache, pod, &search.fit, &mut self.random);
        self.start = (self.start + looked) % self.cache.slots();
        let plan = self
            .cache
            .node(&best)
            .map(|node| search.prepared.plan(node));
        Ok((best, plan.unwrap_or_default()))
    }
}

/// A search for nodes: those that fit, and the refusals of those that do not.
struct Search<'a> {
    pod: &'a PodInfo,
    prepared: Prepared,
    enough: usize,
    fit: Vec<&'a NodeInfo>,
    refusals: Vec<Refusal>,
}

impl<'a> Search<'a> {
    fn new(cache: &'a Cache, pod: &'a PodInfo, needs: Needs, enough: usize) -> Search<'a> {
        Search {
            pod,
            prepared: Prepared::new(cache, pod, needs),
            enough,
            fit: Vec::new(),
            refusals: Vec::new(),
        }
    }

    fn look(&mut self, nodes: impl Iterator<Item = &'a NodeInfo>) {
        for node in nodes {
            match self.prepared.check(self.pod, node) {
                Ok(()) => self.fit.push(node),
                Err(refusal) => self.refusals.push(refusal),
            }
            if self.fit.len() == self.enough {
                break;
            }
        }
    }
}

/// The number of fitting nodes after which a search ends.
fn enough(nodes: usize) -> usize {
    if nodes < LOOK_AT_ALL {
        return nodes;
    }
    let share = 50_usize.saturating_sub(nodes / 125).max(SHARE_LEAST);
    (nodes * share / 100).max(LOOK_AT_ALL)
}

/// The node with the highest score; ties are broken at random.
fn best(cache: &Cache, pod: &PodInfo, fit: &[&NodeInfo], random: &mut fastrand::Rng) -> String {
    if let [only] = fit {
        return only.name.clone();
    }
    let scores = scores::total(cache, pod, fit);
    let most = scores.iter().max().copied().unwrap_or(0);
    let best = fit.iter().zip(&scores).filter(|(_, score)| **score == most);
    let best: Vec<&NodeInfo> = best.map(|(node, _)| *node).collect();
    best[random.usize(..best.len())].name.clone()
}

fn refused_by(why: &Unfit) -> BTreeSet<Filter> {
    match why {
        Unfit::NoNodes => BTreeSet::new(),
        Unfit::Nowhere { filter, .. } => BTreeSet::from([*filter]),
        Unfit::Refused { refusals, .. } => refusals.iter().map(|one| one.filter).collect(),
    }
}
