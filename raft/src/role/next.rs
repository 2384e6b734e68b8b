//! What the roles ask of the member that they belong to. The roles name this instead of the member,
//! which names them.

use crate::message::{Message, NOBODY, NodeId, Term};

/// The role change that a handler asks for.
#[derive(Debug)]
pub(crate) enum Next {
    Stay,
    /// `then`: the message that caused this, still to be handled.
    Follow {
        term: Term,
        leader: NodeId,
        then: Option<Message>,
    },
    /// Start an election, with a pre-vote if configured, unless the leader asked for the election.
    Campaign {
        transfer: bool,
    },
    /// Raise the term and ask for votes.
    Stand {
        transfer: bool,
    },
    Lead,
}

impl Next {
    pub(crate) fn follow(term: Term) -> Next {
        Next::Follow {
            term,
            leader: NOBODY,
            then: None,
        }
    }
}
