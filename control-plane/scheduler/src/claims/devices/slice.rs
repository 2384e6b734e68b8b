//! The devices that drivers publish, and where they are.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::NodeSelectorTerm;
use machinery::object::{self, Object};
use serde_json::Value;

use super::capacity::Capacity;
use super::counters::{CounterSet, Counters};
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
type PoolId = (String, String);

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
    pool: PoolId,
    generation: i64,
    /// Number of slices of the whole pool.
    count: i64,
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

/// All slices, by what is asked of them.
#[derive(Debug, Default)]
pub(super) struct Published {
    by_node: HashMap<String, Vec<Arc<Slice>>>,
    elsewhere: Vec<Arc<Slice>>,
    /// What is published of each pool, by generation.
    pools: HashMap<PoolId, BTreeMap<i64, Generation>>,
}

/// All slices of a pool in one generation.
#[derive(Debug)]
struct Generation {
    /// Identifies it among all that are published.
    number: usize,
    slices: Vec<Arc<Slice>>,
    /// Read when a node needs them first; `None` if the driver contradicts itself.
    counters: OnceLock<Option<Counters>>,
}

/// The part of a pool that a node can use.
#[derive(Debug)]
pub(super) struct Pool<'a> {
    pub(super) name: String,
    pub(super) state: State,
    pub(super) devices: Vec<(&'a Slice, &'a Device)>,
    /// Those of the whole pool. A pool that is complete has them.
    pub(super) counters: Option<&'a Counters>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Complete,
    /// Its driver has not published all of it yet.
    Incomplete,
    /// Two of its devices or of its sets of counters have the same name, or a device consumes a
    /// counter that does not exist.
    Invalid,
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
    fn reaches(&self, node: &NodeInfo) -> bool {
        match self.place {
            Place::ByDevice => self.devices.iter().any(|device| device.place.has(node)),
            _ => self.place.has(node),
        }
    }

    /// The devices that the node can use, if it is reached.
    fn devices_at(&self, node: &NodeInfo) -> impl Iterator<Item = &Device> {
        let by_device = matches!(self.place, Place::ByDevice);
        let devices = self.devices.iter();
        devices.filter(move |device| !by_device || device.place.has(node))
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
}

impl Published {
    pub(super) fn of<'a>(slices: impl Iterator<Item = &'a Arc<Slice>>) -> Published {
        let mut published = Published::default();
        let mut count = 0;
        for slice in slices {
            let generations = published.pools.entry(slice.pool.clone()).or_default();
            let generation = generations.entry(slice.generation).or_insert_with(|| {
                count += 1;
                Generation {
                    number: count,
                    slices: Vec::new(),
                    counters: OnceLock::new(),
                }
            });
            generation.slices.push(Arc::clone(slice));
            let list = match &slice.place {
                Place::Node(name) => published.by_node.entry(name.clone()).or_default(),
                _ => &mut published.elsewhere,
            };
            list.push(Arc::clone(slice));
        }
        published
    }

    /// The pools of which the node can use something, each in its newest generation.
    pub(super) fn at(&self, node: &NodeInfo) -> Vec<Pool<'_>> {
        let own = self.by_node.get(&node.name).into_iter().flatten();
        let others = self.elsewhere.iter().filter(|slice| slice.reaches(node));
        let mut pools: BTreeMap<&PoolId, Vec<&Slice>> = BTreeMap::new();
        for slice in own.chain(others) {
            let slice: &Slice = slice;
            let known = pools.entry(&slice.pool).or_default();
            let newest = known.first().map(|one| one.generation);
            match newest.map(|newest| slice.generation.cmp(&newest)) {
                Some(Ordering::Less) => {}
                Some(Ordering::Greater) => *known = vec![slice],
                Some(Ordering::Equal) | None => known.push(slice),
            }
        }
        let pools = pools.into_iter();
        pools
            .filter_map(|(name, slices)| self.pool(name, &slices, node))
            .collect()
    }

    /// `None` if a newer generation is published that has nothing for the node.
    fn pool<'a>(
        &'a self,
        name: &PoolId,
        slices: &[&'a Slice],
        node: &NodeInfo,
    ) -> Option<Pool<'a>> {
        let first = slices.first()?;
        let generations = self.pools.get(name)?;
        let generation = generations.get(&first.generation)?;
        let expected = usize::try_from(first.count).unwrap_or(usize::MAX);
        let mut state = State::Complete;
        if slices.len() != expected {
            let newest = generations.keys().next_back()?;
            if *newest > first.generation {
                return None;
            }
            if generation.slices.len() != expected {
                state = State::Incomplete;
            }
        }
        let counters = generation.counters();
        if counters.is_none() && state == State::Complete {
            state = State::Invalid;
        }
        let mut names = BTreeSet::new();
        let mut devices = Vec::new();
        for &slice in slices {
            for device in &slice.devices {
                if !names.insert(device.id.device.as_str()) && state == State::Complete {
                    state = State::Invalid;
                }
            }
            devices.extend(slice.devices_at(node).map(|device| (slice, device)));
        }
        Some(Pool {
            name: format!("{}/{}", name.0, name.1),
            state,
            devices,
            counters,
        })
    }
}

impl Generation {
    fn counters(&self) -> Option<&Counters> {
        let read = || Counters::of(self.number, &self.slices);
        self.counters.get_or_init(read).as_ref()
    }
}

/// The terms of a node selector, of which one must match.
pub(super) fn node_terms(selector: &Value) -> NodeTerms {
    let terms = selector.get("nodeSelectorTerms").cloned();
    let terms = terms.and_then(|terms| serde_json::from_value(terms).ok());
    let terms: Vec<NodeSelectorTerm> = terms.unwrap_or_default();
    NodeTerms::read(&terms)
}
