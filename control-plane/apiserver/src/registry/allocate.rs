//! Allocates addresses and ports of services. An IPAddress object reserves each address, and one
//! object marks the ports that are taken, so apiservers beside each other allocate none twice.
//!
//! Whoever wrote the IPAddress last is the one who may delete it after a failure: it does so by the
//! revision that it wrote. What a request has allocated that ends before its object is on its way
//! to the store is given back at once. [`crate::upkeep::addresses`] repairs what requests leave
//! behind that end later, and [`crate::upkeep::ports`] does so for ports.

pub(crate) mod addresses;
mod families;
pub(crate) mod ports;
pub(crate) mod ranges;

use std::mem;

use machinery::object;
use machinery::status::Status;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::registry::Registry;
use crate::registry::strategy;
use crate::resources::catalogue::Resource;
use crate::validate;
use addresses::{Reservation, addresses_of, release};
use ports::{HEALTH_PORT, Ports};

/// The label of what an allocator has made.
pub(crate) const MANAGED_BY: (&str, &str) =
    ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");

/// True if objects of this resource get addresses and ports.
pub(crate) fn concerns(resource: &Resource) -> bool {
    strategy::of(resource).allocates
}

/// The allocations for an object that may still fail to be stored.
#[derive(Default)]
#[must_use = "what is not given back stays taken for a while"]
pub(crate) struct Allocated {
    addresses: Vec<Reservation>,
    ports: Ports,
}

/// The allocations of a request that has not sent its object to the store. A request may end while
/// it waits, by its timeout or with its client: then they are [`Abandoned`].
pub(crate) struct Held<'a> {
    registry: &'a Registry,
    allocated: Allocated,
}

/// Allocations of requests that have ended, for [`crate::upkeep::addresses`] to give back.
#[derive(Default)]
pub(crate) struct Abandoned {
    all: Mutex<Vec<Allocated>>,
    added: Notify,
}

impl<'a> Held<'a> {
    /// Nothing is allocated.
    pub(crate) fn none(registry: &'a Registry) -> Held<'a> {
        Held {
            registry,
            allocated: Allocated::default(),
        }
    }

    /// Leaves the allocations to the caller, who is about to send the object, or gives them back.
    /// If the request ends from here on, the store may have the object: the repair will see.
    pub(crate) fn handed_over(mut self) -> Allocated {
        mem::take(&mut self.allocated)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let allocated = mem::take(&mut self.allocated);
        if !allocated.is_empty() {
            self.registry.abandoned.add(allocated);
        }
    }
}

impl Abandoned {
    /// Waits for some. There may be one caller.
    pub(crate) async fn next(&self) -> Allocated {
        loop {
            let found = self.all.lock().pop();
            if let Some(allocated) = found {
                return allocated;
            }
            self.added.notified().await;
        }
    }

    fn add(&self, allocated: Allocated) {
        self.all.lock().push(allocated);
        self.added.notify_one();
    }
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
        for Reservation { address, revision } in self.addresses {
            told(
                &address,
                release(registry, &address, revision..=revision).await,
            );
        }
    }

    fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.ports.is_empty()
    }
}

/// Checks what a new service says about its addresses, and allocates what it needs.
pub(crate) async fn create<'a>(
    registry: &'a Registry,
    service: &mut Value,
    dry: bool,
) -> Result<Held<'a>, Status> {
    list_single(service);
    if is_external(service) {
        return Ok(Held::none(registry));
    }
    let cluster = registry.settings.service_ranges.families();
    families::complete(None, service, &cluster)?;
    allocate(registry, None, service, Some(0), dry).await
}

/// Keeps the allocations of a service, and allocates what the update adds.
pub(crate) async fn update<'a>(
    registry: &'a Registry,
    old: &Value,
    new: &mut Value,
    dry: bool,
) -> Result<Held<'a>, Status> {
    keep_addresses(old, new);
    ports::keep(old, new);
    let cluster = registry.settings.service_ranges.families();
    families::complete(Some(old), new, &cluster)?;
    shed(old, new);
    ports::remove(old, new);
    if is_external(new) {
        drop_addresses(old, new);
        return Ok(Held::none(registry));
    }
    allocate(registry, Some(old), new, kept_addresses(old, new), dry).await
}

