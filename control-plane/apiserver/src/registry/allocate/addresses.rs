//! Reservations of service addresses: an IPAddress object for each.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeBounds;
use std::sync::Arc;

use machinery::object;
use machinery::status::{Cause, Status};
use serde_json::{Value, json};

use super::MANAGED_BY;
use super::families::has_no_address;
use super::ranges::Ranges;
use crate::basics::cidr::Family;
use crate::basics::{address, clock};
use crate::resources::catalogue::Storage;
use crate::storage::decoded;
use crate::storage::reader::Reader;
use crate::storage::store::{Created, Swap};

const ADDRESSES: [&str; 2] = ["spec", "clusterIPs"];

/// An IPAddress that this write has made its own, at this revision.
pub(super) struct Reservation {
    pub(super) address: String,
    pub(super) revision: i64,
}

/// Gives a service an address of each of its families, except the first `kept` ones; adds those that
/// are newly reserved to `reserved`, also if another one fails. The cache must be fresh.
pub(super) async fn choose(
    reader: &Reader,
    service: &mut Value,
    kept: usize,
    dry: bool,
    reserved: &mut Vec<Reservation>,
) -> Result<(), Status> {
    if has_no_address(service) {
        return Ok(());
    }
    let names = object::items(service, &["spec", "ipFamilies"]).iter();
    let families = names.filter_map(|name| Family::named(name.as_str()?));
    let families: Vec<Family> = families.collect();
    let mut list = object::items(service, &ADDRESSES).to_vec();
    let count = list.len().max(families.len());
    list.resize(count, "".into());
    let ranges = Ranges::of(reader)?;
    let chooser = Chooser {
        reader,
        service: service.clone(),
        ranges,
        asked: Value::from(list.clone()),
        dry,
    };
    for (at, family) in families.into_iter().enumerate().skip(kept) {
        let wanted = list[at].as_str().unwrap_or_default().to_owned();
        let (address, reservation) = if wanted.is_empty() {
            chooser.draw(family).await?
        } else {
            (wanted.clone(), chooser.claim(&wanted).await?)
        };
        reserved.extend(reservation);
        list[at] = address.into();
    }
    if let Some(first) = list.first() {
        object::set(service, &["spec", "clusterIP"], first.clone());
    }
    object::set(service, &ADDRESSES, list.into());
    Ok(())
}

/// Chooses addresses for one service.
struct Chooser<'a> {
    reader: &'a Reader,
    service: Value,
    ranges: Ranges,
    /// The addresses that the service names, for errors.
    asked: Value,
    /// True for a dry run. As in Kubernetes, it takes any address of a range, and the first of one
    /// if none is named: nothing is reserved for it.
    dry: bool,
}

impl Chooser<'_> {
    async fn claim(&self, wanted: &str) -> Result<Option<Reservation>, Status> {
        let refuse =
            |why: &str| Err(self.invalid(&format!("failed to allocate IP {wanted}: {why}")));
        let Ok(address) = wanted.parse::<IpAddr>() else {
            return refuse("failed to parse service IP");
        };
        if self.dry {
            return match self.ranges.without(address) {
                None => Ok(None),
                Some(range) => refuse(&format!(
                    "the provided IP ({address}) is not in the valid range. The range of valid IPs \
                     is {range}"
                )),
            };
        }
        if !self.ranges.has_host(address) {
            return refuse("the provided network does not match the current range");
        }
        match take(self.reader, address, &self.service).await? {
            None => refuse("provided IP is already allocated"),
            Some(revision) => Ok(Some(Reservation {
                address: address.to_string(),
                revision,
            })),
        }
    }

    async fn draw(&self, family: Family) -> Result<(String, Option<Reservation>), Status> {
        if self.dry {
            return match self.ranges.network(family) {
                Some(address) => Ok((address.to_string(), None)),
                None => Err(self.invalid("failed to allocate IP: allocator not ready")),
            };
        }
        let storage = ip_addresses(self.reader)?;
        let cache = self.reader.reflector.cache(&storage)?;
        for address in self.ranges.drawn(family) {
            let name = address.to_string();
            if cache.get(&storage.key("", &name)).is_some() {
                continue;
            }
            if let Some(revision) = take(self.reader, address, &self.service).await? {
                let address = name.clone();
                return Ok((name, Some(Reservation { address, revision })));
            }
        }
        let name = object::name(&self.service);
        Err(Status::internal(&format!(
            "failed to allocate a serviceIP for Service {name:?}: range is full"
        )))
    }

    fn invalid(&self, why: &str) -> Status {
        let cause = Cause::invalid("spec.clusterIPs", &self.asked, why);
        let name = object::name(&self.service);
        Status::invalid("", "Service", name, vec![cause])
    }
}

