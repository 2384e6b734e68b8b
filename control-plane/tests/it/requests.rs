//! Requests of every kind, and too many of them.

pub(crate) mod aggregation;
mod autoscaling;
pub(crate) mod bad_input;
pub(crate) mod fairness;
pub(crate) mod http;
pub(crate) mod limits;
pub(crate) mod manners;
pub(crate) mod overload;
pub(crate) mod socket;
pub(crate) mod watches;
