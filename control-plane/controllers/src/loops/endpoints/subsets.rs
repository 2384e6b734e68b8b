//! Subsets of Endpoints in the form of Kubernetes: ports with the same addresses share a subset,
//! and all lists are in its order, so that clients that compare find no difference.

mod order;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset};
use k8s_openapi::api::discovery::v1 as discovery;

/// Maximum number of addresses in Endpoints.
const ADDRESSES_MAX: usize = 1000;

/// Addresses with their ports, on the way to subsets.
#[derive(Default)]
pub(crate) struct Packing {
    addresses: Vec<EndpointAddress>,
    /// Where an address is in the list, by itself and its target's uid.
    places: BTreeMap<(String, String), usize>,
    /// The places of the addresses that have a port, and whether they are ready. `None` is for
    /// addresses without ports.
    by_port: BTreeMap<Option<Port>, BTreeMap<usize, bool>>,
}

/// A port as a key: name, number, protocol, protocol of the application.
type Port = (String, i32, String, Option<String>);

impl Packing {
    pub(crate) fn add(&mut self, address: &EndpointAddress, ready: bool, ports: &[EndpointPort]) {
        let (ip, uid) = key(address);
        let next = self.addresses.len();
        let place = *self
            .places
            .entry((ip.to_owned(), uid.to_owned()))
            .or_insert(next);
        if place == next {
            self.addresses.push(address.clone());
        }
        let none = ports.is_empty().then_some(None);
        let ports = ports.iter().map(|port| Some(port_key(port)));
        for port in none.into_iter().chain(ports) {
            let places = self.by_port.entry(port).or_default();
            // What is said to be ready and not to be ready is not ready.
            *places.entry(place).or_insert(true) &= ready;
        }
    }

    pub(crate) fn subsets(self) -> Vec<EndpointSubset> {
        let mut of_places: BTreeMap<BTreeMap<usize, bool>, Vec<EndpointPort>> = BTreeMap::new();
        for (port, places) in self.by_port {
            let ports = of_places.entry(places).or_default();
            ports.extend(port.map(port_of));
        }
        let addresses = self.addresses;
        let subsets = of_places.into_iter().map(|(places, mut ports)| {
            ports.sort_by_cached_key(order::of_port);
            let listed = |ready: bool| {
                let listed = places.iter().filter(|(_, is_ready)| **is_ready == ready);
                let mut listed: Vec<EndpointAddress> =
                    listed.map(|(place, _)| addresses[*place].clone()).collect();
                listed.sort_by(|one, other| key(one).cmp(&key(other)));
                (!listed.is_empty()).then_some(listed)
            };
            EndpointSubset {
                addresses: listed(true),
                not_ready_addresses: listed(false),
                ports: (!ports.is_empty()).then_some(ports),
            }
        });
        let mut subsets: Vec<EndpointSubset> = subsets.collect();
        subsets.sort_by_cached_key(order::of_subset);
        subsets
    }
}

/// The same addresses and ports in the form of Kubernetes.
pub(crate) fn repack(subsets: &[EndpointSubset]) -> Vec<EndpointSubset> {
    let mut packing = Packing::default();
    for subset in subsets {
        let ports = subset.ports.as_deref().unwrap_or_default();
        for address in subset.addresses.iter().flatten() {
            packing.add(address, true, ports);
        }
        for address in subset.not_ready_addresses.iter().flatten() {
            packing.add(address, false, ports);
        }
    }
    packing.subsets()
}

/// Brings the ports of a slice into the order of Kubernetes.
pub(crate) fn sort_slice_ports(ports: &mut [discovery::EndpointPort]) {
    ports.sort_by_cached_key(order::of_slice_port);
}

/// Leaves out addresses if there are too many: first those that are not ready, and the same share
/// of each subset. Returns whether there were too many.
pub(super) fn truncate(subsets: &mut Vec<EndpointSubset>) -> bool {
    let ready: usize = subsets.iter().map(|one| count(&one.addresses)).sum();
    let unready: usize = subsets
        .iter()
        .map(|one| count(&one.not_ready_addresses))
        .sum();
    if ready + unready <= ADDRESSES_MAX {
        return false;
    }
    let (total, most) = match ADDRESSES_MAX.checked_sub(ready) {
        Some(rest) => (unready, rest),
        None => (ready, ADDRESSES_MAX),
    };
    let mut left = most;
    for subset in &mut *subsets {
        let list = if ready > ADDRESSES_MAX {
            subset.not_ready_addresses = None;
            &mut subset.addresses
        } else {
            &mut subset.not_ready_addresses
        };
        // Kubernetes rounds in the same way.
        let share = (count(list) as f64 / total as f64 * most as f64).ceil() as usize;
        let kept = share.min(left);
        if let Some(all) = list {
            all.truncate(kept);
        }
        left -= count(list);
        // As it is read back.
        if kept == 0 {
            *list = None;
        }
    }
    // The apiserver takes no subset without addresses.
    subsets.retain(|one| count(&one.addresses) + count(&one.not_ready_addresses) > 0);
    true
}

fn count(list: &Option<Vec<EndpointAddress>>) -> usize {
    list.as_ref().map_or(0, Vec::len)
}

/// What tells addresses apart, in their order. Pods on one node may share an address.
fn key(address: &EndpointAddress) -> (&str, &str) {
    let target = address.target_ref.as_ref();
    let uid = target.and_then(|target| target.uid.as_deref());
    (address.ip.as_str(), uid.unwrap_or_default())
}

fn port_key(port: &EndpointPort) -> Port {
    (
        port.name.clone().unwrap_or_default(),
        port.port,
        port.protocol.clone().unwrap_or_default(),
        port.app_protocol.clone(),
    )
}

fn port_of((name, port, protocol, app_protocol): Port) -> EndpointPort {
    let given = |text: String| Some(text).filter(|text| !text.is_empty());
    EndpointPort {
        app_protocol,
        name: given(name),
        port,
        protocol: given(protocol),
    }
}
