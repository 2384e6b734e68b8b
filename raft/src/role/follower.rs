//! A follower: takes what the leader of its term sends, forwards its own clients' requests, and
//! campaigns when it hears nothing.

use crate::io::{Now, Read};
use crate::message::{Body, Entry, Index, Message, NOBODY, NodeId, Position, Snapshot};
use crate::role::next::Next;
use crate::state::State;

#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) election_at: Now,
    /// When the leader was last heard. `None` if there is no leader or its process is gone.
    pub(crate) heard_at: Option<Now>,
    /// The leader asked for an election, which waits until a membership change is applied. Void from
    /// this time on: the leader has given up the transfer by then.
    pub(crate) summoned_until: Option<Now>,
}

impl Follower {
    /// For a short time after hearing the leader this member votes for nobody: a member that was
    /// cut off must not depose a healthy leader (thesis §4.2.3).
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
                // The leader sends no commit index above what we acknowledged. If it is above what
                // we have, this log lost entries it promised to keep: do not make it worse.
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
                self.summoned_until = Some(now + state.config.election_timeout);
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

    /// The peer's process is gone. If it was the leader, the timeout is not waited out.
    pub(crate) fn disconnected(&mut self, state: &mut State, now: Now, peer: NodeId) {
        if peer != state.leader || !state.may_campaign() {
            return;
        }
        self.heard_at = None;
        self.election_at = self.election_at.min(now + state.turn_to_ask(peer));
    }
}

/// Forwards a request to the leader. It is dropped if there is no leader, or if the leader sent it;
/// the sender then asks again.
pub(crate) fn pass_on(state: &mut State, mut message: Message) {
    if state.leader == NOBODY || state.leader == message.from || state.leader == state.id() {
        return;
    }
    message.to = state.leader;
    state.forward(message);
}

fn append(state: &mut State, from: NodeId, prev: Position, entries: Vec<Entry>, commit: Index) {
    state.known_elsewhere = state.known_elsewhere.max(commit);
    if state.installing.is_some() {
        return;
    }
    let known = state.log.commit();
    if prev.index < known {
        // An old message: what it covers is already committed.
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
        // No answer: an answer would bring more entries. The leader sees the appends it sent behind
        // this one refused, and then probes with one append after each heartbeat.
        state.log.commit_to(commit.min(prev.index));
        return;
    }
    let matched = state.log.accept(prev, entries);
    // Only what is known to match the leader's log: our tail after it may be another leader's.
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
    state.known_elsewhere = state.known_elsewhere.max(position.index);
    let conf = &snapshot.conf;
    if position.index > state.log.commit() && !state.log.holds(position) {
        if conf.voters.contains(&state.id()) || conf.learners.contains(&state.id()) {
            state.out.install = Some(snapshot.clone());
            state.installing = Some(snapshot);
        }
        return;
    }
    // The log already has all of it: only acknowledge.
    state.log.commit_to(position.index.max(state.log.commit()));
    let index = state.log.commit();
    let reply = Body::AppendReply {
        index,
        rejected: None,
    };
    state.send_when_durable(from, reply, index);
}
