//! Many nodes in one process: told what their pods and Nodes become and what time it is, the
//! fleet says which calls to make next.
//!
//! Knows no clock and no network. Each job, a pod or a node's lease or status, is worked on once
//! at a time; a call that fails is tried again later.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use machinery::object::{self, Object};
use machinery::queue::{BackOff, Queue};
use machinery::schema::{self, Kind};
use machinery::status::Status;
use machinery::time::Timestamp;
use machinery::world::{Call, PatchForm};
use serde_json::json;

use crate::address::Pool;
use crate::events;
use crate::host::{self, Host};
use crate::pod::{self, Place};

/// The delays after calls that failed.
const BACK_OFF: BackOff = BackOff {
    first: Duration::from_millis(100),
    last: Duration::from_secs(10),
};

/// What is worked on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Job {
    /// The Node of the host of this number: registered, or its status written again.
    Node(usize),
    /// That host's Lease.
    Lease(usize),
    /// A pod, by namespace and name.
    Pod(String, String),
}

/// Calls for a job, to be made one after the other until one fails.
#[derive(Clone)]
pub struct Work {
    pub job: Job,
    pub calls: Vec<Call>,
    /// What to tell people when they went well.
    pub events: Vec<Call>,
}

/// How often nodes speak up.
#[derive(Debug, Clone, Copy)]
pub struct Periods {
    /// Between two renewals of a lease.
    pub lease: Duration,
    /// Between two statuses when nothing changes.
    pub status: Duration,
}

/// The time as everything here is told it.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    /// Since some fixed moment.
    pub elapsed: Duration,
    /// By the calendar.
    pub wall: Timestamp,
}

/// Hollow nodes and their pods.
#[derive(Debug)]
pub struct Fleet {
    members: Vec<Member>,
    by_name: HashMap<String, usize>,
    pods: HashMap<(String, String), Held>,
    queue: Queue<Job>,
    periods: Periods,
}

/// A node and what is known of it.
#[derive(Debug)]
struct Member {
    host: Host,
    pool: Pool,
    /// The Node as it was last seen.
    node: Option<Object>,
    /// The Lease is there, as far as is known.
    leased: bool,
    /// Its renewals are at its own moment of the period.
    in_turn: bool,
    /// The Node was deleted by somebody: as with a kubelet, it stays so.
    removed: bool,
}

/// A pod of one of the nodes.
#[derive(Debug)]
struct Held {
    object: Object,
    member: usize,
}

impl Fleet {
    /// Nodes to be registered.
    pub fn new(hosts: Vec<Host>, periods: Periods) -> Fleet {
        let mut queue = Queue::new(BACK_OFF);
        (0..hosts.len()).for_each(|number| queue.add(Job::Node(number)));
        let member = |host: Host| Member {
            pool: Pool::new(host.number),
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

    /// These are all pods there are.
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
            Held {
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

    /// These are all Nodes there are.
    pub fn nodes_replaced(&mut self, all: Vec<Object>) {
        let there: HashSet<&str> = all.iter().map(object::name).collect();
        for member in &mut self.members {
            // One that never was there is only not registered yet.
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

    /// The next job that needs calls; [`Fleet::done`] must tell how they went.
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

    /// How the calls of a job went: the answer to the last of them, or the error that ended them.
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

    /// When to call [`Fleet::next`] though nothing happened.
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
            // The answer is newer than what the informer told. If nothing changed there is
            // nothing more to do: the same decision would make the same calls for ever.
            Job::Pod(namespace, name) => {
                let held = self.pods.get(&(namespace.clone(), name.clone()));
                let version = held.map(|held| object::resource_version(&held.object));
                if version.is_some_and(|version| version != object::resource_version(&object)) {
                    self.pod_applied(object);
                }
            }
        }
    }

    /// How long a lease that was written is left alone. The first time is shorter, by the node's
    /// number: leases are renewed one after the other, not all in one moment.
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
                // Registered by an earlier run: its status is written over.
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
            // Another pod of that name, or none: the informer will tell.
            (Job::Pod(..), "NotFound" | "Conflict") => {}
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
        vec![Call::Patch {
            kind,
            namespace: String::new(),
            name: member.host.name.clone(),
            subresource: "status",
            form: PatchForm::Strategic,
            patch: json!({"status": member.host.status(Some(node), now.wall)}),
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
        let place = Place {
            host: &member.host.address(),
            pod: &member.pool.of_pod(object::uid(&held.object), has),
        };
        let decision = pod::decide(&held.object, now.wall, place);
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

fn key(pod: &Object) -> (String, String) {
    (
        object::namespace(pod).to_owned(),
        object::name(pod).to_owned(),
    )
}

/// Whether an object is a state before the other. Versions of one object can be compared.
fn is_older(one: &Object, other: &Object) -> bool {
    let version = |object| object::resource_version(object).parse::<u64>().ok();
    matches!((version(one), version(other)), (Some(one), Some(other)) if one < other)
}

fn kind_of(group: &str, kind: &str) -> &'static Kind {
    schema::kind(group, "v1", kind).expect("the table has it")
}