/// Reserves an address for a service; returns the revision of its IPAddress, or `None` if another
/// service has it, also one of the same name that is still there. What an interrupted attempt for
/// the same service left, or one that is gone, is replaced by another IPAddress: nobody else deletes
/// that, as it is new, while the service is on its way to the store.
pub(crate) async fn take(
    reader: &Reader,
    address: IpAddr,
    service: &Value,
) -> Result<Option<i64>, Status> {
    let storage = ip_addresses(reader)?;
    let name = address.to_string();
    let object = json!({
        "kind": "IPAddress", "apiVersion": "networking.k8s.io/v1",
        "metadata": {
            "name": name, "uid": clock::uid(),
            "creationTimestamp": clock::now().to_seconds(),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": Family::of(address).name(),
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
    let store = &reader.store;
    let created = store.create(&storage, &key, value.clone(), 0, &[]).await?;
    if let Created::At(revision) = created {
        return Ok(Some(revision));
    }
    let Some(held) = reader.read_key(&storage, &key).await? else {
        return Ok(None);
    };
    let revision = held.revision;
    let held = held.decode()?;
    if parent(&held) != parent(&object) {
        return Ok(None);
    }
    if let Some(user) = user(reader, &held, &name).await? {
        if object::uid(&user) != object::uid(service) {
            return Ok(None);
        }
        // Written as it is: whoever is about to delete it finds another revision.
        let same = decoded::encode(&storage, &held)?;
        return match store.update(&storage, &key, revision, same, 0).await? {
            Swap::Done(revision) => Ok(Some(revision)),
            Swap::Changed(_) => Ok(None),
        };
    }
    // In two writes: one object never has two uids, and who watches sees that the first is gone.
    // Nobody has the address, so another service may take it in between.
    if let Swap::Changed(_) = store.delete(&key, revision).await? {
        return Ok(None);
    }
    match store.create(&storage, &key, value, 0, &[]).await? {
        Created::At(revision) => Ok(Some(revision)),
        Created::Exists | Created::Unguarded => Ok(None),
    }
}

/// The addresses of a service as IPAddresses are named. A service of Kubernetes' own apiserver may
/// have one of each family.
pub(crate) fn addresses_of(service: &Value) -> BTreeSet<String> {
    let listed = object::items(service, &["spec", "clusterIPs"]).iter();
    let all = listed.filter_map(Value::as_str);
    let all = all.chain([object::text(service, &["spec", "clusterIP"])]);
    let all = all.filter(|address| !["", "None"].contains(address));
    // An address can be written in several ways.
    all.map(|text| match address::read(text) {
        Some(address) => address.to_string(),
        None => text.to_owned(),
    })
    .collect()
}

/// Namespace and name of the service that an IPAddress belongs to.
pub(crate) fn parent(address: &Value) -> Option<(&str, &str)> {
    let text = |key| object::text(address, &["spec", "parentRef", key]);
    let is_service = (text("group"), text("resource")) == ("", "services");
    is_service.then(|| (text("namespace"), text("name")))
}

/// Deletes the IPAddress of an address if it was last written at one of these revisions, unless a
/// service has the address. So a caller deletes what it has seen, and not what another service has
/// reserved since.
pub(crate) async fn release(
    reader: &Reader,
    address: &str,
    written: impl RangeBounds<i64>,
) -> Result<(), Status> {
    let storage = ip_addresses(reader)?;
    let key = storage.key("", address);
    let Some(held) = reader.read_key(&storage, &key).await? else {
        return Ok(());
    };
    let revision = held.revision;
    if !written.contains(&revision) || user(reader, &held.decode()?, address).await?.is_some() {
        return Ok(());
    }
    // Whoever took it over meanwhile has written it.
    reader.store.delete(&key, revision).await.map(|_| ())
}

/// The service that an IPAddress belongs to, if the store has it with this address.
async fn user(reader: &Reader, held: &Value, address: &str) -> Result<Option<Value>, Status> {
    let Some((namespace, name)) = parent(held) else {
        return Ok(None);
    };
    let services = reader.resource("", "v1", "services")?;
    let services = services.stored()?;
    let key = services.key(namespace, name);
    let Some(service) = reader.read_key(services, &key).await? else {
        return Ok(None);
    };
    let service = service.decode()?;
    Ok(addresses_of(&service).contains(address).then_some(service))
}

fn ip_addresses(reader: &Reader) -> Result<Arc<Storage>, Status> {
    let addresses = reader.resource("networking.k8s.io", "v1", "ipaddresses")?;
    addresses.stored().cloned()
}
