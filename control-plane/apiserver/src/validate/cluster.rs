//! Rules of what a cluster has: nodes, storage, quotas, configuration, events.

pub(crate) mod config;
pub(crate) mod csi;
pub(crate) mod event;
pub(crate) mod node;
pub(crate) mod quota;
pub(crate) mod storage;