/// Allocates the addresses of a service but for those that are kept, or none, and its ports.
async fn allocate<'a>(
    registry: &'a Registry,
    old: Option<&Value>,
    service: &mut Value,
    kept: Option<usize>,
    dry: bool,
) -> Result<Held<'a>, Status> {
    registry.reader.fresh().await?;
    let mut held = Held::none(registry);
    let reserved = &mut held.allocated.addresses;
    let all = async {
        if let Some(kept) = kept {
            addresses::choose(registry, service, kept, dry, reserved).await?;
        }
        ports::choose(registry, old, service, dry).await
    };
    match all.await {
        Ok(ports) => {
            held.allocated.ports = ports;
            Ok(held)
        }
        Err(error) => {
            held.handed_over().give_back(registry).await;
            Err(error)
        }
    }
}

/// Lists an address without effect of a service that is to be stored, as Kubernetes does.
pub(crate) fn settle(service: &mut Value) {
    if is_external(service) {
        list_single(service);
    }
}

/// Copies a single address into a list that is empty.
fn list_single(service: &mut Value) {
    let list = ["spec", "clusterIPs"];
    let address = object::text(service, &["spec", "clusterIP"]);
    if !address.is_empty() && object::items(service, &list).is_empty() {
        let single = json!([address]);
        object::set(service, &list, single);
    }
}

/// Releases what a service had and has no longer since a revision. `new` is null if it is deleted.
///
/// A reservation that is younger than that belongs to a service that was created again meanwhile,
/// and need not be stored yet.
pub(crate) async fn replaced(
    registry: &Registry,
    resource: &Resource,
    since: i64,
    old: &Value,
    new: &Value,
) {
    if !concerns(resource) {
        return;
    }
    for address in addresses_of(old).difference(&addresses_of(new)) {
        told(address, release(registry, address, ..since).await);
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

/// Removes fields that the new type does not have, unless the update changes them, and where a load
/// balancer answers.
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
    if !balanced(new) {
        object::set(new, &["status", "loadBalancer"], json!({}));
    }
}

/// Keeps the addresses that an update leaves out. A single address that changes stands for a list
/// that does not.
fn keep_addresses(old: &Value, new: &mut Value) {
    let (one, list) = (["spec", "clusterIP"], ["spec", "clusterIPs"]);
    if !is_external(old) && !is_external(new) {
        if object::text(new, &one).is_empty()
            && let Some(address) = object::at(old, &one)
        {
            object::set(new, &one, address.clone());
        }
        if object::items(new, &list).is_empty()
            && let Some(addresses) = object::at(old, &list)
        {
            object::set(new, &list, addresses.clone());
        }
    }
    let (had, has) = (object::text(old, &one), object::text(new, &one));
    let (before, after) = (object::items(old, &list), object::items(new, &list));
    if had == has && after.is_empty() && !before.is_empty() {
        object::set(new, &list, before.to_vec().into());
    } else if had != has && before == after {
        if has.is_empty() {
            object::remove(new, &list);
        } else {
            let single = json!([has]);
            object::set(new, &list, single);
        }
    }
}

/// A service with a name outside of the cluster has no addresses within it. Those that the update
/// changes are left for validation, which refuses them.
fn drop_addresses(old: &Value, new: &mut Value) {
    for keys in [
        &["clusterIP", "clusterIPs"][..],
        &["ipFamilies"],
        &["ipFamilyPolicy"],
    ] {
        let same = |key: &&str| object::at(old, &["spec", key]) == object::at(new, &["spec", key]);
        if keys.iter().all(same) {
            for key in keys {
                object::remove(new, &["spec", key]);
            }
        }
    }
}

/// How many addresses of a service an update leaves as they are; `None` if it needs no new ones.
fn kept_addresses(old: &Value, new: &Value) -> Option<usize> {
    let families = |service| object::items(service, &["spec", "ipFamilies"]).len();
    if is_external(old) {
        return Some(0);
    }
    let gets_second = families(old) == 1 && families(new) == 2;
    (gets_second && !families::has_no_address(old)).then_some(1)
}

/// True if a service is a name outside of the cluster.
fn is_external(service: &Value) -> bool {
    object::text(service, &["spec", "type"]) == "ExternalName"
}
