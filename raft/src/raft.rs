//! One member: `step` takes an input, lets the role act on it, and is the only place where the
//! role changes. Knows the rules of terms and votes, which hold in every role (paper, figure 2).

mod input;
mod receive;

use std::mem;
use std::time::Duration;

use crate::io::{
    Config, Input, Now, Output, PeerStatus, Proposal, Proposed, Recovered, RoleChange, RoleKind,
    Status, Waiting,
};
#[cfg(test)]
use crate::message::Entry;
use crate::message::{Body, ConfState, Index, NOBODY, NodeId, Term};
use crate::role::candidate::Candidate;
use crate::role::follower::Follower;
use crate::role::leader::Leader;
use crate::role::next::Next;
use crate::state::State;
use input::hasten_sole_voter;

#[derive(Debug)]
enum Role {
    Follower(Follower),
    Candidate(Candidate),
    Leader(Leader),
}

/// One member. All it knows comes through `step`, all it wants leaves through `Output`.
#[derive(Debug)]
pub struct Raft {
    state: State,
    role: Role,
    /// The role last reported in an output.
    told: RoleChange,
}

impl Raft {
    /// Starts as a follower. The hard state and the entries must be durable. Nothing has been sent
    /// yet; call `step` with `Input::Tick` when `wake_at` is reached.
    pub fn new(config: Config, recovered: Recovered, now: Now) -> Raft {
        assert!(config.id != NOBODY, "a member needs an id");
        assert!(config.heartbeat < config.election_timeout);
        let mut state = State::new(config, recovered);
        let mut role = Follower {
            election_at: state.election_deadline(now),
            heard_at: None,
            summoned_until: None,
        };
        // Who voted for another may have an old disk: another member may be leading.
        if [NOBODY, state.id()].contains(&state.vote) {
            hasten_sole_voter(&state, &mut role, now);
        }
        let told = RoleChange {
            term: state.term,
            role: RoleKind::Follower,
            leader: state.leader,
        };
        Raft {
            state,
            role: Role::Follower(role),
            told,
        }
    }

    /// Clears `out`, takes one input and fills `out` with the result.
    pub fn step(&mut self, now: Now, input: Input, out: &mut Output) {
        self.feed(now, input);
        self.finish(now, out);
    }

    /// True if `input` may share one `finish` with inputs fed before it. False for an input that
    /// may begin a term or replace entries: the output about the old term or entries must leave
    /// first.
    pub fn joins(&self, input: &Input) -> bool {
        match input {
            Input::Durable { .. }
            | Input::Propose(_)
            | Input::ReadIndex { .. }
            | Input::Applied { .. }
            | Input::Fetched { .. } => true,
            Input::Receive(message) => {
                let usual = matches!(
                    message.body,
                    Body::Append { .. }
                        | Body::AppendReply { .. }
                        | Body::Heartbeat { .. }
                        | Body::HeartbeatReply { .. }
                        | Body::Propose { .. }
                        | Body::ReadIndex { .. }
                        | Body::ReadIndexReply { .. }
                );
                usual && message.term <= self.state.term
            }
            _ => false,
        }
    }

    /// Takes an input like `step`, but leaves the output to the next `finish`. All inputs fed in
    /// between share one write and few messages.
    pub fn feed(&mut self, now: Now, input: Input) {
        let next = self.take(now, input);
        self.turn(now, next);
    }

    /// Feeds `Input::Propose` and returns the answer at once.
    pub fn propose(&mut self, proposals: Vec<Proposal>) -> Proposed {
        let proposed = self.offer(proposals);
        self.state.out.proposed = Some(proposed);
        proposed
    }

    /// Clears `out` and fills it with the output of all inputs fed since the last call.
    pub fn finish(&mut self, now: Now, out: &mut Output) {
        if let Role::Leader(leader) = &mut self.role {
            leader.flush(&mut self.state, now);
        }
        self.state.finish();
        let after = self.face();
        self.state.out.role_change = (self.told != after).then_some(after);
        self.told = after;
        out.clear();
        mem::swap(&mut self.state.out, out);
    }

    /// When `Input::Tick` is due.
    pub fn wake_at(&self) -> Option<Now> {
        if self.state.log.has_committed_to_hand_out() {
            return Some(Now::ZERO); // only after a start
        }
        Some(match &self.role {
            Role::Follower(follower) => follower.election_at,
            Role::Candidate(candidate) => candidate.election_at,
            Role::Leader(leader) => leader.wake_at(),
        })
    }

