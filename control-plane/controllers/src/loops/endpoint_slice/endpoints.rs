//! One pod as an endpoint of a service.

use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, ForNode, ForZone,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::topology;
use crate::cache::Caches;
use crate::known::Shared;
use crate::{meta, pods};

/// Traffic prefers endpoints on the client's own node, then those in its zone.
const SAME_NODE: &str = "PreferSameNode";
/// Traffic prefers endpoints in the client's zone. The first is the older name.
const SAME_ZONE: [&str; 2] = ["PreferClose", "PreferSameZone"];

/// The endpoint for a pod, if the pod has an address of the family. A pod whose node is gone has none:
/// nobody says any more whether it runs. A service that publishes whatever there is has it still.
pub(super) fn of(caches: &Caches, service: &Service, pod: &Pod, family: &str) -> Option<Endpoint> {
    let address = address(pod, family)?;
    let spec = service.spec.as_ref();
    let always = spec.is_some_and(|spec| spec.publish_not_ready_addresses == Some(true));
    let serving = pods::is_ready(pod);
    let terminating = meta::is_deleting(&pod.metadata);
    let node = caches.nodes.get("", pods::node(pod));
    if node.is_none() && !always {
        return None;
    }
    let zone = node.and_then(|node| topology::zone_of(node));
    let ready = always || serving && !terminating;
    let of_pod = pod.spec.as_ref();
    let in_domain =
        of_pod.and_then(|spec| spec.subdomain.as_deref()) == Some(meta::name(&service.metadata));
    Some(Endpoint {
        addresses: vec![address],
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: of_pod
            .and_then(|spec| spec.hostname.clone())
            .filter(|name| in_domain && !name.is_empty()),
        node_name: Some(pods::node(pod).to_owned()).filter(|node| !node.is_empty()),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".into()),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectReference::default()
        }),
        zone: zone.map(str::to_owned),
        hints: hints(service, pods::node(pod), zone).filter(|_| ready),
        ..Endpoint::default()
    })
}

/// The uid of an endpoint's pod.
pub(super) fn uid(endpoint: &Endpoint) -> Option<&str> {
    endpoint.target_ref.as_ref()?.uid.as_deref()
}

/// The service's ports on this pod. A named port that the pod does not have is left out.
pub(super) fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
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

/// The latest change of readiness among the pods, for the trigger-time annotation.
pub(super) fn last_change(pods: &[&Shared<Pod>]) -> Option<String> {
    let ready = pods.iter().filter_map(|pod| {
        let ready = pods::condition(pod, "Ready")?;
        ready.last_transition_time.as_ref().map(meta::stamp)
    });
    ready.max().map(|stamp| stamp.to_seconds())
}

/// True if two states of a pod give the same endpoints.
pub(super) fn same_to_services(old: &Pod, new: &Pod) -> bool {
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

/// Where the clients are that an endpoint is for first, if its service prefers what is near. Others
/// look at all endpoints to divide them among zones.
fn hints(service: &Service, node: &str, zone: Option<&str>) -> Option<EndpointHints> {
    let wanted = service.spec.as_ref()?.traffic_distribution.as_deref()?;
    let by_node = wanted == SAME_NODE;
    if !by_node && !SAME_ZONE.contains(&wanted) || topology::is_wanted(service) {
        return None;
    }
    let zones = zone.map(|zone| vec![ForZone { name: zone.into() }]);
    let nodes = (by_node && !node.is_empty()).then(|| vec![ForNode { name: node.into() }]);
    (zones.is_some() || nodes.is_some()).then_some(EndpointHints {
        for_nodes: nodes,
        for_zones: zones,
    })
}

fn address(pod: &Pod, family: &str) -> Option<String> {
    let status = pod.status.as_ref()?;
    let all = status.pod_ips.iter().flatten().map(|one| one.ip.as_str());
    let mut addresses = all.chain(status.pod_ip.as_deref());
    let is_six = family == "IPv6";
    let found = addresses.find(|ip| !ip.is_empty() && ip.contains(':') == is_six);
    found.map(str::to_owned)
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
