//! Allocates addresses and ports of services. An IPAddress object reserves each address, and one
//! object marks the ports that are taken, so apiservers beside each other allocate none twice.
//!
//! Whoever wrote the IPAddress last is the one who may delete it after a failure: it does so by the
//! revision that it wrote. [`crate::upkeep::addresses`] repairs what requests leave behind that end
//! halfway, and [`crate::upkeep::ports`] does so for ports.

pub(crate) mod ports;
pub(crate) mod ranges;

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use machinery::object;
use machinery::status::{Cause, Status};
use serde_json::{Value, json};

use crate::basics::clock;
use crate::registry::Registry;
use crate::registry::strategy;
use crate::resources::catalogue::{Resource, Storage};
use crate::storage::decoded;
use crate::storage::store::Swap;
use crate::validate;
use ports::{HEALTH_PORT, Ports};
use ranges::Ranges;

/// The label of what an allocator has made.
pub(crate) const MANAGED_BY: (&str, &str) =
    ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");

/// Attempts with random addresses before the range counts as full.
const TRIES_MAX: usize = 256;

/// True if objects of this resource get addresses and ports.
pub(crate) fn concerns(resource: &Resource) -> bool {
    strategy::of(resource).allocates
}

/// The allocations for an object that may still fail to be stored.
#[derive(Default)]
#[must_use = "what is not given back stays taken for a while"]
pub(crate) struct Allocated {
    address: Option<Reservation>,
    ports: Ports,
}

/// An IPAddress that this write has made its own, at this revision.
struct Reservation {
    address: String,
    revision: i64,
}

impl Allocated {
    /// The object is stored, with all that was allocated for it.
    pub(crate) fn stored(self) {}

    /// Releases the allocations after a write that failed, unless the store may have the object
    /// nevertheless.
    pub(crate) async fn give_back_after(self, error: &Status, registry: &Registry) {
        if !error.may_be_written {
            self.give_back(registry).await;
        }
    }

    /// Releases the allocations.
    pub(crate) async fn give_back(self, registry: &Registry) {
        if !self.ports.is_empty() {
            told_of_ports(&self.ports, ports::give_back(registry, &self.ports).await);
        }
        if let Some(Reservation { address, revision }) = self.address {
            told(&address, release(registry, &address, Some(revision)).await);
        }
    }
}

/// Checks the addresses that a new service asks for.
pub(crate) fn prepare(service: &mut Value) -> Result<(), Status> {
    one_address(None, service);
    check_addresses(service)
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
    let ports = ports::choose(registry, None, service, dry).await?;
    let mut allocated = Allocated {
        address: None,
        ports,
    };
    match address(registry, service, dry).await {
        Ok(address) => {
            allocated.address = address;
            Ok(allocated)
        }
        Err(error) => {
            allocated.give_back(registry).await;
            Err(error)
        }
    }
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
    check_addresses(new)?;
    families(new);
    ports::keep(old, new);
    ports::remove(old, new);
    registry.reader.fresh().await?;
    let mut allocated = Allocated {
        address: None,
        ports: ports::choose(registry, Some(old), new, dry).await?,
    };
    // An address that the update asks for is taken like any other.
    if object::text(old, &["spec", "clusterIP"]).is_empty() {
        allocated.address = match address(registry, new, dry).await {
            Ok(address) => address,
            Err(error) => {
                allocated.give_back(registry).await;
                return Err(error);
            }
        };
    }
    Ok(allocated)
}

/// Releases what a service had and has no longer. `new` is null if it is deleted.
pub(crate) async fn replaced(registry: &Registry, resource: &Resource, old: &Value, new: &Value) {
    if !concerns(resource) {
        return;
    }
    for address in addresses_of(old).difference(&addresses_of(new)) {
        told(address, release(registry, address, None).await);
    }
    let left = &ports::all_of(old) - &ports::all_of(new);
    if !left.is_empty() {
        told_of_ports(&left, ports::release(registry, left.clone()).await);
    }
}

fn told(address: &str, released: Result<(), Status>) {
    if let Err(error) = released {
        tracing::warn!(%error, address, "the address of a service that is gone stays taken for a while");
    }
}

