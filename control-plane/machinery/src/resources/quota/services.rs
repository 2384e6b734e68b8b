//! Services: node ports and load balancers.

use serde_json::Value;

use super::number;
use crate::object;
use crate::resources::amounts::Amounts;

const SERVICES: &str = "services";
const LOAD_BALANCERS: &str = "services.loadbalancers";
const NODE_PORTS: &str = "services.nodeports";

/// What services use.
pub(super) const COUNTED: [&str; 3] = [SERVICES, LOAD_BALANCERS, NODE_PORTS];

/// What a service uses. Its node ports may not be allocated yet: what counts is what it asks for.
pub(super) fn usage(service: &Value) -> Amounts {
    let ports = object::items(service, &["spec", "ports"]);
    let given = || {
        ports
            .iter()
            .filter(|port| port["nodePort"].as_i64().unwrap_or(0) != 0)
    };
    let allocates = service["spec"]["allocateLoadBalancerNodePorts"] != false;
    let (balancers, node_ports) = match of_type(service) {
        "NodePort" => (0, ports.len()),
        "LoadBalancer" if allocates => (1, ports.len()),
        "LoadBalancer" => (1, given().count()),
        _ => (0, 0),
    };
    Amounts::from([
        number(SERVICES, 1),
        number(LOAD_BALANCERS, balancers),
        number(NODE_PORTS, i64::try_from(node_ports).unwrap_or(i64::MAX)),
    ])
}

/// True if a service becomes one that counts differently.
pub(super) fn is_changed(old: &Value, new: &Value) -> bool {
    let special = |service| match of_type(service) {
        one @ ("NodePort" | "LoadBalancer") => one,
        _ => "",
    };
    special(old) != special(new)
}

fn of_type(service: &Value) -> &str {
    object::text(service, &["spec", "type"])
}
