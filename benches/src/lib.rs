//! Measurements: the workloads that the benches share; `versus`, which runs the same load on real
//! etcd and on Stele; and `versus_kube`, which does so for Kubernetes' apiserver and ours. Uses the
//! servers only as programs, and the layers only through their public APIs.

#![forbid(unsafe_code)]

pub mod versus;
pub mod versus_kube;
pub mod workload;
