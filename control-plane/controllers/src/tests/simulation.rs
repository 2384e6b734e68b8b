//! One manager, one in-memory API, hollow nodes, and a seed that decides which one acts next.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use api_client::{Informer, Notice};
use machinery::api::memory::{Change, Event, MemoryApi};
use machinery::api::{Call, DeleteOptions, PatchForm, kind_of};
use machinery::object::{self, Object};
use machinery::schema::{self, Kind};
use machinery::time::Timestamp;
use serde_json::{Value, json};

use crate::cache::Destination;
use crate::kinds::Kinds;
use crate::loops::Loop;
use crate::manager::{Manager, Moment, Outcome, Work};
use crate::selection::Selection;
use crate::sources::sources_of;

/// More turns than this mean that a loop never ends.
const TURNS_MAX: usize = 200_000;
/// How long nothing may happen before a story continues: longer than every delay of the loops.
const QUIET: Duration = Duration::from_secs(150);
const RENEW: Duration = Duration::from_secs(10);
/// Annotation: the phase with which the pod ends as soon as it runs.
pub(crate) const ENDS: &str = "ends";

/// Creates the loops for each new manager.
pub(crate) type Loops = fn() -> Vec<Box<dyn Loop>>;

pub(crate) struct Simulation {
    pub(crate) api: MemoryApi,
    manager: Manager,
    loops: Loops,
    random: u64,
    now: Moment,
    /// The informers, each with the events that it has not delivered yet.
    sources: Vec<Source>,
    /// The revision up to which changes are in `untold`.
    seen: i64,
    /// Something happened other than lease renewals.
    stirred: bool,
    writes: usize,
    crash_after: Option<usize>,
    nodes: BTreeMap<String, Node>,
    /// The revision at which scheduler and nodes had nothing to do.
    idle_at: i64,
    addresses: u32,
}

struct Source {
    informer: Informer,
    destination: Destination,
    untold: VecDeque<Event>,
}

struct Node {
    alive: bool,
    renewed: Duration,
}

impl Simulation {
    pub(crate) fn new(seed: u64, crash_after: Option<usize>) -> Simulation {
        let loops = || {
            let mut all = crate::loops::all("the certificate", None, None);
            all.retain(|one| Selection::default().has(one.name()));
            all
        };
        Simulation::of(loops, seed, crash_after)
    }

    /// A simulation whose manager runs these loops.
    pub(crate) fn of(loops: Loops, seed: u64, crash_after: Option<usize>) -> Simulation {
        let wall = Timestamp::parse("2026-01-02T03:04:05Z").unwrap();
        let now = Moment {
            since_start: Duration::ZERO,
            wall,
        };
        let mut simulation = Simulation {
            api: MemoryApi::new(wall),
            manager: Manager::new(loops()),
            loops,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            now,
            sources: Vec::new(),
            seen: 0,
            stirred: false,
            writes: 0,
            crash_after,
            nodes: BTreeMap::new(),
            idle_at: 0,
            addresses: 0,
        };
        simulation.start();
        simulation
    }

    /// The number of writes by the manager.
    pub(crate) fn writes(&self) -> usize {
        self.writes
    }

