//! The status of a daemon set: the numbers of nodes with and without the right pods.

use k8s_openapi::api::apps::v1::DaemonSetStatus;

use super::View;
use super::placement::Fit;
use crate::decision::{Decision, update_status};
use crate::pods;

/// Writes the status if it changed.
pub(super) fn tell(view: &View<'_>, into: &mut Decision) {
    let old = view.set.status.clone().unwrap_or_default();
    let mut counts = DaemonSetStatus {
        observed_generation: view.set.metadata.generation,
        collision_count: old.collision_count,
        conditions: old.conditions.clone(),
        ..DaemonSetStatus::default()
    };
    let (mut available, mut updated) = (0, 0);
    for (node, fit) in &view.nodes {
        let first = view.on(node).first();
        if *fit != Fit::Runs {
            counts.number_misscheduled += i32::from(first.is_some());
            continue;
        }
        counts.desired_number_scheduled += 1;
        let Some(pod) = first else {
            continue;
        };
        counts.current_number_scheduled += 1;
        counts.number_ready += i32::from(pods::is_ready(pod));
        available += i32::from(view.is_available(pod, into));
        updated += i32::from(view.is_new(pod));
    }
    counts.number_available = Some(available);
    counts.number_unavailable = Some(counts.desired_number_scheduled - available);
    counts.updated_number_scheduled = Some(updated);
    if !same(&old, &counts) {
        let mut told = view.set.as_ref().clone();
        told.status = Some(counts);
        into.push(update_status(&told));
    }
}

/// True if two statuses are equal; the API leaves out counters that are zero.
fn same(a: &DaemonSetStatus, b: &DaemonSetStatus) -> bool {
    let all = |status: &DaemonSetStatus| {
        let counters = [
            status.desired_number_scheduled,
            status.current_number_scheduled,
            status.number_misscheduled,
            status.number_ready,
            status.number_available.unwrap_or(0),
            status.number_unavailable.unwrap_or(0),
            status.updated_number_scheduled.unwrap_or(0),
        ];
        (counters, status.observed_generation)
    };
    all(a) == all(b)
}
