//! What drivers publish of devices, and where these are.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeSelectorTerm;
use machinery::object::{self, Object};
use machinery::quantity::Quantity;
use serde_json::Value;

use super::capacity::Capacity;
use crate::affinity::NodeTerms;
use crate::node::NodeInfo;

/// A device: its driver, its pool and its name there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId {
    pub driver: String,
    pub pool: String,
    pub device: String,
}

/// The driver and the name of a pool.
pub(super) type PoolId = (String, String);

/// Where devices can be used.
#[derive(Debug)]
pub(super) enum Place {
    Node(String),
    /// The selector, also as it was written.
    Selected(NodeTerms, Value),
    Everywhere,
    /// Each device of the slice says it.
    ByDevice,
    /// Nothing that is known says it.
    Unknown,
}

/// A part of a pool.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) pool: PoolId,
    pub(super) generation: i64,
    /// Number of slices of the whole pool.
    pub(super) count: i64,
    pub(super) place: Place,
    pub(super) devices: Vec<Device>,
    /// What devices of the pool share. The API keeps it in slices without devices.
    pub(super) counters: Vec<CounterSet>,
}

/// A device of a slice.
#[derive(Debug)]
pub(super) struct Device {
    pub(super) id: DeviceId,
    /// What its driver says of it.
    pub(super) published: Value,
    pub(super) place: Place,
    /// What it takes of the counters of its pool while it is in use.
    pub(super) consumes: Vec<CounterSet>,
    pub(super) capacities: Vec<Capacity>,
    /// Several claims can have parts of it.
    pub(super) is_shared: bool,
    /// It needs what is not implemented: conditions that must hold before a pod is bound.
    pub(super) is_special: bool,
}

/// A set of counters with amounts: what the pool has, or what a device consumes of it.
#[derive(Debug)]
pub(super) struct CounterSet {
    pub(super) name: String,
    pub(super) counters: Vec<(String, Quantity)>,
}

impl Place {
    /// Reads the place of the devices of a slice, or of one device.
    fn read(of: &Value) -> Place {
        let node = object::text(of, &["nodeName"]);
        let selector = of.get("nodeSelector").filter(|one| one.is_object());
        match selector {
            _ if !node.is_empty() => Place::Node(node.to_owned()),
            _ if of["allNodes"] == true => Place::Everywhere,
            Some(selector) => Place::Selected(node_terms(selector), selector.clone()),
            None if of["perDeviceNodeSelection"] == true => Place::ByDevice,
            None => Place::Unknown,
        }
    }

    fn has(&self, node: &NodeInfo) -> bool {
        match self {
            Place::Node(name) => *name == node.name,
            Place::Selected(terms, _) => terms.matches(&node.name, &node.labels),
            Place::Everywhere => true,
            Place::ByDevice | Place::Unknown => false,
        }
    }
}

impl Slice {
    pub(super) fn read(slice: &Object) -> Slice {
        let spec = slice.get("spec").unwrap_or(&Value::Null);
        let driver = object::text(spec, &["driver"]);
        let pool = object::text(spec, &["pool", "name"]);
        let device = |device: &Value| Device::read(driver, pool, device);
        Slice {
            pool: (driver.to_owned(), pool.to_owned()),
            generation: object::integer(spec, &["pool", "generation"]).unwrap_or(0),
            count: object::integer(spec, &["pool", "resourceSliceCount"]).unwrap_or(0),
            place: Place::read(spec),
            devices: object::items(spec, &["devices"])
                .iter()
                .map(device)
                .collect(),
            counters: CounterSet::read_all(object::items(spec, &["sharedCounters"]), "name"),
        }
    }

    /// True if the node can use a device of it.
    pub(super) fn reaches(&self, node: &NodeInfo) -> bool {
        match self.place {
            Place::ByDevice => self.devices.iter().any(|device| device.place.has(node)),
            _ => self.place.has(node),
        }
    }

    /// The devices that the node can use, if it is reached.
    pub(super) fn devices_at(&self, node: &NodeInfo) -> impl Iterator<Item = &Device> {
        let by_device = matches!(self.place, Place::ByDevice);
        let devices = self.devices.iter();
        devices.filter(move |device| !by_device || device.place.has(node))
    }
}

impl CounterSet {
    /// Reads all sets of a list. Each has its name under `key`.
    pub(super) fn read_all(sets: &[Value], key: &str) -> Vec<CounterSet> {
        let read = |set: &Value| CounterSet {
            name: object::text(set, &[key]).to_owned(),
            counters: set["counters"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, counter)| (name.clone(), amount(counter)))
                .collect(),
        };
        sets.iter().map(read).collect()
    }
}

impl Device {
    fn read(driver: &str, pool: &str, device: &Value) -> Device {
        Device {
            id: DeviceId {
                driver: driver.to_owned(),
                pool: pool.to_owned(),
                device: object::text(device, &["name"]).to_owned(),
            },
            published: device.clone(),
            place: Place::read(device),
            consumes: CounterSet::read_all(
                object::items(device, &["consumesCounters"]),
                "counterSet",
            ),
            capacities: Capacity::read_all(device),
            is_shared: device["allowMultipleAllocations"] == true,
            is_special: !object::items(device, &["bindingConditions"]).is_empty(),
        }
    }

    /// An attribute by its domain and name. Those without a domain are in that of the driver.
    pub(super) fn attribute(&self, name: &str) -> Option<&Value> {
        let all = self.published.get("attributes")?;
        let (domain, id) = name.split_once('/')?;
        let short = all.get(id).filter(|_| domain == self.id.driver);
        all.get(name).or(short)
    }

    /// What a request for these amounts gets of each capacity, in their order; `None` if the device
    /// cannot satisfy it even when nobody else has a part.
    pub(super) fn parts(&self, asked: &BTreeMap<String, Quantity>) -> Option<Vec<Quantity>> {
        let has = |name: &String| self.capacities.iter().any(|one| one.name == *name);
        if !asked.keys().all(has) {
            return None;
        }
        let capacities = self.capacities.iter();
        let parts = capacities.map(|one| {
            let part = one.part(asked.get(&one.name).copied())?;
            // A negative part would leave others more than the device has.
            let is_harmless = part >= Quantity::ZERO || !self.is_shared;
            (is_harmless && part <= one.value).then_some(part)
        });
        parts.collect()
    }
}

/// The terms of a node selector, of which one must match.
pub(super) fn node_terms(selector: &Value) -> NodeTerms {
    let terms = selector.get("nodeSelectorTerms").cloned();
    let terms = terms.and_then(|terms| serde_json::from_value(terms).ok());
    let terms: Vec<NodeSelectorTerm> = terms.unwrap_or_default();
    NodeTerms::read(&terms)
}

/// A quantity under `value`, as counters have it.
fn amount(counter: &Value) -> Quantity {
    Quantity::parse(object::text(counter, &["value"])).unwrap_or_default()
}
