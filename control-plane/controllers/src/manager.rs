//! All loops over one set of caches, without a clock or an apiserver: notices go in, decisions come
//! out, responses go in.
//!
//! Only one decision per key is in progress. The caller makes its calls in order and reports each
//! response when it arrives, because the next decision of any loop depends on it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::time::Duration;

use api_client::Notice;
use machinery::api::Call;
use machinery::object::{self, Object};
use machinery::queue::{BackOff, Queue};
use machinery::schema::Kind;
use machinery::status::Status;
use machinery::time::Timestamp;
use serde_json::json;

use crate::cache::{Caches, Destination, Effects};
use crate::decision::{Answers, Decision, Note, Step, is_absent};
use crate::kinds::Kinds;
use crate::known::Key;
use crate::loops::{Context, Failure, Loop, turn};

/// Maximum number of waiting Events about changes; more are dropped, as Events are informational.
const NOTES_MAX: usize = 1024;

/// How long something that is due waits at most because a call failed. Less would let loops that look
/// again every second do so while an apiserver of custom kinds is away.
const DUE_AFTER_FAILURE: Duration = Duration::from_secs(60);

/// The loops and their caches.
pub(crate) struct Manager {
    pub(crate) caches: Caches,
    loops: Vec<Running>,
    /// Events about changes, each with its component.
    notes: Vec<(String, Note)>,
    /// The loop to ask first next time, so that a busy loop does not starve the others.
    next: usize,
}

struct Running {
    works: Box<dyn Loop>,
    queue: Queue<Key>,
    failures: BTreeMap<Key, Failure>,
    /// What the decisions in progress take, each something else.
    taken: BTreeSet<String>,
    /// The answers to what the loop asked, until it asks no more about the key.
    answers: BTreeMap<Key, Answers>,
}

/// A decision for the caller to carry out.
#[derive(Debug)]
pub(crate) struct Work {
    at: usize,
    pub(crate) key: Key,
    pub(crate) decision: Decision,
}

/// The result of a decision: on failure the index of the first step that failed, and the error.
pub(crate) type Outcome = Result<(), (usize, Status)>;

/// The current time: since the start, for queues, and wall time, for objects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) since_start: Duration,
    pub(crate) wall: Timestamp,
}

impl Manager {
    pub(crate) fn new(loops: Vec<Box<dyn Loop>>) -> Manager {
        let running = loops.into_iter().map(|works| {
            let mut queue = Queue::new(BackOff::LOOPS);
            if works.period().is_some() {
                queue.add(turn());
            }
            Running {
                works,
                queue,
                failures: BTreeMap::new(),
                taken: BTreeSet::new(),
                answers: BTreeMap::new(),
            }
        });
        Manager {
            caches: Caches::default(),
            loops: running.collect(),
            notes: Vec::new(),
            next: 0,
        }
    }

    /// Replaces the kinds that the apiserver serves; returns those that came and those that went.
    /// Objects of kinds that went leave the graph.
    pub(crate) fn take_kinds(&mut self, kinds: Kinds) -> (Vec<Arc<Kind>>, Vec<Arc<Kind>>) {
        let before = std::mem::replace(&mut self.caches.kinds, Arc::new(kinds));
        let now = Arc::clone(&self.caches.kinds);
        let missing = |from: &Kinds, of: &Kinds| -> Vec<Arc<Kind>> {
            let known: HashSet<&Arc<Kind>> = from.collected().collect();
            let all = of.collected().filter(|kind| !known.contains(kind));
            all.map(Arc::clone).collect()
        };
        let (came, went) = (missing(&before, &now), missing(&now, &before));
        let graph = &mut self.caches.graph;
        let mut touched: Vec<String> = went
            .iter()
            .flat_map(|kind| graph.replace(kind, &[]))
            .collect();
        // What was held by an owner of an unknown kind may be held by nothing.
        touched.extend(graph.owned_by(|api_version, kind| {
            now.named(api_version, kind).is_some() && before.named(api_version, kind).is_none()
        }));
        self.wake(&Effects {
            touched,
            ..Effects::default()
        });
        (came, went)
    }

