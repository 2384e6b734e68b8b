//! The control loops as clients of an apiserver: the calls of [`machinery::api`] over
//! [`kube::Client`], and informers.
//!
//! The apiserver may be behind a socket or a service in the same process; the code is the same.
#![forbid(unsafe_code)]

mod calls;
mod informer;
mod lead;
pub mod leader;
mod wait;

pub use calls::Client;
pub use informer::{Informer, Notice};
pub use lead::{LostLease, Mandate, now};
pub use wait::until;
