//! What clients see: etcd's services over gRPC, its JSON gateway and its pages, and the listeners
//! they are served on. Nothing here changes state: a change becomes a proposal.

pub mod encode;
pub(crate) mod gateway;
pub mod grpc;
pub mod http;
pub mod serve;
