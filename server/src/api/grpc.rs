//! The gRPC services, one file each: check the request, pass it on, add the response header.

pub(crate) mod auth;
pub(crate) mod cluster;
pub(crate) mod contenders;
pub(crate) mod health;
pub(crate) mod kv;
pub(crate) mod lease;
pub(crate) mod limits;
pub(crate) mod maintenance;
mod snapshot;
pub(crate) mod usage;
pub(crate) mod watch;

use crate::auth::Credentials;

/// The caller's credentials that the router attached to the call.
fn caller_of<T>(call: &tonic::Request<T>) -> Credentials {
    let said = call.extensions().get::<Credentials>();
    said.cloned().unwrap_or_default()
}
