//! The two strategies: step by step (`RollingUpdate`), or all at once (`Recreate`).

use k8s_openapi::api::apps::v1::ReplicaSet;

use super::replicas::{available, grown, scale, sum};
use super::status::NewStatus;
use super::{View, revision};
use crate::decision::Decision;
use crate::known::Shared;
use crate::loops::replica_set::wanted;
use crate::{meta, pods};

/// Moves replicas within `maxSurge` and `maxUnavailable`: first the new set grows, then old ones
/// shrink.
pub(super) fn roll(view: &View<'_>, told: &mut NewStatus, into: &mut Decision) {
    let Some(new) = revision::keep_up(view, true, told, into) else {
        return;
    };
    let size = grown(view, &new);
    if size != wanted(&new) {
        scale(view, &new, size, into);
        return;
    }
    shrink_old(view, &new, into);
}

fn shrink_old(view: &View<'_>, new: &ReplicaSet, into: &mut Decision) {
    if sum(view.old.iter()) == 0 {
        return;
    }
    let least = view.replicas() - view.leeway().1;
    let new_unavailable = (wanted(new) - available(new)).max(0);
    // Replicas of the new set that are not available yet do not count.
    let budget = sum(view.all()) - least - new_unavailable;
    if budget <= 0 {
        return;
    }
    let mut sizes: Vec<i64> = view.old.iter().map(|set| wanted(set)).collect();
    let mut left = budget;
    for (set, size) in view.old.iter().zip(&mut sizes) {
        // Replicas that are not available go first: removing them reduces no availability.
        let idle = (*size - available(set)).clamp(0, left);
        *size -= idle;
        left -= idle;
    }
    let serving: i64 = view.all().map(|set| available(set)).sum();
    let mut spare = (serving - least).max(0);
    for size in &mut sizes {
        let step = (*size).min(spare);
        *size -= step;
        spare -= step;
    }
    for (set, size) in view.old.iter().zip(sizes) {
        if size < wanted(set) {
            scale(view, set, size, into);
        }
    }
}

/// Deletes all old pods before the new set gets replicas.
pub(super) fn recreate(view: &View<'_>, told: &mut NewStatus, into: &mut Decision) {
    for set in view.old.iter().filter(|set| wanted(set) > 0) {
        scale(view, set, 0, into);
    }
    if !into.steps.is_empty() || view.old.iter().any(|set| has_living(view, set)) {
        return;
    }
    let Some(new) = revision::keep_up(view, true, told, into) else {
        return;
    };
    scale(view, &new, view.replicas(), into);
}

/// True if a set still has pods that have not finished.
fn has_living(view: &View<'_>, set: &Shared<ReplicaSet>) -> bool {
    let mut of_set = view
        .context
        .caches
        .pods
        .controlled_by(meta::uid(&set.metadata));
    of_set.any(|pod| !pods::is_finished(pod))
}
