//! Measurements: the workloads that the benches share; `versus`, which runs the same load on real
//! etcd and on Stele; `versus_kube`, which does so for Kubernetes' apiserver and ours; and `plots`,
//! which draws what `versus` measured. Uses the servers only as programs, and the layers only
//! through their public APIs.

#![forbid(unsafe_code)]

pub mod plots;
pub mod versus;
pub mod versus_kube;
pub mod workload;
