//! Services and their pods: properties that several loops need.

use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointPort;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::cache::{Caches, Diff};
use crate::known::{Key, Shared};
use crate::meta::{self, Labels};
use crate::pods;

/// Label of the endpoints and slices of services without an address.
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";
/// Annotation: when the change happened for which endpoints were written.
pub(crate) const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// True if loops keep its endpoints, which are the pods that it selects. Other services have those
/// that somebody writes by hand, or stand for a name elsewhere.
pub(crate) fn is_kept(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    let is_name = spec.is_some_and(|spec| spec.type_.as_deref() == Some("ExternalName"));
    selector(service).is_some() && !is_name
}

pub(crate) fn selector(service: &Service) -> Option<&Labels> {
    service.spec.as_ref()?.selector.as_ref()
}

pub(crate) fn selects(service: &Service, pod: &Pod) -> bool {
    selector(service).is_some_and(|selector| {
        let mut pairs = selector.iter();
        pairs.all(|(key, value)| meta::label(&pod.metadata, key) == Some(value))
    })
}

/// Calls `wake` for the services that select a pod before or after a change, if the change can mean
/// anything to them.
pub(crate) fn wake_selecting(caches: &Caches, diff: &Diff<Pod>, wake: &mut dyn FnMut(Key)) {
    let Diff { old, new } = diff;
    if let (Some(old), Some(new)) = (old, new)
        && is_same(old, new)
    {
        return;
    }
    let both: Vec<&Shared<Pod>> = old.iter().chain(new).collect();
    let Some(pod) = both.first() else {
        return;
    };
    let services = caches.services.in_namespace(meta::namespace(&pod.metadata));
    let theirs = services.filter(|service| both.iter().any(|pod| selects(service, pod)));
    theirs.for_each(|service| wake(meta::key(&service.metadata)));
}

/// True if it publishes its pods' addresses whether they are ready or not.
pub(crate) fn publishes_unready(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.is_some_and(|spec| spec.publish_not_ready_addresses == Some(true))
}

pub(crate) fn is_headless(service: &Service) -> bool {
    let ip = service
        .spec
        .as_ref()
        .and_then(|spec| spec.cluster_ip.as_deref());
    matches!(ip, None | Some("" | "None"))
}

/// The families of a service. One that was written before there were families has that of its
/// address, or any if it has none.
pub(crate) fn families(service: &Service) -> Vec<String> {
    let spec = service.spec.as_ref();
    let families = spec.and_then(|spec| spec.ip_families.clone());
    if let Some(families) = families.filter(|families| !families.is_empty()) {
        return families;
    }
    let address = spec.and_then(|spec| spec.cluster_ip.as_deref());
    match address {
        _ if is_headless(service) => vec!["IPv4".into(), "IPv6".into()],
        Some(address) if address.contains(':') => vec!["IPv6".into()],
        _ => vec!["IPv4".into()],
    }
}

/// The service's ports on this pod. A named port that the pod does not have is left out.
pub(crate) fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref());
    let resolved = ports.into_iter().flatten().filter_map(|port| {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let number = match &port.target_port {
            Some(IntOrString::Int(0)) | None => port.port,
            Some(IntOrString::Int(number)) => *number,
            Some(IntOrString::String(name)) => named(pod, name, protocol)?,
        };
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(number),
            protocol: Some(protocol.to_owned()),
            app_protocol: port.app_protocol.clone(),
        })
    });
    resolved.collect()
}

/// The pod's address of a family.
pub(crate) fn address(pod: &Pod, family: &str) -> Option<String> {
    let is_six = family == "IPv6";
    let found = addresses(pod).find(|ip| ip.contains(':') == is_six);
    found.map(str::to_owned)
}

/// The pod's addresses, the first one first.
pub(crate) fn addresses(pod: &Pod) -> impl Iterator<Item = &str> {
    let status = pod.status.iter();
    let all = status.flat_map(|status| {
        let all = status.pod_ips.iter().flatten().map(|one| one.ip.as_str());
        all.chain(status.pod_ip.as_deref())
    });
    all.filter(|ip| !ip.is_empty())
}

/// The pod's name in the service's domain, if it has one.
pub(crate) fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let is_inside = spec.subdomain.as_deref() == Some(meta::name(&service.metadata));
    let name = spec.hostname.clone();
    name.filter(|name| is_inside && !name.is_empty())
}

/// The node of a pod as endpoints name it.
pub(crate) fn node(pod: &Pod) -> Option<String> {
    Some(pods::node(pod).to_owned()).filter(|node| !node.is_empty())
}

/// A pod as endpoints refer to it.
pub(crate) fn target(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".into()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// True if two states of a pod give the same endpoints.
fn is_same(old: &Pod, new: &Pod) -> bool {
    let seen = |pod: &Pod| {
        let addresses = pod
            .status
            .as_ref()
            .map(|s| (s.pod_ip.clone(), s.pod_ips.clone()));
        let state = (
            pods::is_ready(pod),
            pods::is_finished(pod),
            meta::is_deleting(&pod.metadata),
        );
        (
            addresses,
            state,
            pods::node(pod).to_owned(),
            pod.metadata.labels.clone(),
        )
    };
    seen(old) == seen(new)
}

fn named(pod: &Pod, name: &str, protocol: &str) -> Option<i32> {
    let spec = pod.spec.as_ref()?;
    // Sidecars serve, too.
    let init = spec.init_containers.iter().flatten();
    let sidecars = init.filter(|one| one.restart_policy.as_deref() == Some("Always"));
    let containers = spec.containers.iter().chain(sidecars);
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    let found = ports.find(|port| {
        port.name.as_deref() == Some(name) && port.protocol.as_deref().unwrap_or("TCP") == protocol
    });
    found.map(|port| port.container_port)
}
