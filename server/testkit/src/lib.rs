//! The base of black-box tests and benches: etcd's own tools built from the Go module proxy,
//! servers as child processes, statistics from `/proc`, a network and a disk that fail on demand,
//! and the check of histories.
//!
//! Knows nothing of Stele's internals: a server is a program, a data directory and two ports.
#![forbid(unsafe_code)]

pub mod disk;
pub mod history;
mod kubernetes;
pub mod linearizability;
pub mod mesh;
mod ports;
pub mod process;
mod rng;
mod server;
mod suite;
mod tools;

pub use kubernetes::Kubernetes;
pub use ports::free as free_port;
pub use process::Usage;
pub use rng::Rng;
pub use server::{Launch, READY_LINE, Server, StartError};
pub use suite::Suite;
pub use tools::{Minor, Missing, Tools, has_or_skip, in_ci, skip, target_dir, workspace_root};