    /// A call by a user.
    pub(crate) fn user(&self, call: Call) -> Object {
        let text = call.to_string();
        let answer = self.api.answer(call);
        answer.unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    pub(crate) fn create(&self, object: Value) -> Object {
        let kind = kind_of(&object);
        self.user(Call::Create {
            kind: Arc::clone(kind),
            object,
        })
    }

    pub(crate) fn patch(&self, kind: &Arc<Kind>, namespace: &str, name: &str, patch: Value) {
        self.user(Call::Patch {
            kind: Arc::clone(kind),
            namespace: namespace.into(),
            name: name.into(),
            subresource: "",
            form: PatchForm::Merge,
            patch,
        });
    }

    pub(crate) fn delete(
        &self,
        kind: &Arc<Kind>,
        namespace: &str,
        name: &str,
        options: DeleteOptions,
    ) {
        self.user(Call::Delete {
            kind: Arc::clone(kind),
            namespace: namespace.into(),
            name: name.into(),
            options,
        });
    }

    pub(crate) fn items(&self, kind: &Arc<Kind>) -> Vec<Object> {
        let namespace = String::new();
        let list = self.user(Call::List {
            kind: Arc::clone(kind),
            namespace,
        });
        object::items(&list, &["items"]).to_vec()
    }

    pub(crate) fn add_node(&mut self, name: &str) {
        self.create(json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"conditions": [{
                "type": "Ready", "status": "True",
                "lastHeartbeatTime": self.now.wall.to_seconds(),
            }]},
        }));
        self.create(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": "kube-node-lease", "name": name},
            "spec": {"holderIdentity": name},
        }));
        let node = Node {
            alive: true,
            renewed: self.now.since_start,
        };
        self.nodes.insert(name.into(), node);
    }

    pub(crate) fn kill_node(&mut self, name: &str) {
        self.nodes.get_mut(name).unwrap().alive = false;
    }

    /// Lets everything run until nothing has happened for [`QUIET`].
    pub(crate) fn settle(&mut self) {
        let mut quiet_since = self.now.since_start;
        for _ in 0..TURNS_MAX {
            let busy = match self.chance(4) {
                0 => self.live() | self.work() | self.tell(),
                1 => self.tell() | self.work() | self.live(),
                _ => self.tell() | self.work(),
            };
            let busy = busy || self.live();
            if std::mem::take(&mut self.stirred) {
                quiet_since = self.now.since_start;
            }
            if busy {
                continue;
            }
            if self.now.since_start - quiet_since > QUIET {
                return;
            } else {
                self.pass_time();
            }
        }
        panic!("the loops do not come to rest: {:?}", self.manager.depths());
    }

    /// Lets some things happen, whatever comes first.
    pub(crate) fn stir(&mut self, turns: u64) {
        for _ in 0..turns {
            match self.chance(3) {
                0 => self.live(),
                1 => self.tell(),
                _ => self.work(),
            };
        }
    }

    /// The manager crashes after so many more writes.
    pub(crate) fn crash_soon(&mut self, writes: usize) {
        self.crash_after = Some(self.writes + writes);
    }

    /// A number below a limit.
    pub(crate) fn chance(&mut self, of: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % of
    }

    /// Starts a new manager, which knows only what its informers find.
    fn start(&mut self) {
        self.manager = Manager::new((self.loops)());
        self.sources.clear();
        self.seen = self.api.revision();
        self.discover();
    }

    /// Reads which kinds are served. Informers of kinds that came begin with a list.
    pub(crate) fn discover(&mut self) {
        let documents = [true, false].map(|core| self.user(Call::Discover { core }));
        let (came, went) = self.manager.take_kinds(Kinds::read(&documents));
        self.note_events();
        self.sources
            .retain(|source| !went.contains(&source.informer.kind));
        let manager = &self.manager;
        let sources = |kind| sources_of(kind, |name| manager.runs(name));
        let started: Vec<_> = came.iter().flat_map(sources).collect();
        for (informer, destination) in started {
            let objects = self.items(&informer.kind);
            let wanted = objects
                .into_iter()
                .filter(|object| selected(&informer.fields, object));
            let notice = Notice::Replaced(wanted.collect());
            self.manager
                .observe(&informer.kind, destination, notice, self.now);
            let untold = VecDeque::new();
            self.sources.push(Source {
                informer,
                destination,
                untold,
            });
        }
    }

    /// Queues new events for the informers.
    fn note_events(&mut self) {
        for event in self.api.events_after(self.seen) {
            self.seen = event.revision;
            for source in &mut self.sources {
                let same = event.kind == source.informer.kind;
                if same && selected(&source.informer.fields, &event.object) {
                    source.untold.push_back(event.clone());
                }
            }
        }
    }

    /// One informer delivers one change; false if there is none left.
    fn tell(&mut self) -> bool {
        self.note_events();
        let waiting: Vec<usize> = (0..self.sources.len())
            .filter(|at| !self.sources[*at].untold.is_empty())
            .collect();
        if waiting.is_empty() {
            return false;
        }
        let at = waiting[self.chance(waiting.len() as u64) as usize];
        let source = &mut self.sources[at];
        let event = source.untold.pop_front().unwrap();
        self.stirred |= event.kind.kind() != "Lease";
        let notice = match event.change {
            Change::Deleted => Notice::Deleted(event.object),
            _ => Notice::Applied(event.object),
        };
        self.manager
            .observe(&source.informer.kind, source.destination, notice, self.now);
        true
    }

    /// The manager carries out one decision.
    fn work(&mut self) -> bool {
        let Some(work) = self.manager.next(self.now) else {
            return false;
        };
        if !work.decision.questions.is_empty() {
            let questions = work.decision.questions.iter();
            let answers = questions.map(|call| self.api.answer(call.clone()));
            let answers = answers.collect();
            self.manager.told(&work, answers);
            return true;
        }
        match self.carry_out(&work) {
            None => self.start(),
            Some(result) => self.manager.done(&work, result, self.now),
        }
        true
    }

    /// Returns `None` if the manager crashed.
    fn carry_out(&mut self, work: &Work) -> Option<Outcome> {
        let mut outcome = Ok(());
        let mut next = 0;
        for (at, step) in work.decision.steps.iter().enumerate() {
            if at < next {
                continue;
            }
            let answer = self.api.answer(step.call.clone());
            if step.call.writes() {
                self.writes += 1;
                self.stirred = true;
                if Some(self.writes) == self.crash_after {
                    return None;
                }
            }
            // Watches may be faster than the response.
            while self.chance(2) == 0 && self.tell() {}
            self.manager.answered(step, &answer, self.now);
            if matches!(step.call, Call::Discover { .. }) {
                self.discover();
            }
            if let Err(error) = step.verdict(&answer) {
                let after = work.decision.after_failure(at, &error);
                outcome = outcome.and(Err((at, error)));
                match after {
                    Some(after) => next = after,
                    None => break,
                }
            }
            if self.chance(3) == 0 {
                self.tell();
            }
        }
        Some(outcome)
    }

    /// Advances the time to the next thing that is due.
    fn pass_time(&mut self) {
        let soon = self.now.since_start + Duration::from_millis(500);
        let wake = self.manager.wake_at().unwrap_or(soon).max(soon);
        let step = wake.min(self.now.since_start + Duration::from_secs(5)) - self.now.since_start;
        self.now.since_start += step;
        self.now.wall = self.now.wall.plus(step);
        self.api.set_now(self.now.wall);
        let leases = kind("coordination.k8s.io", "Lease");
        let due: Vec<String> = self
            .nodes
            .iter_mut()
            .filter(|(_, node)| node.alive && self.now.since_start >= node.renewed + RENEW)
            .map(|(name, node)| {
                node.renewed = self.now.since_start;
                name.clone()
            })
            .collect();
        for name in due {
            let renewed = self.now.wall.to_micros();
            self.patch(
                leases,
                "kube-node-lease",
                &name,
                json!({"spec": {"renewTime": renewed}}),
            );
        }
    }

    /// Lets the scheduler and the nodes do one thing to one pod.
    fn live(&mut self) -> bool {
        if self.idle_at == self.api.revision() {
            return false;
        }
        let pods = self.items(kind("", "Pod"));
        for pod in &pods {
            let node = object::text(pod, &["spec", "nodeName"]).to_owned();
            let alive = self.nodes.get(&node).is_some_and(|node| node.alive);
            if node.is_empty() && !object::is_deleting(pod) {
                if let Some(node) = self.node_for(pod, &pods) {
                    self.user(Call::Bind {
                        namespace: object::namespace(pod).into(),
                        pod: object::name(pod).into(),
                        uid: String::new(),
                        node,
                    });
                    return true;
                }
            } else if alive && object::is_deleting(pod) {
                if object::deletion_grace_seconds(pod) == Some(0) {
                    // A finalizer holds it.
                    continue;
                }
                let options = DeleteOptions {
                    grace_seconds: Some(0),
                    ..DeleteOptions::of(object::uid(pod))
                };
                let (namespace, name) = (object::namespace(pod), object::name(pod));
                self.delete(kind("", "Pod"), namespace, name, options);
                return true;
            } else if alive && object::text(pod, &["status", "phase"]) == "Pending" {
                self.run(pod);
                return true;
            } else if alive && self.end(pod) {
                return true;
            }
        }
        self.idle_at = self.api.revision();
        false
    }

    fn run(&mut self, pod: &Object) {
        self.addresses += 1;
        let mut pod = pod.clone();
        let now = self.now.wall.to_seconds();
        pod["status"] = json!({
            "phase": "Running", "podIP": format!("10.0.0.{}", self.addresses),
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": now}],
        });
        self.user(Call::Update {
            kind: kind("", "Pod").clone(),
            subresource: "status",
            object: pod,
        });
    }

    /// The node that a pod is tied to, if it is there, or a free one for other pods.
    fn node_for(&self, pod: &Object, pods: &[Object]) -> Option<String> {
        let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            ["nodeSelectorTerms"];
        match terms[0]["matchFields"][0]["values"][0].as_str() {
            None => self.free_node(pods),
            Some(name) => {
                let is_there = self.nodes.get(name).is_some_and(|node| node.alive);
                is_there.then(|| name.to_owned())
            }
        }
    }

    /// Ends a running pod with the phase of its annotation [`ENDS`], if it has that.
    fn end(&self, pod: &Object) -> bool {
        let runs = object::text(pod, &["status", "phase"]) == "Running";
        let Some(phase) = object::annotation(pod, ENDS).filter(|_| runs) else {
            return false;
        };
        let mut ended = pod.clone();
        let now = self.now.wall.to_seconds();
        ended["status"] = json!({
            "phase": phase,
            "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}],
        });
        self.user(Call::Update {
            kind: kind("", "Pod").clone(),
            subresource: "status",
            object: ended,
        });
        true
    }

    /// The schedulable node with the fewest pods.
    fn free_node(&self, pods: &[Object]) -> Option<String> {
        let nodes = self.items(kind("", "Node"));
        let free = nodes.iter().filter(|node| {
            let alive = self
                .nodes
                .get(object::name(node))
                .is_some_and(|node| node.alive);
            alive && object::items(node, &["spec", "taints"]).is_empty()
        });
        let load = |name: &str| {
            let on = pods
                .iter()
                .filter(|pod| object::text(pod, &["spec", "nodeName"]) == name);
            on.count()
        };
        let best = free.min_by_key(|node| load(object::name(node)));
        best.map(|node| object::name(node).to_owned())
    }

    /// All objects as text, without values that depend on chance: versions, times, uids, addresses,
    /// generated names.
    pub(crate) fn normalised(&self) -> String {
        let mut lines: Vec<String> = Vec::new();
        for (kind, object) in self.api.objects() {
            if ["Lease", "Event"].contains(&kind.kind()) {
                continue;
            }
            let mut object = object;
            let generated = !object::generate_name(&object).is_empty();
            plain(&mut object);
            if generated {
                object::remove(&mut object, &["metadata", "name"]);
            }
            lines.push(format!("{} {object}", kind.plural()));
        }
        lines.sort();
        lines.join("\n")
    }
}

