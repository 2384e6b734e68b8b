//! What follows objects of the API that change the API itself, and writes what becomes of them:
//! definitions of custom resources and the webhooks that convert them, policies, flow control,
//! reserved addresses and ports, the addresses of the servers themselves, tokens in secrets.

pub(crate) mod addresses;
pub(crate) mod api_services;
pub(crate) mod conversion;
pub(crate) mod definitions;
pub(crate) mod endpoints;
pub(crate) mod flow;
pub(crate) mod legacy_tokens;
pub(crate) mod ports;
pub(crate) mod type_checking;
