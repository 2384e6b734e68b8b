//! What every part of the control plane needs: the facts about Kubernetes' built-in kinds, and pure
//! functions on objects.
//!
//! Objects are JSON values. [`schema`] describes their fields; the codec, the patches and the
//! checks all follow that one table, so no kind has code of its own here. The crate has no store,
//! network, clock or thread: callers pass the time in.
#![forbid(unsafe_code)]

pub mod amounts;
pub mod apply;
mod budget;
pub mod cel;
pub mod defaults;
pub mod event;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod intstr;
pub mod limits;
pub mod name;
pub mod object;
pub mod patch;
mod pattern;
pub mod protobuf;
pub mod quantity;
pub mod queue;
pub mod quota;
pub mod schema;
pub mod selector;
pub mod status;
pub mod strict;
pub mod structural;
mod text_format;
pub mod time;
pub mod world;
mod zero;
