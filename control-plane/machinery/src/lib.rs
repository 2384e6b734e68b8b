//! What every part of the control plane needs and no part owns: the facts about Kubernetes' own
//! kinds, and pure functions on objects that follow from them.
//!
//! Objects are JSON values; [`schema`] says what their fields mean, and the codec, the patches
//! and the checks all follow that one table, so no kind has code of its own here. The crate knows
//! no store, network, clock or thread: a time that is needed is passed in.
#![forbid(unsafe_code)]

mod budget;
pub mod defaults;
pub mod event;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod intstr;
pub mod name;
pub mod object;
pub mod patch;
pub mod protobuf;
pub mod quantity;
pub mod queue;
pub mod schema;
pub mod selector;
pub mod status;
pub mod strict;
pub mod time;
pub mod world;
mod zero;
