//! Rules of services, of their ranges and of the addresses behind them, and of the ways in from outside.

pub(crate) mod balancer;
pub(crate) mod cluster_ips;
pub(crate) mod endpoints;
pub(crate) mod ingress;
pub(crate) mod network;
pub(crate) mod policy;
pub(crate) mod service_range;
