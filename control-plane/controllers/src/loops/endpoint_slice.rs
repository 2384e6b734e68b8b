//! Endpoint slices: the addresses of each service's pods, up to 100 endpoints per slice.

mod endpoints;
#[cfg(test)]
mod tests;
mod topology;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery::api::Call;

use crate::cache::{Caches, Changed, Diff};
use crate::decision::{Decision, Step, create, delete, update};
use crate::known::{Key, Shared};
use crate::loops::endpoints::subsets;
use crate::loops::{Context, Loop, namespace};
use crate::meta::{self, Labels};
use crate::services::{HEADLESS, TRIGGER};
use crate::{pods, services};

/// Label of a slice: the name of its service.
pub(crate) const OF_SERVICE: &str = "kubernetes.io/service-name";
/// Label of a slice: the loop that keeps it.
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const US: &str = "endpointslice-controller.k8s.io";
/// Maximum number of endpoints in a slice.
const SLICE_MAX: usize = 100;

pub(crate) struct EndpointSlices;

impl Loop for EndpointSlices {
    fn name(&self) -> &'static str {
        "endpointslice"
    }

    fn component(&self) -> String {
        "endpoint-slice-controller".into()
    }

    fn wakes(&self, caches: &Caches, changed: &Changed, wake: &mut dyn FnMut(Key)) {
        match changed {
            Changed::Service(diff) => {
                let service = diff.either().into_iter();
                service.for_each(|one| wake(meta::key(&one.metadata)));
            }
            Changed::Pod(diff) => services::wake_selecting(caches, diff, wake),
            Changed::Node(Diff { old, new }) => {
                if topology::is_moved_by(old.as_deref(), new.as_deref()) {
                    divided(caches).for_each(&mut *wake);
                }
                let ((None, Some(node)) | (Some(node), None)) = (old, new) else {
                    return;
                };
                for pod in caches.pods.placed_at(meta::name(&node.metadata)) {
                    let services = caches.services.in_namespace(meta::namespace(&pod.metadata));
                    let theirs = services.filter(|service| services::selects(service, pod));
                    theirs.for_each(|service| wake(meta::key(&service.metadata)));
                }
            }
            Changed::EndpointSlice(diff) => wake_service(diff, US, wake),
            _ => {}
        }
    }

    fn decide(&self, context: &Context<'_>, key: &Key) -> Decision {
        let caches = context.caches;
        let slices = slices_of(caches, key, US);
        let Some(service) = caches.services.at(key) else {
            // The garbage collector deletes slices that the service owned; this deletes the others.
            let mut decision = Decision::nothing();
            for slice in slices {
                decision.push(delete(slice.as_ref()));
            }
            return decision;
        };
        if !services::is_kept(service) {
            return Decision::nothing();
        }
        let slices = slices.into_iter();
        let (own, others): (Vec<_>, Vec<_>) = slices.partition(|slice| is_of(slice, service));
        let mut decision = bring(caches, service, own);
        // The garbage collector may be about to delete them, so none of them is used again.
        for slice in others {
            decision.push(delete(slice.as_ref()));
        }
        // It may serve until what holds it is gone; for that the slices that it has are enough.
        if meta::is_deleting(&service.metadata) || namespace::takes_none(caches, &key.0) {
            make_none(&mut decision);
        }
        decision
    }
}

/// Leaves the new slices out of a decision.
pub(crate) fn make_none(decision: &mut Decision) {
    let creates = |step: &Step| matches!(step.call, Call::Create { .. });
    decision.steps.retain(|step| !creates(step));
}

/// Calls `wake` for the services of a slice before and after a change, if the loop `by` keeps it.
pub(crate) fn wake_service(diff: &Diff<EndpointSlice>, by: &str, wake: &mut dyn FnMut(Key)) {
    for slice in diff.old.iter().chain(&diff.new) {
        let service = meta::label(&slice.metadata, OF_SERVICE);
        if let Some(service) = service.filter(|_| is_kept_by(slice, by)) {
            wake((meta::namespace(&slice.metadata).into(), service.into()));
        }
    }
}

/// The slices of a service that the loop `by` keeps.
pub(crate) fn slices_of(caches: &Caches, key: &Key, by: &str) -> Vec<Shared<EndpointSlice>> {
    let slices = caches.endpoint_slices.in_namespace(&key.0);
    slices
        .filter(|slice| {
            let service = meta::label(&slice.metadata, OF_SERVICE);
            service == Some(&key.1) && is_kept_by(slice, by) && !meta::is_deleting(&slice.metadata)
        })
        .cloned()
        .collect()
}

