//! Many nodes in one process: the fleet is told of pods, Nodes and the time, and returns the next
//! calls to make.
//!
//! It has no clock and no network. Each job (a pod, or a node's Lease or status) is in progress at
//! most once; a failed call is retried later.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use machinery::api::{Call, PatchForm};
use machinery::object::{self, Object};
use machinery::queue::{BackOff, Queue};
use machinery::schema::{self, Kind};
use machinery::status::Status;
use machinery::time::Timestamp;
use serde_json::json;

use crate::address::PodAddresses;
use crate::address::Pool;
use crate::events;
use crate::host::{self, Host};
use crate::pod;
use crate::status;

/// The delays after failed calls.
const BACK_OFF: BackOff = BackOff {
    first: Duration::from_millis(100),
    last: Duration::from_secs(10),
};

/// A unit of work.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Job {
    /// Registers the Node of the host with this number, or writes its status again.
    Node(usize),
    /// That host's Lease.
    Lease(usize),
    /// A pod, by namespace and name.
    Pod(String, String),
}

/// The calls of a job, made one after the other until one fails. Those that read something read the
/// claims of a pod: [`pod::bound`] says whether they failed.
#[derive(Clone)]
pub struct Work {
    pub job: Job,
    pub calls: Vec<Call>,
    /// The Events to send if all calls succeed.
    pub events: Vec<Call>,
}

/// How often nodes write.
#[derive(Debug, Clone, Copy)]
pub struct Periods {
    /// Between two renewals of a Lease.
    pub lease: Duration,
    /// Between two writes of an unchanged status.
    pub status: Duration,
}

/// The current time.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Since a fixed moment.
    pub elapsed: Duration,
    /// Wall time.
    pub wall: Timestamp,
}

/// Hollow nodes and their pods.
#[derive(Debug)]
pub struct Fleet {
    members: Vec<Member>,
    by_name: HashMap<String, usize>,
    pods: HashMap<(String, String), KnownPod>,
    queue: Queue<Job>,
    periods: Periods,
}

/// A node and its known state.
#[derive(Debug)]
struct Member {
    host: Host,
    pool: Pool,
    /// The Node as last seen.
    node: Option<Object>,
    /// The Lease exists, as far as is known.
    leased: bool,
    /// The node has its own moment for renewals within the period.
    in_turn: bool,
    /// The Node was deleted. As with a kubelet, it is not registered again.
    removed: bool,
}

/// A pod of one of the nodes.
#[derive(Debug)]
struct KnownPod {
    object: Object,
    member: usize,
}

impl Fleet {
    /// A fleet of nodes that register first.
    pub fn new(hosts: Vec<Host>, periods: Periods) -> Fleet {
        let mut queue = Queue::new(BACK_OFF);
        (0..hosts.len()).for_each(|number| queue.add(Job::Node(number)));
        let member = |host: Host| Member {
            pool: Pool::new(host.number, &host.families),
            host,
            node: None,
            leased: false,
            in_turn: false,
            removed: false,
        };
        let members: Vec<Member> = hosts.into_iter().map(member).collect();
        let names = members.iter().enumerate();
        let by_name = names.map(|(at, one)| (one.host.name.clone(), at)).collect();
        Fleet {
            members,
            by_name,
            pods: HashMap::new(),
            queue,
            periods,
        }
    }

    /// Replaces the known pods: these are all.
    pub fn pods_replaced(&mut self, all: Vec<Object>) {
        let there: HashSet<(String, String)> = all.iter().map(key).collect();
        let known: Vec<_> = self.pods.keys().cloned().collect();
        for gone in known.into_iter().filter(|one| !there.contains(one)) {
            self.let_go(&gone);
        }
        all.into_iter().for_each(|pod| self.pod_applied(pod));
    }

    /// A pod is new or changed.
    pub fn pod_applied(&mut self, pod: Object) {
        let Some(member) = self.by_name.get(object::text(&pod, &["spec", "nodeName"])) else {
            return;
        };
        let (member, key) = (*member, key(&pod));
        if let Some(held) = self.pods.get(&key) {
            if object::uid(&held.object) != object::uid(&pod) {
                self.let_go(&key);
            } else if is_older(&pod, &held.object) {
                return;
            }
        }
        let (namespace, name) = key.clone();
        self.pods.insert(
            key,
            KnownPod {
                object: pod,
                member,
            },
        );
        self.queue.add(Job::Pod(namespace, name));
    }

    /// A pod is gone.
    pub fn pod_deleted(&mut self, pod: &Object) {
        let key = key(pod);
        let held = self.pods.get(&key);
        if held.is_some_and(|held| object::uid(&held.object) == object::uid(pod)) {
            self.let_go(&key);
        }
    }

