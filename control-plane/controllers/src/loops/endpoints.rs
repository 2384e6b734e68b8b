//! Endpoints: the addresses of each service's pods in one object, for clients that read no slices.

pub(crate) mod subsets;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery::time::Timestamp;

use crate::cache::{Caches, Changed, Diff};
use crate::decision::{Decision, Note, create, delete, update};
use crate::known::{Key, Shared};
use crate::loops::{Context, Loop, namespace};
use crate::meta::{self, Labels};
use crate::services::{HEADLESS, TRIGGER};
use crate::{pods, services};
use subsets::Packing;

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const US: &str = "endpoint-controller";
/// Annotation: addresses are missing because there are too many.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
const TRUNCATED: &str = "truncated";

pub(crate) struct EndpointsOfServices;

impl Loop for EndpointsOfServices {
    fn name(&self) -> &'static str {
        "endpoints"
    }

    fn component(&self) -> String {
        US.into()
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::Service(diff) => {
                let service = diff.either().into_iter();
                service.for_each(|one| wake(meta::key(&one.metadata)));
            }
            Changed::Pod(diff) => services::wake_selecting(caches, diff, wake),
            Changed::Endpoints(diff) => {
                if let Some(endpoints) = wrong(caches, diff) {
                    wake(meta::key(&endpoints.metadata));
                }
            }
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        let current = caches.endpoints.at(key);
        let Some(service) = caches.services.at(key) else {
            // As in Kubernetes, also those that somebody wrote by hand for the service.
            let left = current.filter(|one| !meta::is_deleting(&one.metadata));
            let decision = left.map(|left| Decision::of(delete(left.as_ref())));
            return decision.unwrap_or_default();
        };
        let is_late = current.is_none() && namespace::takes_none(caches, &key.0);
        if !services::is_kept(service) || is_late {
            return Decision::nothing();
        }
        bring(service, &members(caches, service), current)
    }
}

/// Endpoints that a service has lost, and those of this loop whose service went while no loop ran.
/// Those of others may be there before their service.
fn wrong<'a>(caches: &Caches, diff: &'a Diff<Endpoints>) -> Option<&'a Shared<Endpoints>> {
    let one = diff.old.as_ref().xor(diff.new.as_ref())?;
    let has_service = caches.services.at(&meta::key(&one.metadata)).is_some();
    let is_wrong = match diff.new {
        None => has_service,
        Some(_) => !has_service && meta::label(&one.metadata, MANAGED_BY) == Some(US),
    };
    is_wrong.then_some(one)
}

/// A pod whose address is among a service's endpoints.
struct Member<'a> {
    pod: &'a Pod,
    address: EndpointAddress,
    ready: bool,
}

fn bring(
    service: &Service,
    members: &[Member<'_>],
    current: Option<&Shared<Endpoints>>,
) -> Decision {
    let mut subsets = packed(service, members);
    let is_over = subsets::truncate(&mut subsets);
    let capacity = is_over.then_some(TRUNCATED);
    let labels = labels(service);
    let has = current.and_then(|one| one.subsets.as_deref());
    let has = has.unwrap_or_default();
    let is_same = current.is_some_and(|current| {
        current.metadata.labels.as_ref() == Some(&labels)
            && meta::annotation(&current.metadata, OVER_CAPACITY) == capacity
            // Earlier versions of Kubernetes had another order: that alone is no reason to write.
            && (has == subsets || subsets::repack(has) == subsets)
    });
    if is_same {
        return Decision::nothing();
    }
    let trigger = match current {
        Some(_) => last_change(members, has, &subsets),
        None => service
            .metadata
            .creation_timestamp
            .as_ref()
            .map(meta::stamp),
    };
    let mut metadata = match current {
        Some(current) => current.metadata.clone(),
        None => ObjectMeta {
            namespace: service.metadata.namespace.clone(),
            name: service.metadata.name.clone(),
            ..ObjectMeta::default()
        },
    };
    let trigger = trigger.map(Timestamp::to_seconds);
    let annotations = metadata.annotations.get_or_insert_default();
    set(annotations, TRIGGER, trigger.as_deref());
    set(annotations, OVER_CAPACITY, capacity);
    metadata.labels = Some(labels);
    write(&Endpoints {
        metadata,
        subsets: Some(subsets).filter(|subsets| !subsets.is_empty()),
    })
}

/// Creates or replaces Endpoints.
fn write(wanted: &Endpoints) -> Decision {
    let (namespace, name) = meta::key(&wanted.metadata);
    let (call, reason, what) = match wanted.metadata.uid {
        None => (
            create(wanted),
            "FailedToCreateEndpoint",
            format!("Failed to create endpoint for service {namespace}/{name}"),
        ),
        Some(_) => (
            update(wanted),
            "FailedToUpdateEndpoint",
            format!("Failed to update endpoint {namespace}/{name}"),
        ),
    };
    let mut decision = Decision::nothing();
    let note = Note::new(wanted, reason, format!("{what}: {{}}")).warning();
    decision.push(call).tell_failure(note);
    decision
}

fn members<'a>(caches: &'a Caches, service: &Service) -> Vec<Member<'a>> {
    let unready = services::publishes_unready(service);
    let family = family(service);
    let all = caches.pods.in_namespace(meta::namespace(&service.metadata));
    let pods = all.filter(|pod| services::selects(service, pod));
    let members = pods.filter_map(|pod| {
        let is_leaving = meta::is_deleting(&pod.metadata) && !unready;
        if pods::is_finished(pod) || is_leaving {
            return None;
        }
        let ip = match &family {
            Some(family) => services::address(pod, family)?,
            None => services::addresses(pod).next()?.to_owned(),
        };
        Some(Member {
            pod,
            address: EndpointAddress {
                ip,
                hostname: services::hostname(service, pod),
                node_name: services::node(pod),
                target_ref: Some(services::target(pod)),
            },
            ready: unready || pods::is_ready(pod),
        })
    });
    members.collect()
}

