//! The pure core of the scheduler: it is told of events and the time, and decides which pod goes to
//! which node.
//!
//! Pods are decided one at a time, each against all earlier decisions: a decision counts at once,
//! before the apiserver has stored it, and is undone if the apiserver refuses it. So it does while
//! volumes are made for the pod, which then has a place and still waits in the queue.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};

use crate::affinity::Labels;
use crate::budgets::Budgets;
use crate::cache::Cache;
use crate::claims::{Claims, Failed, Grant, Needs, Plan, Standing, is_elsewhere};
use crate::filters::Prepared;
use crate::nominations::Nominations;
use crate::pod::PodInfo;
use crate::preemption::{self, Trial, Victims};
use crate::queue::{Event, Queue};
use crate::refusal::{Filter, Freed, Refusal, Unfit, Unhelped};
use crate::search::{self, Search};
use crate::services::Services;

/// The filters of a pod that waits for its claims.
const BY_CLAIMS: [Filter; 2] = [Filter::VolumeBinding, Filter::DynamicResources];

/// How long a pod waits for its volumes before it is tried again: kube-scheduler's default.
pub const BOUND_WITHIN: Duration = Duration::from_secs(600);

/// A decision for the caller to carry out.
#[derive(Debug)]
pub enum Decision {
    /// Give these claims for devices to the pod, and then bind it to the node. The caller reports
    /// what became of them with [`Core::granted`].
    Bind {
        pod: Arc<PodInfo>,
        node: String,
        grants: Vec<Grant>,
    },
    /// No node fits the pod.
    Refuse {
        pod: Arc<PodInfo>,
        why: Unfit,
        room: Room,
    },
    /// Ask for the volumes of the pod's claims on the node. The pod waits for them. The caller
    /// reports the end of asking with [`Core::claimed`].
    Claim {
        pod: Arc<PodInfo>,
        node: String,
        plan: Plan,
    },
    /// The volumes of the pod were not bound in time. It has no place any more, and is tried again.
    TimedOut { pod: Arc<PodInfo> },
}

/// What is done to make room for a pod that no node takes.
#[derive(Debug)]
pub enum Room {
    /// Nothing, or nothing more than before.
    AsBefore,
    /// Nothing helps: the pod is nominated for no node any more.
    GivenUp,
    /// Others are preempted. The caller reports the end of that with [`Core::preempted`].
    Made(Preemption),
}

/// Pods that leave a node.
#[derive(Debug)]
pub struct Preemption {
    /// The node that the pod is nominated for.
    pub node: String,
    /// The pods to delete.
    pub victims: Vec<Arc<PodInfo>>,
    /// Pods that still waited for their volumes there: they are not deleted, but decided again.
    pub sent_back: Vec<Arc<PodInfo>>,
    /// Pods of less priority that were nominated for that node, and are no more.
    pub outdone: Vec<Arc<PodInfo>>,
}

/// The scheduler without I/O.
#[derive(Debug)]
pub struct Core {
    /// Its name in `spec.schedulerName`.
    name: String,
    cache: Cache,
    claims: Claims,
    queue: Queue,
    nominations: Nominations,
    budgets: Budgets,
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
            nominations: Nominations::default(),
            budgets: Budgets::default(),
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

