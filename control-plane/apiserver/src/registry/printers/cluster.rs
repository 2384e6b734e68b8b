//! Columns of nodes, namespaces, services, the network and storage.

use machinery::object;
use serde_json::Value;

use crate::storage::cells::Cell;

use super::{Layout, NONE, UNKNOWN, age, any_or, labels, selector, shortened, text_or};

const ROLE: &str = "node-role.kubernetes.io/";

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
    cells: |object| vec![shortened(&addresses(object), 3), age(object)],
};

pub(crate) const PERSISTENT_VOLUME: Layout = Layout {
    columns: &[
        "Capacity",
        "Access Modes",
        "Reclaim Policy",
        "Status",
        "Claim",
        "StorageClass",
        "VolumeAttributesClass",
        "Reason",
        "Age",
        "VolumeMode*",
    ],
    cells: volume,
};

pub(crate) const PERSISTENT_VOLUME_CLAIM: Layout = Layout {
    columns: &[
        "Status",
        "Volume",
        "Capacity",
        "Access Modes",
        "StorageClass",
        "VolumeAttributesClass",
        "Age",
        "VolumeMode*",
    ],
    cells: claim,
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
    columns: &["Controller", "Parameters", "Age"],
    cells: |object| {
        let parameters =
            ["kind", "name"].map(|key| object::text(object, &["spec", "parameters", key]));
        let parameters = match parameters {
            ["", _] => NONE.to_owned(),
            [kind, name] => format!("{kind}/{name}"),
        };
        let controller = text_or(object, &["spec", "controller"], "");
        vec![controller, parameters.into(), age(object)]
    },
};

pub(crate) const SERVICE_CIDR: Layout = Layout {
    columns: &["CIDRs", "Age"],
    cells: |object| vec![list(object, &["spec", "cidrs"]), age(object)],
};

pub(crate) const IP_ADDRESS: Layout = Layout {
    columns: &["ParentRef"],
    cells: |object| {
        let parent = |key: &str| object::text(object, &["spec", "parentRef", key]);
        let (resource, namespace) = (parent("resource"), parent("namespace"));
        vec![format!("{resource}/{namespace}/{}", parent("name")).into()]
    },
};

