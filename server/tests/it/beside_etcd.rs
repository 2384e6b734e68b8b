//! The same requests to Stele and to etcd, and both in one cluster.

pub(crate) mod auth;
pub(crate) mod beside;
pub(crate) mod differential;
pub(crate) mod discovery;
pub(crate) mod gateway;
pub(crate) mod join_etcd;
pub(crate) mod large_deletion;
pub(crate) mod own_tests;
pub(crate) mod recipes;
pub(crate) mod snapshot;
pub(crate) mod spans;
pub(crate) mod tcp_proxy;
