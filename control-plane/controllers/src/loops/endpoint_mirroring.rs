//! Slices for Endpoints that somebody writes by hand, of services without a selector: clients that
//! read slices alone find these addresses, too.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::cache::{Caches, Changed, Diff};
use crate::decision::{Decision, Note, create, delete, update};
use crate::known::{Key, Shared};
use crate::loops::endpoint_slice::{
    Group, MANAGED_BY, OF_SERVICE, group, make_none, slices_of, wake_service,
};
use crate::loops::endpoints::subsets;
use crate::loops::{Context, Loop, namespace};
use crate::meta;
use crate::services::{TRIGGER, selector};

const US: &str = "endpointslicemirroring-controller.k8s.io";
/// Label: `true` if somebody else takes care of the slices.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Annotation of Endpoints that only say who leads.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";
/// Annotation: what `kubectl apply` was given, which is not true of a slice.
const APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Maximum number of addresses of a subset that get into slices.
const ADDRESSES_MAX: usize = 1000;

pub(crate) struct EndpointMirroring;

impl Loop for EndpointMirroring {
    fn name(&self) -> &'static str {
        "endpointslice-mirroring"
    }

    fn component(&self) -> String {
        "endpoint-slice-mirroring-controller".into()
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::Service(Diff { old, new }) => {
                let is_free = |one: &Option<Shared<Service>>| {
                    let service = one.as_ref();
                    service.is_some_and(|service| selector(service).is_none())
                };
                if is_free(old) != is_free(new) {
                    let service = new.iter().chain(old).next();
                    service
                        .into_iter()
                        .for_each(|one| wake(meta::key(&one.metadata)));
                }
            }
            Changed::Endpoints(Diff { old, new }) => {
                let both = new.iter().chain(old);
                let mut meant = both.filter(|one| is_meant(one));
                let key = meant.next().map(|one| meta::key(&one.metadata));
                // Most Endpoints are of pods, and another loop writes them and their slices.
                let is_free = |key: &Key| {
                    let service = caches.services.at(key);
                    service.is_none_or(|service| selector(service).is_none())
                };
                if let Some(key) = key.filter(is_free) {
                    wake(key);
                }
            }
            Changed::EndpointSlice(diff) => wake_service(diff, US, wake),
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        let slices = slices_of(caches, key, US);
        let service = caches.services.at(key);
        let is_free = service.is_some_and(|service| selector(service).is_none());
        let endpoints = caches.endpoints.at(key);
        match endpoints.filter(|one| is_free && is_meant(one)) {
            Some(endpoints) => {
                let mut decision = mirror(endpoints, slices);
                if meta::is_deleting(&endpoints.metadata) || namespace::takes_none(caches, &key.0) {
                    make_none(&mut decision);
                }
                decision
            }
            None => {
                let mut decision = Decision::nothing();
                for slice in slices {
                    decision.push(delete(slice.as_ref()));
                }
                decision
            }
        }
    }
}

/// True if the Endpoints are addresses, and their slices are for this loop to write.
fn is_meant(endpoints: &Endpoints) -> bool {
    let metadata = &endpoints.metadata;
    meta::label(metadata, SKIP) != Some("true") && meta::annotation(metadata, LEADER).is_none()
}

/// What is in the slice of a group: its ports, and its endpoints by what tells them apart.
type Content = (Vec<EndpointPort>, BTreeMap<Identity, Endpoint>);

/// What tells endpoints apart: addresses, hostname, and the target's namespace and name.
type Identity = (Vec<String>, String, String, String);

fn mirror(endpoints: &Endpoints, slices: Vec<Shared<EndpointSlice>>) -> Decision {
    let mut decision = Decision::nothing();
    let (groups, notes) = content(endpoints);
    decision.notes = notes;
    let mut of_group: BTreeMap<Group, Vec<Shared<EndpointSlice>>> = BTreeMap::new();
    for slice in slices {
        let ports = slice.ports.as_deref().unwrap_or_default();
        let group = group(&slice.address_type, ports);
        of_group.entry(group).or_default().push(slice);
    }
    let (mut missing, mut changed) = (Vec::new(), Vec::new());
    for (group, content) in groups {
        let slices = of_group.get_mut(&group);
        // A group needs one slice, and the first one that is there is as good as any.
        match slices.map(|slices| slices.remove(0)) {
            Some(slice) => changed.extend(changed_from(&slice, endpoints, content)),
            None => missing.push((group, content)),
        }
    }
    let mut spare: Vec<Shared<EndpointSlice>> = of_group.into_values().flatten().collect();
    for (group, content) in missing {
        let mut spares = spare.iter();
        let metadata = match spares.position(|slice| slice.address_type == group.family) {
            // A slice that is no longer needed becomes the new one.
            Some(at) => spare.remove(at).metadata.clone(),
            None => ObjectMeta {
                namespace: endpoints.metadata.namespace.clone(),
                generate_name: Some(format!("{}-", meta::name(&endpoints.metadata))),
                ..ObjectMeta::default()
            },
        };
        let slice = slice(&group.family, content, labelled(endpoints, metadata));
        match slice.metadata.name {
            Some(_) => changed.push(slice),
            None => {
                decision.push(create(&slice));
            }
        }
    }
    for slice in &changed {
        decision.push(update(slice));
    }
    for slice in spare {
        decision.push(delete(slice.as_ref()));
    }
    decision
}

