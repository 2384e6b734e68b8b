//! The counters of a pool, which its devices share: a device is free only while the pool has left
//! what the device consumes of them. Devices of several claims, and on several nodes, may consume
//! the same counter.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use machinery::quantity::Quantity;

use super::slice::{Device, Slice};
use super::taken::Taken;

/// The counters of one generation of a pool.
#[derive(Debug)]
pub(super) struct Counters {
    /// Identifies the generation among all that are published together.
    pub(super) generation: usize,
    /// The places of the counters in `total`, by the name of the set and that of the counter.
    places: HashMap<String, HashMap<String, usize>>,
    /// What the pool has of each counter.
    total: Vec<Quantity>,
    /// The slices with devices that consume counters, also those that a node does not reach.
    consumers: Vec<Arc<Slice>>,
}

/// What the devices in use leave of the counters, by generation. It is computed once for a pod and
/// not for each node, because a pool may be reached from every node.
#[derive(Debug, Default)]
pub(super) struct Left(RefCell<HashMap<usize, Arc<[Quantity]>>>);

impl Counters {
    /// The counters of all slices of a generation; `None` if two sets have the same name or a
    /// device consumes a counter that does not exist. Then Kubernetes allocates no device of the
    /// pool either.
    pub(super) fn of(generation: usize, slices: &[Arc<Slice>]) -> Option<Counters> {
        let consumes = |device: &Device| !device.consumes.is_empty();
        let consumers = slices
            .iter()
            .filter(|slice| slice.devices.iter().any(consumes));
        let mut counters = Counters {
            generation,
            places: HashMap::new(),
            total: Vec::new(),
            consumers: consumers.cloned().collect(),
        };
        for set in slices.iter().flat_map(|slice| &slice.counters) {
            let Entry::Vacant(free) = counters.places.entry(set.name.clone()) else {
                return None;
            };
            let places = free.insert(HashMap::new());
            for (name, amount) in &set.counters {
                places.insert(name.clone(), counters.total.len());
                counters.total.push(*amount);
            }
        }
        let mut devices = counters.consumers.iter().flat_map(|slice| &slice.devices);
        let exist = devices.all(|device| counters.look_up(device).all(|one| one.is_some()));
        exist.then_some(counters)
    }

    /// What a device of the pool consumes: the places of counters, and the amounts.
    pub(super) fn consumed(&self, device: &Device) -> impl Iterator<Item = (usize, Quantity)> {
        self.look_up(device).flatten()
    }

    /// The same, with `None` for each counter that does not exist.
    fn look_up(&self, device: &Device) -> impl Iterator<Item = Option<(usize, Quantity)>> {
        device.consumes.iter().flat_map(move |set| {
            let places = self.places.get(&set.name);
            let counters = set.counters.iter();
            counters.map(move |(name, amount)| Some((*places?.get(name)?, *amount)))
        })
    }
}

impl Left {
    /// What the devices in use leave of the counters of a pool, by their places. An amount is
    /// negative if a driver publishes less than is allocated.
    pub(super) fn of(&self, counters: &Counters, taken: &Taken) -> Arc<[Quantity]> {
        let mut known = self.0.borrow_mut();
        let left = known.entry(counters.generation).or_insert_with(|| {
            let mut left = counters.total.clone();
            let devices = counters.consumers.iter().flat_map(|slice| &slice.devices);
            let in_use =
                |device: &&Device| !device.consumes.is_empty() && taken.contains(&device.id);
            for device in devices.filter(in_use) {
                for (place, amount) in counters.consumed(device) {
                    left[place] = left[place].minus(amount);
                }
            }
            left.into()
        });
        Arc::clone(left)
    }
}
