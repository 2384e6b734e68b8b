//! Allocates addresses and ports of services. An IPAddress object reserves each address, and one
//! object marks the ports that are taken, so apiservers beside each other allocate none twice.
//!
//! Whoever wrote the IPAddress last is the one who may delete it after a failure: it does so by the
//! revision that it wrote. A request may end at any time, by its timeout or with its client. So a
//! task that continues without it writes what it allocates and gives back, and what it has allocated
//! when it ends before its object is on its way to the store is given back at once.
//! [`crate::upkeep::addresses`] repairs what requests leave behind that end later, and
//! [`crate::upkeep::ports`] does so for ports.

pub(crate) mod addresses;
mod families;
pub(crate) mod ports;
pub(crate) mod ranges;

use std::mem;
use std::sync::Arc;

use machinery::object;
use machinery::status::Status;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::registry::Registry;
use crate::registry::strategy;
use crate::resources::catalogue::Resource;
use crate::storage::reader::Reader;
use crate::validate;
use addresses::{Reservation, addresses_of, release};
use ports::{HEALTH_PORT, Ports, Taken};

/// The label of what an allocator has made.
pub(crate) const MANAGED_BY: (&str, &str) =
    ("ipaddress.kubernetes.io/managed-by", "ipallocator.k8s.io");
/// Tasks that allocate or give back at one time, whose requests may have ended. Others wait.
const AT_ONCE: usize = 256;

/// True if objects of this resource get addresses and ports.
pub(crate) fn concerns(resource: &Resource) -> bool {
    strategy::of(resource).allocates
}

/// What all requests of a server have in common that allocate.
pub(crate) struct Allocations {
    /// The node ports that are taken.
    ports: Taken,
    abandoned: Abandoned,
    turns: Arc<Semaphore>,
}

/// Allocates and gives back, for a request or after it.
#[derive(Clone)]
pub(crate) struct Allocator {
    reader: Reader,
    allocations: Arc<Allocations>,
}

/// The allocations for an object that may still fail to be stored. Unless the object is on its way
/// to the store, they are [`Abandoned`] if the request ends.
#[derive(Default)]
#[must_use = "what is not given back stays taken for a while"]
pub(crate) struct Held {
    /// Nothing is allocated without one.
    allocator: Option<Allocator>,
    allocated: Allocated,
    is_sent: bool,
}

#[derive(Default)]
struct Allocated {
    addresses: Vec<Reservation>,
    ports: Ports,
}

/// Allocations of requests that have ended.
#[derive(Default)]
struct Abandoned {
    all: Mutex<Vec<Allocated>>,
    added: Notify,
}

impl Default for Allocations {
    fn default() -> Allocations {
        Allocations {
            ports: Taken::default(),
            abandoned: Abandoned::default(),
            turns: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }
}

impl Allocator {
    pub(crate) fn of(registry: &Registry) -> Allocator {
        Allocator {
            reader: registry.reader.clone(),
            allocations: Arc::clone(&registry.allocations),
        }
    }

    /// Waits for a request that has ended before its object was on its way to the store, and gives
    /// back what it had allocated. There may be one caller.
    pub(crate) async fn give_back_abandoned(&self) {
        let abandoned = self.allocations.abandoned.next().await;
        abandoned.give_back(self).await;
    }

    /// Allocates the addresses of a service but for those that are kept, or none, and its ports.
    /// Returns the service with them.
    async fn allocate(
        &self,
        old: Option<&Value>,
        mut service: Value,
        kept: Option<usize>,
        dry: bool,
    ) -> Result<(Value, Held), Status> {
        self.reader.fresh().await?;
        let mut held = Held {
            allocator: Some(self.clone()),
            allocated: Allocated::default(),
            is_sent: false,
        };
        let reserved = &mut held.allocated.addresses;
        let all = async {
            if let Some(kept) = kept {
                addresses::choose(&self.reader, &mut service, kept, dry, reserved).await?;
            }
            ports::choose(self, old, &mut service, dry).await
        };
        match all.await {
            Ok(ports) => {
                held.allocated.ports = ports;
                Ok((service, held))
            }
            Err(error) => {
                mem::take(&mut held.allocated).give_back(self).await;
                Err(error)
            }
        }
    }

    /// Waits until a task may begin that goes on without its request. It holds the turn.
    async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        let turns = Arc::clone(&self.allocations.turns);
        // Nobody closes it.
        turns.acquire_owned().await.ok()
    }
}

impl Held {
    /// Nothing is allocated.
    pub(crate) fn none() -> Held {
        Held::default()
    }