    /// Replaces the known Nodes: these are all.
    pub fn nodes_replaced(&mut self, all: Vec<Object>) {
        let there: HashSet<&str> = all.iter().map(object::name).collect();
        for member in &mut self.members {
            // A Node that was never seen is just not registered yet.
            if member.node.is_some() && !there.contains(member.host.name.as_str()) {
                member.node = None;
                member.removed = true;
            }
        }
        all.into_iter().for_each(|node| self.node_applied(node));
    }

    /// A Node is new or changed.
    pub fn node_applied(&mut self, node: Object) {
        let Some(at) = self.by_name.get(object::name(&node)).copied() else {
            return;
        };
        let member = &mut self.members[at];
        let was_stopped = member.node.as_ref().is_some_and(host::is_stopped);
        let back = member.removed || (was_stopped && !host::is_stopped(&node));
        let unwell = !host::is_ready(&node);
        let ranges = object::items(&node, &["spec", "podCIDRs"]).iter();
        let ranges: Vec<&str> = ranges.filter_map(|one| one.as_str()).collect();
        member.pool.move_to(&ranges);
        member.removed = false;
        member.node = Some(node);
        if unwell || back {
            self.queue.add(Job::Node(at));
        }
        if back {
            self.queue.add(Job::Lease(at));
            let own = self.pods.iter().filter(|(_, held)| held.member == at);
            for ((namespace, name), _) in own {
                self.queue.add(Job::Pod(namespace.clone(), name.clone()));
            }
        }
    }

    /// A Node is gone.
    pub fn node_deleted(&mut self, node: &Object) {
        if let Some(at) = self.by_name.get(object::name(node)) {
            self.members[*at].node = None;
            self.members[*at].removed = true;
        }
    }

    /// The next job with calls; the caller must report the result with [`Fleet::done`].
    pub fn next(&mut self, now: Now) -> Option<Work> {
        loop {
            let job = self.queue.next(now.elapsed)?;
            let mut events = Vec::new();
            let calls = match &job {
                Job::Node(at) => self.node_calls(*at, now),
                Job::Lease(at) => self.lease_calls(*at, now),
                Job::Pod(namespace, name) => {
                    self.pod_calls(&(namespace.clone(), name.clone()), now, &mut events)
                }
            };
            if !calls.is_empty() {
                return Some(Work { job, calls, events });
            }
            self.queue.done(&job);
        }
    }

    /// Ends a job: with the response to its last call, or the error that stopped it.
    pub fn done(&mut self, job: &Job, answer: Result<Object, Status>, now: Now) {
        match answer {
            Ok(object) => {
                self.queue.forget(job);
                self.went_well(job, object, now);
            }
            Err(status) => self.went_wrong(job, &status, now),
        }
        self.queue.done(job);
    }

    /// When to call [`Fleet::next`] even if nothing happens.
    pub fn wake_at(&self) -> Option<Duration> {
        self.queue.wake_at()
    }

    fn went_well(&mut self, job: &Job, object: Object, now: Now) {
        match job {
            Job::Node(at) => {
                let at = *at;
                self.members[at].node = Some(object);
                self.members[at].removed = false;
                let next = now.elapsed + self.periods.status;
                self.queue.add_at(Job::Node(at), next);
                if !self.members[at].in_turn {
                    self.queue.add(Job::Lease(at));
                }
            }
            Job::Lease(at) => {
                self.members[*at].leased = true;
                let next = now.elapsed + self.until_renewal(*at);
                self.queue.add_at(job.clone(), next);
            }
            // The response is newer than what the informer reported. If the object did not change,
            // stop here: the same decision would make the same calls forever.
            Job::Pod(namespace, name) => {
                let held = self.pods.get(&(namespace.clone(), name.clone()));
                let version = held.map(|held| object::resource_version(&held.object));
                if version.is_some_and(|version| version != object::resource_version(&object)) {
                    self.pod_applied(object);
                }
            }
        }
    }

    /// The time from a written Lease to its next renewal. The first is shorter, depending on the
    /// node's number, so that the renewals of all nodes are spread over the period.
    fn until_renewal(&mut self, at: usize) -> Duration {
        let count = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        let number = u32::try_from(at).unwrap_or(u32::MAX);
        if std::mem::replace(&mut self.members[at].in_turn, true) {
            self.periods.lease
        } else {
            self.periods
                .lease
                .mul_f64(f64::from(number + 1) / f64::from(count))
        }
    }

