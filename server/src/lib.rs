//! etcd v3 on top of `raft` and `storage`: one binary, the same actors in a cluster of one as in
//! one of five.

#![forbid(unsafe_code)]

pub mod api;
pub mod applier;
pub mod auth;
pub mod clock;
pub mod cluster;
pub mod config;
pub mod data_dir;
pub mod driver;
pub mod error;
pub mod event;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod lifecycle;
pub mod net;
pub mod runtime;
pub mod state;
pub mod telemetry;

/// Time since the process started; handed to whoever needs it, read by the shell alone.
pub type Now = std::time::Duration;
