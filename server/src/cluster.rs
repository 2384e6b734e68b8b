//! Consensus with the other members: the actor that owns [`raft::Raft`], the messages exchanged
//! with peers, and the checks that all members hold the same data.

pub mod consensus;
pub mod corruption;
pub mod peer;