    fn went_wrong(&mut self, job: &Job, status: &Status, now: Now) {
        match (job, status.reason) {
            (Job::Node(at), "AlreadyExists") => {
                // Registered by an earlier run: overwrite its status.
                self.members[*at].node = Some(json!({}));
                self.queue.add(job.clone());
            }
            (Job::Node(at), "NotFound") => self.members[*at].removed = true,
            (Job::Lease(at), "NotFound") if self.members[*at].leased => {
                self.members[*at].leased = false;
                self.queue.add(job.clone());
            }
            (Job::Lease(at), "AlreadyExists") => {
                self.members[*at].leased = true;
                self.queue.add(job.clone());
            }
            // The pod is gone or replaced by another: the informer will report it. Any other
            // conflict, such as that of a webhook, leaves the pod as it is. The informer then
            // reports nothing, so the calls must be made again.
            (Job::Pod(..), "NotFound") => {}
            (Job::Pod(..), _) if status.is_of_another() => {}
            _ => {
                let delay = self.queue.add_failed(job.clone(), now.elapsed);
                let (message, delay) = (&status.message, delay.as_millis());
                tracing::debug!(?job, %message, delay_ms = delay, "a call failed, trying again");
            }
        }
    }

    fn node_calls(&mut self, at: usize, now: Now) -> Vec<Call> {
        let member = &self.members[at];
        let kind = kind_of("", "Node");
        let Some(node) = &member.node else {
            let object = member.host.node(now.wall);
            return if member.removed {
                Vec::new()
            } else {
                vec![Call::Create { kind, object }]
            };
        };
        if host::is_stopped(node) {
            return Vec::new();
        }
        let mut status = member.host.status(Some(node), now.wall);
        // By their types, two addresses of a node are the same.
        status::replace(&mut status, "addresses");
        vec![Call::Patch {
            kind,
            namespace: String::new(),
            name: member.host.name.clone(),
            subresource: "status",
            form: PatchForm::Strategic,
            patch: json!({"status": status}),
        }]
    }

    fn lease_calls(&mut self, at: usize, now: Now) -> Vec<Call> {
        let member = &self.members[at];
        let node = member.node.as_ref();
        if member.removed || node.is_some_and(host::is_stopped) {
            let next = now.elapsed + self.periods.lease;
            self.queue.add_at(Job::Lease(at), next);
            return Vec::new();
        }
        let uid = node.map(object::uid).unwrap_or_default();
        let lease = member.host.lease(uid, self.periods.lease, now.wall);
        let kind = kind_of("coordination.k8s.io", "Lease");
        if !member.leased {
            return vec![Call::Create {
                kind,
                object: lease,
            }];
        }
        vec![Call::Patch {
            kind,
            namespace: host::LEASES.to_owned(),
            name: member.host.name.clone(),
            subresource: "",
            form: PatchForm::Merge,
            patch: json!({"spec": lease["spec"]}),
        }]
    }

    fn pod_calls(&mut self, key: &(String, String), now: Now, events: &mut Vec<Call>) -> Vec<Call> {
        let Some(held) = self.pods.get(key) else {
            return Vec::new();
        };
        let member = &mut self.members[held.member];
        if member.node.as_ref().is_some_and(host::is_stopped) {
            return Vec::new();
        }
        let has = object::text(&held.object, &["status", "podIP"]);
        let host = member.host.addresses();
        let pod = member.pool.of_pod(object::uid(&held.object), has);
        let addresses = PodAddresses {
            host: &texts(&host),
            pod: &texts(&pod),
        };
        let decision = pod::decide(&held.object, now.wall, addresses);
        let node = &member.host.name;
        *events = events::of(&held.object, &decision.calls, node, now.wall);
        if let Some(again) = decision.again {
            let at = now.elapsed + again.since(now.wall);
            self.queue
                .add_at(Job::Pod(key.0.clone(), key.1.clone()), at);
        }
        decision.calls
    }

    fn let_go(&mut self, key: &(String, String)) {
        if let Some(held) = self.pods.remove(key) {
            let pool = &mut self.members[held.member].pool;
            pool.give_back(object::uid(&held.object));
        }
    }
}

fn texts(addresses: &[String]) -> Vec<&str> {
    addresses.iter().map(String::as_str).collect()
}

fn key(pod: &Object) -> (String, String) {
    (
        object::namespace(pod).to_owned(),
        object::name(pod).to_owned(),
    )
}

/// True if one state of an object is older than the other, by their versions.
fn is_older(one: &Object, other: &Object) -> bool {
    let version = |object| object::resource_version(object).parse::<u64>().ok();
    matches!((version(one), version(other)), (Some(one), Some(other)) if one < other)
}

fn kind_of(group: &str, kind: &str) -> Arc<Kind> {
    let found = schema::kind(group, "v1", kind);
    Arc::clone(found.expect("the table has it"))
}
