//! Measuring: the workloads that the benches share; `versus`, which runs the same load on real etcd
//! and on Stele, and `versus_kube`, which does so on Kubernetes' apiserver and on ours; `plots`, which
//! draws what `versus` measured. Knows the servers only as programs, the layers only by their public
//! APIs.

#![forbid(unsafe_code)]

pub mod plots;
pub mod versus;
pub mod versus_kube;
pub mod workload;
