//! etcd v3 on top of `raft` and `storage`: one binary, the same actors in a cluster of one as in
//! one of five.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::too_many_lines,
        reason = "a table of cases is read in one piece"
    )
)]

pub mod api;
pub mod auth;
pub mod cluster;
pub mod config;
pub mod data_dir;
pub mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod lifecycle;
pub mod net;
pub mod runtime;
pub mod state;
pub mod telemetry;

/// Time since the process started; handed to whoever needs it, read by the shell alone.
pub type Now = std::time::Duration;