/// Endpoints with an equal group share slices.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    pub(crate) family: String,
    /// The ports as text, for ordering.
    ports: String,
}

pub(crate) fn group(family: &str, ports: &[EndpointPort]) -> Group {
    let mut texts: Vec<String> = ports
        .iter()
        .map(|port| {
            let name = port.name.as_deref().unwrap_or_default();
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let app = port.app_protocol.as_deref().unwrap_or_default();
            format!("{name}/{protocol}/{}/{app}", port.port.unwrap_or(0))
        })
        .collect();
    texts.sort();
    Group {
        family: family.into(),
        ports: texts.join(","),
    }
}

fn is_kept_by(slice: &EndpointSlice, by: &str) -> bool {
    meta::label(&slice.metadata, MANAGED_BY) == Some(by)
}

/// True if a slice is of this service, and not of an earlier one of its name.
fn is_of(slice: &EndpointSlice, service: &Service) -> bool {
    let service = meta::owned_by(service);
    let mut owners = slice.metadata.owner_references.iter().flatten();
    owners.any(|owner| {
        owner.uid == service.uid
            && owner.kind == service.kind
            && owner.api_version == service.api_version
    })
}

fn bring(caches: &Caches, service: &Service, slices: Vec<Shared<EndpointSlice>>) -> Decision {
    let mut groups: BTreeMap<Group, (Vec<EndpointPort>, BTreeMap<String, Endpoint>)> =
        BTreeMap::new();
    let all = caches.pods.in_namespace(meta::namespace(&service.metadata));
    let pods: Vec<&Shared<Pod>> = all.filter(|pod| services::selects(service, pod)).collect();
    for family in services::families(service) {
        let none = group(&family, &[]);
        groups.entry(none).or_default();
        for pod in pods.iter().filter(|pod| !pods::is_finished(pod)) {
            let Some(endpoint) = endpoints::of(caches, service, pod, &family) else {
                continue;
            };
            let ports = services::ports(service, pod);
            let group = groups.entry(group(&family, &ports)).or_default();
            group.0 = ports;
            group
                .1
                .insert(meta::uid(&pod.metadata).to_owned(), endpoint);
        }
    }
    // An empty slice stands for a service without pods; a family with full slices needs none.
    let full: Vec<String> = groups
        .iter()
        .filter(|(_, (_, endpoints))| !endpoints.is_empty())
        .map(|(group, _)| group.family.clone())
        .collect();
    groups.retain(|group, (_, endpoints)| !endpoints.is_empty() || !full.contains(&group.family));
    let is_listed = |uid: &str| groups.values().any(|(_, all)| all.contains_key(uid));
    let trigger = endpoints::last_change(service, &pods, &slices, is_listed);
    let were_divided = slices.iter().any(|slice| topology::has_hints(slice));
    let mut of_group: BTreeMap<Group, Vec<Shared<EndpointSlice>>> = BTreeMap::new();
    let mut spare = Vec::new();
    for slice in slices {
        let ports = slice.ports.clone().unwrap_or_default();
        let group = group(&slice.address_type, &ports);
        if groups.contains_key(&group) {
            of_group.entry(group).or_default().push(slice)
        } else {
            spare.push(slice);
        }
    }
    let mut made = Vec::new();
    for (group, (mut ports, endpoints)) in groups {
        subsets::sort_slice_ports(&mut ports);
        let has = of_group.remove(&group).unwrap_or_default();
        let wanted = Wanted {
            service,
            family: &group.family,
            ports: &ports,
            trigger: trigger.as_deref(),
        };
        wanted.fill(has, endpoints, &mut spare, &mut made);
    }
    let mut decision = Decision::nothing();
    if topology::is_wanted(service) {
        decision.notes = topology::hint(caches, service, were_divided, &mut made);
    }
    for call in made.iter().filter_map(Made::call) {
        decision.push(call);
    }
    // Last, so that their endpoints are elsewhere by then.
    for slice in spare {
        decision.push(delete(slice.as_ref()));
    }
    decision
}

/// A slice as it is to be.
struct Made {
    slice: EndpointSlice,
    /// As it is; `None` if it must be written in any case.
    before: Option<Shared<EndpointSlice>>,
}