    /// A node is gone. Pods that waited for their volumes there have to go elsewhere.
    pub fn node_gone(&mut self, name: &str, now: Duration) {
        self.cache.remove_node(name);
        let there = self.cache.node(name).map(|node| node.pods.keys().cloned());
        let there: Vec<String> = there.into_iter().flatten().collect();
        for uid in there {
            self.send_back(&uid, now);
        }
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

    /// Removes all namespaces except these.
    pub fn only_namespaces(&mut self, there: &HashSet<&str>) {
        let known = &mut self.cache.namespaces;
        known.retain(|name, _| there.contains(name.as_str()));
    }

    /// Claims changed, or what they depend on.
    pub fn claims(&mut self, now: Duration, change: impl FnOnce(&mut Claims)) {
        change(&mut self.claims);
        self.queue.wake(&Event::Claim, now);
    }

    /// Disruption budgets changed. That lets no pod fit.
    pub fn budgets(&mut self) -> &mut Budgets {
        &mut self.budgets
    }

    /// Services changed. That lets no pod fit, but says where some go best.
    pub fn services(&mut self) -> &mut Services {
        &mut self.cache.services
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
        if pod.scheduler != self.name {
            return;
        }
        let has_place = self.cache.place(&pod.uid).is_some();
        // Until a watch shows the pod as bound, older states of it may still arrive. After that, too:
        // a list that begins a new watch may be from a server that lags behind.
        if has_place && self.queue.waiting(&pod.uid).is_none() {
            return self.queue.note(pod);
        }
        if pod.ending {
            return self.pod_gone(&pod.uid, now);
        }
        if !has_place {
            self.nominations.seen(&pod);
        }
        self.queue.set(pod, now);
    }

    /// A pod is gone.
    pub fn pod_gone(&mut self, uid: &str, now: Duration) {
        self.queue.remove(uid);
        self.end_nomination(uid, now);
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
            let lacks = matches!(standing, Standing::Lacks);
            if lacks && self.unreserve(&pod).is_some() {
                self.queue.wake(&Event::PodGone(&pod), now);
            }
            let is_made = standing.is_made();
            let has_place = self.cache.place(&pod.uid).is_some();
            // It keeps the place that it has while its volume is made there, or is not seen yet.
            let keeps_place = is_made || matches!(standing, Standing::Unseen(_));
            let waits = lacks || matches!(standing, Standing::Waits);
            if waits || (keeps_place && has_place) {
                if self.wait_on(&pod, lacks, now) {
                    continue;
                }
                return Some(Decision::TimedOut { pod });
            }
            let standing = match standing {
                Standing::Unseen(reason) => Standing::Refused(Filter::VolumeBinding, reason),
                standing => standing,
            };
            let reserved = self.unreserve(&pod);
            if reserved.is_some() && !standing.is_settled() {
                // What it asked for there came to nothing.
                self.queue.retry(&pod.uid, now);
                self.queue.wake(&Event::PodGone(&pod), now);
                continue;
            }
            let placed = self.place(&pod, standing, reserved.as_deref());
            let node = placed.as_ref().ok().map(|(node, _)| node);
            if reserved.is_some() && node != reserved.as_ref() {
                self.queue.wake(&Event::PodGone(&pod), now);
            }
            return Some(match placed {
                Ok((node, plan)) => {
                    self.nominations.remove(&pod.uid);
                    self.cache.assume(&pod, &node);
                    self.queue.wake(&Event::PodPlaced(&pod), now);
                    let until = Some(now + BOUND_WITHIN);
                    if plan.is_empty() && is_made {
                        self.queue.wait(&pod.uid, BY_CLAIMS.into(), until, now);
                        continue;
                    }
                    if plan.is_empty() {
                        let grants = plan.grants;
                        self.claims.grant(&pod.namespace, &grants);
                        return Some(Decision::Bind { pod, node, grants });
                    }
                    self.claims.assume(&pod.namespace, &plan);
                    self.queue.wait(&pod.uid, BY_CLAIMS.into(), until, now);
                    Decision::Claim { pod, node, plan }
                }
                Err((why, room)) => {
                    self.queue.park(&pod.uid, refused_by(&why), now);
                    if let Room::Made(preemption) = &room {
                        self.queue.hold(&pod.uid);
                        for other in &preemption.sent_back {
                            self.send_back(&other.uid, now);
                        }
                    }
                    Decision::Refuse { pod, why, room }
                }
            });
        }
    }

    /// The apiserver accepted a binding; the watch will show the pod on its node.
    pub fn bound(&mut self, uid: &str) {
        self.queue.remove(uid);
    }

    /// What a pod's claims need was asked for. If some of it could not be, the pod loses its place
    /// and is retried.
    pub fn claimed(&mut self, uid: &str, failed: &Failed, now: Duration) {
        if !failed.is_empty() {
            self.send_back(uid, now);
        }
        self.claims(now, |claims| claims.forget(failed));
    }

    /// Of these claims for devices a pod got the first, each in one of these versions, and no more.
    pub fn granted(&mut self, namespace: &str, grants: &[Grant], got: &[String], now: Duration) {
        if grants.is_empty() {
            return;
        }
        self.claims(now, |claims| {
            for (at, one) in grants.iter().enumerate() {
                claims.settle(namespace, one, got.get(at).map(String::as_str));
            }
        });
    }

    /// The pods that were preempted for one have been deleted, or could not all be.
    pub fn preempted(&mut self, uid: &str, all: bool, now: Duration) {
        self.queue.release(uid, !all, now);
    }