    /// True if the loop of this name runs.
    pub(crate) fn runs(&self, name: &str) -> bool {
        self.loops.iter().any(|one| one.works.name() == name)
    }

    /// Applies a notice from an informer.
    pub(crate) fn observe(
        &mut self,
        kind: &Arc<Kind>,
        destination: Destination,
        notice: Notice,
        now: Moment,
    ) {
        let effects = self.caches.observe(kind, destination, notice, now.wall);
        self.wake(&effects);
        self.wake_later(&effects, now);
    }

    /// The next decision to carry out, if a key is ready and there is something to do.
    pub(crate) fn next(&mut self, now: Moment) -> Option<Work> {
        let count = self.loops.len();
        for turn in 0..count {
            let at = (self.next + turn) % count;
            while let Some(key) = self.loops[at].queue.next(now.since_start) {
                let answers = self.loops[at].answers.remove(&key).unwrap_or_default();
                let context = Context {
                    caches: &self.caches,
                    now: now.wall,
                    failure: self.loops[at].failures.get(&key),
                    taken: &self.loops[at].taken,
                    answers: &answers,
                };
                let mut decision = self.loops[at].works.decide(&context, &key);
                if let Some(past) = decision.past.take() {
                    self.caches.scalings.put(key.clone(), past);
                }
                let asks = !decision.questions.is_empty();
                if asks {
                    self.loops[at].answers.insert(key.clone(), answers);
                }
                for note in std::mem::take(&mut decision.notes) {
                    self.notes.push((self.loops[at].works.component(), note));
                }
                let work = Work { at, key, decision };
                if work.decision.steps.is_empty() && !asks {
                    self.done(&work, Ok(()), now);
                    continue;
                }
                let taken = work.decision.takes.clone();
                self.loops[at].taken.extend(taken);
                self.next = at + 1;
                return Some(work);
            }
        }
        None
    }

    /// Applies the response to one call of a decision.
    pub(crate) fn answered(&mut self, step: &Step, answer: &Result<Object, Status>, now: Moment) {
        if let Some(uid) = &step.asks {
            self.owner_answered(uid, &step.call, answer);
            return;
        }
        // A review is not stored.
        let stored = step.call.writes() && step.refused.is_none();
        if let (Ok(object), true) = (answer, stored) {
            self.wrote(&step.call, object.clone(), now);
        }
    }

    /// Takes the answers to the questions of a decision: the loop decides about the key again.
    pub(crate) fn told(&mut self, work: &Work, answers: Vec<Result<Object, Status>>) {
        let one = &mut self.loops[work.at];
        let known = one.answers.entry(work.key.clone()).or_default();
        for (call, answer) in work.decision.questions.iter().zip(answers) {
            known.add(call, answer);
        }
        one.queue.done(&work.key);
        one.queue.add(work.key.clone());
    }

    /// Ends a decision that was carried out or failed.
    pub(crate) fn done(&mut self, work: &Work, result: Outcome, now: Moment) {
        let Running {
            works,
            queue,
            failures,
            taken,
            ..
        } = &mut self.loops[work.at];
        queue.done(&work.key);
        if let Some(what) = &work.decision.takes {
            taken.remove(what);
        }
        match result {
            Ok(()) => {
                queue.forget(&work.key);
                failures.remove(&work.key);
                if let Some(after) = work.decision.after {
                    queue.add_at(work.key.clone(), now.since_start + after);
                }
                if let Some(period) = works.period().filter(|_| work.key == turn()) {
                    queue.add_at(turn(), now.since_start + period);
                }
            }
            Err((at, error)) => {
                let step = &work.decision.steps[at];
                let deleting = matches!(step.call, Call::Delete { .. });
                // A conflict only means that another writer was faster. A deletion expects no more
                // than an object: any other conflict is of who refuses it.
                let is_late = error.reason == "Conflict" && (!deleting || error.is_of_another());
                if !is_late {
                    let failure = Failure {
                        creating: matches!(step.call, Call::Create { .. }),
                        deleting,
                        message: error.message,
                    };
                    failures.insert(work.key.clone(), failure);
                }
                queue.add_failed(work.key.clone(), now.since_start);
                // What is due by then does not wait until the back-off ends, which may be a quarter of
                // an hour later.
                let due = work
                    .decision
                    .after
                    .map(|after| after.max(DUE_AFTER_FAILURE));
                let period = works.period().filter(|_| work.key == turn());
                for after in due.into_iter().chain(period) {
                    queue.add_at(work.key.clone(), now.since_start + after);
                }
            }
        }
    }

