//! The ports of all containers of a pod.

use crate::validate::words::field::FieldValue;

/// A port of a container.
struct Port<'a> {
    path: String,
    /// The number and the protocol.
    key: (i64, &'a str),
    /// Where it is on the node.
    host: (&'a str, i64),
    name: &'a str,
}

/// Ports that are given twice, or whose address says nothing.
pub(super) fn check(containers: &[FieldValue], warnings: &mut Vec<String>) {
    let mut seen: Vec<Port> = Vec::new();
    for port in containers
        .iter()
        .flat_map(|container| container.each("ports"))
    {
        let value = FieldValue::new("", port.value);
        let one = Port {
            key: (value.number("containerPort"), value.text("protocol")),
            host: (value.text("hostIP"), value.number("hostPort")),
            name: value.text("name"),
            path: port.path,
        };
        let (ip, host_port) = one.host;
        if !ip.is_empty() && host_port == 0 {
            let (number, protocol) = one.key;
            warnings.push(format!(
                "{}: hostIP set without hostPort: {{Name:{} HostPort:0 ContainerPort:{number} Protocol:{protocol} HostIP:{ip}}}",
                one.path, one.name
            ));
        }
        for other in seen.iter().filter(|other| other.key == one.key) {
            let what = if other.host == one.host {
                "duplicate"
            } else if host_port == 0 || other.host.1 == 0 {
                "overlapping"
            } else if host_port == other.host.1 && ip.is_empty() != other.host.0.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            let (path, other) = (&one.path, &other.path);
            warnings.push(format!("{path}: {what} port definition with {other}"));
        }
        seen.push(one);
    }
    let named = |name: &str| seen.iter().position(|port| port.name == name);
    for (at, port) in seen
        .iter()
        .enumerate()
        .filter(|(_, port)| !port.name.is_empty())
    {
        if let Some(first) = named(port.name).filter(|first| *first < at) {
            let (path, name, other) = (&port.path, port.name, &seen[first].path);
            warnings.push(format!(
                "{path}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}"
            ));
        }
    }
}
