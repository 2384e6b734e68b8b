//! What nobody here wrote, run against the apiserver: kubectl, client libraries, Kubernetes' own
//! parts, and packages in other languages.

pub(crate) mod api_services;
pub(crate) mod apply;
pub(crate) mod clients;
pub(crate) mod corpus;
pub(crate) mod discovery;
pub(crate) mod go_scheduler;
mod golden;
pub(crate) mod kube_rs;
pub(crate) mod kubectl;
pub(crate) mod late_volumes;
pub(crate) mod loops;
pub(crate) mod openapi;
pub(crate) mod operators;
pub(crate) mod packages;
pub(crate) mod probes;
pub(crate) mod projects;
pub(crate) mod rows;
pub(crate) mod surface;
pub(crate) mod swap;
pub(crate) mod tables;
