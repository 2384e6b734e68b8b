//! Allocates addresses and ports of services. An IPAddress object reserves each address.

mod ports;

use std::net::Ipv4Addr;
use std::sync::Arc;

use machinery::object;
use machinery::status::{Cause, Status};
use serde_json::{Value, json};

use crate::basics::cidr::Cidr;
use crate::basics::clock;
use crate::registry::Registry;
use crate::registry::strategy;
use crate::resources::catalogue::{Resource, Storage};
use crate::storage::entry;
use crate::validate;
pub(crate) use ports::Reserved;
use ports::{Chosen, HEALTH_PORT};

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
    ports: Option<Chosen>,
}

impl Allocated {
    /// The object is stored, at this revision.
    pub(crate) fn stored(self, revision: i64) {
        if let Some(ports) = self.ports {
            ports.stored(revision);
        }
    }

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
    let ports = ports::choose(registry, None, service)?;
    let address = address(registry, service, dry).await?;
    Ok(Allocated { address, ports })
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
        ports::remove(old, new);
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
    let on_nodes = ports::wants_node_ports(new);
    if on_nodes {
        ports::keep(old, new)
    } else {
        ports::remove(old, new)
    }
    let mut allocated = Allocated::default();
    if on_nodes || ports::wants_health_port(new) {
        registry.reader.fresh().await?;
        allocated.ports = ports::choose(registry, Some(old), new)?;
    }
    // An address that the update asks for is taken like any other.
    if object::text(old, &["spec", "clusterIP"]).is_empty() {
        registry.reader.fresh().await?;
        allocated.address = address(registry, new, dry).await?;
    }
    Ok(allocated)
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
