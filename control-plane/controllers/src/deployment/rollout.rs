//! The two ways from old replica sets to the new one: bit by bit, or all at once.

use k8s_openapi::api::apps::v1::ReplicaSet;

use super::replicas::{available, scale, sum};
use super::status::Told;
use super::{View, revision};
use crate::cache::Shared;
use crate::decision::Decision;
use crate::replica_set::wanted;
use crate::{meta, pods};

/// Moves replicas within the leeway: first the new set up, then the old ones down.
pub(super) fn roll(view: &View<'_>, told: &mut Told, into: &mut Decision) {
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

/// How large the new set may be now.
pub(super) fn grown(view: &View<'_>, new: &ReplicaSet) -> i64 {
    let (size, all) = (wanted(new), view.replicas());
    if size >= all {
        return all;
    }
    let total = sum(view.all());
    size + (view.most() - total).min(all - size).max(0)
}

fn shrink_old(view: &View<'_>, new: &ReplicaSet, into: &mut Decision) {
    if sum(view.old.iter()) == 0 {
        return;
    }
    let least = view.replicas() - view.leeway().1;
    let new_unavailable = (wanted(new) - available(new)).max(0);
    // Replicas of the new set that do not serve yet must not be counted on.
    let budget = sum(view.all()) - least - new_unavailable;
    if budget <= 0 {
        return;
    }
    let mut sizes: Vec<i64> = view.old.iter().map(|set| wanted(set)).collect();
    let mut left = budget;
    for (set, size) in view.old.iter().zip(&mut sizes) {
        // What does not serve can go without anybody missing it.
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

/// Ends all old pods before the first new one is made.
pub(super) fn recreate(view: &View<'_>, told: &mut Told, into: &mut Decision) {
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

/// Whether a set still has pods, ending or not.
fn has_living(view: &View<'_>, set: &Shared<ReplicaSet>) -> bool {
    let mut of_set = view
        .context
        .caches
        .pods
        .controlled_by(meta::uid(&set.metadata));
    of_set.any(|pod| !pods::is_finished(pod))
}
