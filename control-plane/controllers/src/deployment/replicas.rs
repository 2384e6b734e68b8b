//! How many replicas each replica set has, and how a changed number is spread over them.

use std::cmp::Reverse;

use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::json;

use super::{DESIRED, MOST, View, revision};
use crate::cache::Shared;
use crate::decision::{Decision, Note, change};
use crate::meta;
use crate::replica_set::wanted;

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

/// Scales a set, and notes in it for how many replicas of the deployment that was.
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

/// Brings the sets to a changed number of replicas: all of it to the one that is active, or each
/// its share of the change.
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
        // The active one may still be noted for an earlier number.
        scale(view, new, wanted(new), into);
        return;
    }
    if view.recreates() {
        return;
    }
    let total = sum(active.iter().copied());
    let allowed = if view.replicas() > 0 { view.most() } else { 0 };
    let change = allowed - total;
    // The largest takes what rounding leaves over; of equals the newer grows, the older shrinks.
    if change > 0 {
        active.sort_by_key(|set| (Reverse(wanted(set)), Reverse(revision::age(set))))
    } else {
        active.sort_by_key(|set| (Reverse(wanted(set)), revision::age(set)))
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

/// The part of a change that a set takes: in proportion to its size, never more than is left.
fn share(view: &View<'_>, set: &ReplicaSet, change: i64, given: i64) -> i64 {
    let size = wanted(set);
    let most = meta::annotation(&set.metadata, MOST).and_then(|text| text.parse::<i64>().ok());
    let most = most
        .filter(|most| *most > 0)
        .unwrap_or_else(|| view.replicas().max(1));
    // Towards zero every set goes all the way.
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

/// A quotient to the nearest whole number, halves away from zero.
fn rounded(dividend: i64, divisor: i64) -> i64 {
    (2 * dividend + divisor).div_euclid(2 * divisor)
}

/// Whether a set has all replicas that the deployment wants, and all of them serve.
fn is_saturated(view: &View<'_>, set: &ReplicaSet) -> bool {
    let desired = meta::annotation(&set.metadata, DESIRED).and_then(|text| text.parse().ok());
    let all = view.replicas();
    wanted(set) == all && desired == Some(all) && available(set) == all
}
