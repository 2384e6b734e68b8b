//! Columns of nodes, namespaces, services and the network.

use std::collections::BTreeSet;

use machinery::object;
use serde_json::Value;

use crate::storage::cells::Cell;

use super::{
    Layout, NAME, NONE, UNKNOWN, UNSET, age, labels, name_of_default, selector, shortened, text_or,
};

const ROLE: &str = "node-role.kubernetes.io/";
/// How many hosts of an Ingress are shown.
const HOSTS_SHOWN: usize = 3;

/// There are none here.
pub(crate) const COMPONENT_STATUS: Layout = Layout {
    columns: &["Status", "Message", "Error"],
    cells: |_| vec![UNKNOWN.into(), "".into(), "".into()],
};

pub(crate) const NODE: Layout = Layout {
    columns: &[
        "Status",
        "Roles",
        "Age",
        "Version",
        "Internal-IP*",
        "External-IP*",
        "OS-Image*",
        "Kernel-Version*",
        "Container-Runtime*",
    ],
    cells: node,
};

pub(crate) const NAMESPACE: Layout = Layout {
    columns: &["Status", "Age"],
    cells: |object| vec![text_or(object, &["status", "phase"], ""), age(object)],
};

pub(crate) const SERVICE: Layout = Layout {
    columns: &[
        "Type",
        "Cluster-IP",
        "External-IP",
        "Port(s)",
        "Age",
        "Selector*",
    ],
    cells: service,
};

pub(crate) const ENDPOINTS: Layout = Layout {
    columns: &["Endpoints", "Age"],
    cells: |object| vec![addresses(object), age(object)],
};

pub(crate) const ENDPOINT_SLICE: Layout = Layout {
    columns: &["AddressType", "Ports", "Endpoints", "Age"],
    cells: slice,
};

pub(crate) const INGRESS: Layout = Layout {
    columns: &["Class", "Hosts", "Address", "Ports", "Age"],
    cells: ingress,
};

pub(crate) const NETWORK_POLICY: Layout = Layout {
    columns: &["Pod-Selector", "Age"],
    cells: |object| vec![selector(object, &["spec", "podSelector"]), age(object)],
};

pub(crate) const INGRESS_CLASS: Layout = Layout {
    columns: &[NAME, "Controller", "Parameters", "Age"],
    cells: |object| {
        let text = |key: &str| object::text(object, &["spec", "parameters", key]);
        let group = object::at(object, &["spec", "parameters", "apiGroup"]);
        let parameters = match (object::at(object, &["spec", "parameters"]), group) {
            (None, _) => NONE.to_owned(),
            (_, None) => format!("{}/{}", text("kind"), text("name")),
            _ => format!("{}.{}/{}", text("kind"), text("apiGroup"), text("name")),
        };
        vec![
            name_of_default(object, &["ingressclass.kubernetes.io/is-default-class"]),
            text_or(object, &["spec", "controller"], ""),
            parameters.into(),
            age(object),
        ]
    },
};

pub(crate) const SERVICE_CIDR: Layout = Layout {
    columns: &["CIDRs", "Age"],
    cells: |object| vec![list(object, &["spec", "cidrs"]), age(object)],
};

/// Kubernetes sends the age too, but names no column for it.
pub(crate) const IP_ADDRESS: Layout = Layout {
    columns: &["ParentRef"],
    cells: |object| vec![parent(object), age(object)],
};

