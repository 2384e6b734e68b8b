//! The gRPC services, one file each: check the request, pass it on, add the response header.

pub mod auth;
pub mod budget;
pub mod cluster;
pub mod election;
pub mod health;
pub mod kv;
mod large;
pub mod lease;
pub mod lock;
pub mod maintenance;
pub mod on_behalf;
mod patience;
mod recipe;
mod slow;
mod snapshot;
pub mod usage;
pub mod watch;

use crate::auth::Credentials;

/// The caller's credentials that the router attached to the call.
fn caller_of<T>(call: &tonic::Request<T>) -> Credentials {
    let said = call.extensions().get::<Credentials>();
    said.cloned().unwrap_or_default()
}
