//! Node ports of services, and the ports that report whether a node has pods of a service.
//!
//! The services in the cache have theirs. What a write under way has chosen is reserved in memory,
//! until the write fails or the cache has its service. Apiservers beside each other do not know of
//! each other's reservations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use machinery::object;
use machinery::status::{Cause, Status};
use parking_lot::Mutex;
use serde_json::Value;

use crate::basics::clock;
use crate::registry::Registry;
use crate::validate;

/// The range of node ports.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// Field for the port that reports whether a node has pods of the service.
pub(super) const HEALTH_PORT: &str = "healthCheckNodePort";

/// The ports that writes have chosen and the cache may not show, with the revision of a write that
/// succeeded.
#[derive(Debug, Default)]
pub(crate) struct Reserved(Arc<Mutex<BTreeMap<i64, Option<i64>>>>);

/// Ports chosen for a service that is not stored. Dropped, they are free again.
#[derive(Debug)]
pub(super) struct Chosen {
    reserved: Arc<Mutex<BTreeMap<i64, Option<i64>>>>,
    ports: Vec<i64>,
}

impl Chosen {
    /// The service is stored: its ports stay reserved until the cache has this revision.
    pub(super) fn stored(mut self, revision: i64) {
        let mut reserved = self.reserved.lock();
        for port in std::mem::take(&mut self.ports) {
            reserved.insert(port, Some(revision));
        }
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        let mut reserved = self.reserved.lock();
        for port in &self.ports {
            reserved.remove(port);
        }
    }
}

/// Sets the node port of each port of a service, and its health check port. The cache must be
/// fresh.
pub(super) fn choose(
    registry: &Registry,
    old: Option<&Value>,
    service: &mut Value,
) -> Result<Option<Chosen>, Status> {
    let (on_nodes, health) = (wants_node_ports(service), wants_health_port(service));
    if !on_nodes && !health {
        return Ok(None);
    }
    let had: BTreeSet<i64> = old.into_iter().flat_map(node_ports).collect();
    // Until all ports are chosen: another write must not choose them meanwhile.
    let mut reserved = registry.ports.0.lock();
    let cached = registry.reader.reflector.revision();
    reserved.retain(|_, stored| stored.is_none_or(|revision| revision > cached));
    let mut used: BTreeSet<i64> = reserved.keys().copied().collect();
    // Two writes may keep the same ports of one service. One of them fails, or they are the same.
    used.retain(|port| !had.contains(port));
    used.extend(used_by_others(registry, old.is_some(), service)?);
    let name = object::name(service).to_owned();
    let mut ports = Vec::new();
    let list = service.pointer_mut("/spec/ports").filter(|_| on_nodes);
    let list = list.and_then(Value::as_array_mut).into_iter().flatten();
    for (at, port) in list.enumerate() {
        let asked = port["nodePort"].as_i64().unwrap_or(0);
        let refuse = |why: &str| {
            let field = format!("spec.ports[{at}].nodePort");
            let cause = Cause::invalid(&field, &asked.into(), why);
            Err(Status::invalid("", "Service", &name, vec![cause]))
        };
        let chosen = match asked {
            0 => free_port(&used)?,
            asked if !NODE_PORTS.contains(&asked) => {
                let why = "provided port is not in the valid range. The range of valid ports is 30000-32767";
                return refuse(why);
            }
            asked if used.contains(&asked) => return refuse("provided port is already allocated"),
            asked => asked,
        };
        used.insert(chosen);
        ports.push(chosen);
        port["nodePort"] = chosen.into();
    }
    if health {
        let chosen = free_port(&used)?;
        ports.push(chosen);
        object::set(service, &["spec", HEALTH_PORT], chosen.into());
    }
    ports.retain(|port| !had.contains(port));
    reserved.extend(ports.iter().map(|port| (*port, None)));
    Ok(Some(Chosen {
        reserved: Arc::clone(&registry.ports.0),
        ports,
    }))
}

pub(super) fn wants_node_ports(service: &Value) -> bool {
    match object::text(service, &["spec", "type"]) {
        "NodePort" => true,
        "LoadBalancer" => {
            object::at(service, &["spec", "allocateLoadBalancerNodePorts"])
                != Some(&Value::Bool(false))
        }
        _ => false,
    }
}

pub(super) fn wants_health_port(service: &Value) -> bool {
    let has = object::integer(service, &["spec", HEALTH_PORT]);
    validate::checks_health(service) && has.unwrap_or(0) == 0
}

/// A port that existed before keeps its node port.
pub(super) fn keep(old: &Value, new: &mut Value) {
    if wants_health_port(new)
        && validate::checks_health(old)
        && let Some(has) = object::at(old, &["spec", HEALTH_PORT])
    {
        object::set(new, &["spec", HEALTH_PORT], has.clone());
    }
    let before = object::items(old, &["spec", "ports"]);
    let Some(Value::Array(list)) = new.pointer_mut("/spec/ports") else {
        return;
    };
    for port in list {
        let same =
            |one: &&Value| one["port"] == port["port"] && one["protocol"] == port["protocol"];
        let has = before
            .iter()
            .find(same)
            .and_then(|one| one.get("nodePort"))
            .cloned();
        if let Some(has) = has.filter(|_| port["nodePort"].as_i64().unwrap_or(0) == 0) {
            port["nodePort"] = has;
        }
    }
}

/// Removes the node ports of a service that became internal, except newly named ones.
pub(super) fn remove(old: &Value, new: &mut Value) {
    let had: BTreeSet<i64> = node_ports(old).collect();
    let Some(Value::Array(list)) = new.pointer_mut("/spec/ports") else {
        return;
    };
    for port in list.iter_mut().filter_map(Value::as_object_mut) {
        let has = port.get("nodePort").and_then(Value::as_i64);
        if has.is_some_and(|has| had.contains(&has)) {
            port.remove("nodePort");
        }
    }
}

/// The ports of all services in the cache, without those of `service` if it is one that exists.
fn used_by_others(
    registry: &Registry,
    exists: bool,
    service: &Value,
) -> Result<BTreeSet<i64>, Status> {
    let services = registry.reader.resource("", "v1", "services")?;
    let own = (object::namespace(service), object::name(service));
    let mut used = BTreeSet::new();
    for other in registry.reader.cached_list(&services.kind, "") {
        if !exists || (object::namespace(&other), object::name(&other)) != own {
            used.extend(node_ports(&other));
            used.extend(object::integer(&other, &["spec", HEALTH_PORT]));
        }
    }
    Ok(used)
}

fn free_port(used: &BTreeSet<i64>) -> Result<i64, Status> {
    let count = NODE_PORTS.end() - NODE_PORTS.start() + 1;
    let start = clock::below(count.unsigned_abs()) as i64;
    let mut all = (0..count).map(|step| NODE_PORTS.start() + (start + step) % count);
    all.find(|port| !used.contains(port))
        .ok_or_else(|| Status::internal("failed to allocate a nodePort: range is full"))
}

fn node_ports(service: &Value) -> impl Iterator<Item = i64> {
    let ports = object::items(service, &["spec", "ports"]).iter();
    ports
        .filter_map(|port| port["nodePort"].as_i64())
        .filter(|port| *port > 0)
}
