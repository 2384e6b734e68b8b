//! The steps of a set: pods that are missing are created, pods beyond its size deleted, and pods of
//! another revision replaced. An ordered set makes one step and waits until its pod is available.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::history::Chosen;
use super::names::{ordinal, ordinals, pod_name};
use super::{View, claims, identity, revision_of, runs_and_is_ready};
use crate::decision::{Decision, Note, change, create, delete};
use crate::known::Shared;
use crate::{meta, pods};

/// Maximum number of pods that one decision creates.
const BURST: usize = 500;

/// What a step means for the pods after it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    /// They may be looked at.
    On,
    /// In an ordered set they wait.
    Wait,
    /// Nothing else happens until something changes.
    Stop,
}

/// A set's pods by ordinal: those that it should have, and the rest, last first.
struct Pods<'a> {
    living: BTreeMap<i64, &'a Shared<Pod>>,
    extra: Vec<&'a Shared<Pod>>,
}

impl Pods<'_> {
    fn of<'a>(view: &'a View<'_>) -> Pods<'a> {
        let wanted = ordinals(view.spec);
        let is_wanted = |pod: &&Shared<Pod>| wanted.contains(&ordinal(pod));
        let (living, mut extra): (Vec<_>, Vec<_>) = view.pods.iter().partition(is_wanted);
        extra.sort_by_key(|pod| Reverse(ordinal(pod)));
        let living = living.into_iter().map(|pod| (ordinal(pod), pod)).collect();
        Pods { living, extra }
    }
}

pub(super) fn proceed(view: &View<'_>, chosen: &Chosen, into: &mut Decision) {
    let pods = Pods::of(view);
    let mut made = 0;
    for at in ordinals(view.spec) {
        let flow = match pods.living.get(&at) {
            Some(pod) => keep(view, pod, into),
            None if made == BURST => Flow::Stop,
            None => {
                made += 1;
                make(view, chosen, at, into)
            }
        };
        if ends(view, flow) {
            return;
        }
    }
    for pod in &pods.extra {
        claims::follow(view, pod, None, into);
    }
    for pod in &pods.extra {
        if ends(view, remove_extra(view, &pods, pod, into)) {
            return;
        }
    }
    if view.rolls() {
        update(view, chosen, &pods, into);
    }
}

fn ends(view: &View<'_>, flow: Flow) -> bool {
    match flow {
        Flow::On => false,
        Flow::Wait => view.is_ordered(),
        Flow::Stop => true,
    }
}

/// Creates the pod of an ordinal after its claims.
fn make(view: &View<'_>, chosen: &Chosen, at: i64, into: &mut Decision) -> Flow {
    let name = pod_name(view.set, at);
    let taken = view.context.caches.pods.get(view.namespace(), &name);
    if taken.is_some() {
        // A pod that is not the set's has this name.
        return Flow::Stop;
    }
    if claims::is_stale(view, at) {
        return Flow::Wait;
    }
    let revision = if keeps_current(view, at) {
        &chosen.current
    } else {
        &chosen.update
    };
    let Some(pod) = identity::new_pod(view.set, revision, at) else {
        return Flow::Stop;
    };
    if !claims::create_missing(view, at, Some(not_created), into) {
        return Flow::Stop;
    }
    let done = told(view, "Create", &name);
    into.push(create(&pod))
        .tell(Note::new(view.set, "SuccessfulCreate", done))
        .tell_failure(not_created(view, at, "{}"));
    Flow::Wait
}

/// True if a new pod gets the current revision: those before the partition do.
fn keeps_current(view: &View<'_>, at: i64) -> bool {
    let index = at - ordinals(view.spec).start;
    if view.rolling().is_some() {
        return index < view.partition();
    }
    let status = view.set.status.as_ref();
    let current = status.and_then(|status| status.current_replicas);
    view.rolls() && index < i64::from(current.unwrap_or(0))
}

/// Keeps one pod as it should be: a finished pod is deleted, to be created again.
fn keep(view: &View<'_>, pod: &Shared<Pod>, into: &mut Decision) -> Flow {
    let deleting = meta::is_deleting(&pod.metadata);
    if pods::is_finished(pod) {
        if !deleting {
            remove(view, pod, into);
        }
        return Flow::Wait;
    }
    let pending = pods::phase(pod) == "Pending";
    if pending {
        if !claims::create_missing(view, ordinal(pod), None, into) {
            return Flow::Stop;
        }
        claims::follow(view, pod, Some(not_updated), into);
    }
    if view.is_ordered() && (deleting || !runs_and_is_ready(pod) || !view.is_available(pod)) {
        return Flow::Wait;
    }
    restore_identity(view, pod, pending, into)
}

