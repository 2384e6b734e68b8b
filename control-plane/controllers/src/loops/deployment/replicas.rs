//! The size of each replica set, and how a changed number of replicas is divided among them.

use std::cmp::Reverse;

use k8s_openapi::api::apps::v1::ReplicaSet;
use machinery::time::Timestamp;
use serde_json::json;

use super::{DESIRED, MOST, View};
use crate::decision::{Decision, Note, change};
use crate::known::Shared;
use crate::loops::replica_set::wanted;
use crate::meta;

pub(super) fn available(set: &ReplicaSet) -> i64 {
    let available = set
        .status
        .as_ref()
        .and_then(|status| status.available_replicas);
    i64::from(available.unwrap_or(0))
}

pub(super) fn sum<'a>(sets: impl Iterator<Item = &'a Shared<ReplicaSet>>) -> i64 {
    sets.map(|set| wanted(set)).sum()
}

/// The sort key of sets by age.
pub(super) fn age(set: &ReplicaSet) -> (Timestamp, &str) {
    (meta::created(&set.metadata), meta::name(&set.metadata))
}

/// The size that the new set may have now.
pub(super) fn grown(view: &View<'_>, new: &ReplicaSet) -> i64 {
    let (size, all) = (wanted(new), view.replicas());
    if size >= all {
        return all;
    }
    let total = sum(view.all());
    size + (view.most() - total).min(all - size).max(0)
}

/// Scales a set, and records the deployment's size in its annotations.
pub(super) fn scale(view: &View<'_>, set: &ReplicaSet, replicas: i64, into: &mut Decision) {
    let annotations = json!({
        DESIRED: view.replicas().to_string(), MOST: view.most().to_string(),
    });
    let noted = |key: &str| meta::annotation(&set.metadata, key) == annotations[key].as_str();
    let before = wanted(set);
    if before == replicas && noted(DESIRED) && noted(MOST) {
        return;
    }
    let patch = json!({
        "metadata": {"annotations": annotations}, "spec": {"replicas": replicas},
    });
    let step = into.push(change(set, patch));
    if before != replicas {
        let way = if replicas > before { "up" } else { "down" };
        let name = meta::name(&set.metadata);
        let text = format!("Scaled {way} replica set {name} from {before} to {replicas}");
        step.tell(Note::new(view.deployment, "ScalingReplicaSet", text));
    }
}

/// Scales the sets to a changed number of replicas: the only active set takes all of the change;
/// several active sets share it.
pub(super) fn spread(view: &View<'_>, into: &mut Decision) {
    let mut active: Vec<&Shared<ReplicaSet>> = view.all().filter(|set| wanted(set) > 0).collect();
    if active.len() <= 1 {
        let latest = active.pop().or(view.new.as_ref()).or(view.old.last());
        if let Some(set) = latest {
            scale(view, set, view.replicas(), into);
        }
        return;
    }
    if let Some(new) = view.new.as_ref().filter(|new| is_saturated(view, new)) {
        for set in view.old.iter().filter(|set| wanted(set) > 0) {
            scale(view, set, 0, into);
        }
        // The annotations may still hold an earlier size.
        scale(view, new, wanted(new), into);
        return;
    }
    if view.recreates() {
        return;
    }
    let total = sum(active.iter().copied());
    let allowed = if view.replicas() > 0 { view.most() } else { 0 };
    let change = allowed - total;
    // The largest set takes the rounding difference; ties go to the newer set when growing, and to
    // the older set when shrinking.
    if change > 0 {
        active.sort_by_key(|set| (Reverse(wanted(set)), Reverse(age(set))))
    } else {
        active.sort_by_key(|set| (Reverse(wanted(set)), age(set)))
    }
    let mut given = 0;
    let mut sizes: Vec<i64> = Vec::new();
    for set in &active {
        let share = match change {
            0 => 0,
            _ => share(view, set, change, given),
        };
        given += share;
        sizes.push(wanted(set) + share);
    }
    sizes[0] = (sizes[0] + change - given).max(0);
    for (set, size) in active.iter().zip(sizes) {
        scale(view, set, size, into);
    }
}

/// A set's share of a change: in proportion to its size, never more than the remainder.
fn share(view: &View<'_>, set: &ReplicaSet, change: i64, given: i64) -> i64 {
    let size = wanted(set);
    let most = meta::annotation(&set.metadata, MOST).and_then(|text| text.parse::<i64>().ok());
    let most = most
        .filter(|most| *most > 0)
        .unwrap_or_else(|| view.replicas().max(1));
    // When the deployment is scaled to zero, every set is.
    let share = match view.replicas() {
        0 => -size,
        _ => rounded(size * view.most(), most) - size,
    };
    let left = change - given;
    if change > 0 {
        share.min(left).max(0)
    } else {
        share.max(left).min(0)
    }
}

/// The quotient rounded to the nearest integer; halves are rounded up.
fn rounded(dividend: i64, divisor: i64) -> i64 {
    (2 * dividend + divisor).div_euclid(2 * divisor)
}

/// True if a set has all replicas of the deployment, and all of them are available.
fn is_saturated(view: &View<'_>, set: &ReplicaSet) -> bool {
    let desired = meta::annotation(&set.metadata, DESIRED).and_then(|text| text.parse().ok());
    let all = view.replicas();
    wanted(set) == all && desired == Some(all) && available(set) == all
}
