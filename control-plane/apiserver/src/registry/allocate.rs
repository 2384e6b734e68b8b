//! Allocates addresses and ports of services. An IPAddress object reserves each address.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;

use machinery::object;
use machinery::status::{Cause, Status};
use serde_json::{Value, json};

use crate::cidr::Cidr;
use crate::clock;
use crate::registry::Registry;
use crate::registry::strategy;
use crate::resources::catalogue::{Resource, Storage};
use crate::storage::entry;
use crate::validate;

/// The range of node ports.
const NODE_PORTS: std::ops::RangeInclusive<i64> = 30_000..=32_767;
/// Field for the port that reports whether a node has pods of the service.
const HEALTH_PORT: &str = "healthCheckNodePort";
/// Attempts with random addresses before the range counts as full.
const TRIES_MAX: usize = 256;

/// True if objects of this resource get addresses and ports.
pub(crate) fn concerns(resource: &Resource) -> bool {
    strategy::of(resource).allocates
}

/// The allocations for an object that may still fail to be stored.
#[derive(Default)]
pub(crate) struct Allocated {
    address: Option<String>,
}

impl Allocated {
    /// Releases the allocations after a write that failed. After an error of the store they stay:
    /// the object may have been written.
    pub(crate) async fn give_back_after(self, error: &Status, registry: &Registry) {
        if error.code < 500 {
            self.give_back(registry).await;
        }
    }

    /// Releases the allocations.
    pub(crate) async fn give_back(self, registry: &Registry) {
        if let Some(address) = self.address {
            release(registry, &address).await;
        }
    }
}

/// Checks the addresses that a new service asks for.
pub(crate) fn prepare(service: &mut Value) -> Result<(), Status> {
    one_address(None, service);
    let causes = validate::addresses(service);
    if causes.is_empty() {
        Ok(())
    } else {
        let name = object::name(service);
        Err(Status::invalid("", "Service", name, causes.into()))
    }
}

/// Allocates what a new service needs.
pub(crate) async fn create(
    registry: &Registry,
    service: &mut Value,
    dry: bool,
) -> Result<Allocated, Status> {
    let kind = object::text(service, &["spec", "type"]).to_owned();
    if kind == "ExternalName" {
        return Ok(Allocated::default());
    }
    families(service);
    // Ports come first: a failure there leaves no reserved address behind.
    registry.reader.fresh().await?;
    ports(registry, None, service)?;
    let address = address(registry, service, dry).await?;
    Ok(Allocated { address })
}

/// Keeps the allocations of a service, and allocates what the update adds.
pub(crate) async fn update(
    registry: &Registry,
    old: &Value,
    new: &mut Value,
    dry: bool,
) -> Result<Allocated, Status> {
    shed(old, new);
    if object::text(new, &["spec", "type"]) == "ExternalName" {
        for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            object::remove(new, &["spec", key]);
        }
        drop_node_ports(old, new);
        return Ok(Allocated::default());
    }
    one_address(Some(old), new);
    if object::text(new, &["spec", "clusterIP"]).is_empty() {
        object::remove(new, &["spec", "clusterIP"]);
    }
    for key in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if object::at(new, &["spec", key]).is_none()
            && let Some(value) = object::at(old, &["spec", key])
        {
            object::set(new, &["spec", key], value.clone());
        }
    }
    families(new);
    if wants_node_ports(new) {
        keep_node_ports(old, new)
    } else {
        drop_node_ports(old, new)
    }
    if wants_node_ports(new) || wants_health_port(new) {
        registry.reader.fresh().await?;
        ports(registry, Some(old), new)?;
    }
    // An address that the update asks for is taken like any other.
    if object::text(old, &["spec", "clusterIP"]).is_empty() {
        registry.reader.fresh().await?;
        let address = address(registry, new, dry).await?;
        return Ok(Allocated { address });
    }
    Ok(Allocated::default())
}

/// Releases the address of a service that is deleted or has become an ExternalName.
pub(crate) async fn deleted(registry: &Registry, resource: &Resource, service: &Value) {
    let address = object::text(service, &["spec", "clusterIP"]);
    if concerns(resource) && !["", "None"].contains(&address) {
        release(registry, address).await;
    }
}