    /// When [`next`](Self::next) may return work again; zero means now.
    pub(crate) fn wake_at(&self) -> Option<Duration> {
        let times = self.loops.iter().filter_map(|one| one.queue.wake_at());
        times.min()
    }

    /// Takes the Events about changes since the last call, each with its component.
    pub(crate) fn take_notes(&mut self) -> Vec<(String, Note)> {
        std::mem::take(&mut self.notes)
    }

    /// The component for the Events of a decision.
    pub(crate) fn component(&self, work: &Work) -> String {
        self.loops[work.at].works.component()
    }

    /// The name of the loop that made a decision.
    pub(crate) fn name(&self, work: &Work) -> &'static str {
        self.loops[work.at].works.name()
    }

    /// The queue length of each loop.
    #[cfg(test)]
    pub(crate) fn depths(&self) -> Vec<(&'static str, usize)> {
        let depth = |one: &Running| (one.works.name(), one.queue.len());
        self.loops.iter().map(depth).collect()
    }

    fn owner_answered(&mut self, uid: &str, call: &Call, answer: &Result<Object, Status>) {
        let Call::Get {
            kind,
            namespace,
            name,
        } = call
        else {
            return;
        };
        match answer {
            Ok(owner) if object::uid(owner) == uid => return,
            Ok(_) => {}
            Err(error) if is_absent(error) => {}
            Err(_) => return,
        }
        self.caches.graph.set_absent(kind, namespace, name, uid);
        let dependents = self.caches.graph.dependents(uid);
        let touched = dependents.map(|vertex| vertex.uid.clone()).collect();
        self.wake(&Effects {
            touched,
            ..Effects::default()
        });
    }

    /// Applies the response to an own write to the caches at once.
    fn wrote(&mut self, call: &Call, answer: Object, now: Moment) {
        let Some(kind) = call.kind() else {
            return;
        };
        let is_object = object::kind(&answer) == kind.kind();
        let effects = match call {
            // A delete that takes effect at once returns the last state of the object, or a Status.
            Call::Delete {
                namespace,
                name,
                options,
                ..
            } if !is_object || !object::is_deleting(&answer) => {
                let last = json!({"metadata": {
                    "namespace": namespace, "name": name, "uid": options.uid,
                }});
                self.caches.deleted(kind, &last, now.wall)
            }
            _ if !is_object => return,
            _ => self.caches.wrote(kind, answer, now.wall),
        };
        self.wake(&effects);
        self.wake_later(&effects, now);
    }

    fn wake_later(&mut self, effects: &Effects, now: Moment) {
        for Running { works, queue, .. } in &mut self.loops {
            let mut wake = |key: Key, after: Duration| queue.add_at(key, now.since_start + after);
            for changed in &effects.changed {
                works.wakes_later(&self.caches, changed, now.wall, &mut wake);
            }
        }
    }

    fn wake(&mut self, effects: &Effects) {
        for one in &mut self.loops {
            let Running { works, queue, .. } = one;
            let mut wake = |key: Key| queue.add(key);
            for changed in &effects.changed {
                if self.notes.len() < NOTES_MAX {
                    let note = works.note(changed);
                    self.notes
                        .extend(note.map(|note| (works.component(), note)));
                }
                works.wakes(&self.caches, changed, &mut wake);
            }
            for uid in &effects.touched {
                works.touched(&self.caches, uid, &mut wake);
            }
            for (kind, namespace) in &effects.deleted {
                works.deleted(&self.caches, kind, namespace.as_deref(), &mut wake);
            }
        }
    }
}
