//! Protection of storage objects in use. A finalizer keeps a deleted volume claim, volume or class
//! of volume attributes until nothing uses it. Admission sets it on new objects; these loops add it
//! to objects that lack it, and remove it.

mod claims;
mod classes;
#[cfg(test)]
mod tests;
mod volumes;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use machinery::api::Call;
use serde_json::json;

use crate::cache::Diff;
use crate::decision::change;
use crate::known::{Key, Known};
use crate::meta;

pub(crate) use claims::ClaimProtection;
pub(crate) use classes::ClassProtection;
pub(crate) use volumes::VolumeProtection;

/// What is left to do about an object's finalizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Add,
    /// Removes it once nothing uses the object.
    Remove,
}

pub(crate) fn due(metadata: &ObjectMeta, finalizer: &str) -> Option<Due> {
    let mut finalizers = metadata.finalizers.iter().flatten();
    let has = finalizers.any(|one| one == finalizer);
    match (meta::is_deleting(metadata), has) {
        (false, false) => Some(Due::Add),
        (true, true) => Some(Due::Remove),
        _ => None,
    }
}

/// Wakes the loop for an object with something left to do about its finalizer.
fn wake_due<T: Known>(diff: &Diff<T>, finalizer: &str, wake: &mut dyn FnMut(Key)) {
    let new = diff.new.iter().map(|new| new.metadata());
    let ours = new.filter(|metadata| due(metadata, finalizer).is_some());
    ours.for_each(|metadata| wake(meta::key(metadata)));
}

/// The call that adds or removes the finalizer.
pub(crate) fn write<T: Known>(object: &T, finalizer: &str, due: Due) -> Call {
    let mut finalizers = object.metadata().finalizers.clone().unwrap_or_default();
    match due {
        Due::Add => finalizers.push(finalizer.to_owned()),
        Due::Remove => finalizers.retain(|one| one != finalizer),
    }
    change(object, json!({"metadata": {"finalizers": finalizers}}))
}
