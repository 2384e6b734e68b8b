//! etcd's own byte formats, for talking about data in etcd's terms.
//!
//! Knows etcd's layouts only: nothing here knows how Stele keeps its data, and nothing here
//! touches a file but through a seam of the caller.

#![forbid(unsafe_code)]

pub mod bbolt;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod hashkv;
pub mod proto;
pub mod schema;
pub mod wal;
