//! Checks the messages of other members. Every message received on the peer port or read from a
//! stream passes here before it reaches the member. A refused message has no effect and is logged
//! once.

use std::collections::HashSet;

use parking_lot::Mutex;
use raft::{Body, Message, NOBODY};

use crate::state::entry;

/// Longer than any context that a member sends; etcd's have 8 bytes.
const CONTEXT_BYTES_MAX: usize = 1 << 10;
/// Number of different refusals that are logged; more would add nothing.
const LOGGED_MAX: usize = 256;
/// Longer than any name of a member. Senders that are none name themselves as they like.
const WHO_CHARS_MAX: usize = 64;

/// What our log says about a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Voter or learner, or named by the members that let us join.
    Member,
    /// Possibly a member that joined later than our log shows.
    Unknown,
    Removed,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Refusal {
    Removed,
    /// Addressed to another member.
    NotForUs,
    Other(String),
}

/// Why `message` must not reach the member `me`, if so. `speaker` is the member whose connection it
/// came over, if known.
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

/// True for messages that a follower forwards: `from` is then the original sender.
fn is_passed_on(body: &Body) -> bool {
    matches!(
        body,
        Body::Propose { .. } | Body::ReadIndex { .. } | Body::TransferLeader
    )
}

/// True for messages of leaders and candidates. Their senders may be members that our log does not
/// contain yet; without these messages it would never catch up.
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

/// The refusals already logged: a sender that repeats a message must not flood the log.
#[derive(Default)]
pub(super) struct LogOnce(Mutex<HashSet<(String, String)>>);

impl LogOnce {
    /// True if this is the first time that `who` is refused for `why`.
    pub(super) fn first(&self, who: &str, why: &str) -> bool {
        let who = who.chars().take(WHO_CHARS_MAX).collect();
        let mut logged = self.0.lock();
        logged.len() < LOGGED_MAX && logged.insert((who, why.to_owned()))
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
