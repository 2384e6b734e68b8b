//! etcd v3 on top of `raft` and `storage`: one binary, the same actors in a cluster of one as in
//! one of five.

#![forbid(unsafe_code)]

pub mod admission;
pub mod applier;
pub mod auth;
pub mod compactor;
pub mod config;
pub mod corruption;
pub mod data_dir;
pub mod descriptors;
pub mod encode;
mod entry;
pub mod error;
pub mod event;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gateway;
pub mod grpc;
pub mod hashes;
pub mod http;
pub mod inbox;
pub mod keys;
pub mod lessor;
pub mod lifecycle;
pub mod local;
mod loggable;
pub mod logging;
pub mod member;
pub mod metrics;
pub mod node;
pub mod offline;
pub mod peer;
mod prefix;
mod replay;
pub mod request;
pub mod resealer;
pub mod runtime;
pub mod serve;
pub mod signals;
pub mod snapshot;
pub mod socket;
mod space_alarm;
mod spans;
pub mod state;
mod tls;
pub mod watch;
pub mod workers;

/// Time since the process started; handed to whoever needs it, read by the shell alone.
pub type Now = std::time::Duration;