    pub fn status(&self) -> Status {
        let state = &self.state;
        Status {
            id: state.config.id,
            term: state.term,
            vote: state.vote,
            leader: state.leader,
            role: self.face().role,
            applied: state.log.applied(),
            commit: state.log.commit(),
            durable: state.log.durable(),
            last: state.log.last().index,
            learner: state.members.is_learner(state.config.id),
            transferring_to: match &self.role {
                Role::Leader(leader) => leader.transfer.as_ref().map_or(NOBODY, |t| t.to),
                _ => NOBODY,
            },
            feeding_after: match &self.role {
                Role::Leader(leader) => leader.feeding_after(),
                _ => None,
            },
            waiting: match &self.role {
                Role::Leader(leader) => leader.waiting(state),
                _ => Waiting {
                    unapplied: state.log.unapplied_bytes(),
                    unsaved: state.log.unsaved_bytes(),
                    ..Waiting::default()
                },
            },
        }
    }

    /// Empty unless this member leads.
    pub fn peers(&self) -> Vec<PeerStatus> {
        match &self.role {
            Role::Leader(leader) => leader.peers(&self.state),
            _ => Vec::new(),
        }
    }

    pub fn election_timeout(&self) -> Duration {
        self.state.config.election_timeout
    }

    /// The members, as of the newest applied change.
    pub fn conf(&self) -> ConfState {
        self.state.members.conf_state()
    }

    /// True if this member leads and a membership change may be in flight. Another one proposed now
    /// would have no effect.
    pub fn conf_pending(&self) -> bool {
        match &self.role {
            Role::Leader(leader) => leader.conf_pending(&self.state),
            _ => false,
        }
    }

    /// The term of the entry at `index`; `None` if the log in memory does not hold it.
    pub fn term_at(&self, index: Index) -> Option<Term> {
        self.state.log.term_at(index)
    }

    #[cfg(test)]
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let base = self.state.log.base().index;
        self.state.log.slice(base + 1, usize::MAX)
    }

    fn face(&self) -> RoleChange {
        RoleChange {
            term: self.state.term,
            role: match &self.role {
                Role::Follower(_) => RoleKind::Follower,
                Role::Candidate(candidate) if candidate.pre => RoleKind::PreCandidate,
                Role::Candidate(_) => RoleKind::Candidate,
                Role::Leader(_) => RoleKind::Leader,
            },
            leader: self.state.leader,
        }
    }

    /// The only place where the role changes.
    fn turn(&mut self, now: Now, mut next: Next) {
        loop {
            next = match next {
                Next::Stay => return,
                Next::Follow { term, leader, then } => {
                    self.follow(now, term, leader);
                    match then {
                        Some(message) => self.receive_in_term(now, message),
                        None => Next::Stay,
                    }
                }
                Next::Campaign { transfer } => {
                    if !self.state.may_campaign() {
                        match self.role {
                            Role::Candidate(_) => Next::follow(self.state.term),
                            _ => Next::Stay,
                        }
                    } else if (self.state.config.pre_vote || self.state.removed) && !transfer {
                        self.candidate(now, true, false)
                    } else {
                        Next::Stand { transfer }
                    }
                }
                Next::Stand { transfer } => {
                    self.state.enter_term(self.state.term + 1);
                    self.state.vote = self.state.id();
                    self.candidate(now, false, transfer)
                }
                Next::Lead => {
                    self.state.leader = self.state.id();
                    self.role = Role::Leader(Leader::new(&mut self.state, now));
                    Next::Stay
                }
            }
        }
    }

    fn follow(&mut self, now: Now, term: Term, leader: NodeId) {
        self.state.enter_term(term);
        self.state.leader = leader;
        let follower = Role::Follower(Follower {
            election_at: self.state.election_deadline(now),
            heard_at: (leader != NOBODY).then_some(now),
            summoned_until: None,
        });
        if let Role::Leader(leader) = mem::replace(&mut self.role, follower) {
            leader.resign(&mut self.state);
        }
    }

    fn candidate(&mut self, now: Now, pre: bool, transfer: bool) -> Next {
        self.state.leader = NOBODY;
        let mut candidate = Candidate::new(&mut self.state, now, pre, transfer);
        let next = candidate.count_own_vote(&self.state);
        self.role = Role::Candidate(candidate);
        next
    }
}
