//! The zones and regions that volumes have as labels. Volumes that say where they are in no other
//! way can be used on the nodes there.

#[cfg(test)]
mod tests;

use machinery::object::{self, Object};

use crate::affinity::Labels;

/// The labels, each with the one that nodes may have in its place.
const LABELS: [(&str, &str); 4] = [
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    (
        "topology.kubernetes.io/region",
        "topology.kubernetes.io/region",
    ),
];
/// What separates the zones of a volume that is in several.
const SEPARATOR: &str = "__";

/// A label of a volume.
#[derive(Debug, Clone)]
pub(super) struct Zones {
    label: &'static str,
    newer: &'static str,
    /// A node has one of them.
    values: Vec<String>,
}

/// The zones and regions of a volume. A label with an empty zone counts for nothing.
pub(super) fn read(volume: &Object) -> Vec<Zones> {
    let zones = LABELS.into_iter().filter_map(|(label, newer)| {
        let text = object::at(volume, &["metadata", "labels", label])?.as_str()?;
        let values = text.split(SEPARATOR).map(|zone| zone.trim().to_owned());
        let values: Vec<String> = values.collect();
        let is_whole = values.iter().all(|zone| !zone.is_empty());
        is_whole.then_some(Zones {
            label,
            newer,
            values,
        })
    });
    zones.collect()
}

/// True if a node with these labels is in all of them. One that has no such label is everywhere.
pub(super) fn are_of(zones: &[Zones], node: &Labels) -> bool {
    if zones.is_empty() {
        return true;
    }
    let is_somewhere = LABELS.iter().any(|(label, _)| node.contains_key(*label));
    let is_in = |one: &Zones| {
        let zone = node.get(one.label).or_else(|| node.get(one.newer));
        zone.is_some_and(|zone| one.values.contains(zone))
    };
    !is_somewhere || zones.iter().all(is_in)
}
