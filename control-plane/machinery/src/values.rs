//! Small values inside objects, and how they are written: names, quantities, times, patterns.

pub(crate) mod float;
pub mod go_json;
pub mod intstr;
pub mod name;
pub(crate) mod pattern;
pub mod quantity;
pub mod schedule;
pub(crate) mod text_format;
pub mod time;
