//! stele

pub mod compactor;
pub mod config;
pub mod encode;
pub mod error;
pub mod event;
pub mod grpc;
pub mod hashes;
pub mod http;
pub mod lessor;
pub mod logging;
pub mod member;
pub mod metrics;
pub mod node;
pub mod request;
pub mod serve;
pub mod signals;
pub mod state;
pub mod watch;
