//! The applier's part in leases: questions about them, renewals that take a checkpoint back, and
//! the proposals that expiry and remaining times need.

use etcd_api::etcdserverpb as pb;
use raft::Now;

use super::{Applier, ApplyEffects, REVOKES_UNDER_WAY};
use crate::basics::error::Error;
use crate::member::event::{LeaseAnswer, LeaseCall, Outcome, ReplySlot};
use crate::request::Request;
use crate::state;
use crate::state::lessor::{Lessor, Renewal};

/// Lease checkpoints per entry.
const LEASES_PER_TURN: usize = 500;

/// A client that waits until its renewal has replaced the remaining time in the store.
pub(super) struct WaitingRenewal {
    slot: ReplySlot,
    ttl: i64,
    /// Rows of the lease that must be applied first; see [`Renewal::waits_for`].
    rows: u64,
}

impl Applier {
    /// Restarts the time of every lease: followers do not hear of renewals.
    pub(super) fn take_over_leases(&mut self, now: Now) -> Result<(), Error> {
        let rows = state::leases(self.state.store.root())?;
        self.lessor = Lessor::new(self.election_timeout);
        self.lessor.allow_checkpoints(self.may_checkpoint_leases);
        self.lessor.restore(
            rows.iter()
                .map(|row| (row.id, row.granted_ttl, row.remaining_ttl)),
            now,
        );
        Ok(())
    }

    /// Answers a question about leases, or keeps the client in `waiting_renewals`. What was applied
    /// must be published: answers may have a view of it.
    pub(super) fn answer_lease(
        &mut self,
        now: Now,
        call: LeaseCall,
        slot: ReplySlot,
        effects: &mut ApplyEffects,
    ) {
        let answer = match call {
            // Another leader counts the lease's time without this renewal. And once remaining times
            // were requested for a stop, no renewal may outlast them.
            LeaseCall::KeepAlive { .. } if self.leading.is_none() || self.leases_are_written => {
                Err(Error::Timeout)
            }
            LeaseCall::KeepAlive { id } => match self.renew(now, id, effects) {
                None => Ok(LeaseAnswer::default()),
                Some(renewal) => {
                    if renewal.takes_back {
                        effects.proposals.push(checkpoint_request(vec![(id, 0)]));
                    }
                    if let Some(rows) = renewal.waits_for {
                        let waiting = self.waiting_renewals.entry(id).or_default();
                        waiting.push(WaitingRenewal {
                            slot,
                            ttl: renewal.ttl,
                            rows,
                        });
                        return;
                    }
                    Ok(LeaseAnswer {
                        ttl: renewal.ttl,
                        ..Default::default()
                    })
                }
            },
            LeaseCall::TimeToLive { id, keys } => Ok(self.time_to_live(now, id, keys)),
            LeaseCall::Leases => Ok(LeaseAnswer {
                leases: self.lessor.ends(),
                ..Default::default()
            }),
            LeaseCall::CheckpointAll => {
                // A follower does not know of renewals.
                let checkpoints = match self.leading {
                    Some(_) => self.lessor.checkpoint_all(now),
                    None => Vec::new(),
                };
                self.leases_are_written |= !checkpoints.is_empty();
                Ok(LeaseAnswer {
                    checkpoints,
                    ..Default::default()
                })
            }
        };
        effects
            .replies
            .push((slot, self.answer(answer.map(Outcome::Lease))));
    }

    fn renew(&mut self, now: Now, id: i64, effects: &mut ApplyEffects) -> Option<Renewal> {
        let renewal = self.lessor.renew(id, now)?;
        effects.counts.leases_renewed += 1;
        Some(renewal)
    }

    fn time_to_live(&self, now: Now, id: i64, keys: bool) -> LeaseAnswer {
        let Some(lease) = self.lessor.remaining(id, now) else {
            return LeaseAnswer {
                ttl: -1,
                ..Default::default()
            };
        };
        LeaseAnswer {
            ttl: lease.remaining.as_secs() as i64,
            granted_ttl: lease.granted_ttl,
            // The newest state: the turn has published what it applied.
            unread_keys: keys.then(|| (self.reader.view(), id)),
            ..Default::default()
        }
    }

    /// Answers the renewals whose row is applied: the store does not contradict them any more.
    pub(super) fn finish_renewals(&mut self, request: &Request, effects: &mut ApplyEffects) {
        let Request::LeaseCheckpoint(request) = request else {
            return;
        };
        for checkpoint in &request.checkpoints {
            let id = checkpoint.id;
            let settled = self.lessor.applied(id, checkpoint.remaining_ttl);
            let Some(waiting) = self.waiting_renewals.get_mut(&id) else {
                continue;
            };
            let ready: Vec<WaitingRenewal> = waiting
                .extract_if(.., |waiting| waiting.rows <= settled)
                .collect();
            if waiting.is_empty() {
                self.waiting_renewals.remove(&id);
            }
            for WaitingRenewal { slot, ttl, .. } in ready {
                let answer = LeaseAnswer {
                    ttl,
                    ..Default::default()
                };
                let answer = self.answer(Ok(Outcome::Lease(answer)));
                effects.replies.push((slot, answer));
            }
        }
    }

    /// Answers the clients whose renewals waited for a lease that has ended.
    pub(super) fn end_renewals(&mut self, id: i64, effects: &mut ApplyEffects) {
        for waiting in self.waiting_renewals.remove(&id).unwrap_or_default() {
            let gone = self.answer(Ok(Outcome::Lease(LeaseAnswer::default())));
            effects.replies.push((waiting.slot, gone));
        }
    }

    /// Fails the waiting renewals: this member lost the lead, so their outcome is unknown.
    pub(super) fn abandon_renewals(&mut self, effects: &mut ApplyEffects) {
        let waiting = std::mem::take(&mut self.waiting_renewals);
        // Sorted, so that equal inputs give equal outputs.
        let waiting = std::collections::BTreeMap::from_iter(waiting);
        let slots = waiting.into_values().flatten().map(|waiting| waiting.slot);
        effects
            .replies
            .extend(slots.map(|slot| (slot, Err(Error::Timeout))));
    }

    /// Proposes the revokes and checkpoints that are due. Called only while this member leads.
    pub(super) fn run_lessor(&mut self, now: Now, effects: &mut ApplyEffects) {
        let expired = self.lessor.expired(now, REVOKES_UNDER_WAY);
        effects.counts.leases_expired += expired.len() as u64;
        effects.proposals.extend(
            expired
                .into_iter()
                .map(|id| Request::LeaseRevoke(pb::LeaseRevokeRequest { id })),
        );
        let checkpoints = self.lessor.checkpoints(now, LEASES_PER_TURN);
        if !checkpoints.is_empty() {
            effects.proposals.push(checkpoint_request(checkpoints));
        }
    }
}

pub(super) fn checkpoint_request(rows: Vec<(i64, i64)>) -> Request {
    let checkpoints = rows
        .into_iter()
        .map(|(id, remaining_ttl)| pb::LeaseCheckpoint { id, remaining_ttl })
        .collect();
    Request::LeaseCheckpoint(pb::LeaseCheckpointRequest { checkpoints })
}
