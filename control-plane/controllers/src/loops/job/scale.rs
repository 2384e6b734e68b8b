//! The number of running pods: creates missing ones, deletes extra ones.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use serde_json::json;

use super::look::{
    ByIndex, Counts, FAILURES, IGNORED, INDEX, Look, count, index, indexes_of, is_ending, number,
};
use super::policy::Verdict;
use crate::decision::{Decision, Note, create, delete, strategic};
use crate::job_pods::{self, TRACKING, delay, ended_at};
use crate::known::{Shared, kind_of};
use crate::{meta, pods};

/// Maximum number of pods that one decision creates or deletes.
const BURST: usize = 500;
/// The variable with the index in the environment of each container.
const VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// Maximum bytes of a name to which the apiserver adds a random end.
const PREFIX_MAX: usize = 58;

/// Brings the number of running pods to what the job needs.
pub(super) fn scale(look: &Look<'_>, counts: &mut Counts, into: &mut Decision) {
    let extra = (counts.active - wanted(look, *counts)).max(0);
    let mut victims = victims(look, usize::try_from(extra).unwrap_or(0));
    if !look.is_suspended() {
        victims.truncate(BURST);
    }
    for pod in &victims {
        if job_pods::is_tracked(pod) {
            into.push(untrack(pod));
        }
        remove(look, pod, counts, into);
    }
    if victims.is_empty() && !look.is_suspended() {
        fill(look, counts, into);
    }
}

/// Deletes the pods that run although the job has ended. They stay tracked until they are counted.
pub(super) fn delete_active(look: &Look<'_>, counts: &mut Counts, into: &mut Decision) {
    for pod in &look.active {
        remove(look, pod, counts, into);
    }
}

fn remove(look: &Look<'_>, pod: &Pod, counts: &mut Counts, into: &mut Decision) {
    let text = format!("Deleted pod: {}", meta::name(&pod.metadata));
    let failed = "Error deleting: {}".to_owned();
    into.push(delete(pod))
        .tell(Note::new(look.job, "SuccessfulDelete", text))
        .tell_failure(Note::new(look.job, "FailedDelete", failed).warning());
    counts.active -= 1;
    counts.terminating += 1;
    counts.ready -= i32::from(pods::is_ready(pod));
}

/// The call that lets go of a pod that is counted, or is not to be.
pub(super) fn untrack(pod: &Pod) -> machinery::api::Call {
    let metadata = &pod.metadata;
    let patch = json!({"metadata": {
        "uid": meta::uid(metadata), "$deleteFromPrimitiveList/finalizers": [TRACKING],
    }});
    let (namespace, name) = meta::key(metadata);
    strategic(kind_of::<Pod>(), &namespace, &name, patch)
}

/// The number of pods that should run.
fn wanted(look: &Look<'_>, counts: Counts) -> i32 {
    let parallelism = look.spec.parallelism.unwrap_or(1);
    match look.spec.completions {
        _ if look.is_suspended() => 0,
        // The others end by themselves.
        None if look.succeeded > 0 => counts.active,
        None => parallelism,
        Some(completions) => (completions - look.succeeded).clamp(0, parallelism.max(0)),
    }
}

/// Creates missing pods, or waits until the delay after a failure is over.
fn fill(look: &Look<'_>, counts: &mut Counts, into: &mut Decision) {
    let mut missing = wanted(look, *counts) - counts.active;
    if look.waits_for_the_end() {
        missing -= counts.terminating;
    }
    let missing = usize::try_from(missing).unwrap_or(0).min(BURST);
    if missing == 0 {
        return;
    }
    let now = look.context.now;
    if look.spec.backoff_limit_per_index.is_none() {
        let failures = &look.context.caches.job_failures;
        let last = failures.of(meta::uid(&look.job.metadata), !look.waits_for_the_end());
        if let Some(left) = last.and_then(|(count, last)| delay(count, last, now)) {
            return into.again(left);
        }
    }
    let new: Vec<Pod> = match &look.indexes {
        None => vec![plain_pod(look); missing],
        Some(by) => {
            let due = due(look, by, missing, into);
            due.into_iter()
                .map(|index| indexed_pod(look, by, index))
                .collect()
        }
    };
    for pod in &new {
        let failed = "Error creating: {}".to_owned();
        into.push(create(pod))
            .tell(Note::new(
                look.job,
                "SuccessfulCreate",
                "Created pod: {}".into(),
            ))
            .tell_failure(Note::new(look.job, "FailedCreate", failed).warning());
    }
    counts.active += count(new.len());
}

