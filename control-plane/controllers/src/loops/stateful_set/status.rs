//! The counts of pods that a set reports.

use k8s_openapi::api::apps::v1::StatefulSetStatus;

use super::history::Chosen;
use super::{View, revision_of, runs_and_is_ready};
use crate::decision::{Decision, update_status};
use crate::{meta, pods};

/// Writes the status if it differs from the current counts.
pub(super) fn tell(view: &View<'_>, chosen: &Chosen, into: &mut Decision) {
    let old = view.set.status.clone().unwrap_or_default();
    let mut status = counted(view, chosen, into);
    let wanted = view.spec.replicas.unwrap_or(1);
    let all_are = |count: Option<i32>| count == Some(wanted);
    // The update is complete: its revision is the current one now.
    if view.rolls()
        && all_are(status.updated_replicas)
        && all_are(status.ready_replicas)
        && all_are(Some(status.replicas))
    {
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
    if differs(&old, &status) {
        let mut told = view.set.clone();
        told.status = Some(status);
        into.push(update_status(&told));
    }
}

fn counted(view: &View<'_>, chosen: &Chosen, into: &mut Decision) -> StatefulSetStatus {
    let current = meta::name(&chosen.current.metadata);
    let update = meta::name(&chosen.update.metadata);
    let (mut replicas, mut ready, mut available) = (0, 0, 0);
    let (mut at_current, mut at_update) = (0, 0);
    for pod in &view.pods {
        let created = !pods::phase(pod).is_empty();
        replicas += i32::from(created);
        if runs_and_is_ready(pod) {
            ready += 1;
            match pods::available(pod, view.min_ready(), view.context.now) {
                Ok(()) => available += 1,
                Err(left) => into.again_if(left),
            }
        }
        if created && !meta::is_deleting(&pod.metadata) {
            at_current += i32::from(revision_of(pod) == current);
            at_update += i32::from(revision_of(pod) == update);
        }
    }
    StatefulSetStatus {
        available_replicas: Some(available),
        collision_count: Some(chosen.collisions),
        conditions: None,
        current_replicas: Some(at_current),
        current_revision: Some(current.into()),
        observed_generation: view.set.metadata.generation,
        ready_replicas: Some(ready),
        replicas,
        update_revision: Some(update.into()),
        updated_replicas: Some(at_update),
    }
}

/// True if the new status must be written; the API leaves out counters that are zero.
fn differs(old: &StatefulSetStatus, new: &StatefulSetStatus) -> bool {
    let counters = |status: &StatefulSetStatus| {
        let optional = [
            status.current_replicas,
            status.ready_replicas,
            status.updated_replicas,
            status.available_replicas,
        ];
        (status.replicas, optional.map(|count| count.unwrap_or(0)))
    };
    new.observed_generation > old.observed_generation
        || counters(old) != counters(new)
        || old.current_revision != new.current_revision
        || old.update_revision != new.update_revision
}
