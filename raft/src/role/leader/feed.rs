//! Followers that need entries which are no longer in memory are fed from the log on disk. The caller
//! reads it (`Output::fetches`), one fetch at a time for each follower, and the appends that follow
//! from the answer obey the same flow control as all others.
//!
//! Only entries before the log in memory are fetched. They are durable and applied here, so they are
//! committed: whatever happens between a fetch and its answer, they stay what they are. So an answer is checked
//! against damage, but it can never be out of date.

use super::Leader;
use super::flush::{append, want_snapshot};
use crate::io::{Complaint, Fetch, LogPart};
use crate::log;
use crate::message::{Entry, Index, NodeId, flaw_of_append};
use crate::role::progress::Flow;
use crate::state::State;

impl Leader {
    /// Asks for what a follower needs and memory no longer holds.
    pub(super) fn fetch(&mut self, state: &mut State, to: NodeId) {
        let limits = &state.config.limits;
        let under_way = self.peers.values().filter(|peer| peer.fetching.is_some());
        let is_busy = under_way.count() >= limits.fetches;
        let Some(peer) = self.peers.get_mut(&to) else {
            return;
        };
        let Some(bytes) = peer.may_fetch(limits) else {
            return;
        };
        // With an empty log the state is the shorter way, however much of the log is there. A
        // follower that lost its log refuses whatever follows its own acknowledgement.
        if limits.fetches == 0 || peer.next == 1 || peer.has_lost_log() {
            return want_snapshot(state, to, peer);
        }
        if is_busy {
            return;
        }
        peer.fetching = Some(peer.next);
        state.out.fetches.push(Fetch {
            peer: to,
            term: state.term,
            from: peer.next,
            through: state.log.base().index,
            bytes,
        });
    }

    /// Sends what was found. The follower may have moved since it was asked for: then the answer is
    /// dropped, and `flush` asks again.
    pub(crate) fn fetched(&mut self, state: &mut State, fetch: &Fetch, found: Option<LogPart>) {
        let limits = state.config.limits;
        let Fetch { peer: to, from, .. } = *fetch;
        let Some(peer) = self.peers.get_mut(&to) else {
            return;
        };
        // An answer to an earlier term's fetch must not end the wait for this term's.
        if fetch.term != state.term || peer.fetching != Some(from) {
            return;
        }
        peer.fetching = None;
        if peer.next != from || peer.may_fetch(&limits).is_none() {
            return;
        }
        let Some(part) = found else {
            return want_snapshot(state, to, peer);
        };
        if let Some(why) = flaw(state, from, &part) {
            state.complain(Complaint::Misread { from, why });
            return want_snapshot(state, to, peer);
        }
        let (mut prev, mut rest) = (part.prev, &part.entries[..]);
        loop {
            let count = if peer.is_full(&limits) {
                0
            } else {
                log::count_within(rest, limits.append_bytes)
            };
            if count == 0 && !peer.poke {
                return;
            }
            let (now, later) = rest.split_at(count);
            append(state, to, peer, prev, now.to_vec());
            match now.last() {
                Some(last) if peer.flow == Flow::Replicate => prev = last.position(),
                _ => return,
            }
            rest = later;
        }
    }
}

/// Why this cannot be what our log holds from `from` on.
fn flaw(state: &State, from: Index, part: &LogPart) -> Option<&'static str> {
    if part.prev.index + 1 != from || part.entries.is_empty() {
        return Some("they are not those that were asked for");
    }
    let differs = |entry: &Entry| {
        let known = state.log.term_at(entry.index);
        entry.index > state.log.last().index || known.is_some_and(|term| term != entry.term)
    };
    if part.entries.iter().any(differs) {
        return Some("they differ from the log in memory");
    }
    flaw_of_append(state.term, part.prev, &part.entries)
}
