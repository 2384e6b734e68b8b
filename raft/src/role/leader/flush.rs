//! The end of each step of a leader: what a majority holds is committed, and every follower is sent
//! what it lacks.

use super::Leader;
use crate::io::{Now, Read};
use crate::log;
use crate::membership::quorum;
use crate::message::{Body, Entry, NodeId, Position};
use crate::role::progress::{Flow, Progress};
use crate::role::read::Asker;
use crate::state::State;

impl Leader {
    /// Ends each step of a leader: commits what a majority holds, begins and confirms read
    /// rounds, sends every follower what it lacks.
    pub(crate) fn flush(&mut self, state: &mut State, now: Now) {
        self.commit(state);
        let commit = state.log.commit();
        // Until an entry of this term is committed, our commit index may be behind an earlier
        // leader's, and a read would return old state (§8).
        if state.log.term_at(commit) == Some(state.term) {
            if self.reads.start(commit) {
                self.heartbeat(state, now);
                state.rounds = self.reads.started();
            }
            self.confirm_reads(state);
        }
        let peers: Vec<NodeId> = self.peers.keys().copied().collect();
        for peer in peers {
            self.replicate(state, peer);
        }
        self.hand_over(state);
    }

    /// Commits what any majority holds durably, if it is of our own term: counting older entries is
    /// unsafe (§5.4.2). Our disk is one of the voters', and need not be in the majority (thesis
    /// §10.2.1).
    fn commit(&mut self, state: &mut State) {
        let own = state.log.durable();
        let mut held = self.of_voters(state, own, |peer| peer.matched);
        let index = quorum::reached(&mut held);
        let before = state.log.commit();
        if index > before && state.log.term_at(index) == Some(state.term) {
            state.log.commit_to(index);
            let bytes = state.log.bytes_between(before, index);
            self.uncommitted_bytes = self.uncommitted_bytes.saturating_sub(bytes);
        }
    }

    fn confirm_reads(&mut self, state: &mut State) {
        let mut rounds = self.of_voters(state, u64::MAX, |peer| peer.round);
        let round = quorum::reached(&mut rounds);
        self.reads.confirm(round, |asker, index| match asker {
            Asker::Local(context) => state.answer_read(Read {
                context,
                outcome: Ok(index),
            }),
            Asker::Remote(to, context) => state.send(to, Body::ReadIndexReply { index, context }),
        });
    }

    fn of_voters(&self, state: &State, own: u64, theirs: impl Fn(&Progress) -> u64) -> Vec<u64> {
        let voters = state.members.voters().iter();
        let value = |id: &NodeId| {
            if *id == state.config.id {
                own
            } else {
                self.peers.get(id).map_or(0, &theirs)
            }
        };
        voters.map(value).collect()
    }

    fn replicate(&mut self, state: &mut State, to: NodeId) {
        let limits = state.config.limits;
        let Some(peer) = self.peers.get_mut(&to) else {
            return;
        };
        loop {
            if matches!(
                peer.flow,
                Flow::Snapshot { .. } | Flow::Probe { paused: true }
            ) {
                return;
            }
            let index = peer.next - 1;
            let Some(term) = state.log.term_at(index) else {
                return self.fetch(state, to);
            };
            let is_full = peer.is_full(&limits);
            let entries = if is_full || peer.has_lost_log() {
                Vec::new()
            } else {
                state.log.slice(peer.next, limits.append_bytes)
            };
            // A full window waits for answers, each of which lets the news through. Otherwise every
            // commit would send another empty append to a member that does not answer.
            let news = !is_full && peer.commit_sent < state.log.commit();
            let probing = peer.flow != Flow::Replicate;
            if entries.is_empty() && !probing && !peer.poke && !news {
                return;
            }
            append(state, to, peer, Position { term, index }, entries);
        }
    }

    /// The chosen successor campaigns once it has the whole log (thesis §3.10).
    fn hand_over(&mut self, state: &mut State) {
        if let Some(transfer) = &mut self.transfer
            && !transfer.asked
            && let Some(peer) = self.peers.get(&transfer.to)
            && peer.matched == state.log.last().index
        {
            transfer.asked = true;
            state.send(transfer.to, Body::TimeoutNow);
        }
    }
}

pub(super) fn append(
    state: &mut State,
    to: NodeId,
    peer: &mut Progress,
    prev: Position,
    entries: Vec<Entry>,
) {
    let last = entries.last().map_or(0, |entry| entry.index);
    peer.sent(last, entries.iter().map(log::size_of).sum());
    peer.poke = false;
    let commit = state.log.commit();
    peer.commit_sent = commit;
    let body = Body::Append {
        prev,
        entries,
        commit,
    };
    state.send(to, body);
}

pub(super) fn want_snapshot(state: &mut State, to: NodeId, peer: &mut Progress) {
    peer.await_snapshot(state.log.applied());
    state.out.snapshots_wanted.push(to);
}
