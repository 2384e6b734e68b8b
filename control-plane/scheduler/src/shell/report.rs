//! Reports to users: Events, and the condition that says why a pod waits.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use machinery::api::{Call, PatchForm};
use machinery::object::{self, Object};
use machinery::schema::{self, Kind};
use machinery::status::Status;
use machinery::time::Timestamp;
use serde_json::json;

use crate::pod::PodInfo;

/// Maximum bytes of an Event's note; a longer one is cut.
const NOTE_BYTES: usize = 1024;
/// Maximum number of remembered Events; repeating one of them only raises its count.
const REMEMBERED: usize = 4096;

/// Makes the calls that report what happened to pods.
pub(super) struct Reporter {
    /// The reporting controller.
    name: String,
    /// Events sent before, by uid of the pod and note: the Event's name and count.
    said: HashMap<(String, String), (String, i64)>,
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

    /// No node fits the pod.
    pub(super) fn refused(&mut self, pod: &PodInfo, why: &str, now: Timestamp) -> Vec<Call> {
        self.failure(pod, "Unschedulable", why, now)
    }

    /// The apiserver refused the binding. It is no failure if the pod is gone or bound already.
    pub(super) fn not_bound(&mut self, pod: &PodInfo, why: &Status, now: Timestamp) -> Vec<Call> {
        if ["NotFound", "Conflict"].contains(&why.reason) {
            return Vec::new();
        }
        let why = format!("binding rejected: {}", why.message);
        self.failure(pod, "SchedulerError", &why, now)
    }

    fn failure(&mut self, pod: &PodInfo, reason: &str, why: &str, now: Timestamp) -> Vec<Call> {
        let mut calls = vec![self.failed_event(pod, &cut(why), now)];
        calls.extend(condition(pod, reason, why, now));
        calls
    }

    /// The call that creates the Event, or raises its count if it was sent before.
    fn failed_event(&mut self, pod: &PodInfo, note: &str, now: Timestamp) -> Call {
        if self.said.len() >= REMEMBERED {
            self.said.clear();
        }
        let key = (pod.uid.clone(), note.to_owned());
        if let Some((name, count)) = self.said.get_mut(&key) {
            *count += 1;
            let series = json!({"count": *count, "lastObservedTime": now.to_micros()});
            return Call::Patch {
                kind: kind_of("events.k8s.io", "Event"),
                namespace: pod.namespace.clone(),
                name: name.clone(),
                subresource: "",
                form: PatchForm::Merge,
                patch: json!({"series": series}),
            };
        }
        let kind = ["Warning", "FailedScheduling", "Scheduling"];
        let call = event(&self.name, pod, kind, note, now);
        if let Call::Create { object, .. } = &call {
            self.said.insert(key, (object::name(object).to_owned(), 1));
        }
        call
    }
}

/// The call that sets the condition why the pod waits; `None` if it already says so.
fn condition(pod: &PodInfo, reason: &str, why: &str, now: Timestamp) -> Option<Call> {
    let status = pod.pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    let old = conditions.find(|one| one.type_ == "PodScheduled");
    let generation = pod.pod.metadata.generation;
    let same = old.is_some_and(|old| {
        old.status == "False"
            && old.reason.as_deref() == Some(reason)
            && old.message.as_deref() == Some(why)
            && old.observed_generation == generation
    });
    if same {
        return None;
    }
    let was_false = old.filter(|old| old.status == "False");
    let since = was_false.and_then(|old| old.last_transition_time.as_ref());
    let since = since.and_then(|since| serde_json::to_value(since).ok());
    let mut condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": reason,
        "message": why,
        "lastTransitionTime": since.unwrap_or_else(|| now.to_seconds().into()),
    });
    if let Some(generation) = generation {
        condition["observedGeneration"] = generation.into();
    }
    Some(Call::Patch {
        kind: kind_of("", "Pod"),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        subresource: "status",
        form: PatchForm::Strategic,
        patch: json!({"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}),
    })
}

/// An event about the pod, of this type, reason and action.
fn event(by: &str, pod: &PodInfo, kind: [&str; 3], note: &str, now: Timestamp) -> Call {
    let [kind, reason, action] = kind;
    let nanos = i128::from(now.seconds) * 1_000_000_000 + i128::from(now.nanos);
    let object: Object = json!({
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": format!("{}.{nanos:x}", pod.name), "namespace": pod.namespace},
        "eventTime": now.to_micros(),
        "reportingController": by,
        "reportingInstance": by,
        "type": kind,
        "reason": reason,
        "action": action,
        "note": note,
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
            "resourceVersion": pod.pod.metadata.resource_version,
        },
    });
    Call::Create {
        kind: kind_of("events.k8s.io", "Event"),
        object,
    }
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

fn kind_of(group: &str, kind: &str) -> Arc<Kind> {
    let found = schema::kind(group, "v1", kind);
    Arc::clone(found.expect("the table has it"))
}
