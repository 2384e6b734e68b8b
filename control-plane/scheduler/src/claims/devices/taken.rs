//! The devices that are in use.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use super::slice::DeviceId;

/// How many claims have each device: two may have it for a moment, one of them by a decision that
/// is being taken back.
#[derive(Debug, Clone, Default)]
pub(super) struct Taken(HashMap<DeviceId, usize>);

impl Taken {
    pub(super) fn contains(&self, device: &DeviceId) -> bool {
        self.0.contains_key(device)
    }

    /// One more claim has the device.
    pub(super) fn take(&mut self, device: &DeviceId) {
        *self.0.entry(device.clone()).or_default() += 1;
    }

    /// One less has it.
    pub(super) fn give_back(&mut self, device: &DeviceId) {
        if let Some(count) = self.0.get_mut(device) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(device);
            }
        }
    }
}
