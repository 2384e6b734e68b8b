//! One pod as an endpoint of a service.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointSlice, ForNode, ForZone,
};
use machinery::time::Timestamp;

use super::topology;
use crate::cache::Caches;
use crate::known::Shared;
use crate::{meta, pods, services};

/// Traffic prefers endpoints on the client's own node, then those in its zone.
const SAME_NODE: &str = "PreferSameNode";
/// Traffic prefers endpoints in the client's zone. The first is the older name.
const SAME_ZONE: [&str; 2] = ["PreferClose", "PreferSameZone"];

/// The endpoint for a pod, if the pod has an address of the family. A pod whose node is gone has
/// none: nobody says any more whether it runs. A service that publishes whatever there is has it
/// still.
pub(super) fn of(caches: &Caches, service: &Service, pod: &Pod, family: &str) -> Option<Endpoint> {
    let address = services::address(pod, family)?;
    let always = services::publishes_unready(service);
    let serving = pods::is_ready(pod);
    let terminating = meta::is_deleting(&pod.metadata);
    let node = caches.nodes.get("", pods::node(pod));
    if node.is_none() && !always {
        return None;
    }
    let zone = node.and_then(|node| topology::zone_of(node));
    let ready = always || serving && !terminating;
    Some(Endpoint {
        addresses: vec![address],
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: services::hostname(service, pod),
        node_name: services::node(pod),
        target_ref: Some(services::target(pod)),
        zone: zone.map(str::to_owned),
        hints: hints(service, pods::node(pod), zone).filter(|_| ready),
        ..Endpoint::default()
    })
}

/// The uid of an endpoint's pod.
pub(super) fn uid(endpoint: &Endpoint) -> Option<&str> {
    endpoint.target_ref.as_ref()?.uid.as_deref()
}

/// When the change happened that the slices do not show yet, for the annotation that says so: the
/// earliest change of readiness among the pods that are listed otherwise than before, or the
/// creation of a service without slices.
pub(super) fn last_change(
    service: &Service,
    pods: &[&Shared<Pod>],
    slices: &[Shared<EndpointSlice>],
    is_listed: impl Fn(&str) -> bool,
) -> Option<String> {
    if slices.is_empty() {
        let created = service.metadata.creation_timestamp.as_ref();
        return created.map(|created| meta::stamp(created).to_seconds());
    }
    let before = slices
        .iter()
        .flat_map(|slice| slice.endpoints.iter().flatten());
    let before: BTreeSet<(bool, &str)> = before
        .filter_map(|one| Some((serves(one), uid(one)?)))
        .collect();
    let changed = pods.iter().filter(|pod| {
        let uid = meta::uid(&pod.metadata);
        !before.contains(&(pods::is_ready(pod), uid)) && is_listed(uid)
    });
    let times = changed.filter_map(|pod| {
        let ready = pods::condition(pod, "Ready")?;
        ready.last_transition_time.as_ref().map(meta::stamp)
    });
    times.min().map(Timestamp::to_seconds)
}

fn serves(endpoint: &Endpoint) -> bool {
    let conditions = endpoint.conditions.as_ref();
    conditions.is_some_and(|is| is.serving == Some(true))
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
