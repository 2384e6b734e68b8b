//! etcd's client API and the payload of its log entries as Rust types, clients and servers.
//!
//! Everything below is generated from `proto/` and committed; `cargo codegen` says whether it is
//! fresh, `UPDATE=1 cargo codegen` makes it so. Nothing here knows how a request is answered.

#![forbid(unsafe_code)]

pub mod client;
pub mod codec;
pub mod descriptor;
mod range;
mod txn;

pub use client::Client;

/// Declares a module that holds one generated file.
macro_rules! generated {
    ($(#[$doc:meta])* $name:ident, $file:literal) => {
        $(#[$doc])*
        #[allow(
            clippy::all,
            clippy::too_many_lines,
            clippy::unwrap_used,
            unreachable_pub
        )]
        pub mod $name {
            include!(concat!("generated/", $file, ".rs"));
        }
    };
}

generated!(
    /// Key-values and events.
    mvccpb, "mvccpb"
);
generated!(
    /// Users, roles, permissions.
    authpb, "authpb"
);
generated!(
    /// Membership in log entries and in the store.
    membershippb, "membershippb"
);
generated!(
    /// The client API, and `InternalRaftRequest`.
    etcdserverpb, "etcdserverpb"
);
generated!(
    /// The lock service.
    v3lockpb, "v3lockpb"
);
generated!(
    /// The election service.
    v3electionpb, "v3electionpb"
);
generated!(
    /// gRPC's health service.
    health, "grpc.health.v1"
);
generated!(
    /// What keys take: Stele's own service.
    usage, "stele"
);
generated!(
    /// OpenTelemetry's service for spans.
    otlp, "opentelemetry.proto.collector.trace.v1"
);
/// `KV` and `Watch` for a server that holds key-values and events already encoded:
/// `WatchResponse.events` are bytes here, `RangeResponse` is a message of our own, the same on the
/// wire. Messages without those are the ones of [`crate::etcdserverpb`].
#[allow(
    clippy::all,
    clippy::too_many_lines,
    clippy::unwrap_used,
    unreachable_pub
)]
pub mod raw {
    pub use crate::range::{RangeResponse, Rows};

    include!("generated/raw.rs");
}
