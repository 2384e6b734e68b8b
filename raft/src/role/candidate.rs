//! A candidate: first asks whether it would win (pre-vote, thesis §9.6), then asks for votes.

use std::collections::BTreeMap;

use crate::io::Now;
use crate::membership::quorum::{Tally, tally};
use crate::message::{Body, Message, NodeId};
use crate::role::next::Next;
use crate::state::State;

#[derive(Debug)]
pub(crate) struct Candidate {
    /// In a pre-vote: the term is still the old one.
    pub(crate) pre: bool,
    pub(crate) election_at: Now,
    /// The first answer of each voter.
    votes: BTreeMap<NodeId, bool>,
}

impl Candidate {
    /// Asks all other voters. `state` is already in the new term, except in a pre-vote.
    pub(crate) fn new(state: &mut State, now: Now, pre: bool, transfer: bool) -> Candidate {
        let last = state.log.last();
        let term = if pre { state.term + 1 } else { state.term };
        let id = state.config.id;
        let voters = state.members.voters().to_vec();
        for to in voters.into_iter().filter(|voter| *voter != id) {
            let body = if pre {
                Body::PreVote { last, transfer }
            } else {
                Body::Vote { last, transfer }
            };
            state.send_in_term(to, term, body);
        }
        Candidate {
            pre,
            election_at: state.candidacy_deadline(now),
            votes: BTreeMap::new(),
        }
    }

    /// Our own vote counts once it is durable, like any other. A pre-vote needs no durability.
    pub(crate) fn count_own_vote(&mut self, state: &State) -> Next {
        if !self.pre && !state.term_is_durable() {
            return Next::Stay;
        }
        self.count(state, state.config.id, true)
    }

    /// `message` is of our term, or the grant of a pre-vote for the next one.
    pub(crate) fn receive(&mut self, state: &mut State, message: Message) -> Next {
        match message.body {
            Body::Append { .. } | Body::Heartbeat { .. } | Body::Snapshot(_) => Next::Follow {
                term: message.term,
                leader: message.from,
                then: Some(message),
            },
            Body::VoteReply { granted } if !self.pre => self.count(state, message.from, granted),
            Body::PreVoteReply { granted } if self.pre => {
                // A grant names the term we asked for. Any other term answers an older request.
                if granted && message.term != state.term + 1 {
                    return Next::Stay;
                }
                self.count(state, message.from, granted)
            }
            _ => Next::Stay,
        }
    }

    fn count(&mut self, state: &State, from: NodeId, granted: bool) -> Next {
        self.votes.entry(from).or_insert(granted);
        let voters = state.members.voters();
        let answers = voters.iter().filter_map(|id| self.votes.get(id));
        let (granted, refused): (Vec<&bool>, Vec<&bool>) = answers.partition(|granted| **granted);
        match tally(voters.len(), granted.len(), refused.len()) {
            Tally::Won if self.pre => Next::Stand { transfer: false },
            Tally::Won => Next::Lead,
            Tally::Lost => Next::follow(state.term),
            Tally::Open => Next::Stay,
        }
    }

    pub(crate) fn tick(&mut self, state: &mut State, now: Now) -> Next {
        if now < self.election_at {
            return Next::Stay;
        }
        self.election_at = state.election_deadline(now);
        Next::Campaign { transfer: false }
    }
}
