//! Rules of services, of the addresses behind them, and of the ways in from outside.

pub(crate) mod endpoints;
pub(crate) mod ingress;
pub(crate) mod network;