/// What each group's slice is to hold, and what there is to tell of the rest.
fn content(endpoints: &Endpoints) -> (BTreeMap<Group, Content>, Vec<Note>) {
    let mut groups: BTreeMap<Group, Content> = BTreeMap::new();
    let (mut invalid, mut beyond) = (0, 0);
    let subsets = endpoints.subsets.as_deref().unwrap_or_default();
    for subset in subsets::repack(subsets) {
        let ports = ports(&subset);
        let ready = subset.addresses.iter().flatten().map(|one| (one, true));
        let unready = subset.not_ready_addresses.iter().flatten();
        let unready = unready.map(|one| (one, false));
        let mut room = ADDRESSES_MAX;
        for (address, ready) in ready.chain(unready) {
            if room == 0 {
                beyond += 1;
                continue;
            }
            let Some(ip) = parsed(&address.ip) else {
                invalid += 1;
                continue;
            };
            room -= 1;
            let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
            let content = groups.entry(group(family, &ports)).or_default();
            content.0.clone_from(&ports);
            let endpoint = endpoint(address, ip, ready);
            content.1.insert(identity(&endpoint), endpoint);
        }
    }
    let mut notes = Vec::new();
    if invalid > 0 {
        let text =
            format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
        notes.push(Note::new(endpoints, "InvalidIPAddress", text).warning());
    }
    if beyond > 0 {
        let text = format!(
            "A max of {ADDRESSES_MAX} addresses can be mirrored to EndpointSlices per Endpoints \
             subset. {} addresses were skipped",
            beyond + invalid
        );
        notes.push(Note::new(endpoints, "TooManyAddressesToMirror", text).warning());
    }
    (groups, notes)
}

/// A slice that is there as it is to be, if it differs from that.
fn changed_from(
    has: &EndpointSlice,
    endpoints: &Endpoints,
    content: Content,
) -> Option<EndpointSlice> {
    let metadata = labelled(endpoints, has.metadata.clone());
    let (listed, wanted) = (has.endpoints.as_deref().unwrap_or_default(), &content.1);
    // Another order is no difference: Kubernetes has none.
    let is_same = metadata == has.metadata
        && listed.len() == wanted.len()
        && listed
            .iter()
            .all(|one| wanted.get(&identity(one)) == Some(one));
    (!is_same).then(|| slice(&has.address_type, content, metadata))
}

fn slice(family: &str, content: Content, metadata: ObjectMeta) -> EndpointSlice {
    let (ports, endpoints) = content;
    EndpointSlice {
        address_type: family.to_owned(),
        endpoints: Some(endpoints.into_values().collect()),
        metadata,
        ports: Some(ports),
    }
}

/// The metadata with what a slice has from its Endpoints: labels, annotations, and the owner.
fn labelled(endpoints: &Endpoints, metadata: ObjectMeta) -> ObjectMeta {
    let from = &endpoints.metadata;
    let mut labels = from.labels.clone().unwrap_or_default();
    labels.insert(OF_SERVICE.into(), meta::name(from).into());
    labels.insert(MANAGED_BY.into(), US.into());
    let mut annotations = from.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| ![TRIGGER, APPLIED].contains(&key.as_str()));
    ObjectMeta {
        labels: Some(labels),
        annotations: Some(annotations).filter(|annotations| !annotations.is_empty()),
        owner_references: Some(vec![meta::owned_by(endpoints)]),
        ..metadata
    }
}

fn endpoint(address: &EndpointAddress, ip: IpAddr, ready: bool) -> Endpoint {
    Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            ..EndpointConditions::default()
        }),
        hostname: address.hostname.clone(),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    }
}

fn identity(endpoint: &Endpoint) -> Identity {
    let target = endpoint.target_ref.clone().unwrap_or_default();
    (
        endpoint.addresses.clone(),
        endpoint.hostname.clone().unwrap_or_default(),
        target.namespace.unwrap_or_default(),
        target.name.unwrap_or_default(),
    )
}

fn ports(subset: &EndpointSubset) -> Vec<EndpointPort> {
    let ports = subset.ports.iter().flatten();
    let ports = ports.map(|port| EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: port.protocol.clone(),
        app_protocol: port.app_protocol.clone(),
    });
    let mut ports: Vec<EndpointPort> = ports.collect();
    subsets::sort_slice_ports(&mut ports);
    ports
}

/// An address as Kubernetes reads those that may be old: zeros before a number mean nothing.
fn parsed(ip: &str) -> Option<IpAddr> {
    let with_zeros = || {
        let numbers = ip.split('.').map(str::parse::<u8>);
        let numbers: Vec<u8> = numbers.collect::<Result<_, _>>().ok()?;
        let numbers: [u8; 4] = numbers.try_into().ok()?;
        Some(IpAddr::from(numbers))
    };
    let parsed: IpAddr = ip.parse().ok().or_else(with_zeros)?;
    Some(parsed.to_canonical())
}