/// The family of the addresses: the first one of the service. A headless service that was written
/// before there were families has each pod's first address.
fn family(service: &Service) -> Option<String> {
    let given = service.spec.as_ref();
    let given = given.and_then(|spec| spec.ip_families.as_ref()?.first());
    let is_any = given.is_none() && services::is_headless(service);
    let first = services::families(service).into_iter().next();
    first.filter(|_| !is_any)
}

fn packed(service: &Service, members: &[Member<'_>]) -> Vec<EndpointSubset> {
    let spec = service.spec.as_ref();
    let ports = spec.and_then(|spec| spec.ports.as_ref());
    let has_ports = ports.is_some_and(|ports| !ports.is_empty());
    // A headless service is a name for addresses, which may do without ports.
    let is_name = spec.is_some_and(|spec| spec.cluster_ip.as_deref() == Some("None"));
    let mut packing = Packing::default();
    for member in members {
        let ports = services::ports(service, member.pod).into_iter();
        let ports: Vec<EndpointPort> = ports
            .map(|port| EndpointPort {
                app_protocol: port.app_protocol,
                name: port.name,
                port: port.port.unwrap_or(0),
                protocol: port.protocol,
            })
            .collect();
        if !ports.is_empty() || is_name && !has_ports {
            packing.add(&member.address, member.ready, &ports);
        }
    }
    packing.subsets()
}

/// The earliest change of readiness among the pods that are listed otherwise than before.
fn last_change(
    members: &[Member<'_>],
    before: &[EndpointSubset],
    now: &[EndpointSubset],
) -> Option<Timestamp> {
    let (before, now) = (states(before), states(now));
    let changed = members.iter().filter(|one| {
        let state = (one.ready, meta::uid(&one.pod.metadata));
        now.contains(&state) && !before.contains(&state)
    });
    let times = changed.filter_map(|one| {
        let ready = pods::condition(one.pod, "Ready")?;
        ready.last_transition_time.as_ref().map(meta::stamp)
    });
    times.min()
}

/// Which pods are listed, by their uids, as ready and as not ready.
fn states(subsets: &[EndpointSubset]) -> BTreeSet<(bool, &str)> {
    let mut states = BTreeSet::new();
    for subset in subsets {
        for (ready, list) in [
            (true, &subset.addresses),
            (false, &subset.not_ready_addresses),
        ] {
            let listed = list.iter().flatten();
            let uids = listed.filter_map(|one| one.target_ref.as_ref()?.uid.as_deref());
            states.extend(uids.map(|uid| (ready, uid)));
        }
    }
    states
}

/// The service's labels, and those of this loop.
fn labels(service: &Service) -> Labels {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    let headless = services::is_headless(service).then_some("");
    set(&mut labels, HEADLESS, headless);
    set(&mut labels, MANAGED_BY, Some(US));
    labels
}

fn set(labels: &mut Labels, key: &str, value: Option<&str>) {
    match value {
        Some(value) => labels.insert(key.into(), value.into()),
        None => labels.remove(key),
    };
}
