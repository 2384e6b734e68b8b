//! Properties of pods that several loops need.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use machinery::api::Call;
use machinery::selector::LabelSelector;
use machinery::time::Timestamp;
use serde_json::json;

use crate::cache::{Diff, Store};
use crate::decision::{controller_key, strategic};
use crate::known::{Key, Known, Shared, kind_of};
use crate::meta;

pub(crate) fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status
        .and_then(|status| status.phase.as_deref())
        .unwrap_or_default()
}

/// True if its containers have ended for good.
pub(crate) fn is_finished(pod: &Pod) -> bool {
    ["Succeeded", "Failed"].contains(&phase(pod))
}

/// True if it counts as a replica of its workload.
pub(crate) fn is_active(pod: &Pod) -> bool {
    !is_finished(pod) && !meta::is_deleting(&pod.metadata)
}

pub(crate) fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    let mut conditions = pod.status.as_ref()?.conditions.iter().flatten();
    conditions.find(|condition| condition.type_ == kind)
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// When it became ready; `None` if it is not.
pub(crate) fn ready_since(pod: &Pod) -> Option<Timestamp> {
    let ready = condition(pod, "Ready").filter(|ready| ready.status == "True")?;
    Some(
        ready
            .last_transition_time
            .as_ref()
            .map(meta::stamp)
            .unwrap_or_default(),
    )
}

/// Ok if the pod has been ready for `min_ready`; otherwise the remaining time, or `None` if it is
/// not ready.
pub(crate) fn available(
    pod: &Pod,
    min_ready: Duration,
    now: Timestamp,
) -> Result<(), Option<Duration>> {
    match ready_since(pod) {
        None => Err(None),
        Some(_) if min_ready.is_zero() => Ok(()),
        Some(since) => match meta::left(since, min_ready, now) {
            None => Ok(()),
            left => Err(left),
        },
    }
}

pub(crate) fn restarts(pod: &Pod) -> i32 {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|s| s.container_statuses.as_ref());
    let counts = statuses.into_iter().flatten().map(|one| one.restart_count);
    counts.max().unwrap_or(0)
}

pub(crate) fn node(pod: &Pod) -> &str {
    pod.place()
}

/// Returns a workload's objects that match its selector, and calls that adopt matching objects
/// without a controller and release objects that no longer match.
pub(crate) fn claim<T: Known, O: Known>(
    owner: &O,
    store: &Store<T>,
    selector: &LabelSelector,
) -> (Vec<Shared<T>>, Vec<Call>) {
    claim_if(owner, store, |metadata| {
        meta::matches(selector, metadata.labels.as_ref())
    })
}

/// The same for objects that belong to the workload by another rule.
pub(crate) fn claim_if<T: Known, O: Known>(
    owner: &O,
    store: &Store<T>,
    belongs: impl Fn(&ObjectMeta) -> bool,
) -> (Vec<Shared<T>>, Vec<Call>) {
    let uid = meta::uid(owner.metadata());
    let mut calls = Vec::new();
    let mut claimed = Vec::new();
    let deleting = meta::is_deleting(owner.metadata());
    for object in store.controlled_by(uid) {
        match belongs(object.metadata()) {
            true => claimed.push(object.clone()),
            false if deleting => {}
            false => calls.push(release(object.as_ref(), uid)),
        }
    }
    calls.extend(adoptions(owner, store, belongs));
    (claimed, calls)
}

/// Calls `wake` for the workloads that control an object, before and after a change; of one without a
/// controller, for those that may adopt it.
pub(crate) fn wake_owners<O: Known, T: Known>(
    workloads: &Store<O>,
    selector: impl Fn(&O) -> Option<LabelSelector>,
    diff: &Diff<T>,
    wake: &mut dyn FnMut(Key),
) {
    let both = diff.old.iter().chain(&diff.new);
    both.filter_map(|object| controller_key::<O, T>(object))
        .for_each(&mut *wake);
    let Some(new) = diff.new.as_ref().map(|new| new.metadata()) else {
        return;
    };
    if meta::controller(new).is_some() {
        return;
    }
    for workload in workloads.in_namespace(meta::namespace(new)) {
        let selector = selector(workload);
        if selector.is_some_and(|selector| meta::matches(&selector, new.labels.as_ref())) {
            wake(meta::key(workload.metadata()));
        }
    }
}

/// Calls that adopt the objects without a controller that belong to a workload. A workload that is
/// being deleted adopts nothing.
pub(crate) fn adoptions<T: Known, O: Known>(
    owner: &O,
    store: &Store<T>,
    belongs: impl Fn(&ObjectMeta) -> bool,
) -> Vec<Call> {
    if meta::is_deleting(owner.metadata()) {
        return Vec::new();
    }
    let orphans = store.orphans(meta::namespace(owner.metadata()));
    let wanted = orphans.filter(|object| {
        let metadata = object.metadata();
        belongs(metadata) && !meta::is_deleting(metadata)
    });
    let owner = meta::owned_by(owner);
    wanted
        .map(|object| adopt(object.as_ref(), &owner))
        .collect()
}

fn adopt<T: Known>(object: &T, owner: &OwnerReference) -> Call {
    change_owners(object, json!(owner))
}

fn release<T: Known>(object: &T, owner: &str) -> Call {
    change_owners(object, json!({"$patch": "delete", "uid": owner}))
}

fn change_owners<T: Known>(object: &T, change: serde_json::Value) -> Call {
    let metadata = object.metadata();
    let patch = json!({"metadata": {
        "uid": meta::uid(metadata),
        "resourceVersion": meta::resource_version(metadata),
        "ownerReferences": [change],
    }});
    strategic(
        kind_of::<T>(),
        meta::namespace(metadata),
        meta::name(metadata),
        patch,
    )
}

/// A new pod from a template: the template's labels, annotations and finalizers, a generated name,
/// and the workload as its controller.
pub(crate) fn from_template<O: Known>(
    owner: &O,
    template: &k8s_openapi::api::core::v1::PodTemplateSpec,
) -> Pod {
    let of_template = template.metadata.clone().unwrap_or_default();
    // A name of at most 63 bytes leaves room for the five that the apiserver adds.
    const PREFIX_MAX: usize = 57;
    let mut prefix = meta::name(owner.metadata()).to_owned();
    prefix.truncate(PREFIX_MAX);
    Pod {
        metadata: ObjectMeta {
            namespace: owner.metadata().namespace.clone(),
            generate_name: Some(format!("{prefix}-")),
            labels: of_template.labels,
            annotations: of_template.annotations,
            finalizers: of_template.finalizers,
            owner_references: Some(vec![meta::owned_by(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}
