//! Consensus of several members on one log.
//!
//! [`Raft`] is a plain value: inputs in, outputs out. It knows no clock, file, socket or thread;
//! time is a value passed to each step and randomness comes from one seed. It follows the Raft
//! paper and thesis in etcd's reading of them, and speaks etcd's messages (`wire`).
//!
//! # What the caller does
//!
//! 1. Start: `durable::LogWriter::open`, then [`Raft::new`] with what it recovered. A new cluster
//!    first writes [`bootstrap`]'s entries.
//! 2. For each input call [`Raft::step`], and [`Input::Tick`] when [`Raft::wake_at`] is reached.
//! 3. Of each [`Output`]: give `write` to the log writer, in order, and report what is durable as
//!    [`Input::Durable`]; send `messages` (they may get lost); apply `committed`, reporting conf
//!    changes as [`Input::ConfChanged`] and then progress as [`Input::Applied`].
//! 4. On `fetches`, `snapshots_wanted` and `install`: see [`Input`].
//!
//! # What is promised
//!
//! A message leaves only when what it says is durable: the term it names, the vote it gives, the
//! entries it acknowledges. The leader counts itself like any other member: only when its own log
//! is durable. A majority without this member may commit an entry first. It is then in `committed`
//! before it is durable here, and the caller keeps checkpoints of the state machine behind the log:
//! they wait until the writes given before them are durable.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::too_many_lines,
        reason = "a table of cases is read in one piece"
    )
)]

mod bootstrap;
pub mod durable;
mod io;
mod log;
mod membership;
mod message;
mod raft;
mod role;
mod state;
pub mod wire;

pub use bootstrap::bootstrap;
pub use io::{
    Complaint, Config, Fetch, Input, Limits, LogPart, Now, Output, PeerStatus, Proposal, Proposed,
    Read, Recovered, Refused, RoleChange, RoleKind, Status, Ticket, Waiting, Write,
};
pub use message::{
    Body, ConfChange, ConfChangeKind, ConfChangeV2, ConfState, ENTRY_BYTES_MAX, Entry, EntryKind,
    HardState, Index, Message, NOBODY, NodeId, Position, Snapshot, Term, Transition,
};
pub use raft::Raft;

#[cfg(any(test, fuzzing))]
pub mod fuzzing;
#[cfg(test)]
mod tests;
