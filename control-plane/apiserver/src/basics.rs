//! What any layer may use: time, address ranges, configuration files, metrics, numbers in texts,
//! how far a start is.

pub(crate) mod address;
pub(crate) mod changing_file;
pub(crate) mod cidr;
pub(crate) mod clock;
pub(crate) mod config_file;
pub(crate) mod hashed;
pub(crate) mod metrics;
pub(crate) mod prefixed_path;
pub(crate) mod reloads;
pub(crate) mod service_ranges;
pub(crate) mod steps;
pub(crate) mod unsigned;
pub(crate) mod waits;