/// Repairs what a pod lost of its identity. `claimed` if its claims are in order.
fn restore_identity(
    view: &View<'_>,
    pod: &Shared<Pod>,
    claimed: bool,
    into: &mut Decision,
) -> Flow {
    let at = ordinal(pod);
    let (named, mounted) = (identity::is_named(pod), claims::are_mounted(view.set, pod));
    let missing = !mounted && !claimed;
    if missing && !claims::create_missing(view, at, Some(not_updated), into) {
        return Flow::Stop;
    }
    let owned = !claimed && claims::follow(view, pod, Some(not_updated), into);
    let text = told(view, "Update", meta::name(&pod.metadata));
    let note = Note::new(view.set, "SuccessfulUpdate", text);
    if named && mounted {
        if owned && let Some(last) = into.steps.last_mut() {
            last.done.get_or_insert(note);
        }
        return Flow::On;
    }
    let mut patch = json!({});
    if !named {
        patch["metadata"]["labels"] = json!(identity::labels(view.set, at));
    }
    if !mounted {
        let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.clone());
        patch["spec"]["volumes"] = json!(claims::volumes(view.set, at, volumes));
    }
    into.push(change(pod.as_ref(), patch))
        .tell(note)
        .tell_failure(not_updated(view, at, "{}"));
    Flow::On
}

/// Deletes a pod beyond the size of the set. In an ordered set those after it are gone and all
/// others available, except for one that is itself the first to be unavailable.
fn remove_extra(view: &View<'_>, pods: &Pods<'_>, pod: &Shared<Pod>, into: &mut Decision) -> Flow {
    if meta::is_deleting(&pod.metadata) {
        return Flow::Wait;
    }
    let unavailable = |pod: &Pod| !view.is_available(pod) || meta::is_deleting(&pod.metadata);
    let mut ascending = pods.extra.iter().rev();
    let first = ascending.find(|pod| unavailable(pod));
    let is_first = first.is_some_and(|first| first.metadata.uid == pod.metadata.uid);
    let healthy = runs_and_is_ready(pod) && view.is_available(pod);
    if view.is_ordered() && !healthy && !is_first {
        return Flow::Wait;
    }
    remove(view, pod, into);
    Flow::Wait
}

/// Replaces the last pod of another revision, if those after it are available.
fn update(view: &View<'_>, chosen: &Chosen, pods: &Pods<'_>, into: &mut Decision) {
    let all = ordinals(view.spec);
    let revision = meta::name(&chosen.update.metadata);
    for at in (all.start + view.partition()..all.end).rev() {
        // One that was just created is not available yet.
        let Some(pod) = pods.living.get(&at) else {
            return;
        };
        let deleting = meta::is_deleting(&pod.metadata);
        if revision_of(pod) != revision && !deleting {
            remove(view, pod, into);
            return;
        }
        if deleting || !view.is_available(pod) {
            return;
        }
    }
}

fn remove(view: &View<'_>, pod: &Pod, into: &mut Decision) {
    let name = meta::name(&pod.metadata);
    let done = told(view, "Delete", name);
    let failed = failed(view, "FailedDelete", "Delete", name, "{}");
    into.push(delete(pod))
        .tell(Note::new(view.set, "SuccessfulDelete", done))
        .tell_failure(failed);
}

fn told(view: &View<'_>, verb: &str, pod: &str) -> String {
    format!("{verb} Pod {pod} in StatefulSet {} successful", view.name())
}

fn failed(view: &View<'_>, reason: &'static str, verb: &str, pod: &str, why: &str) -> Note {
    let set = view.name();
    let message = format!("{verb} Pod {pod} in StatefulSet {set} failed error: {why}");
    Note::new(view.set, reason, message).warning()
}

fn not_created(view: &View<'_>, at: i64, why: &str) -> Note {
    let pod = pod_name(view.set, at);
    failed(view, "FailedCreate", "Create", &pod, why)
}

fn not_updated(view: &View<'_>, at: i64, why: &str) -> Note {
    let pod = pod_name(view.set, at);
    failed(view, "FailedUpdate", "Update", &pod, why)
}
