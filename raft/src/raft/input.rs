//! What each input does, in every role. `receive` takes the messages of other members.

use bytes::Bytes;

use super::{Raft, Role};
use crate::io::{Input, Now, Proposal, Proposed, Read, Refused};
use crate::membership::Membership;
use crate::message::{Body, ConfChange, Entry, Index, Message, NOBODY, NodeId};
use crate::role::follower::{self, Follower};
use crate::role::next::Next;
use crate::role::read::Asker;
use crate::state::State;

impl Raft {
    pub(super) fn take(&mut self, now: Now, input: Input) -> Next {
        let state = &mut self.state;
        match input {
            Input::Tick => return self.tick(now),
            Input::Durable { ticket } => {
                state.saved_through(ticket);
                if let Role::Candidate(candidate) = &mut self.role {
                    return candidate.count_own_vote(state);
                }
            }
            Input::Fetched { fetch, found } => {
                if let Role::Leader(leader) = &mut self.role {
                    leader.fetched(state, &fetch, found);
                }
            }
            Input::Propose(proposals) => {
                self.propose(proposals);
            }
            Input::Receive(message) => return self.receive(now, message),
            Input::ReadIndex { context } => self.read(context),
            Input::Applied { index } => {
                let needed_after = match &self.role {
                    Role::Leader(leader) => leader.needed_after(state),
                    _ => None,
                };
                let limits = &state.config.limits;
                state.log.applied_to(index, limits, needed_after);
                self.hasten(now);
            }
            Input::ConfChanged { index, change } => return self.conf_changed(now, index, change),
            Input::Transfer { to } => self.transfer(now, to),
            Input::Campaign if !matches!(self.role, Role::Leader(_)) => {
                return Next::Campaign { transfer: false };
            }
            Input::Campaign => {}
            Input::Disconnected { peer } => {
                if let Role::Follower(follower) = &mut self.role {
                    follower.disconnected(state, now, peer);
                }
            }
            Input::SnapshotInstalled { ok } => self.installed(ok),
            Input::Unreachable { peer } => {
                if let Role::Leader(leader) = &mut self.role {
                    leader.unreachable(peer);
                }
            }
            Input::SnapshotReady { to, snapshot } => {
                if let Role::Leader(leader) = &mut self.role {
                    leader.snapshot_ready(state, to, snapshot);
                }
            }
            Input::SnapshotSent { to, ok } => {
                if let Role::Leader(leader) = &mut self.role {
                    leader.snapshot_sent(to, ok);
                }
            }
        }
        Next::Stay
    }

    fn tick(&mut self, now: Now) -> Next {
        let state = &mut self.state;
        match &mut self.role {
            Role::Follower(follower) => follower.tick(state, now),
            Role::Candidate(candidate) => candidate.tick(state, now),
            Role::Leader(leader) => leader.tick(state, now),
        }
    }

    pub(super) fn offer(&mut self, proposals: Vec<Proposal>) -> Proposed {
        let state = &mut self.state;
        if let Role::Leader(leader) = &mut self.role {
            return leader.propose(state, proposals);
        }
        let leader = state.leader;
        if leader == NOBODY {
            return Proposed::Refused(Refused::NotLeader { leader });
        }
        let entry = |proposal: Proposal| Entry {
            kind: proposal.kind,
            data: proposal.data,
            ..Entry::default()
        };
        let entries = proposals.into_iter().map(entry).collect();
        state.send_in_term(leader, 0, Body::Propose { entries });
        Proposed::Forwarded { leader }
    }

    fn read(&mut self, context: u64) {
        let state = &mut self.state;
        let leader = state.leader;
        let refused = match &mut self.role {
            Role::Leader(leader) => leader.read(state, Asker::Local(context)).err(),
            _ if leader == NOBODY => Some(Refused::NotLeader { leader }),
            _ => {
                let context = Bytes::copy_from_slice(&context.to_be_bytes());
                state.send_in_term(leader, 0, Body::ReadIndex { context });
                None
            }
        };
        if let Some(refused) = refused {
            state.answer_read(Read {
                context,
                outcome: Err(refused),
            });
        }
    }

    fn transfer(&mut self, now: Now, to: NodeId) {
        let state = &mut self.state;
        if let Role::Leader(leader) = &mut self.role {
            return leader.transfer_to(state, now, to);
        }
        // On the wire, the sender of this message is the successor.
        let message = Message {
            from: to,
            to: state.leader,
            term: state.term,
            body: Body::TransferLeader,
        };
        follower::pass_on(state, message);
    }

    fn conf_changed(&mut self, now: Now, index: Index, change: Option<ConfChange>) -> Next {
        let state = &mut self.state;
        state.conf_applied = state.conf_applied.max(index);
        if let Some(change) = change {
            self.reconfigure(now, &change);
        }
        self.hasten(now);
        match &self.role {
            Role::Follower(follower)
                if follower.summoned_until.is_some_and(|until| now < until)
                    && self.state.may_campaign() =>
            {
                Next::Campaign { transfer: true }
            }
            _ => Next::Stay,
        }
    }

    fn reconfigure(&mut self, now: Now, change: &ConfChange) {
        let state = &mut self.state;
        state.members.apply(change);
        state.out.conf = Some(state.members.conf_state());
        // After a restart this member must know that the change is committed: it counts votes by
        // it.
        state.save_commit = true;
        let own = change.node == state.config.id;
        state.removed = own && !state.members.contains(change.node) || (state.removed && !own);
        match &mut self.role {
            Role::Leader(leader) => {
                leader.reconfigured(state, change);
                leader.leave(state, now);
            }
            // The leader is no voter any more and will soon be silent.
            Role::Follower(follower)
                if change.node == state.leader && !state.members.is_voter(change.node) =>
            {
                follower.disconnected(state, now, change.node);
            }
            _ => {}
        }
    }

    fn hasten(&mut self, now: Now) {
        if let Role::Follower(follower) = &mut self.role {
            hasten_sole_voter(&self.state, follower, now);
        }
    }

    fn installed(&mut self, ok: bool) {
        let state = &mut self.state;
        let snapshot = state
            .installing
            .take()
            .expect("a snapshot was to be installed");
        if !ok {
            return;
        }
        state.log.reset(snapshot.position);
        state.conf_applied = snapshot.position.index;
        state.members = Membership::new(&snapshot.conf.voters, &snapshot.conf.learners);
        state.out.conf = Some(state.members.conf_state());
        if state.leader != NOBODY {
            let index = snapshot.position.index;
            let reply = Body::AppendReply {
                index,
                rejected: None,
            };
            state.send_when_durable(state.leader, reply, index);
        }
    }
}

/// No other member can lead, so a sole voter campaigns at once. If one does lead, the membership is
/// an old one.
pub(super) fn hasten_sole_voter(state: &State, follower: &mut Follower, now: Now) {
    if state.is_sole_voter() && follower.heard_at.is_none() && state.may_campaign() {
        follower.election_at = follower.election_at.min(now);
    }
}
