//! What every part of the control plane needs: the facts about Kubernetes' built-in kinds, and pure
//! functions on objects.
//!
//! Objects are JSON values. [`schema`] describes their fields; the codec, the patches and the
//! checks all follow that one table, so no kind has code of its own here. The crate has no store,
//! network, clock or thread: callers pass the time in.
#![forbid(unsafe_code)]

pub mod api;
pub mod basics;
pub mod custom;
pub mod edit;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod object;
pub mod protobuf;
pub mod resources;
pub mod schema;
pub mod status;
pub mod strict;
pub mod values;

pub use api::event;
pub use basics::queue;
pub use custom::{cel, structural};
pub use edit::{apply, patch};
pub use object::{conversion, defaults, selector};
pub use resources::{amounts, limits, quota};
pub use values::{go_json, intstr, name, quantity, schedule, time};
