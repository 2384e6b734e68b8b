//! Applies log entries: what a request changes, and what its client is told.

use raft::Now;

use super::slow::Stopwatch;
use super::{Applier, ApplyEffects};
use crate::auth::Authenticated;
use crate::basics::error::Error;
use crate::member::event::{Committed, Outcome};
use crate::request::{AuthInfo, Request};
use crate::state::hashes::HashJob;
use crate::state::{AnswerFor, Effects, entry};
use crate::telemetry::metrics::Operation;

impl Applier {
    /// An error is final. A failure of the request alone goes to its client.
    pub(super) fn apply(
        &mut self,
        now: Now,
        committed: Committed,
        effects: &mut ApplyEffects,
    ) -> Result<(), Error> {
        let Committed {
            entry,
            request,
            reply,
        } = committed;
        let position = storage::mvcc::Applied {
            index: entry.index,
            term: entry.term,
        };
        effects.applied = Some(entry.index);
        if entry.index <= self.state.store.root().applied().index {
            return Ok(()); // A replayed entry that the checkpoint already has.
        }
        self.unsaved.bytes += entry.data.len() as u64;
        self.unsaved.entries += 1;
        match entry.kind {
            raft::EntryKind::Normal if entry.data.is_empty() => self.state.skip(position),
            raft::EntryKind::Normal => {
                let request = match request {
                    Some(request) => request,
                    None => entry::request(&entry)?,
                };
                self.note_own_alarm(&entry, &request);
                let by = self.requester(&entry);
                let began = self.stopwatch.as_ref().map(Stopwatch::begin);
                let answer_for = match &reply {
                    Some(slot) if slot.is_awaited() => AnswerFor::Client,
                    _ => AnswerFor::Nobody,
                };
                let result = self.apply_request(now, position, &request, &by, answer_for, effects);
                if let Some((stopwatch, began)) = self.stopwatch.as_ref().zip(began) {
                    effects
                        .slow
                        .extend(stopwatch.judge(began, &request, &result));
                }
                if let Err(Error::Damaged(what)) = &result {
                    return Err(Error::Damaged(what.clone()));
                }
                let Some(slot) = reply else { return Ok(()) };
                match &request {
                    Request::Compaction(c) if c.physical && result.is_ok() => {
                        self.removal.ask(c.revision, slot);
                    }
                    _ => effects.replies.push((slot, self.answer(result))),
                }
            }
            raft::EntryKind::ConfChange | raft::EntryKind::ConfChangeV2 => {
                let change = entry::conf_change(&entry)?;
                let result = self.state.apply_conf_change(position, &change);
                if let Err(Error::Damaged(what)) = result {
                    return Err(Error::Damaged(what));
                }
                effects.cluster_changed = true;
                let change = result.is_ok().then_some(change);
                effects.conf_changes.push((entry.index, change));
                if let Some(slot) = reply {
                    let answer = self.answer(result.map(|()| Outcome::Done));
                    effects.replies.push((slot, answer));
                }
            }
        }
        Ok(())
    }

    fn apply_request(
        &mut self,
        now: Now,
        position: storage::mvcc::Applied,
        request: &Request,
        by: &AuthInfo,
        answer_for: AnswerFor,
        effects: &mut ApplyEffects,
    ) -> Result<Outcome, Error> {
        if let Request::Compaction(compaction) = request
            && position.index > self.replayed_through
            && self.state.allows(by, request).is_ok()
        {
            self.keep_hash_before(compaction.revision, effects);
        }
        let mut did = Effects::default();
        let result = self
            .state
            .apply(position, request, by, answer_for, &mut did);
        let counts = &mut effects.counts;
        if let Some(operation) = Operation::of(request) {
            counts.applied.push((operation, result.is_ok()));
        }
        result.as_ref().map_err(Error::clone)?;
        counts.tally += did.tally;
        if let Some(row) = did.granted {
            self.lessor.grant(row.id, row.granted_ttl, now);
            counts.leases_granted.push(row.granted_ttl);
        }
        if let Some(Authenticated { user, token, .. }) = &did.authenticated {
            let tokens = &self.state.auth.shared().tokens;
            tokens.lock().assign(token, user, now);
        }
        if let Some(id) = did.revoked {
            self.lessor.revoke(id);
            counts.leases_revoked += 1;
            self.end_renewals(id, effects);
        }
        self.finish_renewals(request, effects);
        if did.compacted.is_some() {
            self.removal.compacted(now);
        }
        effects.cluster_changed |= did.cluster_changed;
        result
    }

    /// Before the entry is applied: tells whether it raises the alarm.
    fn note_own_alarm(&mut self, entry: &raft::Entry, request: &Request) {
        if let Request::Alarm(alarm) = request
            && Request::is_own_alarm(&entry.data)
            && !self.state.has_space_alarm(alarm.member_id)
        {
            self.alarm.own_applied(alarm);
        }
    }

    /// The user that made the request. Nobody, if auth is off.
    fn requester(&self, entry: &raft::Entry) -> AuthInfo {
        if self.state.auth.image().enabled {
            Request::auth_info_of(&entry.data)
        } else {
            AuthInfo::default()
        }
    }

    /// Takes a view for the digest of the history just before the compaction is applied.
    fn keep_hash_before(&mut self, revision: i64, effects: &mut ApplyEffects) {
        let root = self.state.store.root();
        if revision > root.compacted() && revision <= root.revision() {
            self.state.store.publish();
            effects.hash.push(HashJob {
                view: self.reader.view(),
                revision,
                oldest_removed: self.state.store.take_oldest_removed(),
            });
        }
    }
}
