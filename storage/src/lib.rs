//! Durable storage: the write-ahead log, the copy-on-write B-tree and the multi-version store on
//! top of it. Knows nothing of raft, etcd, async runtimes or time.

#![deny(unsafe_code)]

mod atomic_file;
mod btree;
pub mod codec;
pub mod encryption;
mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod inspect;
pub mod memory;
pub mod mvcc;
mod sync;
pub mod vfs;
pub mod wal;

pub use error::{Error, Result};
