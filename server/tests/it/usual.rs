//! What users and operators meet every day: clients, flags, pages, metrics, certificates.

pub(crate) mod clients;
pub(crate) mod costs;
pub(crate) mod flags;
pub(crate) mod lease_calls;
pub(crate) mod local;
pub(crate) mod observation;
pub(crate) mod pages;
pub(crate) mod proxy;
pub(crate) mod tcp_proxy;
pub(crate) mod tls;
pub(crate) mod utl;
