//! The ways to change an object in part: server-side apply with its managers of fields, and patches.

pub mod apply;
pub mod patch;
