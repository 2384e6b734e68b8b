//! Messages of other members: the rules of terms and votes, which hold in every role (paper, figure 2).

use super::{Raft, Role};
use crate::io::{Complaint, Now};
use crate::message::{Body, Message, NOBODY, NodeId, Position, Term};
use crate::role::next::Next;

/// Largest accepted distance between the term of a message and ours. No cluster holds so many
/// elections while a member is away, so nobody won a term further ahead. Following it would use up
/// the term numbers.
const TERM_JUMP_MAX: Term = 1 << 32;

impl Raft {
    pub(super) fn receive(&mut self, now: Now, message: Message) -> Next {
        let (id, term) = (self.state.id(), self.state.term);
        if message.to != id || message.from == id || message.from == NOBODY {
            return Next::Stay;
        }
        if let Some(why) = self.flaw(&message) {
            let from = message.from;
            self.state.complain(Complaint::Refused { from, why });
            return Next::Stay;
        }
        // These two only ask: they belong to no term.
        if matches!(message.body, Body::Propose { .. } | Body::ReadIndex { .. }) {
            return self.receive_in_term(now, message);
        }
        if message.term == 0 {
            return Next::Stay;
        }
        if self.shields_leader(now, &message) {
            if let Role::Leader(leader) = &mut self.role {
                leader.reassure(&mut self.state, message.from);
            }
            return Next::Stay;
        }
        if message.term < term {
            self.receive_late(message);
            return Next::Stay;
        }
        let leader = match message.body {
            Body::Append { .. } | Body::Heartbeat { .. } | Body::Snapshot(_) => message.from,
            // A pre-vote names a term that may never begin.
            Body::PreVote { .. } | Body::PreVoteReply { granted: true } => {
                return self.receive_in_term(now, message);
            }
            _ => NOBODY,
        };
        if message.term > term {
            return Next::Follow {
                term: message.term,
                leader,
                then: Some(message),
            };
        }
        self.receive_in_term(now, message)
    }

    fn flaw(&self, message: &Message) -> Option<&'static str> {
        let Raft { state, .. } = self;
        if message.term > state.term.saturating_add(TERM_JUMP_MAX) {
            return Some("a term too far ahead to be one of this cluster");
        }
        let leads = matches!(
            message.body,
            Body::Append { .. } | Body::Heartbeat { .. } | Body::Snapshot(_) | Body::TimeoutNow
        );
        let in_term = message.term == state.term && state.leader != NOBODY;
        if leads && in_term && message.from != state.leader {
            return Some("a second leader of one term");
        }
        message.flaw()
    }

    /// Handles a message of an earlier term. A leader or candidate of that term gets our term, or
    /// it would never learn it: with pre-votes and check-quorum our own requests do not reach it.
    fn receive_late(&mut self, message: Message) {
        let state = &mut self.state;
        match message.body {
            Body::Append { .. } | Body::Heartbeat { .. } | Body::Snapshot(_)
                if state.config.check_quorum || state.config.pre_vote =>
            {
                let reply = Body::AppendReply {
                    index: 0,
                    rejected: None,
                };
                state.send(message.from, reply);
            }
            Body::PreVote { .. } => {
                state.send(message.from, Body::PreVoteReply { granted: false });
            }
            _ => {}
        }
    }

    pub(super) fn receive_in_term(&mut self, now: Now, message: Message) -> Next {
        let from = message.from;
        match message.body {
            Body::Vote { last, .. } => {
                self.vote(now, from, last);
                return Next::Stay;
            }
            Body::PreVote { last, .. } => {
                self.pre_vote(from, message.term, last);
                return Next::Stay;
            }
            _ => {}
        }
        let state = &mut self.state;
        match &mut self.role {
            Role::Follower(follower) => follower.receive(state, now, message),
            Role::Candidate(candidate) => candidate.receive(state, message),
            Role::Leader(leader) => leader.receive(state, now, message),
        }
    }

    /// An election that the leader did not ask for, while the leader is alive.
    fn shields_leader(&self, now: Now, message: &Message) -> bool {
        let (Body::Vote { transfer, .. } | Body::PreVote { transfer, .. }) = message.body else {
            return false;
        };
        let shields = match &self.role {
            Role::Follower(follower) => follower.shields_leader(&self.state, now),
            Role::Candidate(_) => false,
            Role::Leader(_) => self.state.config.check_quorum,
        };
        shields && !transfer && message.term > self.state.term
    }

    /// One vote per term, only for a log that holds everything ours does (§5.2, §5.4.1).
    fn vote(&mut self, now: Now, from: NodeId, last: Position) {
        let state = &mut self.state;
        let free = state.vote == NOBODY && state.leader == NOBODY;
        let may = (state.vote == from || free) && !state.owes_log();
        let granted = may && state.log.is_behind_or_level(last);
        if granted {
            state.vote = from;
            state.known_elsewhere = state.known_elsewhere.max(last.index);
            if let Role::Follower(follower) = &mut self.role {
                follower.election_at = state.election_deadline(now);
            }
        }
        state.send(from, Body::VoteReply { granted });
    }

    fn pre_vote(&mut self, from: NodeId, term: Term, last: Position) {
        let state = &mut self.state;
        let free = state.vote == NOBODY && state.leader == NOBODY;
        let may = term > state.term || state.vote == from || free;
        let granted = may && !state.owes_log() && state.log.is_behind_or_level(last);
        let term = if granted { term } else { state.term };
        state.send_in_term(from, term, Body::PreVoteReply { granted });
    }
}
