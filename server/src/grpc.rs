//! The services, one file each: check the request, hand it on, give the answer its header.

pub mod auth;
pub mod budget;
pub mod check;
pub mod cluster;
pub mod health;
pub mod kv;
mod large;
pub mod lease;
pub mod lock;
pub mod maintenance;
mod snapshot;
pub mod watch;
