//! All that is published of devices, and what of it a node can use.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use super::counters::Counters;
use super::slice::{Device, Place, PoolId, Slice};
use crate::node::NodeInfo;

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
