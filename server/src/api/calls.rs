//! The way of a gRPC call from its headers to its service and back: checks, limits, counters, log
//! lines. Listeners and the gateway hand calls to the router.

pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod caller;
pub(crate) mod cost;
pub(crate) mod counted;
pub(crate) mod framing;
pub(crate) mod metadata;
pub(crate) mod open_calls;
pub(crate) mod router;
pub(crate) mod stats;
