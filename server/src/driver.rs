//! What carries out the effects of the actors, and in which order. The member, the log, the applier
//! and the watch hub decide; the order in which their decisions reach the disk, each other, clients
//! and readers is as much part of the protocol, and is written here once.
//!
//! There is no clock, socket or thread in here. The server (`runtime`) and the simulation give what
//! is missing as [`Ports`]: a bug in the order is a bug that the simulation can find.
//!
//! ```text
//!  clients ──► member ──► log ──► member ──► apply ──► clients
//!                                              └─────► watch
//! ```

pub mod apply;
pub mod assembly;
pub mod job;
pub mod log;
pub mod member;
mod note;
pub mod request_ids;
pub mod shared;
pub mod space;
pub mod watch;

use std::fmt;

use raft::Message;
use storage::mvcc::View;

use crate::Now;
use crate::error::Error;
use crate::event::{ApplyEvent, LogEvent, MemberEvent, Reply, ReplySlot};
use crate::state::MemberInfo;
use crate::state::hashes::{Compacted, HashJob};
pub use assembly::{Actors, Settings};
pub use job::{Done, Job};
pub use note::Note;
pub use request_ids::RequestIds;
pub use shared::Shared;

/// Answers of one turn, with those who wait for them.
pub type Replies = Vec<(ReplySlot, Reply)>;

/// What an actor needs of the world. Each call hands something over and returns at once; what is
/// sent to one actor arrives in the order of the calls.
pub trait Ports {
    /// Time on this member's clock.
    fn now(&self) -> Now;

    fn to_member(&mut self, event: MemberEvent);
    /// The member need not wake up for it: it finds the event when it has something else to do.
    fn to_member_quietly(&mut self, event: MemberEvent);
    fn to_log(&mut self, event: LogEvent);
    fn to_apply(&mut self, event: ApplyEvent);

    /// Hands answers to those who wait for them. Leaves `replies` empty.
    fn answer(&mut self, replies: &mut Replies);

    /// Hands messages to other members, which may get lost. Leaves `messages` empty.
    fn send(&mut self, messages: &mut Vec<Message>);
    /// Sends a message with the state that it announces; its end is a `SnapshotSent`.
    fn send_snapshot(&mut self, message: Message, view: View);
    /// Who the members are from now on, and who was removed.
    fn set_members(&mut self, members: &[MemberInfo], removed: &[u64]);

    /// Starts a piece of work that may take long. What it is [`Done`] with goes to an actor.
    fn start(&mut self, job: Job);

    /// Computes a digest when there is time.
    fn digest(&mut self, job: HashJob);
    /// The compaction of this digest has ended.
    fn compaction_ended(&mut self, compacted: Compacted);

    /// Something that operators, or the checkers of a simulation, want to know.
    fn note(&mut self, note: Note<'_>);
}

/// An actor cannot go on: what is on disk is not known well enough. The process has to end.
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