    /// What a request holds that has reserved an address at this revision.
    #[cfg(test)]
    pub(crate) fn address(registry: &Registry, address: &str, revision: i64) -> Held {
        let reservation = Reservation {
            address: address.to_owned(),
            revision,
        };
        Held {
            allocator: Some(Allocator::of(registry)),
            allocated: Allocated {
                addresses: vec![reservation],
                ports: Ports::new(),
            },
            is_sent: false,
        }
    }

    /// The object is about to be sent. If the request ends from here on, the store may have it: the
    /// repair will see.
    pub(crate) fn sent(&mut self) {
        self.is_sent = true;
    }

    /// The object is stored, with all that was allocated for it.
    pub(crate) fn stored(mut self) {
        self.is_sent = true;
    }

    /// Releases the allocations after a write that failed, unless the store may have the object
    /// nevertheless.
    pub(crate) async fn give_back_after(self, error: &Status) {
        if error.may_be_written {
            self.stored();
        } else {
            self.give_back().await;
        }
    }

    /// Releases the allocations of an object that is not stored.
    pub(crate) async fn give_back(mut self) {
        let Some(allocator) = self.allocator.clone() else {
            return;
        };
        if self.allocated.is_empty() {
            return;
        }
        self.is_sent = false;
        let turn = allocator.turn().await;
        let allocated = mem::take(&mut self.allocated);
        let giving = tokio::spawn(async move {
            allocated.give_back(&allocator).await;
            drop(turn);
        });
        // It has told what failed.
        let _ = giving.await;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let allocated = mem::take(&mut self.allocated);
        let allocator = self.allocator.as_ref().filter(|_| !self.is_sent);
        if let Some(allocator) = allocator
            && !allocated.is_empty()
        {
            allocator.allocations.abandoned.add(allocated);
        }
    }
}

impl Abandoned {
    /// Waits for some. There may be one caller.
    async fn next(&self) -> Allocated {
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
    async fn give_back(self, allocator: &Allocator) {
        if !self.ports.is_empty() {
            told_of_ports(&self.ports, ports::give_back(allocator, &self.ports).await);
        }
        for Reservation { address, revision } in self.addresses {
            let released = release(&allocator.reader, &address, revision..=revision);
            told(&address, released.await);
        }
    }

    fn is_empty(&self) -> bool {
        self.addresses.is_empty() && self.ports.is_empty()
    }
}

/// Checks what a new service says about its addresses, and allocates what it needs.
pub(crate) async fn create(
    registry: &Registry,
    service: &mut Value,
    dry: bool,
) -> Result<Held, Status> {
    list_single(service);
    if is_external(service) {
        return Ok(Held::none());
    }
    let cluster = registry.settings.service_ranges.families();
    families::complete(None, service, &cluster)?;
    allocate(registry, None, service, Some(0), dry).await
}

/// Keeps the allocations of a service, and allocates what the update adds.
pub(crate) async fn update(
    registry: &Registry,
    old: &Value,
    new: &mut Value,
    dry: bool,
) -> Result<Held, Status> {
    keep_addresses(old, new);
    ports::keep(old, new);
    let cluster = registry.settings.service_ranges.families();
    families::complete(Some(old), new, &cluster)?;
    shed(old, new);
    ports::remove(old, new);
    if is_external(new) {
        drop_addresses(old, new);
        return Ok(Held::none());
    }
    allocate(registry, Some(old), new, kept_addresses(old, new), dry).await
}

/// Allocates what a service needs. If the request ends meanwhile, what its task has reserved is
/// abandoned with the answer that nobody takes.
async fn allocate(
    registry: &Registry,
    old: Option<&Value>,
    service: &mut Value,
    kept: Option<usize>,
    dry: bool,
) -> Result<Held, Status> {
    let allocator = Allocator::of(registry);
    let turn = allocator.turn().await;
    let (old, asked) = (old.cloned(), service.clone());
    let allocating = tokio::spawn(async move {
        let allocated = allocator.allocate(old.as_ref(), asked, kept, dry).await;
        drop(turn);
        allocated
    });
    let allocated = allocating.await;
    let (chosen, held) = allocated.map_err(|error| Status::internal(&error.to_string()))??;
    *service = chosen;
    Ok(held)
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
    let addresses = &addresses_of(old) - &addresses_of(new);
    let left = &ports::all_of(old) - &ports::all_of(new);
    if addresses.is_empty() && left.is_empty() {
        return;
    }
    let allocator = Allocator::of(registry);
    let turn = allocator.turn().await;
    let releasing = tokio::spawn(async move {
        for address in &addresses {
            let released = release(&allocator.reader, address, ..since);
            told(address, released.await);
        }
        if !left.is_empty() {
            told_of_ports(&left, ports::release(&allocator, left.clone()).await);
        }
        drop(turn);
    });
    // It has told what failed.
    let _ = releasing.await;
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