/// Removes fields that the new type does not have, unless the update changes them.
fn shed(old: &Value, new: &mut Value) {
    let balanced = |service: &Value| object::text(service, &["spec", "type"]) == "LoadBalancer";
    let ends = |has: &dyn Fn(&Value) -> bool| has(old) && !has(new);
    let (unbalanced, unasked) = (ends(&balanced), ends(&validate::checks_health));
    let closed = ends(&validate::reached_from_outside);
    for (ended, key) in [
        (unasked, HEALTH_PORT),
        (unbalanced, "allocateLoadBalancerNodePorts"),
        (unbalanced, "loadBalancerClass"),
        (closed, "externalTrafficPolicy"),
    ] {
        let path = ["spec", key];
        if ended && object::at(old, &path) == object::at(new, &path) {
            object::remove(new, &path);
        }
    }
}

/// Copies a single address into the list of addresses.
fn one_address(old: Option<&Value>, service: &mut Value) {
    let (one, list) = (["spec", "clusterIP"], ["spec", "clusterIPs"]);
    let had = old.and_then(|old| object::at(old, &one));
    let address = object::at(service, &one).filter(|address| Some(*address) != had);
    let address = address
        .and_then(Value::as_str)
        .filter(|address| !address.is_empty());
    let listed = old.map_or(&[][..], |old| object::items(old, &list));
    if let Some(address) = address.map(str::to_owned)
        && object::items(service, &list) == listed
    {
        object::set(service, &list, json!([address]));
    }
}

fn families(service: &mut Value) {
    if object::text(service, &["spec", "ipFamilyPolicy"]).is_empty() {
        object::set(service, &["spec", "ipFamilyPolicy"], "SingleStack".into());
    }
    if object::items(service, &["spec", "ipFamilies"]).is_empty() {
        object::set(service, &["spec", "ipFamilies"], json!(["IPv4"]));
    }
}

/// Sets the address; returns it if it is newly reserved.
async fn address(
    registry: &Registry,
    service: &mut Value,
    dry: bool,
) -> Result<Option<String>, Status> {
    let mut wanted = object::text(service, &["spec", "clusterIP"]).to_owned();
    let listed = object::items(service, &["spec", "clusterIPs"])
        .first()
        .and_then(Value::as_str);
    if wanted.is_empty() {
        wanted = listed.unwrap_or_default().to_owned();
    }
    let set = |service: &mut Value, address: &str| {
        object::set(service, &["spec", "clusterIP"], address.into());
        object::set(service, &["spec", "clusterIPs"], json!([address]));
    };
    if wanted == "None" {
        set(service, "None");
        return Ok(None);
    }
    let range = Cidr::parse(&registry.settings.service_cidr)
        .ok_or_else(|| Status::internal("the range of service addresses is malformed"))?;
    let refuse = |why: String| {
        let shown = json!([wanted]);
        let cause = Cause::invalid("spec.clusterIPs", &shown, &why);
        Err(Status::invalid(
            "",
            "Service",
            object::name(service),
            vec![cause],
        ))
    };
    if !wanted.is_empty() {
        let Some(address) = wanted.parse().ok().filter(|one| range.contains(*one)) else {
            return refuse(format!(
                "failed to allocate IP {wanted}: the provided network does not match the current range"
            ));
        };
        let taken = if dry {
            Taken::Before
        } else {
            take(registry, address, service).await?
        };
        if taken == Taken::No {
            return refuse(format!(
                "failed to allocate IP {wanted}: provided IP is already allocated"
            ));
        }
        set(service, &wanted);
        return Ok((taken == Taken::Now).then_some(wanted));
    }
    for _ in 0..TRIES_MAX {
        let address = range.random();
        let taken = if dry {
            Taken::Before
        } else {
            take(registry, address, service).await?
        };
        if taken != Taken::No {
            let address = address.to_string();
            set(service, &address);
            return Ok((taken == Taken::Now).then_some(address));
        }
    }
    Err(Status::internal(
        "failed to allocate a serviceIP: range is full",
    ))
}

