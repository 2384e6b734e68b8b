//! The ports of all containers of a pod.

use std::collections::BTreeMap;

use super::{COMPARED_MAX, WARNINGS_MAX};
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
    let mut by_key: BTreeMap<(i64, &str), Vec<usize>> = BTreeMap::new();
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
        let alike = by_key.entry(one.key).or_default();
        for other in alike.iter().take(COMPARED_MAX).map(|at| &seen[*at]) {
            let what = if other.host == one.host {
                "duplicate"
            } else if host_port == 0 || other.host.1 == 0 {
                "overlapping"
            } else if host_port == other.host.1 && ip.is_empty() != other.host.0.is_empty() {
                "dangerously ambiguous"
            } else {
                continue;
            };
            if warnings.len() >= WARNINGS_MAX {
                break;
            }
            let (path, other) = (&one.path, &other.path);
            warnings.push(format!("{path}: {what} port definition with {other}"));
        }
        alike.push(seen.len());
        seen.push(one);
    }
    let mut named: BTreeMap<&str, &str> = BTreeMap::new();
    for port in seen.iter().filter(|port| !port.name.is_empty()) {
        let other = *named.entry(port.name).or_insert(&port.path);
        if other != port.path {
            let (path, name) = (&port.path, port.name);
            warnings.push(format!(
                "{path}: duplicate port name {name:?} with {other}, services and probes that select ports by name will use {other}"
            ));
        }
    }
}