    /// The apiserver refused a binding. The pod is retried, unless it is gone or bound otherwise.
    pub fn not_bound(&mut self, uid: &str, now: Duration) {
        if let Some(pod) = self.cache.forget(uid) {
            // As it is by now: it may have changed while the binding was on its way.
            let newest = self.queue.pod(uid).filter(|pod| !pod.ending).cloned();
            match newest {
                Some(newest) => {
                    self.nominations.seen(&newest);
                    self.queue.retry(uid, now);
                }
                None => self.queue.remove(uid),
            }
            self.queue.wake(&Event::PodGone(&pod), now);
        }
    }

    /// When to call [`next`](Self::next) even if nothing happens.
    pub fn wake_at(&self) -> Option<Duration> {
        self.queue.wake_at()
    }

    fn placed(&mut self, pod: Arc<PodInfo>, now: Duration) {
        self.queue.remove(&pod.uid);
        self.nominations.remove(&pod.uid);
        let before = self.cache.remove_pod(&pod.uid);
        self.cache.set_pod(pod.clone());
        let Some(before) = before else {
            return self.queue.wake(&Event::PodPlaced(&pod), now);
        };
        let is_relabelled = before.labels != pod.labels;
        if is_relabelled || before.ending != pod.ending {
            self.queue.wake(&Event::PodPlaced(&pod), now);
        }
        if is_relabelled {
            self.queue.wake(&Event::PodRelabelled, now);
        }
        if before.requests.exceed(&pod.requests) {
            self.queue.wake(&Event::PodShrunk, now);
        }
    }

    /// A pod waits for its claims, perhaps not for the first time. False if it has waited too long
    /// for its volumes: it loses its place, and is retried. For a claim for devices that it `lacks`
    /// it keeps no place, and may wait for as long as that takes.
    fn wait_on(&mut self, pod: &Arc<PodInfo>, lacks: bool, now: Duration) -> bool {
        let until = self.queue.waits_until(&pod.uid);
        let until = (!lacks).then(|| until.unwrap_or(now + BOUND_WITHIN));
        if until.is_none_or(|until| until > now) {
            self.queue.wait(&pod.uid, BY_CLAIMS.into(), until, now);
            return true;
        }
        let had_place = self.unreserve(pod).is_some();
        self.queue.retry(&pod.uid, now);
        if had_place {
            self.queue.wake(&Event::PodGone(pod), now);
        }
        false
    }

    /// A pod that waits for its volumes loses its place, and is retried.
    fn send_back(&mut self, uid: &str, now: Duration) {
        let Some(pod) = self.queue.waiting(uid).cloned() else {
            return;
        };
        if self.unreserve(&pod).is_some() {
            self.queue.retry(uid, now);
            self.queue.wake(&Event::PodGone(&pod), now);
        }
    }

    /// Takes a pod off the node where it has a place while its claims are bound. Returns the node.
    fn unreserve(&mut self, pod: &Arc<PodInfo>) -> Option<String> {
        let node = self.cache.place(&pod.uid)?.to_owned();
        self.cache.forget(&pod.uid);
        self.nominations.seen(pod);
        Some(node)
    }

    /// A pod that was nominated needs its place no more.
    fn end_nomination(&mut self, uid: &str, now: Duration) {
        if let Some(pod) = self.nominations.remove(uid) {
            self.queue.wake(&Event::PodGone(&pod), now);
        }
    }

