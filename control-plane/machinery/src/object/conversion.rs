//! Objects of built-in kinds in another version of their API.
//!
//! Two kinds are served in two versions: events, in the core group and in `events.k8s.io`, and
//! autoscalers, in `autoscaling/v1` and `v2`. Definitions of custom resources are stored in a version
//! that is not served. The functions convert what they are given, whichever fields it has, and leave
//! `apiVersion` to the caller.

pub mod autoscaler;
pub mod definition;
pub mod event;
pub mod older;
#[cfg(test)]
mod tests;
