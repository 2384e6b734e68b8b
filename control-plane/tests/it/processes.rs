//! The control plane as users start it.

pub(crate) mod by_name;
pub(crate) mod certificates;
mod devices;
pub(crate) mod election;
mod endpoints;
pub(crate) mod faults;
mod hollow_volumes;
mod loops;
pub(crate) mod pods;
mod probes;
pub(crate) mod temporary;
pub(crate) mod up;
mod volumes;