pub(crate) fn kind(group: &str, name: &str) -> &'static Arc<Kind> {
    schema::kind(group, "v1", name).unwrap()
}

fn selected(fields: &str, object: &Object) -> bool {
    match fields.split_once('=') {
        None => true,
        Some(("metadata.name", name)) => object::name(object) == name,
        Some(("metadata.namespace", namespace)) => object::namespace(object) == namespace,
        Some(other) => panic!("no informer selects by {other:?}"),
    }
}

/// Removes values that depend on chance.
fn plain(value: &mut Value) {
    const CHANCE: [&str; 17] = [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "generation",
        "observedGeneration",
        "lastTransitionTime",
        "lastUpdateTime",
        "lastHeartbeatTime",
        "lastProbeTime",
        "startTime",
        "completionTime",
        "timeAdded",
        "podIP",
        "nodeName",
        "addresses",
        "endpoints.kubernetes.io/last-change-trigger-time",
    ];
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !CHANCE.contains(&key.as_str()));
            if map.contains_key("targetRef") {
                map.remove("targetRef");
            }
            map.values_mut().for_each(plain);
            // Whether one of the annotations above was the only one depends on chance.
            map.retain(|key, value| key != "annotations" || *value != json!({}));
        }
        Value::Array(items) => {
            items.iter_mut().for_each(plain);
            items.sort_by_key(Value::to_string);
        }
        _ => {}
    }
}
