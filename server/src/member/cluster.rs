//! Consensus with the other members: the actor that owns [`raft::Raft`], the messages exchanged
//! with peers, and the checks that all members hold the same data.

pub(crate) mod consensus;
pub(crate) mod corruption;
pub(crate) mod peer;