impl Made {
    /// The call that makes it so, unless it is so already.
    fn call(&self) -> Option<Call> {
        let wanted = &self.slice;
        let none = Vec::new();
        let is_same = self.before.as_ref().is_some_and(|before| {
            before.endpoints.as_ref().unwrap_or(&none) == wanted.endpoints.as_ref().unwrap_or(&none)
                && before.metadata.labels == wanted.metadata.labels
                && before.metadata.owner_references == wanted.metadata.owner_references
        });
        if is_same {
            return None;
        }
        Some(match wanted.metadata.name {
            Some(_) => update(wanted),
            None => create(wanted),
        })
    }
}

/// The properties of one group's slices, except the endpoints.
struct Wanted<'a> {
    service: &'a Service,
    family: &'a str,
    ports: &'a [EndpointPort],
    trigger: Option<&'a str>,
}

impl Wanted<'_> {
    /// Distributes the endpoints: each stays in its slice; the rest go to slices with room, then to
    /// spare ones, which thereby change at once from what they were, then to new ones. Empty slices
    /// become spare, except the last one.
    fn fill(
        &self,
        slices: Vec<Shared<EndpointSlice>>,
        endpoints: BTreeMap<String, Endpoint>,
        spare: &mut Vec<Shared<EndpointSlice>>,
        into: &mut Vec<Made>,
    ) {
        let mut left = endpoints;
        let mut filled: Vec<(Shared<EndpointSlice>, Vec<Endpoint>)> = Vec::new();
        for slice in slices {
            let uids = slice.endpoints.iter().flatten().filter_map(endpoints::uid);
            let kept = uids.filter_map(|uid| left.remove(uid)).collect();
            filled.push((slice, kept));
        }
        let mut left = left.into_values();
        for (_, kept) in &mut filled {
            let room = SLICE_MAX.saturating_sub(kept.len());
            kept.extend(left.by_ref().take(room));
        }
        let mut some = filled.iter().filter(|(_, kept)| !kept.is_empty()).count();
        for (slice, kept) in filled {
            if kept.is_empty() && some > 0 {
                spare.push(slice);
                continue;
            }
            some = some.max(1);
            into.push(Made {
                slice: self.slice(slice.metadata.clone(), kept),
                before: Some(slice),
            });
        }
        loop {
            let more: Vec<Endpoint> = left.by_ref().take(SLICE_MAX).collect();
            if more.is_empty() && some > 0 {
                return;
            }
            some += 1;
            let mut spares = spare.iter();
            let metadata = match spares.position(|slice| slice.address_type == self.family) {
                Some(at) => spare.remove(at).metadata.clone(),
                None => self.new_metadata(),
            };
            into.push(Made {
                slice: self.slice(metadata, more),
                before: None,
            });
        }
    }

    fn new_metadata(&self) -> ObjectMeta {
        ObjectMeta {
            namespace: self.service.metadata.namespace.clone(),
            generate_name: Some(format!("{}-", meta::name(&self.service.metadata))),
            ..ObjectMeta::default()
        }
    }

    fn slice(&self, metadata: ObjectMeta, endpoints: Vec<Endpoint>) -> EndpointSlice {
        let mut metadata = metadata;
        metadata.labels = Some(labels(self.service));
        metadata.owner_references = Some(vec![meta::owned_by(self.service)]);
        let mut annotations = metadata.annotations.unwrap_or_default();
        match self.trigger {
            Some(trigger) => annotations.insert(TRIGGER.into(), trigger.into()),
            // Else who measures delays would count from the change before.
            None => annotations.remove(TRIGGER),
        };
        metadata.annotations = Some(annotations).filter(|all| !all.is_empty());
        EndpointSlice {
            address_type: self.family.into(),
            endpoints: Some(endpoints),
            metadata,
            ports: Some(self.ports.to_vec()),
        }
    }
}

/// The services whose endpoints are divided among zones. As in Kubernetes, one for which that was
/// not possible waits for a change of its own.
fn divided(caches: &Caches) -> impl Iterator<Item = Key> {
    let services = caches.services.all();
    let wanted = services.filter(|service| topology::is_wanted(service));
    let keys = wanted.map(|service| meta::key(&service.metadata));
    keys.filter(move |key| {
        let slices = slices_of(caches, key, US);
        slices.iter().any(|slice| topology::has_hints(slice))
    })
}

/// The service's labels, except those that describe slices.
fn labels(service: &Service) -> Labels {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    labels.insert(OF_SERVICE.into(), meta::name(&service.metadata).into());
    labels.insert(MANAGED_BY.into(), US.into());
    if services::is_headless(service) {
        labels.insert(HEADLESS.into(), String::new());
    }
    labels
}
