//! Carries out the effects of the actors, in the one order that is correct. The actors (consensus,
//! log, applier, watch hub) decide. The order in which their decisions reach the disk, each other,
//! clients and readers is part of the protocol too, and it is written here once.
//!
//! This module has no clock, socket or thread. The server (`runtime`) and the simulation provide them
//! as [`Ports`], so the simulation can find a bug in the order.
//!
//! ```text
//!  clients ──► consensus ──► log ──► consensus ──► apply ──► clients
//!                                              └─────► watch
//! ```

pub mod apply;
pub(crate) mod assembly;
pub mod consensus;
pub(crate) mod job;
pub mod log;
mod note;
pub(crate) mod published;
pub(crate) mod request_ids;
pub mod space;
pub mod watch;

use std::fmt;

use raft::Message;
use storage::mvcc::View;

use crate::basics::clock::Now;
use crate::basics::error::Error;
use crate::member::event::{ApplyEvent, ConsensusEvent, LogEvent, Reply, ReplySlot};
use crate::state::MemberInfo;
use crate::state::hashes::{Compacted, HashJob};
pub use assembly::{Actors, Settings};
pub use job::{Done, Hurry, Job};
pub use note::Note;
pub use published::Published;
pub use request_ids::RequestIds;

/// Answers of one turn, each with the client that waits for it.
pub type Replies = Vec<(ReplySlot, Reply)>;

/// The world outside an actor. Each call hands something over and returns at once. Events for one
/// actor arrive in the order of the calls.
pub trait Ports {
    /// Time on this member's clock.
    fn now(&self) -> Now;

    fn to_consensus(&mut self, event: ConsensusEvent);
    /// Does not wake the consensus actor: it finds the event at its next turn.
    fn to_consensus_quietly(&mut self, event: ConsensusEvent);
    fn to_log(&mut self, event: LogEvent);
    fn to_apply(&mut self, event: ApplyEvent);

    /// Delivers answers to the waiting clients. Leaves `replies` empty.
    fn answer(&mut self, replies: &mut Replies);

    /// Hands messages to other members, which may get lost. Leaves `messages` empty.
    fn send(&mut self, messages: &mut Vec<Message>);
    /// Sends a message with the state that it announces. A `SnapshotSent` event reports the end.
    fn send_snapshot(&mut self, message: Message, view: View);
    /// Sets the current members, and the removed ones.
    fn set_members(&mut self, members: &[MemberInfo], removed: &[u64]);

    /// Starts a job that may take long. An actor hears of its end as [`Done`].
    fn start(&mut self, job: Job);

    /// Computes a digest in the background.
    fn digest(&mut self, job: HashJob);
    /// The compaction of this digest has ended.
    fn compaction_ended(&mut self, compacted: Compacted);

    /// Reports something to operators, or to the checkers of the simulation.
    fn note(&mut self, note: Note<'_>);
}

/// An actor cannot go on, because the state of the disk is not certain. The process must end.
#[derive(Debug)]
pub struct Fatal {
    pub what: &'static str,
    pub error: String,
}

impl Fatal {
    pub fn new(what: &'static str, error: impl fmt::Display) -> Fatal {
        let error = error.to_string();
        Fatal { what, error }
    }

    fn cluster(error: Error) -> Fatal {
        Fatal::new("failed to read who the members are", error)
    }
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.error)
    }
}

#[cfg(test)]
mod tests;
