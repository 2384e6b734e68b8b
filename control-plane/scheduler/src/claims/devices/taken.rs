//! The devices that are in use, and what is consumed of those that claims share.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use machinery::object;
use machinery::quantity::Quantity;
use serde_json::Value;

use super::capacity::quantities;
use super::slice::DeviceId;

/// The devices in use.
#[derive(Debug, Clone, Default)]
pub(super) struct Taken(HashMap<DeviceId, InUse>);

/// How a device is in use.
#[derive(Debug, Clone, Default)]
pub(super) struct InUse {
    /// How many claims have it for themselves: two may for a moment, one of them by a decision that
    /// is being taken back.
    wholes: usize,
    /// How many parts of it claims have.
    shares: usize,
    /// What these parts consume of its capacities, by name.
    consumed: BTreeMap<String, Quantity>,
}

/// A device, or a part of one, that a claim has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub device: DeviceId,
    /// What it consumes of the device's capacities; `None` if nobody else gets the device.
    pub share: Option<BTreeMap<String, Quantity>>,
}

impl Given {
    /// Reads a result of an allocation.
    pub(super) fn read(result: &Value) -> Given {
        let text = |key: &str| object::text(result, &[key]).to_owned();
        let is_share = result.get("shareID").is_some_and(Value::is_string);
        Given {
            device: DeviceId {
                driver: text("driver"),
                pool: text("pool"),
                device: text("device"),
            },
            share: is_share.then(|| quantities(&result["consumedCapacity"])),
        }
    }
}

impl Taken {
    pub(super) fn contains(&self, device: &DeviceId) -> bool {
        self.0.contains_key(device)
    }

    /// How a device is in use; `None` if it is free.
    pub(super) fn of(&self, device: &DeviceId) -> Option<&InUse> {
        self.0.get(device)
    }

    /// One more claim has it.
    pub(super) fn take(&mut self, given: &Given) {
        let in_use = self.0.entry(given.device.clone()).or_default();
        let Some(share) = &given.share else {
            in_use.wholes += 1;
            return;
        };
        in_use.shares += 1;
        for (name, part) in share {
            let consumed = in_use.consumed.entry(name.clone()).or_default();
            *consumed = consumed.plus(*part);
        }
    }

    /// One less has it.
    pub(super) fn give_back(&mut self, given: &Given) {
        let Some(in_use) = self.0.get_mut(&given.device) else {
            return;
        };
        if let Some(share) = &given.share {
            in_use.shares -= 1;
            for (name, part) in share {
                if let Some(consumed) = in_use.consumed.get_mut(name) {
                    *consumed = consumed.minus(*part);
                }
            }
        } else {
            in_use.wholes -= 1;
        }
        if in_use.wholes == 0 && in_use.shares == 0 {
            self.0.remove(&given.device);
        }
    }
}

impl InUse {
    /// True if a claim has all of the device.
    pub(super) fn is_whole(&self) -> bool {
        self.wholes > 0
    }

    /// What claims consume of a capacity.
    pub(super) fn consumed(&self, capacity: &str) -> Quantity {
        self.consumed.get(capacity).copied().unwrap_or_default()
    }
}
