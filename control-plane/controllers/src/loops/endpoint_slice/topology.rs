//! Hints for services whose annotation asks that endpoints are divided among zones: each zone gets
//! as large a share of them as it has of the processors.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointHints, EndpointSlice, ForZone};
use machinery::quantity::Quantity;

use super::Made;
use crate::cache::Caches;
use crate::decision::Note;
use crate::loops::node_lifecycle::is_ready;
use crate::meta;

/// The annotations that ask for it. The first that is there counts.
const BY_TOPOLOGY: [&str; 2] = [
    "service.kubernetes.io/topology-aware-hints",
    "service.kubernetes.io/topology-mode",
];
/// Label: the zone of a node.
const ZONE: &str = "topology.kubernetes.io/zone";
/// Nodes with these labels run no pods of users.
const EXCLUDED: [&str; 2] = [
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
];
/// By how much the endpoints of a zone may have more to do than those of all zones on average.
const OVERLOAD_MAX: f64 = 0.2;
/// An endpoint serves another zone only if both zones are off by so much, and one of them by a
/// whole endpoint.
const MOVED_MIN: f64 = 0.5;

const NO_NODES: &str = "Insufficient Node information: \
                        allocatable CPU or zone not specified on one or more nodes";
const NO_ZONE: &str = "One or more endpoints do not have a zone specified";

/// The number of endpoints for each zone.
type Counts = BTreeMap<String, usize>;

/// How many endpoints a zone gets.
struct Allocation {
    minimum: usize,
    maximum: usize,
    desired: f64,
}

/// True if the endpoints of a service are divided among zones.
pub(super) fn is_wanted(service: &Service) -> bool {
    let mut rules = BY_TOPOLOGY.iter();
    let rule = rules.find_map(|key| meta::annotation(&service.metadata, key));
    matches!(rule, Some("Auto" | "auto"))
}

/// True if a change of a node can change the shares of zones.
pub(super) fn is_moved_by(old: Option<&Node>, new: Option<&Node>) -> bool {
    let seen = |node: &Node| (is_ready(node), zone_of(node).map(str::to_owned));
    old.map(seen) != new.map(seen)
}

/// True if an endpoint of the slice is for a zone.
pub(super) fn has_hints(slice: &EndpointSlice) -> bool {
    let mut endpoints = slice.endpoints.iter().flatten();
    endpoints.any(|one| one.hints.is_some())
}

/// Divides the endpoints of each family, or leaves them without hints if that is not possible.
/// Returns what is to be told: that they are divided, if they were not.
pub(super) fn hint(
    caches: &Caches,
    service: &Service,
    were_divided: bool,
    made: &mut [Made],
) -> Vec<Note> {
    let shares = shares(caches);
    let mut is_known = were_divided;
    let families = made.iter().map(|one| one.slice.address_type.clone());
    let families: BTreeSet<String> = families.collect();
    let mut notes = Vec::new();
    for family in families {
        let of_family = made.iter_mut();
        let of_family = of_family.filter(|one| one.slice.address_type == family);
        let mut slices: Vec<&mut Made> = of_family.collect();
        match divide(shares.as_ref(), &mut slices) {
            Ok(()) if is_known => {}
            Ok(()) => {
                is_known = true;
                let text = format!("Topology Aware Hints has been enabled, addressType: {family}");
                notes.push(Note::new(service, "TopologyAwareHintsEnabled", text));
            }
            Err(why) => {
                let all = slices.iter_mut().flat_map(|one| &mut one.slice.endpoints);
                all.flatten().for_each(|endpoint| endpoint.hints = None);
                let text = format!("{why}, addressType: {family}");
                notes.push(Note::new(service, "TopologyAwareHintsDisabled", text).warning());
            }
        }
    }
    notes
}

/// The share that each zone has of the processors of all nodes that are ready. `None` if there is
/// one zone alone, or a node that does not tell its zone or its processors.
fn shares(caches: &Caches) -> Option<BTreeMap<String, f64>> {
    let mut processors: BTreeMap<String, i64> = BTreeMap::new();
    for node in caches.nodes.all() {
        let is_excluded = |label: &&str| meta::label(&node.metadata, label).is_some();
        if EXCLUDED.iter().any(is_excluded) || !is_ready(node) {
            continue;
        }
        let allocatable = node.status.as_ref()?.allocatable.as_ref()?;
        let has = Quantity::parse(&allocatable.get("cpu")?.0).unwrap_or_default();
        if has.is_zero() {
            return None;
        }
        *processors.entry(zone_of(node)?.to_owned()).or_default() += has.milli_value();
    }
    let total: i64 = processors.values().sum();
    let shares = processors.into_iter();
    let shares = shares.map(|(zone, has)| (zone, has as f64 / total as f64));
    let shares: BTreeMap<String, f64> = shares.collect();
    (shares.len() > 1).then_some(shares)
}

/// Gives each ready endpoint the zone that it is for, or says why it cannot be done.
fn divide(shares: Option<&BTreeMap<String, f64>>, made: &mut [&mut Made]) -> Result<(), String> {
    let shares = shares.ok_or(NO_NODES)?;
    let ready = made.iter_mut().map(|one| ready_in(&mut one.slice).count());
    let allocations = allocations(shares, ready.sum())?;
    let mut counts = Counts::new();
    let mut changed: Vec<&mut EndpointSlice> = Vec::new();
    for one in made {
        let Some((endpoints, kept)) = kept(one, &allocations, &counts) else {
            changed.push(&mut one.slice);
            continue;
        };
        one.slice.endpoints = Some(endpoints);
        for (zone, count) in kept {
            *counts.entry(zone).or_default() += count;
        }
    }
    for endpoint in changed.iter_mut().flat_map(|slice| ready_in(slice)) {
        let zone = endpoint.zone.clone().ok_or(NO_ZONE)?;
        endpoint.hints = Some(hints(&zone));
        *counts.entry(zone).or_default() += 1;
    }
    level(&mut changed, &allocations, &counts);
    Ok(())
}

