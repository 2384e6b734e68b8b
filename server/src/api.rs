//! What clients see: etcd's services over gRPC, its JSON gateway and its HTTP pages, and the
//! listeners that serve them. Nothing here changes state: a change becomes a proposal.

pub(crate) mod calls;
pub(crate) mod gateway;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod page;
pub(crate) mod peer;
pub(crate) mod serve;
mod version;
