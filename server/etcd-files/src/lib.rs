//! etcd's own byte formats.
//!
//! Knows only etcd's layouts. Nothing here knows how Stele stores its data, and files are accessed
//! only through an interface of the caller.

#![forbid(unsafe_code)]

pub mod bbolt;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod hashkv;
pub mod proto;
pub mod schema;
pub mod wal;