/// The indexes that need a pod now; each has its own delay if it has its own limit of failures.
fn due(look: &Look<'_>, by: &ByIndex<'_>, missing: usize, into: &mut Decision) -> Vec<i32> {
    let mut taken = by.succeeded.with(&indexes_of(&look.active));
    if look.waits_for_the_end() {
        let ending: Vec<&Shared<Pod>> = look.pods.iter().filter(|pod| is_ending(pod)).collect();
        taken = taken.with(&indexes_of(&ending));
    }
    if let Some(failed) = &by.failed {
        taken = taken.with(failed);
    }
    let pending = taken.missing(by.completions, missing);
    let wait = |index: &i32| {
        let failed = by.replaced.get(index)?;
        let count = u32::try_from(super::look::failures(failed)).unwrap_or(0) + 1;
        delay(count, ended_at(failed), look.context.now)
    };
    let (due, later): (Vec<i32>, Vec<i32>) =
        pending.into_iter().partition(|index| wait(index).is_none());
    later
        .iter()
        .filter_map(wait)
        .for_each(|left| into.again(left));
    due
}

fn plain_pod(look: &Look<'_>) -> Pod {
    let mut pod = pods::from_template(look.job, &look.spec.template);
    let finalizers = pod.metadata.finalizers.get_or_insert_default();
    if !finalizers.iter().any(|one| one == TRACKING) {
        finalizers.push(TRACKING.into());
    }
    pod
}

fn indexed_pod(look: &Look<'_>, by: &ByIndex<'_>, index: i32) -> Pod {
    let mut pod = plain_pod(look);
    let job = meta::name(&look.job.metadata);
    let end = format!("-{index}-");
    let mut prefix = job.to_owned();
    prefix.truncate(PREFIX_MAX - end.len());
    pod.metadata.generate_name = Some(prefix + &end);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(INDEX.into(), index.to_string());
    let annotations = pod.metadata.annotations.get_or_insert_default();
    annotations.insert(INDEX.into(), index.to_string());
    if by.failed.is_some() {
        let (failures, ignored) = failures_before(look, by.replaced.get(&index));
        annotations.insert(FAILURES.into(), failures.to_string());
        if ignored > 0 {
            annotations.insert(IGNORED.into(), ignored.to_string());
        }
    }
    if let Some(spec) = &mut pod.spec {
        spec.hostname = Some(format!("{job}-{index}"));
        let init = spec.init_containers.iter_mut().flatten();
        init.chain(&mut spec.containers).for_each(tell_index);
    }
    pod
}

/// How often an index failed before the pod that replaces this one, and how often that was ignored.
fn failures_before(look: &Look<'_>, replaced: Option<&&Shared<Pod>>) -> (i32, i32) {
    let Some(pod) = replaced else {
        return (0, 0);
    };
    let ignored = look.verdict(pod) == Verdict::Ignored;
    (
        number(pod, FAILURES) + i32::from(!ignored),
        number(pod, IGNORED) + i32::from(ignored),
    )
}

/// Adds the variable with the index, unless the template has one of that name.
fn tell_index(container: &mut Container) {
    let variables = container.env.get_or_insert_default();
    if variables.iter().any(|one| one.name == VARIABLE) {
        return;
    }
    let field = ObjectFieldSelector {
        field_path: format!("metadata.labels['{INDEX}']"),
        ..ObjectFieldSelector::default()
    };
    variables.push(EnvVar {
        name: VARIABLE.into(),
        value_from: Some(EnvVarSource {
            field_ref: Some(field),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    });
}

/// The pods to delete: those without an index of their own, and enough others to make `least`.
fn victims<'a>(look: &Look<'a>, least: usize) -> Vec<&'a Shared<Pod>> {
    let mut ranked = look.active.clone();
    ranked.sort_by(|a, b| worth(a).cmp(&worth(b)));
    let (mut victims, mut rest) = (Vec::new(), Vec::new());
    match &look.indexes {
        None => rest = ranked,
        Some(_) => {
            // Of each index the pod that is worth most stays.
            let best: BTreeMap<i32, &str> = ranked
                .iter()
                .filter_map(|pod| Some((index(pod)?, meta::name(&pod.metadata))))
                .collect();
            for pod in ranked {
                let stays = look.index_within(pod).and_then(|index| best.get(&index));
                if stays == Some(&meta::name(&pod.metadata)) {
                    rest.push(pod);
                } else {
                    victims.push(pod);
                }
            }
        }
    }
    let more = least.saturating_sub(victims.len());
    victims.extend(rest.into_iter().take(more));
    victims
}

/// The rank of a pod; the smallest is deleted first. In order: whether it is on a node, its phase,
/// whether it is ready, since when, its restarts, and its age.
fn worth(pod: &Pod) -> impl Ord + '_ {
    let phase = match pods::phase(pod) {
        "Pending" => 0,
        "Running" => 2,
        _ => 1,
    };
    let ready = pods::ready_since(pod);
    (
        !pods::node(pod).is_empty(),
        phase,
        ready.is_some(),
        Reverse(ready),
        Reverse(pods::restarts(pod)),
        Reverse(meta::created(&pod.metadata)),
        meta::name(&pod.metadata),
    )
}
