//! etcd v3 on top of `raft` and `storage`. One binary; a cluster of one runs the same actors as a
//! cluster of five.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::too_many_lines,
        reason = "a table of cases is read in one piece"
    )
)]

pub(crate) mod api;
pub mod auth;
pub mod basics;
pub mod config;
pub mod discovery;
pub(crate) mod dns;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod lifecycle;
pub mod member;
pub mod net;
pub mod proxy;
pub mod request;
pub(crate) mod runtime;
pub mod state;
pub mod tcp_proxy;
pub mod telemetry;

pub use basics::clock::Now;
