//! Agreement with the other members: the actor that owns [`raft::Raft`], the messages that it
//! exchanges with its peers, and the checks that all of them hold the same data.

pub mod corruption;
pub mod member;
pub mod peer;
