//! Rules of pods, of what makes pods, and of what decides where they run.

pub(crate) mod autoscaler;
pub(crate) mod claim;
pub(crate) mod job;
pub(crate) mod pod;
pub(crate) mod policy;
pub(crate) mod priority;
pub(crate) mod rolling;
pub(crate) mod runtime_class;
pub(crate) mod workload;
