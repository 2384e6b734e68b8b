//! Custom resources: one strategy for all that have a status of its own path, one for the others.

use machinery::object;
use serde_json::Value;

use super::{DEFAULT, Generation, STATUS_ALONE, Strategy};
use crate::registry::printers;

/// The status is a field like any other.
pub(super) static WHOLE: Strategy = Strategy {
    generation: Generation::OfAllButMetadata,
    allow_unconditional_update: false,
    keeps_status_on_create: true,
    columns: &printers::CUSTOM,
    ..DEFAULT
};

/// The status is written through its own path alone.
pub(super) static WITH_STATUS: Strategy = Strategy {
    generation: Generation::OfSpec,
    prepare_for_create: |object| drop(object::remove(object, &["status"])),
    resets: STATUS_ALONE,
    subresources: &[("status", status)],
    ..WHOLE
};

/// Only the status changes, none of the metadata.
fn status(old: &Value, new: &mut Value) {
    let mut result = old.clone();
    match new.get("status") {
        Some(status) => result["status"] = status.clone(),
        None => drop(object::remove(&mut result, &["status"])),
    }
    *new = result;
}