fn told_of_ports(ports: &Ports, released: Result<(), Status>) {
    if let Err(error) = released {
        tracing::warn!(%error, ?ports, "the node ports of a service that is gone stay taken for a while");
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

/// Addresses that make no sense are reported alone, before anything is allocated.
fn check_addresses(service: &Value) -> Result<(), Status> {
    let causes = validate::addresses(service);
    if causes.is_empty() {
        return Ok(());
    }
    let name = object::name(service);
    Err(Status::invalid("", "Service", name, causes.into()))
}

/// Copies a single address into the list of addresses, unless the list is another one.
fn one_address(old: Option<&Value>, service: &mut Value) {
    let (one, list) = (["spec", "clusterIP"], ["spec", "clusterIPs"]);
    let had = old.and_then(|old| object::at(old, &one));
    let address = object::at(service, &one).filter(|address| Some(*address) != had);
    let address = address
        .and_then(Value::as_str)
        .filter(|address| !address.is_empty());
    let listed = old.map_or(&[][..], |old| object::items(old, &list));
    if let Some(address) = address.map(str::to_owned)
        && [listed, &[]].contains(&object::items(service, &list))
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
) -> Result<Option<Reservation>, Status> {
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
    let ranges = Ranges::of(registry)?;
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
        let Some(address) = wanted.parse().ok().filter(|one| ranges.has_host(*one)) else {
            return refuse(format!(
                "failed to allocate IP {wanted}: the provided network does not match the current range"
            ));
        };
        if dry {
            set(service, &wanted);
            return Ok(None);
        }
        let Some(revision) = take(registry, address, service).await? else {
            return refuse(format!(
                "failed to allocate IP {wanted}: provided IP is already allocated"
            ));
        };
        set(service, &wanted);
        return Ok(Some(Reservation {
            address: wanted,
            revision,
        }));
    }
    let first = ranges.any_turn();
    for turn in first..first + TRIES_MAX {
        let Some(address) = ranges.random(turn) else {
            break;
        };
        if dry {
            set(service, &address.to_string());
            return Ok(None);
        }
        if let Some(revision) = take(registry, address, service).await? {
            let address = address.to_string();
            set(service, &address);
            return Ok(Some(Reservation { address, revision }));
        }
    }
    Err(Status::internal(
        "failed to allocate a serviceIP: range is full",
    ))
}

/// Reserves an address for a service; returns the revision of its IPAddress, or `None` if another
/// service has it. What an interrupted attempt for the same service left is taken over by a write,
/// so that nobody else deletes it.
pub(crate) async fn take(
    registry: &Registry,
    address: Ipv4Addr,
    service: &Value,
) -> Result<Option<i64>, Status> {
    let storage = ip_addresses(registry)?;
    let name = address.to_string();
    let object = json!({
        "kind": "IPAddress", "apiVersion": "networking.k8s.io/v1",
        "metadata": {
            "name": name, "uid": clock::uid(),
            "creationTimestamp": clock::now().to_seconds(),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": "IPv4",
                MANAGED_BY.0: MANAGED_BY.1,
            },
        },
        "spec": {"parentRef": {
            "resource": "services", "namespace": object::namespace(service),
            "name": object::name(service),
        }},
    });
    let value = decoded::encode(&storage, &object)?;
    let key = storage.key("", &name);
    let store = &registry.reader.store;
    if let Some(revision) = store.create(&storage, &key, value.clone(), 0).await? {
        return Ok(Some(revision));
    }
    let Some(held) = registry.reader.read_key(&storage, &key).await? else {
        return Ok(None);
    };
    let revision = held.revision;
    if parent(&held.decode()?) != parent(&object) {
        return Ok(None);
    }
    match store.update(&storage, &key, revision, value, 0).await? {
        Swap::Done(revision) => Ok(Some(revision)),
        Swap::Changed(_) => Ok(None),
    }
}

/// The addresses of a service as IPAddresses are named. A service of Kubernetes' own apiserver may
/// have one of each family.
pub(crate) fn addresses_of(service: &Value) -> BTreeSet<String> {
    let listed = object::items(service, &["spec", "clusterIPs"]).iter();
    let all = listed.filter_map(Value::as_str);
    let all = all.chain([object::text(service, &["spec", "clusterIP"])]);
    let all = all.filter(|address| !["", "None"].contains(address));
    // An IPv6 address can be written in several ways.
    all.map(|address| match address.parse::<IpAddr>() {
        Ok(parsed) => parsed.to_string(),
        Err(_) => address.to_owned(),
    })
    .collect()
}

/// Namespace and name of the service that an IPAddress belongs to.
pub(crate) fn parent(address: &Value) -> Option<(&str, &str)> {
    let text = |key| object::text(address, &["spec", "parentRef", key]);
    let is_service = (text("group"), text("resource")) == ("", "services");
    is_service.then(|| (text("namespace"), text("name")))
}

/// Deletes the IPAddress of an address unless a service has the address, or somebody else than the
/// caller wrote it last: `mine` is the revision that the caller wrote.
pub(crate) async fn release(
    registry: &Registry,
    address: &str,
    mine: Option<i64>,
) -> Result<(), Status> {
    let storage = ip_addresses(registry)?;
    let key = storage.key("", address);
    let Some(held) = registry.reader.read_key(&storage, &key).await? else {
        return Ok(());
    };
    let revision = held.revision;
    if mine.is_some_and(|mine| mine != revision) {
        return Ok(());
    }
    let held = held.decode()?;
    if let Some((namespace, name)) = parent(&held) {
        let services = registry.reader.resource("", "v1", "services")?;
        let services = services.stored()?;
        let key = services.key(namespace, name);
        if let Some(service) = registry.reader.read_key(services, &key).await?
            && addresses_of(&service.decode()?).contains(address)
        {
            return Ok(());
        }
    }
    // Whoever took it over meanwhile has written it.
    registry
        .reader
        .store
        .delete(&key, revision)
        .await
        .map(|_| ())
}

pub(crate) fn ip_addresses(registry: &Registry) -> Result<Arc<Storage>, Status> {
    let addresses = registry
        .reader
        .resource("networking.k8s.io", "v1", "ipaddresses")?;
    addresses.stored().cloned()
}
