//! What another member may say to this one. All that comes to the peer port, and all that is read
//! from other members' streams, passes here before it gets to the member; what is refused has no
//! effect, and is told once.

use std::collections::HashSet;

use parking_lot::Mutex;
use raft::{Body, Message, NOBODY};

use crate::state::entry;

/// Longer than any context that a member sends along, etcd's of 8 bytes included.
const CONTEXT_BYTES_MAX: usize = 1 << 10;
/// Kinds of refusals that are told; whoever finds more ways to be refused is known well enough.
const TOLD_MAX: usize = 256;

/// What our log knows of who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Voter or learner, or named by those who let us join.
    Member,
    /// It may have joined later than our log knows.
    Unknown,
    Removed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Refusal {
    Removed,
    /// It is for somebody else.
    NotForUs,
    Other(String),
}

/// Why `message` must not get to the member `me`; `speaker` is whose connection it came over, as far
/// as that is known.
pub(super) fn refusal(
    message: &Message,
    me: u64,
    speaker: Option<u64>,
    standing: impl Fn(u64) -> Standing,
) -> Option<Refusal> {
    let other = |why: &str| Some(Refusal::Other(why.to_owned()));
    let from = message.from;
    let found = standing(from);
    if found == Standing::Removed {
        return Some(Refusal::Removed);
    }
    if message.to != me {
        return Some(Refusal::NotForUs);
    }
    if from == me || from == NOBODY {
        return other("it comes from no other member");
    }
    if speaker.is_some_and(|speaker| speaker != from) && !is_passed_on(&message.body) {
        return other("it speaks for another member");
    }
    if found == Standing::Unknown && !is_for_newcomers(&message.body) {
        return other("it comes from no member of this cluster");
    }
    if message.term == 0 && !matches!(message.body, Body::Propose { .. } | Body::ReadIndex { .. }) {
        return other("it is of no term");
    }
    if context_bytes(&message.body) > CONTEXT_BYTES_MAX {
        return other("its context is too long");
    }
    match &message.body {
        Body::Propose { entries } => {
            let mut faults = entries.iter().map(entry::check_proposal);
            let fault = faults.find_map(Result::err)?;
            Some(Refusal::Other(format!(
                "a proposal cannot be applied: {fault}"
            )))
        }
        _ => None,
    }
}

/// What followers send on for others names who asked first.
fn is_passed_on(body: &Body) -> bool {
    matches!(
        body,
        Body::Propose { .. } | Body::ReadIndex { .. } | Body::TransferLeader
    )
}

/// What those who lead or want to lead say. They may be members that our log has yet to tell of, and
/// without them it never would.
fn is_for_newcomers(body: &Body) -> bool {
    matches!(
        body,
        Body::Append { .. }
            | Body::Heartbeat { .. }
            | Body::Snapshot(_)
            | Body::Vote { .. }
            | Body::PreVote { .. }
            | Body::TimeoutNow
    )
}

fn context_bytes(body: &Body) -> usize {
    match body {
        Body::Heartbeat { context, .. }
        | Body::HeartbeatReply { context }
        | Body::ReadIndex { context }
        | Body::ReadIndexReply { context, .. } => context.len(),
        _ => 0,
    }
}

/// Which refusals were told: whoever repeats a message must not fill the log.
#[derive(Default)]
pub(super) struct Told(Mutex<HashSet<(String, String)>>);

impl Told {
    /// Whether this is the first time that `who` is refused for `why`.
    pub(super) fn first(&self, who: &str, why: &str) -> bool {
        let mut told = self.0.lock();
        told.len() < TOLD_MAX && told.insert((who.to_owned(), why.to_owned()))
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::Removed => f.write_str("cannot process message from removed member"),
            Refusal::NotForUs => f.write_str("cannot process message to mismatch member"),
            Refusal::Other(why) => f.write_str(why),
        }
    }
}

#[cfg(test)]
mod tests;