    /// The node for a pod, and what its claims ask for there first; or why there is none, and what is
    /// done about it. It is the reserved node if that one takes the pod.
    fn place(
        &mut self,
        pod: &Arc<PodInfo>,
        standing: Standing,
        reserved: Option<&str>,
    ) -> Result<(String, Plan), (Unfit, Room)> {
        let nodes = self.cache.node_count();
        if nodes == 0 {
            return Err((Unfit::NoNodes, Room::AsBefore));
        }
        let names = pod.node_terms.as_ref().and_then(|terms| terms.names());
        let nowhere = |filter, reason| {
            let why = Unfit::Nowhere {
                nodes,
                filter,
                reason,
            };
            (why, Room::AsBefore)
        };
        if names.as_ref().is_some_and(BTreeSet::is_empty) {
            let reason = "pod affinity terms conflict".to_owned();
            return Err(nowhere(Filter::NodeAffinity, reason));
        }
        let needs = match standing {
            Standing::Known(needs) => needs,
            Standing::Refused(filter, reason) => return Err(nowhere(filter, reason)),
            Standing::Waits | Standing::Lacks | Standing::Unseen(_) => Needs::default(),
        };
        let before = self.nominations.before(pod);
        let crowded = search::crowded(&mut self.cache, pod, &before);
        let (cache, claims) = (&self.cache, &self.claims);
        let mut search = Search::new(cache, claims, pod, needs, crowded, search::enough(nodes));
        let first = reserved.or_else(|| self.nominations.node(&pod.uid));
        let first = first.and_then(|name| self.cache.node(name));
        if let Some(node) = first.filter(|node| node.known) {
            search.look([node].into_iter());
        }
        if search.fit.is_empty() {
            search.refused.clear();
            match names {
                Some(names) => {
                    let named = names.iter().filter_map(|name| self.cache.node(name));
                    search.look(named.filter(|node| node.known));
                }
                None => search.look(self.cache.nodes_from(self.start)),
            }
        }
        let looked = search.fit.len() + search.refused.len();
        if search.fit.is_empty() {
            let Search {
                prepared, refused, ..
            } = search;
            let refused = refused.into_iter();
            let refused = refused.map(|(node, refusal)| (node.name.clone(), refusal));
            let refused: Vec<(String, Refusal)> = refused.collect();
            let (room, unhelped) = match self.make_room(pod, prepared, &refused, before) {
                Ok(preemption) => (Room::Made(preemption), None),
                Err(why @ Unhelped::NotEligible(_)) => (Room::AsBefore, Some(why)),
                Err(why) => (self.give_up(pod), Some(why)),
            };
            let why = Unfit::Refused {
                nodes,
                absent: nodes - looked,
                freed: self.freed(pod, &refused).map(Box::new),
                refusals: refused.into_iter().map(|(_, refusal)| refusal).collect(),
                unhelped,
            };
            return Err((why, room));
        }
        let best = search::best(&self.cache, pod, &search.fit, &mut self.random);
        self.start = (self.start + looked) % self.cache.slots();
        let plan = self
            .cache
            .node(&best)
            .map(|node| search.prepared.plan(node));
        Ok((best, plan.unwrap_or_default()))
    }

    /// A claim of a pod that these nodes refused which gets other devices.
    fn freed(&self, pod: &PodInfo, refused: &[(String, Refusal)]) -> Option<Freed> {
        if !refused.iter().any(|(_, one)| is_elsewhere(one)) {
            return None;
        }
        let nodes = self.cache.nodes().filter(|node| node.known);
        self.claims.freed(pod, nodes)
    }

    /// Finds pods to preempt for one that all of these nodes refused, and nominates it for their node.
    fn make_room(
        &mut self,
        pod: &Arc<PodInfo>,
        prepared: Prepared,
        refused: &[(String, Refusal)],
        before: BTreeMap<String, Vec<Arc<PodInfo>>>,
    ) -> Result<Preemption, Unhelped> {
        let nominated = self.nominations.node(&pod.uid).and_then(|node| {
            let (_, refusal) = refused.iter().find(|(name, _)| name == node)?;
            Some((node, refusal))
        });
        preemption::may_preempt(&self.cache, pod, nominated)?;
        let could = refused.iter().filter(|(_, refusal)| refusal.resolvable);
        let could: Vec<&str> = could.map(|(name, _)| name.as_str()).collect();
        let start = self.random.usize(..could.len().max(1));
        let trial = Trial {
            cache: &mut self.cache,
            claims: &self.claims,
            pod,
            prepared,
            before,
            budgets: &self.budgets,
        };
        let Victims { node, pods, .. } = trial.run(&could, start)?;
        self.nominations.set(pod, &node);
        let leaving = pods.into_iter().filter(|pod| !pod.ending);
        let (sent_back, victims) = leaving.partition(|pod| self.queue.waiting(&pod.uid).is_some());
        Ok(Preemption {
            outdone: self.nominations.clear_below(pod.priority, &node),
            victims,
            sent_back,
            node,
        })
    }

    /// Nothing that leaves would help the pod.
    fn give_up(&mut self, pod: &PodInfo) -> Room {
        self.nominations.remove(&pod.uid);
        if pod.nominated.is_empty() {
            return Room::AsBefore;
        }
        Room::GivenUp
    }
}

fn refused_by(why: &Unfit) -> BTreeSet<Filter> {
    match why {
        Unfit::NoNodes => BTreeSet::new(),
        Unfit::Nowhere { filter, .. } => BTreeSet::from([*filter]),
        Unfit::Refused { refusals, .. } => refusals.iter().map(|one| one.filter).collect(),
    }
}
