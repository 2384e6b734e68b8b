//! Measuring: the workloads that the benches share, and `versus`, which runs the same load on real
//! etcd and on Stele. Knows the servers only as programs, the layers only by their public APIs.

#![forbid(unsafe_code)]

pub mod versus;
pub mod workload;