/// The state of an address that was asked for.
#[derive(PartialEq, Eq)]
enum Taken {
    /// It was free and belongs to the service now.
    Now,
    /// It belonged to the service already: an earlier attempt to create it was interrupted.
    Before,
    /// It belongs to another service.
    No,
}

async fn take(registry: &Registry, address: Ipv4Addr, service: &Value) -> Result<Taken, Status> {
    let storage = ip_addresses(registry)?;
    let name = address.to_string();
    let object = json!({
        "kind": "IPAddress", "apiVersion": "networking.k8s.io/v1",
        "metadata": {
            "name": name, "uid": clock::uid(),
            "creationTimestamp": clock::now().to_seconds(),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": {
            "resource": "services", "namespace": object::namespace(service),
            "name": object::name(service),
        }},
    });
    let value = entry::encode(&storage, &object)?;
    let key = storage.key("", &name);
    if registry
        .reader
        .store
        .create(&key, value, 0)
        .await?
        .is_some()
    {
        return Ok(Taken::Now);
    }
    let held = registry.reader.read_key(&storage, &key).await?;
    let same = |held: &Value, key: &str| {
        let path = ["spec", "parentRef", key];
        object::text(held, &path) == object::text(&object, &path)
    };
    let held = held.map(|held| held.decode()).transpose()?;
    let ours = held.is_some_and(|held| {
        ["resource", "namespace", "name"]
            .iter()
            .all(|key| same(&held, key))
    });
    Ok(if ours { Taken::Before } else { Taken::No })
}

async fn release(registry: &Registry, address: &str) {
    let Ok(storage) = ip_addresses(registry) else {
        return;
    };
    let key = storage.key("", address);
    let released = match registry.reader.store.get(&key).await {
        Ok((Some(kv), _)) => registry
            .reader
            .store
            .delete(&key, kv.mod_revision)
            .await
            .map(|_| ()),
        Ok(_) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(error) = released {
        tracing::warn!(%error, address, "the address of a deleted service stays taken");
    }
}

fn ip_addresses(registry: &Registry) -> Result<Arc<Storage>, Status> {
    let addresses = registry
        .reader
        .resource("networking.k8s.io", "v1", "ipaddresses")?;
    addresses.stored().cloned()
}

fn wants_node_ports(service: &Value) -> bool {
    match object::text(service, &["spec", "type"]) {
        "NodePort" => true,
        "LoadBalancer" => {
            object::at(service, &["spec", "allocateLoadBalancerNodePorts"])
                != Some(&Value::Bool(false))
        }
        _ => false,
    }
}

fn wants_health_port(service: &Value) -> bool {
    let has = object::integer(service, &["spec", HEALTH_PORT]);
    validate::checks_health(service) && has.unwrap_or(0) == 0
}

/// Sets the node port of each port of a service, and its health check port.
fn ports(registry: &Registry, old: Option<&Value>, service: &mut Value) -> Result<(), Status> {
    let (on_nodes, health) = (wants_node_ports(service), wants_health_port(service));
    if !on_nodes && !health {
        return Ok(());
    }
    let services = registry.reader.resource("", "v1", "services")?;
    let own = (
        object::namespace(service).to_owned(),
        object::name(service).to_owned(),
    );
    let mut used = BTreeSet::new();
    for other in registry.reader.cached_list(&services.kind, "") {
        let same = (object::namespace(&other), object::name(&other)) == (&own.0, &own.1);
        if !same || old.is_none() {
            used.extend(node_ports(&other));
            used.extend(object::integer(&other, &["spec", HEALTH_PORT]));
        }
    }
    let name = own.1;
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
        port["nodePort"] = chosen.into();
    }
    if health {
        object::set(service, &["spec", HEALTH_PORT], free_port(&used)?.into());
    }
    Ok(())
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

/// A port that existed before keeps its node port.
fn keep_node_ports(old: &Value, new: &mut Value) {
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
fn drop_node_ports(old: &Value, new: &mut Value) {
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
