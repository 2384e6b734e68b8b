//! Reports to users: Events, and the condition that says why a pod waits.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use machinery::api::{Call, PatchForm};
use machinery::event;
use machinery::object::{self, Object};
use machinery::schema::{self, Kind};
use machinery::status::Status;
use machinery::time::Timestamp;
use serde_json::{Value, json};

use crate::core::Room;
use crate::pod::PodInfo;

/// Maximum bytes of an Event's note; a longer one is cut.
const NOTE_BYTES: usize = 1024;
/// Maximum number of remembered Events; repeating one of them only raises its count.
const REMEMBERED: usize = 4096;
/// How long one is remembered after it was last sent, as in Kubernetes: the apiserver keeps Events
/// for an hour, and then there is nothing left to count.
const REMEMBERED_FOR: Duration = Duration::from_secs(6 * 60);

/// Why a pod is tried again whose volumes were not bound in time, in kube-scheduler's words.
const TIMED_OUT: &str =
    "running PreBind plugin \"VolumeBinding\": binding volumes: context deadline exceeded";

/// Makes the calls that report what happened to pods.
pub(super) struct Reporter {
    /// The reporting controller.
    name: String,
    /// Events sent before, by uid of the pod and note.
    said: HashMap<(String, String), Said>,
}

/// An Event that was sent.
struct Said {
    name: String,
    count: i64,
    last: Timestamp,
}

impl Reporter {
    pub(super) fn new(name: &str) -> Reporter {
        Reporter {
            name: name.to_owned(),
            said: HashMap::new(),
        }
    }

    /// The pod was bound to a node.
    pub(super) fn scheduled(&self, pod: &PodInfo, node: &str, now: Timestamp) -> Vec<Call> {
        let note = format!("Successfully assigned {} to {node}", pod.full_name());
        let kind = ["Normal", "Scheduled", "Binding"];
        vec![event(&self.name, pod, kind, &note, now)]
    }

    /// No node fits the pod. Those that are sent back for it are told, too.
    pub(super) fn refused(
        &mut self,
        pod: &PodInfo,
        why: &str,
        room: &Room,
        now: Timestamp,
    ) -> Vec<Call> {
        let nominated = match room {
            Room::AsBefore => None,
            Room::GivenUp => Some(Value::Null),
            Room::Made(preemption) => Some(json!(preemption.node)),
        };
        let mut calls = self.failure(pod, "Unschedulable", why, nominated, now);
        if let Room::Made(preemption) = room {
            let note = format!(
                "{} (in kube-scheduler memory).",
                outdone(pod, &preemption.node)
            );
            let others = preemption.sent_back.iter();
            calls.extend(others.map(|one| self.preempting(one, pod, &note, now)));
        }
        calls
    }

    /// A pod was deleted so that `node` takes another.
    pub(super) fn preempted(
        &self,
        victim: &PodInfo,
        by: &PodInfo,
        node: &str,
        now: Timestamp,
    ) -> Call {
        self.preempting(victim, by, &outdone(by, node), now)
    }

    fn preempting(&self, victim: &PodInfo, by: &PodInfo, note: &str, now: Timestamp) -> Call {
        let kind = ["Normal", "Preempted", "Preempting"];
        let mut call = event(&self.name, victim, kind, note, now);
        if let Call::Create { object, .. } = &mut call {
            object["related"] = reference(by);
        }
        call
    }

    /// The apiserver refused the binding. It is no failure if the pod is gone or bound already.
    pub(super) fn not_bound(&mut self, pod: &PodInfo, why: &Status, now: Timestamp) -> Vec<Call> {
        if ["NotFound", "Conflict"].contains(&why.reason) {
            return Vec::new();
        }
        let why = format!("binding rejected: {}", why.message);
        self.failure(pod, "SchedulerError", &why, None, now)
    }

    /// The volumes of the pod were not bound in time.
    pub(super) fn timed_out(&mut self, pod: &PodInfo, now: Timestamp) -> Vec<Call> {
        self.failure(pod, "SchedulerError", TIMED_OUT, None, now)
    }

    /// With the node that the pod is nominated for, if that changes.
    fn failure(
        &mut self,
        pod: &PodInfo,
        reason: &str,
        why: &str,
        nominated: Option<Value>,
        now: Timestamp,
    ) -> Vec<Call> {
        let mut calls = vec![self.failed_event(pod, &cut(why), now)];
        let mut status = json!({});
        if let Some(condition) = condition(pod, ["PodScheduled", "False", reason], why, now) {
            status["conditions"] = json!([condition]);
        }
        if let Some(node) = nominated.filter(|node| node.as_str() != Some(&*pod.nominated)) {
            status["nominatedNodeName"] = node;
        }
        if status.as_object().is_some_and(|status| !status.is_empty()) {
            calls.push(status_patch(pod, status));
        }
        calls
    }

