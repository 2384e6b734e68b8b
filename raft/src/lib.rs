//! raft