fn allocations(
    shares: &BTreeMap<String, f64>,
    endpoints: usize,
) -> Result<BTreeMap<&str, Allocation>, String> {
    let counted = format!("({endpoints} endpoints, {} zones)", shares.len());
    if shares.len() > endpoints {
        return Err(format!("Insufficient number of endpoints {counted}"));
    }
    let mut allocations = BTreeMap::new();
    for (zone, share) in shares {
        let desired = share * endpoints as f64;
        let minimum = (desired * (1.0 / (1.0 + OVERLOAD_MAX))).ceil() as usize;
        let allocation = Allocation {
            minimum,
            maximum: minimum,
            desired: desired.max(minimum as f64),
        };
        allocations.insert(zone.as_str(), allocation);
    }
    let minimum: usize = allocations.values().map(|one| one.minimum).sum();
    let Some(rest) = endpoints.checked_sub(minimum) else {
        return Err(format!(
            "Unable to allocate minimum required endpoints to each zone without exceeding \
             overload threshold {counted}"
        ));
    };
    let all = allocations.values_mut();
    all.for_each(|one| one.maximum += rest);
    Ok(allocations)
}

/// The endpoints of a slice that stays as it is, with the hints that it has, and how many are for
/// each zone. `None` if it changes, or if these hints are too many for a zone: hints stay where
/// they can, so that a change of one slice changes no other.
fn kept(
    one: &Made,
    allocations: &BTreeMap<&str, Allocation>,
    counts: &Counts,
) -> Option<(Vec<Endpoint>, Counts)> {
    let before = one.before.as_ref()?.endpoints.as_ref()?;
    let mut bare = before.clone();
    bare.iter_mut().for_each(|endpoint| endpoint.hints = None);
    if one.slice.endpoints.as_ref() != Some(&bare) {
        return None;
    }
    let mut kept = Counts::new();
    for endpoint in before.iter().filter(|one| serves(one)) {
        let zones = endpoint.hints.as_ref()?.for_zones.as_deref()?;
        zones.first()?;
        for zone in zones {
            *kept.entry(zone.name.clone()).or_default() += 1;
        }
    }
    let fits = kept.iter().all(|(zone, count)| {
        let others = counts.get(zone).copied().unwrap_or(0);
        let allocation = allocations.get(zone.as_str());
        allocation.is_some_and(|allocation| others + count <= allocation.maximum)
    });
    fits.then(|| (before.clone(), kept))
}

/// Lets endpoints of zones that have too many serve zones that have too few.
fn level(
    changed: &mut [&mut EndpointSlice],
    allocations: &BTreeMap<&str, Allocation>,
    counts: &Counts,
) {
    let (mut giving, mut taking) = moves(allocations, counts);
    for endpoint in changed.iter_mut().flat_map(|slice| ready_in(slice)) {
        let from = endpoint.zone.as_deref().unwrap_or_default();
        let Some(gives) = giving.get_mut(from).filter(|gives| **gives > 0) else {
            continue;
        };
        let Some((to, takes)) = taking.iter_mut().find(|(_, takes)| **takes > 0) else {
            return;
        };
        *gives -= 1;
        *takes -= 1;
        endpoint.hints = Some(hints(to));
    }
}

/// How many endpoints zones give to others, and how many zones take from others.
fn moves<'a>(
    allocations: &BTreeMap<&'a str, Allocation>,
    counts: &Counts,
) -> (BTreeMap<&'a str, usize>, BTreeMap<&'a str, usize>) {
    let (mut above, mut below) = (BTreeMap::new(), BTreeMap::new());
    for (zone, allocation) in allocations {
        let has = counts.get(*zone).copied().unwrap_or(0) as f64;
        above.insert(*zone, has - allocation.desired);
        below.insert(*zone, allocation.desired - has);
    }
    let (mut giving, mut taking) = (BTreeMap::new(), BTreeMap::new());
    while let (Some((from, gives)), Some((to, takes))) = (most(&above), most(&below))
        && gives.min(takes) >= MOVED_MIN
        && gives.max(takes) >= 1.0
    {
        *giving.entry(from).or_default() += 1;
        *taking.entry(to).or_default() += 1;
        above.insert(from, gives - 1.0);
        below.insert(to, takes - 1.0);
    }
    (giving, taking)
}

/// The zone with the largest number; the first of several.
fn most<'a>(zones: &BTreeMap<&'a str, f64>) -> Option<(&'a str, f64)> {
    let zones = zones.iter().map(|(zone, number)| (*zone, *number));
    zones.reduce(|most, one| if one.1 > most.1 { one } else { most })
}

fn hints(zone: &str) -> EndpointHints {
    EndpointHints {
        for_nodes: None,
        for_zones: Some(vec![ForZone { name: zone.into() }]),
    }
}

fn ready_in(slice: &mut EndpointSlice) -> impl Iterator<Item = &mut Endpoint> {
    let endpoints = slice.endpoints.iter_mut().flatten();
    endpoints.filter(|one| serves(one))
}

fn serves(endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions.as_ref();
    conditions.and_then(|conditions| conditions.ready) == Some(true)
}

/// The zone of a node, if it has one.
pub(super) fn zone_of(node: &Node) -> Option<&str> {
    meta::label(&node.metadata, ZONE).filter(|zone| !zone.is_empty())
}