    /// The call that creates the Event, or raises its count if it was sent before.
    fn failed_event(&mut self, pod: &PodInfo, note: &str, now: Timestamp) -> Call {
        if self.said.len() >= REMEMBERED {
            self.said.clear();
        }
        let key = (pod.uid.clone(), note.to_owned());
        let said = self.said.get_mut(&key);
        if let Some(said) = said.filter(|said| now.since(said.last) < REMEMBERED_FOR) {
            said.count += 1;
            said.last = now;
            let series = json!({"count": said.count, "lastObservedTime": now.to_micros()});
            return Call::Patch {
                kind: kind_of("events.k8s.io", "Event"),
                namespace: pod.namespace.clone(),
                name: said.name.clone(),
                subresource: "",
                form: PatchForm::Merge,
                patch: json!({"series": series}),
            };
        }
        let kind = ["Warning", "FailedScheduling", "Scheduling"];
        let call = event(&self.name, pod, kind, note, now);
        if let Call::Create { object, .. } = &call {
            let said = Said {
                name: object::name(object).to_owned(),
                count: 1,
                last: now,
            };
            self.said.insert(key, said);
        }
        call
    }
}

/// A condition of a pod with this type, status and reason; `None` if the pod has it already.
pub(super) fn condition(
    pod: &PodInfo,
    kind: [&str; 3],
    why: &str,
    now: Timestamp,
) -> Option<Value> {
    let [kind, status, reason] = kind;
    let conditions = pod.pod.status.as_ref();
    let conditions = conditions.and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    let old = conditions.find(|one| one.type_ == kind);
    let generation = pod.pod.metadata.generation;
    let same = old.is_some_and(|old| {
        old.status == status
            && old.reason.as_deref() == Some(reason)
            && old.message.as_deref() == Some(why)
            && old.observed_generation == generation
    });
    if same {
        return None;
    }
    let as_before = old.filter(|old| old.status == status);
    let since = as_before.and_then(|old| old.last_transition_time.as_ref());
    let since = since.and_then(|since| serde_json::to_value(since).ok());
    let mut condition = json!({
        "type": kind,
        "status": status,
        "reason": reason,
        "message": why,
        "lastTransitionTime": since.unwrap_or_else(|| now.to_seconds().into()),
    });
    if let Some(generation) = generation {
        condition["observedGeneration"] = generation.into();
    }
    Some(condition)
}

/// A change of a pod's status, if it is still the same pod.
pub(super) fn status_patch(pod: &PodInfo, status: Value) -> Call {
    Call::Patch {
        kind: kind_of("", "Pod"),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        subresource: "status",
        form: PatchForm::Strategic,
        patch: json!({"metadata": {"uid": pod.uid}, "status": status}),
    }
}

/// An event about the pod, of this type, reason and action.
fn event(by: &str, pod: &PodInfo, kind: [&str; 3], note: &str, now: Timestamp) -> Call {
    let [kind, reason, action] = kind;
    let object: Object = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": event::name(&pod.name, now, 0), "namespace": pod.namespace},
        "eventTime": now.to_micros(),
        "reportingController": by,
        "reportingInstance": by,
        "type": kind,
        "reason": reason,
        "action": action,
        "note": note,
        "regarding": reference(pod),
    });
    Call::Create {
        kind: kind_of("events.k8s.io", "Event"),
        object,
    }
}

fn outdone(by: &PodInfo, node: &str) -> String {
    format!("Preempted by pod {} on node {node}", by.uid)
}

fn reference(pod: &PodInfo) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": pod.namespace,
        "name": pod.name,
        "uid": pod.uid,
        "resourceVersion": pod.pod.metadata.resource_version,
    })
}

fn cut(note: &str) -> String {
    const END: &str = " ...";
    if note.len() <= NOTE_BYTES {
        return note.to_owned();
    }
    let most = NOTE_BYTES - END.len();
    let end = (0..=most).rev().find(|at| note.is_char_boundary(*at));
    format!("{}{END}", &note[..end.unwrap_or(0)])
}

pub(super) fn kind_of(group: &str, kind: &str) -> Arc<Kind> {
    let found = schema::kind(group, "v1", kind);
    Arc::clone(found.expect("the table has it"))
}
