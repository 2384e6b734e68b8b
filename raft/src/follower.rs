//! A follower: takes what the leader of its term sends, passes on what its own clients want, and
//! campaigns when it hears nothing.

use crate::io::{Now, Read};
use crate::message::{Body, Entry, Index, Message, NOBODY, NodeId, Position, Snapshot};
use crate::raft::Next;
use crate::state::State;

#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) election_at: Now,
    /// When the leader was last heard; `None` when there is none or its process is known gone.
    pub(crate) heard_at: Option<Now>,
    /// The leader asked for an election that has to wait for a change of the members.
    pub(crate) summoned: bool,
}

impl Follower {
    /// Shortly after hearing the leader nobody gets our vote: a member that was
    /// cut off must not depose a leader who is well (thesis §4.2.3).
    pub(crate) fn shields_leader(&self, state: &State, now: Now) -> bool {
        let Some(heard_at) = self.heard_at else {
            return false;
        };
        state.config.check_quorum && state.leader != NOBODY && now < heard_at + state.shield()
    }

    fn heard(&mut self, state: &mut State, now: Now, leader: NodeId) {
        state.leader = leader;
        state.attempts = 0;
        self.heard_at = Some(now);
        self.election_at = state.silence_deadline(now);
    }

    /// `message` is of our term.
    pub(crate) fn receive(&mut self, state: &mut State, now: Now, message: Message) -> Next {
        let from = message.from;
        match message.body {
            Body::Append {
                prev,
                entries,
                commit,
            } => {
                self.heard(state, now, from);
                append(state, from, prev, entries, commit);
            }
            Body::Heartbeat { commit, context } => {
                self.heard(state, now, from);
                // The leader tells no more than we acknowledged. More than we have means that this
                // log lost what it promised to keep: do not make it worse.
                if state.installing.is_none() {
                    if commit <= state.log.last().index {
                        state.log.commit_to(commit);
                    } else {
                        state.owe_log(commit);
                    }
                }
                state.send(from, Body::HeartbeatReply { context });
            }
            Body::Snapshot(snapshot) => {
                self.heard(state, now, from);
                consider_snapshot(state, from, snapshot);
            }
            Body::ReadIndexReply { index, context } if from == state.leader => {
                if let Ok(context) = <[u8; 8]>::try_from(context.as_ref()) {
                    state.answer_read(Read {
                        context: u64::from_be_bytes(context),
                        outcome: Ok(index),
                    });
                }
            }
            Body::TimeoutNow => {
                self.summoned = true;
                return Next::Campaign { transfer: true };
            }
            Body::Propose { .. } | Body::ReadIndex { .. } | Body::TransferLeader => {
                pass_on(state, message);
            }
            _ => {}
        }
        Next::Stay
    }

    pub(crate) fn tick(&mut self, state: &mut State, now: Now) -> Next {
        if now < self.election_at {
            return Next::Stay;
        }
        self.election_at = state.election_deadline(now);
        Next::Campaign { transfer: false }
    }

    /// The peer's process is gone. When it led, nobody needs to wait out the timeout.
    pub(crate) fn disconnected(&mut self, state: &mut State, now: Now, peer: NodeId) {
        if peer != state.leader || !state.may_campaign() {
            return;
        }
        self.heard_at = None;
        self.election_at = self.election_at.min(now + state.turn_to_ask(peer));
    }
}

/// To the leader, if there is one and it is not who sent it; else it is lost, and whoever asked
/// asks again.
pub(crate) fn pass_on(state: &mut State, mut message: Message) {
    if state.leader == NOBODY || state.leader == message.from || state.leader == state.id() {
        return;
    }
    message.to = state.leader;
    state.forward(message);
}

fn append(state: &mut State, from: NodeId, prev: Position, entries: Vec<Entry>, commit: Index) {
    if state.installing.is_some() {
        return;
    }
    let known = state.log.commit();
    if prev.index < known {
        // An old message: what it would tell is settled.
        let reply = Body::AppendReply {
            index: known,
            rejected: None,
        };
        return state.send_when_durable(from, reply, known);
    }
    if !state.log.holds(prev) {
        let reply = Body::AppendReply {
            index: prev.index,
            rejected: Some(state.hint_for(prev)),
        };
        return state.send(from, reply);
    }
    if !entries.is_empty() && state.log.unapplied_bytes() > state.config.limits.unapplied_bytes {
        // Not answered: an answer would be answered with more. The leader finds what was sent
        // behind this refused, and asks with one append after each heartbeat.
        state.log.commit_to(commit.min(prev.index));
        return;
    }
    let matched = state.log.accept(prev, entries);
    // Only what is known to be the leader's log: our tail after it may be another's.
    state.log.commit_to(commit.min(matched));
    let reply = Body::AppendReply {
        index: matched,
        rejected: None,
    };
    state.send_when_durable(from, reply, matched);
}

fn consider_snapshot(state: &mut State, from: NodeId, snapshot: Snapshot) {
    if state.installing.is_some() {
        return;
    }
    let position = snapshot.position;
    let conf = &snapshot.conf;
    if position.index > state.log.commit() && !state.log.holds(position) {
        if conf.voters.contains(&state.id()) || conf.learners.contains(&state.id()) {
            state.out.install = Some(snapshot.clone());
            state.installing = Some(snapshot);
        }
        return;
    }
    // The log has it all: only say so.
    state.log.commit_to(position.index.max(state.log.commit()));
    let index = state.log.commit();
    let reply = Body::AppendReply {
        index,
        rejected: None,
    };
    state.send_when_durable(from, reply, index);
}
