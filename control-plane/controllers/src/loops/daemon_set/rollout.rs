//! `RollingUpdate`: replaces the pods of earlier templates, a few nodes at a time.

use k8s_openapi::api::core::v1::Pod;

use super::View;
use super::manage::{Changes, apply};
use super::placement::Fit;
use crate::decision::Decision;
use crate::known::Shared;
use crate::meta;

/// Makes the next step of the rollout.
pub(super) fn roll(view: &View<'_>, into: &mut Decision) {
    if view.rolling().is_none() {
        return;
    }
    let wanted = view.nodes.values().filter(|fit| **fit == Fit::Runs).count();
    let changes = match view.surge(wanted) {
        0 => replace(view, wanted, into),
        most => surge(view, wanted, most, into),
    };
    apply(view, &changes, into);
}

/// The living pods of a node.
enum Pair<'a> {
    None,
    New(&'a Shared<Pod>),
    Old(&'a Shared<Pod>),
    Both {
        new: &'a Shared<Pod>,
        old: &'a Shared<Pod>,
    },
    /// Several of one sort: that is mended first.
    More,
}

fn pair<'a>(view: &View<'a>, node: &str) -> Pair<'a> {
    let all = view.on(node).iter().copied();
    let living = all.filter(|pod| !meta::is_deleting(&pod.metadata));
    let (new, old): (Vec<_>, Vec<_>) = living.partition(|pod| view.is_new(pod));
    match (&new[..], &old[..]) {
        ([], []) => Pair::None,
        ([new], []) => Pair::New(new),
        ([], [old]) => Pair::Old(old),
        ([new], [old]) => Pair::Both { new, old },
        _ => Pair::More,
    }
}

/// The nodes with pods, and those that should have one.
fn nodes<'a>(view: &View<'a>) -> impl Iterator<Item = &'a str> {
    let with_pods = view.pods.keys().copied();
    let without = view
        .nodes
        .iter()
        .filter(|(node, fit)| **fit == Fit::Runs && !view.pods.contains_key(*node));
    with_pods.chain(without.map(|(node, _)| *node))
}

/// Deletes old pods as far as nodes may be without an available pod. Old pods that are not
/// available may all go: nothing is lost with them.
fn replace<'a>(view: &View<'a>, wanted: usize, into: &mut Decision) -> Changes<'a> {
    let mut changes = Changes::default();
    let mut candidates = Vec::new();
    let mut unavailable = 0;
    for node in nodes(view) {
        match pair(view, node) {
            Pair::New(pod) if view.is_available(pod, into) => {}
            Pair::Old(pod) if view.is_available(pod, into) => candidates.push(pod),
            Pair::Old(pod) => {
                changes.surplus.push(pod);
                unavailable += 1;
            }
            _ => unavailable += 1,
        }
    }
    let left = view.unavailable(wanted).saturating_sub(unavailable);
    changes.surplus.extend(candidates.into_iter().take(left));
    changes
}

/// Creates new pods beside old ones on `most` nodes at once, and deletes each old one when the new
/// one is available. Where the old one is not available, a new one is created in any case.
fn surge<'a>(view: &View<'a>, wanted: usize, most: usize, into: &mut Decision) -> Changes<'a> {
    let mut changes = Changes::default();
    let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
    let (mut surging, mut available) = (0_usize, 0_usize);
    for node in nodes(view) {
        let runs = view.nodes.get(node) == Some(&Fit::Runs);
        match pair(view, node) {
            Pair::None => {}
            Pair::More => surging += 1,
            Pair::New(new) => available += usize::from(view.is_available(new, into)),
            Pair::Both { new, old } => {
                available += usize::from(view.is_available(old, into));
                if view.is_available(new, into) {
                    changes.surplus.push(old);
                } else {
                    surging += 1;
                }
            }
            Pair::Old(old) => {
                let serves = view.is_available(old, into);
                available += usize::from(serves);
                match (serves, runs) {
                    (true, true) => candidates.push(node),
                    (true, false) => misplaced.push(old),
                    (false, true) => changes.lacking.push(node),
                    (false, false) => changes.surplus.push(old),
                }
            }
        }
    }
    // A pod that serves on the wrong node goes when another serves in its place.
    let spare = available.saturating_sub(wanted);
    changes.surplus.extend(misplaced.into_iter().take(spare));
    let left = most.saturating_sub(surging);
    changes.lacking.extend(candidates.into_iter().take(left));
    changes
}
