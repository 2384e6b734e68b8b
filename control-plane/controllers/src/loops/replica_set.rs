//! Replica sets, and the older replication controllers: keeps the wanted number of pods; creates
//! missing pods, deletes extra ones by rank.

mod rank;
mod replicated;
#[cfg(test)]
mod tests;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};

use crate::cache::{Caches, Changed, Diff};
use crate::decision::{Decision, Note, create, delete, update_status};
use crate::known::{Key, Shared};
use crate::loops::{Context, Loop};
use crate::{meta, pods};
pub(crate) use replicated::Replicated;

/// Maximum number of pods that one decision creates or deletes.
const BURST: usize = 500;

pub(crate) struct ReplicaSets;

pub(crate) struct ReplicationControllers;

impl Loop for ReplicaSets {
    fn name(&self) -> &'static str {
        "replicaset"
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        wakes::<ReplicaSet>(caches, changed, wake);
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        decide::<ReplicaSet>(context, key)
    }
}

impl Loop for ReplicationControllers {
    fn name(&self) -> &'static str {
        "replicationcontroller"
    }

    fn component(&self) -> String {
        "replication-controller".into()
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        wakes::<ReplicationController>(caches, changed, wake);
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        decide::<ReplicationController>(context, key)
    }
}

/// The number of pods that the set should have.
pub(crate) fn wanted(set: &ReplicaSet) -> i64 {
    set.wanted()
}

fn wakes<T: Replicated>(caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
    if let Some(Diff { old, new }) = T::changed(changed) {
        let set = new.as_ref().or(old.as_ref());
        set.into_iter()
            .for_each(|set| wake(meta::key(set.metadata())));
    }
    if let Changed::Pod(diff) = changed {
        pods::wake_owners(T::all(caches), T::selector, diff, wake);
    }
}

fn decide<T: Replicated>(context: &Context<'_>, key: &Key) -> Decision {
    let caches = context.caches;
    let Some(set) = T::all(caches).at(key) else {
        return Decision::nothing();
    };
    let set: &T = set;
    let Some(selector) = set.selector() else {
        return Decision::nothing();
    };
    let (claimed, claims) = pods::claim(set, &caches.pods, &selector);
    let mut decision = Decision::nothing();
    for call in claims {
        decision.push(call);
    }
    if !decision.steps.is_empty() {
        return decision;
    }
    tell_status(context, set, &claimed, &mut decision);
    if !meta::is_deleting(set.metadata()) {
        scale(context, set, &claimed, &mut decision);
    }
    decision
}

fn wanted_pods<T: Replicated>(set: &T) -> usize {
    usize::try_from(set.wanted()).unwrap_or(0)
}

fn scale<T: Replicated>(
    context: &Context<'_>,
    set: &T,
    claimed: &[Shared<Pod>],
    into: &mut Decision,
) {
    let active: Vec<&Shared<Pod>> = claimed.iter().filter(|pod| pods::is_active(pod)).collect();
    let wanted = wanted_pods(set);
    let Some(template) = set.template() else {
        return;
    };
    for _ in 0..wanted.saturating_sub(active.len()).min(BURST) {
        let pod = pods::from_template(set, template);
        into.push(create(&pod))
            .tell(Note::new(set, "SuccessfulCreate", "Created pod: {}".into()))
            .tell_failure(Note::new(set, "FailedCreate", "Error creating: {}".into()).warning());
    }
    let extra = active.len().saturating_sub(wanted).min(BURST);
    if extra == 0 {
        return;
    }
    for pod in rank::victims(context, set, &active, extra) {
        let text = format!("Deleted pod: {}", meta::name(&pod.metadata));
        into.push(delete(pod.as_ref()))
            .tell(Note::new(set, "SuccessfulDelete", text))
            .tell_failure(Note::new(set, "FailedDelete", "Error deleting: {}".into()).warning());
    }
}

/// Writes the status if it differs from the current counts.
fn tell_status<T: Replicated>(
    context: &Context<'_>,
    set: &T,
    claimed: &[Shared<Pod>],
    into: &mut Decision,
) {
    let old = set.counts();
    let min_ready = meta::seconds(set.min_ready_seconds());
    let template = set.template().and_then(|one| one.metadata.as_ref());
    let labels = template.and_then(|metadata| metadata.labels.as_ref());
    let mut counts = ReplicaSetStatus {
        conditions: conditions(context, old.conditions.clone(), set, claimed),
        observed_generation: set.metadata().generation,
        ..ReplicaSetStatus::default()
    };
    let (mut full, mut ready, mut available) = (0, 0, 0);
    for pod in claimed.iter().filter(|pod| pods::is_active(pod)) {
        counts.replicas += 1;
        let has = |(key, value): (&String, &String)| meta::label(&pod.metadata, key) == Some(value);
        full += i32::from(labels.into_iter().flatten().all(has));
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
    let counts = T::counted(counts);
    if !same(&old, &counts) {
        into.push(update_status(&set.with_counts(counts)));
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
fn conditions<T: Replicated>(
    context: &Context<'_>,
    old: Option<Vec<ReplicaSetCondition>>,
    set: &T,
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