fn node(object: &Value) -> Vec<Cell> {
    let mut words = Vec::new();
    let mut conditions = object::items(object, &["status", "conditions"]).iter();
    words.push(match conditions.find(|one| one["type"] == "Ready") {
        Some(ready) if ready["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    });
    if object::at(object, &["spec", "unschedulable"]) == Some(&Value::Bool(true)) {
        words.push("SchedulingDisabled");
    }
    let mut roles: Vec<&str> = object::labels(object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix(ROLE) {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    // Both labels may say the same.
    roles.dedup();
    let roles = if roles.is_empty() {
        NONE.to_owned()
    } else {
        roles.join(",")
    };
    let address = |kind: &str| -> Cell {
        let mut all = object::items(object, &["status", "addresses"]).iter();
        let found = all.find(|one| one["type"] == kind);
        found.map_or(NONE.into(), |one| object::text(one, &["address"]).into())
    };
    let info = |key: &str| text_or(object, &["status", "nodeInfo", key], UNKNOWN);
    let kernel = match object::text(object, &["status", "nodeInfo", "kernelVersion"]) {
        "" => UNKNOWN,
        version => version,
    };
    let kernel = match object::text(object, &["status", "nodeInfo", "architecture"]) {
        "" => kernel.to_owned(),
        architecture => format!("{kernel} ({architecture})"),
    };
    vec![
        words.join(",").into(),
        roles.into(),
        age(object),
        text_or(object, &["status", "nodeInfo", "kubeletVersion"], ""),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        kernel.into(),
        info("containerRuntimeVersion"),
    ]
}

fn service(object: &Value) -> Vec<Cell> {
    let kind = object::text(object, &["spec", "type"]);
    let own = object::items(object, &["spec", "externalIPs"]);
    let own = own.iter().filter_map(Value::as_str);
    let mut external = match kind {
        "LoadBalancer" => balanced(object),
        _ => Vec::new(),
    };
    external.extend(own);
    let external = match (kind, external.is_empty()) {
        ("ExternalName", _) => object::text(object, &["spec", "externalName"]).to_owned(),
        ("LoadBalancer", true) => "<pending>".into(),
        ("ClusterIP" | "NodePort", true) => NONE.into(),
        ("LoadBalancer" | "ClusterIP" | "NodePort", false) => external.join(","),
        _ => UNKNOWN.into(),
    };
    let ports: Vec<String> = object::items(object, &["spec", "ports"])
        .iter()
        .map(|port| {
            let number = port["port"].as_i64().unwrap_or(0);
            let protocol = object::text(port, &["protocol"]);
            match port["nodePort"].as_i64() {
                Some(node) if node > 0 => format!("{number}:{node}/{protocol}"),
                _ => format!("{number}/{protocol}"),
            }
        })
        .collect();
    let ports = if ports.is_empty() {
        NONE.to_owned()
    } else {
        ports.join(",")
    };
    vec![
        kind.into(),
        text_or(object, &["spec", "clusterIP"], NONE),
        external.into(),
        ports.into(),
        age(object),
        labels(object, &["spec", "selector"]),
    ]
}

/// What an address belongs to.
fn parent(object: &Value) -> Cell {
    if object::at(object, &["spec", "parentRef"]).is_none() {
        return NONE.into();
    }
    let parent = |key: &str| object::text(object, &["spec", "parentRef", key]);
    let resource = match parent("group") {
        "" => parent("resource").to_lowercase(),
        group => format!("{}.{group}", parent("resource")).to_lowercase(),
    };
    match (parent("namespace"), parent("name")) {
        ("", name) => format!("{resource}/{name}"),
        (namespace, name) => format!("{resource}/{namespace}/{name}"),
    }
    .into()
}

/// The addresses of a load balancer, in order.
fn balanced(object: &Value) -> Vec<&str> {
    let points = object::items(object, &["status", "loadBalancer", "ingress"]).iter();
    let points = points.map(|one| match object::text(one, &["ip"]) {
        "" => object::text(one, &["hostname"]),
        ip => ip,
    });
    let all: BTreeSet<&str> = points.filter(|point| !point.is_empty()).collect();
    all.into_iter().collect()
}

/// `address:port` of the addresses in an Endpoints object, port by port.
fn addresses(object: &Value) -> Cell {
    let subsets = object::items(object, &["subsets"]);
    let mut all = Vec::new();
    for subset in subsets {
        let addresses = object::items(subset, &["addresses"]).iter();
        let addresses = addresses.map(|address| object::text(address, &["ip"]));
        let ports = object::items(subset, &["ports"]);
        if ports.is_empty() {
            all.extend(addresses.clone().map(str::to_owned));
        }
        for port in ports {
            let port = &port["port"];
            all.extend(addresses.clone().map(|ip| {
                if ip.contains(':') {
                    format!("[{ip}]:{port}")
                } else {
                    format!("{ip}:{port}")
                }
            }));
        }
    }
    if all.is_empty() && !subsets.is_empty() {
        return "".into();
    }
    shortened(&all, 3)
}

fn slice(object: &Value) -> Vec<Cell> {
    let ports = object::items(object, &["ports"]).iter();
    let ports: Vec<String> = ports
        .map(|port| match (&port["port"], port["name"].as_str()) {
            (Value::Null, name) => name.unwrap_or("*").to_owned(),
            (number, _) => number.to_string(),
        })
        .collect();
    let ports = if ports.is_empty() {
        UNSET.into()
    } else {
        shortened(&ports, 3)
    };
    let endpoints = object::items(object, &["endpoints"]).iter();
    let endpoints: Vec<String> = endpoints
        .flat_map(|one| object::items(one, &["addresses"]))
        .filter_map(|one| one.as_str().map(str::to_owned))
        .collect();
    let endpoints = if endpoints.is_empty() {
        UNSET.into()
    } else {
        shortened(&endpoints, 3)
    };
    vec![
        text_or(object, &["addressType"], ""),
        ports,
        endpoints,
        age(object),
    ]
}

/// The first hosts of an Ingress. As in Kubernetes, rules without a host count among those that are
/// not shown.
fn hosts(object: &Value) -> String {
    let rules = object::items(object, &["spec", "rules"]);
    let (mut hosts, mut is_whole) = (Vec::new(), true);
    for rule in rules {
        is_whole &= hosts.len() < HOSTS_SHOWN;
        let host = object::text(rule, &["host"]);
        if is_whole && !host.is_empty() {
            hosts.push(host);
        }
    }
    match (hosts.join(","), is_whole) {
        (hosts, _) if hosts.is_empty() => "*".to_owned(),
        (hosts, true) => hosts,
        (hosts, false) => format!("{hosts} + {} more...", rules.len() - HOSTS_SHOWN),
    }
}

fn ingress(object: &Value) -> Vec<Cell> {
    let points = balanced(object);
    let secure = !object::items(object, &["spec", "tls"]).is_empty();
    vec![
        text_or(object, &["spec", "ingressClassName"], NONE),
        hosts(object).into(),
        points.join(",").into(),
        if secure { "80, 443" } else { "80" }.into(),
        age(object),
    ]
}

fn list(object: &Value, path: &[&str]) -> Cell {
    let all = object::items(object, path).iter().filter_map(Value::as_str);
    all.collect::<Vec<_>>().join(",").into()
}

#[test]
fn endpoints_are_listed_port_by_port() {
    use serde_json::json;

    let shown = |subsets: Value| {
        let cell = addresses(&json!({"subsets": subsets}));
        cell.at(machinery::time::Timestamp::default())
    };
    let addresses = json!([{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]);
    let ports = json!([{"port": 80}, {"port": 443}]);
    assert_eq!(
        shown(json!([{"addresses": addresses, "ports": ports}])),
        "10.0.0.1:80,[fd00::1]:80,10.0.0.1:443 + 1 more..."
    );
    assert_eq!(shown(json!([{"addresses": addresses}])), "10.0.0.1,fd00::1");
    assert_eq!(shown(json!([{"notReadyAddresses": addresses}])), "");
    assert_eq!(shown(json!([])), NONE);
}

#[test]
fn a_port_of_a_slice_without_a_number_is_called_by_its_name() {
    use serde_json::json;

    let shown = |ports: Value| {
        let cells = slice(&json!({"ports": ports}));
        cells[1].at(machinery::time::Timestamp::default())
    };
    assert_eq!(
        shown(json!([{"name": "http"}, {"port": 80}, {}])),
        "http,80,*"
    );
    assert_eq!(shown(json!([])), UNSET);
}

#[test]
fn roles_are_shown_once_and_rules_without_a_host_are_counted() {
    use serde_json::json;

    let now = machinery::time::Timestamp::default();
    let labels = json!({"kubernetes.io/role": "worker", "node-role.kubernetes.io/worker": "",
        "node-role.kubernetes.io/edge": ""});
    let cells = node(&json!({"metadata": {"labels": labels}}));
    assert_eq!(cells[1].at(now), "edge,worker");
    let shown = |all: &[&str]| {
        let rules: Vec<Value> = all.iter().map(|host| json!({"host": host})).collect();
        hosts(&json!({"spec": {"rules": rules}}))
    };
    assert_eq!(shown(&[""]), "*");
    assert_eq!(shown(&["a", "", "b"]), "a,b");
    assert_eq!(shown(&["a", "b", "c"]), "a,b,c");
    assert_eq!(shown(&["a", "b", "c", ""]), "a,b,c + 1 more...");
    assert_eq!(shown(&["", "a", "b", "c", "d"]), "a,b,c + 2 more...");
}
