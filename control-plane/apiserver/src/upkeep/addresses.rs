//! Repairs the reservations of service addresses: requests that end halfway leave an IPAddress
//! without a service, or a service without one.
//!
//! Every server of a store does this by itself. Each write depends on the revision that the turn
//! has read, so of two servers one fails and finds the state of the other one.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use machinery::object;
use machinery::status::Status;
use machinery::time::Timestamp;
use serde_json::Value;

use crate::basics::steps::Step;
use crate::basics::{address, clock};
use crate::registry::Registry;
use crate::registry::allocate::addresses;
use crate::registry::allocate::ranges::Ranges;
use crate::registry::allocate::{Allocator, MANAGED_BY};

/// How long to wait between two turns, as in Kubernetes.
const EVERY: Duration = Duration::from_secs(180);
/// How long to wait before trying again what failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The age from which on an IPAddress without a service is left over. Younger ones may belong to a
/// request under way, which ends sooner.
const LEFT_OVER_AFTER: Duration = Duration::from_secs(120);

/// Repairs the addresses of a store for ever.
pub(crate) async fn follow(registry: Arc<Registry>) {
    registry.reader.reflector.loaded().await;
    loop {
        let pause = match repair(&registry, clock::now()).await {
            Ok(()) => {
                registry.steps.done(Step::Addresses);
                EVERY
            }
            Err(error) => {
                tracing::warn!(%error, "the addresses of services cannot be repaired");
                RETRY_AFTER
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Gives back for ever what requests had allocated that ended before their objects were on their
/// way to the store.
pub(crate) async fn give_back(registry: Arc<Registry>) {
    let allocator = Allocator::of(&registry);
    loop {
        allocator.give_back_abandoned().await;
    }
}

/// One turn over all services and addresses.
async fn repair(registry: &Registry, now: Timestamp) -> Result<(), Status> {
    registry.reader.fresh().await?;
    let services = registry.reader.resource("", "v1", "services")?;
    let reservations = registry
        .reader
        .resource("networking.k8s.io", "v1", "ipaddresses")?;
    let services = registry.reader.cached_list(&services.kind, "")?;
    let reserved = registry.reader.cached_list(&reservations.kind, "")?;
    let plan = plan(&services, &reserved, now);
    for (service, address) in plan.unreserved {
        reserve(registry, service, &address).await?;
    }
    for address in plan.left_over {
        // Only what the plan has seen: a service may have taken it over since.
        let Ok(seen) = object::resource_version(address).parse::<i64>() else {
            continue;
        };
        let address = object::name(address);
        tracing::info!(address, "releasing the address of a service that is gone");
        addresses::release(&registry.reader, address, seen..=seen).await?;
    }
    Ok(())
}

/// Namespace and name of a service.
type Owner<'a> = (&'a str, &'a str);

/// What a turn has to do.
#[derive(Debug, Default)]
struct Plan<'a> {
    /// Services, and their addresses that nobody has reserved.
    unreserved: Vec<(&'a Value, String)>,
    /// Reserved addresses that no service has.
    left_over: Vec<&'a Value>,
}

fn plan<'a>(services: &'a [Arc<Value>], reserved: &'a [Arc<Value>], now: Timestamp) -> Plan<'a> {
    let owners: BTreeMap<&str, &Value> = reserved
        .iter()
        .map(|address| (object::name(address), &**address))
        .collect();
    let mut plan = Plan::default();
    let mut used = BTreeSet::new();
    for service in services {
        let own = (object::namespace(service), object::name(service));
        for address in addresses::addresses_of(service) {
            let held = owners
                .get(&*address)
                .and_then(|held| addresses::parent(held));
            used.insert((address.clone(), own));
            match held {
                Some(owner) if owner == own => {}
                Some((namespace, name)) => tracing::warn!(
                    address,
                    service = %format!("{}/{}", own.0, own.1),
                    reserved_for = %format!("{namespace}/{name}"),
                    "two services may have one address; recreate one of them"
                ),
                None => plan.unreserved.push((service, address)),
            }
        }
    }
    plan.left_over = reserved
        .iter()
        .filter(|address| is_left_over(address, &used, now))
        .map(|address| &**address)
        .collect();
    plan
}

fn is_left_over(address: &Value, used: &BTreeSet<(String, Owner)>, now: Timestamp) -> bool {
    let is_ours = object::text(address, &["metadata", "labels", MANAGED_BY.0]) == MANAGED_BY.1;
    let made = object::text(address, &["metadata", "creationTimestamp"]);
    let is_old = Timestamp::parse(made).is_some_and(|made| now.since(made) >= LEFT_OVER_AFTER);
    let is_used = |owner| used.contains(&(object::name(address).to_owned(), owner));
    is_ours && is_old && addresses::parent(address).is_some_and(|owner| !is_used(owner))
}

/// Reserves an address that a service has, if it is in one of the ranges.
async fn reserve(registry: &Registry, service: &Value, text: &str) -> Result<(), Status> {
    let ranges = Ranges::of(&registry.reader)?;
    let parsed = address::read(text);
    let Some(parsed) = parsed.filter(|one| ranges.contains(*one)) else {
        return Ok(());
    };
    let taken = addresses::take(&registry.reader, parsed, service).await?;
    if taken.is_some() {
        tracing::info!(
            address = text,
            service = object::name(service),
            "reserved the address of a service that had lost its reservation"
        );
    }
    Ok(())
}
