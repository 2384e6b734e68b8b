//! Stele and the apiserver as processes, tested over plain HTTP and with the real `kubectl`.
#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "runs processes, and waits for what they do"
)]
#![allow(
    clippy::too_many_lines,
    reason = "a story and its table of cases are read in one piece"
)]

mod admission;
mod aggregation;
mod apply;
mod audit;
mod auth;
mod bad_input;
mod by_name;
mod classes;
mod clients;
mod cluster;
mod conversion;
mod custom;
mod definitions;
mod election;
mod fairness;
mod faults;
mod go_scheduler;
mod http;
mod kube_rs;
mod kubectl;
mod limits;
mod managed;
mod manners;
mod nodes;
mod objects;
mod overload;
mod packages;
mod parts;
mod pod_security;
mod pods;
mod policies;
mod quotas;
mod rows;
mod security;
mod surface;
mod swap;
mod temporary;
mod tokens;
mod up;
mod watches;
mod webhooks;
