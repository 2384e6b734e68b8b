//! Agreement of several members on one log.
//!
//! [`Raft`] is a plain value: inputs in, outputs out. It knows no clock, file, socket or thread;
//! time is a value passed to each step and randomness comes from one seed.

#![forbid(unsafe_code)]

mod bootstrap;
pub mod durable;
mod io;
mod message;
mod raft;

pub use bootstrap::bootstrap;
pub use io::{
    Config, Input, Limits, Now, Output, PeerStatus, Proposal, Proposed, Read, Recovered, Refused,
    RoleChange, RoleKind, Status, Ticket, Write,
};
pub use message::{
    Body, ConfChange, ConfChangeKind, ConfChangeV2, ConfState, Entry, EntryKind, HardState, Index,
    Message, NOBODY, NodeId, Position, Snapshot, Term, Transition,
};
pub use raft::Raft;