pub(crate) const STORAGE_CLASS: Layout = Layout {
    columns: &[
        "Provisioner",
        "ReclaimPolicy",
        "VolumeBindingMode",
        "AllowVolumeExpansion",
        "Age",
    ],
    cells: storage_class,
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
    vec![
        words.join(",").into(),
        roles.into(),
        age(object),
        text_or(object, &["status", "nodeInfo", "kubeletVersion"], ""),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn service(object: &Value) -> Vec<Cell> {
    let kind = object::text(object, &["spec", "type"]);
    let mut external: Vec<String> = object::items(object, &["spec", "externalIPs"])
        .iter()
        .filter_map(|one| one.as_str().map(str::to_owned))
        .collect();
    for point in object::items(object, &["status", "loadBalancer", "ingress"]) {
        let (ip, host) = (
            object::text(point, &["ip"]),
            object::text(point, &["hostname"]),
        );
        external.push(if ip.is_empty() { host } else { ip }.to_owned());
    }
    let external = match (kind, external.is_empty()) {
        ("ExternalName", _) => object::text(object, &["spec", "externalName"]).to_owned(),
        ("LoadBalancer", true) => "<pending>".into(),
        (_, true) => NONE.into(),
        (_, false) => external.join(","),
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

/// `address:port` of every address in an Endpoints object.
fn addresses(object: &Value) -> Vec<String> {
    let mut all = Vec::new();
    for subset in object::items(object, &["subsets"]) {
        let ports = object::items(subset, &["ports"]);
        for address in object::items(subset, &["addresses"]) {
            let ip = object::text(address, &["ip"]);
            if ports.is_empty() {
                all.push(ip.to_owned());
            }
            all.extend(ports.iter().map(|port| format!("{ip}:{}", port["port"])));
        }
    }
    all
}

fn slice(object: &Value) -> Vec<Cell> {
    let ports = object::items(object, &["ports"]).iter();
    let ports: Vec<String> = ports.map(|port| port["port"].to_string()).collect();
    let ports = if ports.is_empty() {
        "<unset>".into()
    } else {
        shortened(&ports, 3)
    };
    let endpoints = object::items(object, &["endpoints"]).iter();
    let endpoints: Vec<String> = endpoints
        .flat_map(|one| object::items(one, &["addresses"]))
        .filter_map(|one| one.as_str().map(str::to_owned))
        .collect();
    let endpoints = if endpoints.is_empty() {
        "<unset>".into()
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

fn ingress(object: &Value) -> Vec<Cell> {
    let rules = object::items(object, &["spec", "rules"]).iter();
    let hosts: Vec<String> = rules
        .map(|rule| object::text(rule, &["host"]))
        .map(|host| if host.is_empty() { "*" } else { host }.to_owned())
        .collect();
    let hosts = if hosts.is_empty() {
        "*".into()
    } else {
        shortened(&hosts, 3)
    };
    let points = object::items(object, &["status", "loadBalancer", "ingress"]).iter();
    let points: Vec<&str> = points
        .map(|one| match object::text(one, &["ip"]) {
            "" => object::text(one, &["hostname"]),
            ip => ip,
        })
        .collect();
    let secure = !object::items(object, &["spec", "tls"]).is_empty();
    vec![
        text_or(object, &["spec", "ingressClassName"], NONE),
        hosts,
        points.join(",").into(),
        if secure { "80, 443" } else { "80" }.into(),
        age(object),
    ]
}

fn volume(object: &Value) -> Vec<Cell> {
    let claim = |key: &str| object::text(object, &["spec", "claimRef", key]);
    let claim = match claim("name") {
        "" => String::new(),
        name => format!("{}/{name}", claim("namespace")),
    };
    vec![
        any_or(object, &["spec", "capacity", "storage"], ""),
        modes(object, &["spec", "accessModes"]),
        text_or(object, &["spec", "persistentVolumeReclaimPolicy"], ""),
        phase(object),
        claim.into(),
        text_or(object, &["spec", "storageClassName"], ""),
        text_or(object, &["spec", "volumeAttributesClassName"], "<unset>"),
        text_or(object, &["status", "reason"], ""),
        age(object),
        text_or(object, &["spec", "volumeMode"], "<unset>"),
    ]
}

fn claim(object: &Value) -> Vec<Cell> {
    let bound = !object::text(object, &["spec", "volumeName"]).is_empty();
    let (capacity, access) = if bound {
        (
            any_or(object, &["status", "capacity", "storage"], ""),
            modes(object, &["status", "accessModes"]),
        )
    } else {
        ("".into(), "".into())
    };
    vec![
        phase(object),
        text_or(object, &["spec", "volumeName"], ""),
        capacity,
        access,
        text_or(object, &["spec", "storageClassName"], ""),
        text_or(object, &["spec", "volumeAttributesClassName"], "<unset>"),
        age(object),
        text_or(object, &["spec", "volumeMode"], "<unset>"),
    ]
}

fn phase(object: &Value) -> Cell {
    if object::is_deleting(object) {
        "Terminating".into()
    } else {
        text_or(object, &["status", "phase"], "")
    }
}

fn modes(object: &Value, path: &[&str]) -> Cell {
    let all = object::items(object, path).iter().filter_map(Value::as_str);
    let short: Vec<&str> = all
        .map(|mode| match mode {
            "ReadWriteOnce" => "RWO",
            "ReadOnlyMany" => "ROX",
            "ReadWriteMany" => "RWX",
            "ReadWriteOncePod" => "RWOP",
            other => other,
        })
        .collect();
    short.join(",").into()
}

fn storage_class(object: &Value) -> Vec<Cell> {
    let grows = object
        .get("allowVolumeExpansion")
        .and_then(Value::as_bool)
        .unwrap_or(false);
    vec![
        text_or(object, &["provisioner"], ""),
        text_or(object, &["reclaimPolicy"], "Delete"),
        text_or(object, &["volumeBindingMode"], "Immediate"),
        grows.to_string().into(),
        age(object),
    ]
}

fn list(object: &Value, path: &[&str]) -> Cell {
    let all = object::items(object, path).iter().filter_map(Value::as_str);
    all.collect::<Vec<_>>().join(",").into()
}
