//! Replica sets: keeps the wanted number of pods; creates missing pods, deletes extra ones by rank.

mod rank;
#[cfg(test)]
mod tests;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use machinery::selector::LabelSelector;

use crate::cache::{Caches, Changed, Diff};
use crate::decision::{Decision, Note, create, delete, update_status};
use crate::known::{Key, Shared};
use crate::loops::{Context, Loop};
use crate::{meta, pods};

/// Maximum number of pods that one decision creates or deletes.
const BURST: usize = 500;

pub(crate) struct ReplicaSets;

impl Loop for ReplicaSets {
    fn name(&self) -> &'static str {
        "replicaset"
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::ReplicaSet(Diff { old, new }) => {
                let set = new.as_ref().or(old.as_ref());
                set.into_iter()
                    .for_each(|set| wake(meta::key(&set.metadata)));
            }
            Changed::Pod(diff) => pods::wake_owners(&caches.replica_sets, selector, diff, wake),
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        let Some(set) = caches.replica_sets.at(key) else {
            return Decision::nothing();
        };
        let Some(selector) = selector(set) else {
            return Decision::nothing();
        };
        let (claimed, claims) = pods::claim(set.as_ref(), &caches.pods, &selector);
        let mut decision = Decision::nothing();
        for call in claims {
            decision.push(call);
        }
        if !decision.steps.is_empty() {
            return decision;
        }
        tell_status(context, set, &claimed, &mut decision);
        if !meta::is_deleting(&set.metadata) {
            scale(context, set, &claimed, &mut decision);
        }
        decision
    }
}

fn selector(set: &ReplicaSet) -> Option<LabelSelector> {
    meta::selector(&set.spec.as_ref()?.selector)
}

/// The number of pods that the set should have.
pub(crate) fn wanted(set: &ReplicaSet) -> i64 {
    let replicas = set.spec.as_ref().and_then(|spec| spec.replicas);
    i64::from(replicas.unwrap_or(1))
}

fn wanted_pods(set: &ReplicaSet) -> usize {
    usize::try_from(wanted(set)).unwrap_or(0)
}

fn scale(
    context: &Context<'_>,
    set: &Shared<ReplicaSet>,
    claimed: &[Shared<Pod>],
    into: &mut Decision,
) {
    let active: Vec<&Shared<Pod>> = claimed.iter().filter(|pod| pods::is_active(pod)).collect();
    let wanted = wanted_pods(set);
    let Some(template) = set.spec.as_ref().and_then(|spec| spec.template.as_ref()) else {
        return;
    };
    for _ in 0..wanted.saturating_sub(active.len()).min(BURST) {
        let pod = pods::from_template(set.as_ref(), template);
        into.push(create(&pod))
            .tell(Note::new(
                set.as_ref(),
                "SuccessfulCreate",
                "Created pod: {}".into(),
            ))
            .tell_failure(
                Note::new(set.as_ref(), "FailedCreate", "Error creating: {}".into()).warning(),
            );
    }
    let extra = active.len().saturating_sub(wanted).min(BURST);
    if extra == 0 {
        return;
    }
    for pod in rank::victims(context, set, &active, extra) {
        let text = format!("Deleted pod: {}", meta::name(&pod.metadata));
        into.push(delete(pod.as_ref()))
            .tell(Note::new(set.as_ref(), "SuccessfulDelete", text))
            .tell_failure(
                Note::new(set.as_ref(), "FailedDelete", "Error deleting: {}".into()).warning(),
            );
    }
}

/// Writes the status if it differs from the current counts.
fn tell_status(
    context: &Context<'_>,
    set: &ReplicaSet,
    claimed: &[Shared<Pod>],
    into: &mut Decision,
) {
    let old = set.status.clone().unwrap_or_default();
    let spec = set.spec.clone().unwrap_or_default();
    let min_ready = meta::seconds(spec.min_ready_seconds.unwrap_or(0));
    let template = spec.template.and_then(|template| template.metadata);
    let labels = template
        .and_then(|metadata| metadata.labels)
        .unwrap_or_default();
    let mut counts = ReplicaSetStatus {
        conditions: conditions(context, old.conditions.clone(), set, claimed),
        observed_generation: set.metadata.generation,
        ..ReplicaSetStatus::default()
    };
    let (mut full, mut ready, mut available) = (0, 0, 0);
    for pod in claimed.iter().filter(|pod| pods::is_active(pod)) {
        counts.replicas += 1;
        let has = |(key, value): (&String, &String)| meta::label(&pod.metadata, key) == Some(value);
        full += i32::from(labels.iter().all(has));
        ready += i32::from(pods::is_ready(pod));
        match pods::available(pod, min_ready, context.now) {
            Ok(()) => available += 1,
            Err(left) => into.again_if(left),
        }
    }
    let ends = |pod: &&Shared<Pod>| meta::is_deleting(&pod.metadata) && !pods::is_finished(pod);
    let terminating = claimed.iter().filter(ends).count();
    counts.fully_labeled_replicas = Some(full);
    counts.ready_replicas = Some(ready);
    counts.available_replicas = Some(available);
    counts.terminating_replicas = Some(i32::try_from(terminating).unwrap_or(i32::MAX));
    if !same(&old, &counts) {
        let mut told = set.clone();
        told.status = Some(counts);
        into.push(update_status(&told));
    }
}

/// True if two statuses are equal; the API leaves out counters that are zero.
fn same(a: &ReplicaSetStatus, b: &ReplicaSetStatus) -> bool {
    let counters = |status: &ReplicaSetStatus| {
        [
            status.replicas,
            status.fully_labeled_replicas.unwrap_or(0),
            status.ready_replicas.unwrap_or(0),
            status.available_replicas.unwrap_or(0),
            status.terminating_replicas.unwrap_or(0),
        ]
    };
    let none = Vec::new();
    let conditions = |status: &ReplicaSetStatus| status.conditions.clone().unwrap_or(none.clone());
    counters(a) == counters(b)
        && a.observed_generation == b.observed_generation
        && conditions(a) == conditions(b)
}

/// Sets `ReplicaFailure` after a failed create or delete of pods, and removes it after a success.
fn conditions(
    context: &Context<'_>,
    old: Option<Vec<ReplicaSetCondition>>,
    set: &ReplicaSet,
    claimed: &[Shared<Pod>],
) -> Option<Vec<ReplicaSetCondition>> {
    const FAILURE: &str = "ReplicaFailure";
    let active = claimed.iter().filter(|pod| pods::is_active(pod)).count();
    let mut conditions = old.unwrap_or_default();
    let failure = context
        .failure
        .filter(|failure| failure.creating || failure.deleting);
    let Some(failure) = failure.filter(|_| active != wanted_pods(set)) else {
        conditions.retain(|has| has.type_ != FAILURE || active != wanted_pods(set));
        return (!conditions.is_empty()).then_some(conditions);
    };
    if !conditions.iter().any(|has| has.type_ == FAILURE) {
        let reason = if failure.creating {
            "FailedCreate"
        } else {
            "FailedDelete"
        };
        conditions.push(ReplicaSetCondition {
            type_: FAILURE.into(),
            status: "True".into(),
            reason: Some(reason.into()),
            message: Some(failure.message.clone()),
            last_transition_time: Some(meta::time(context.now)),
        });
    }
    Some(conditions)
}
