//! The applier's part in leases: questions about them, renewals that take a checkpoint back, and what
//! their time asks of the log.

use etcd_api::etcdserverpb as pb;
use raft::Now;

use super::{Applier, ApplyEffects, REVOKES_UNDER_WAY};
use crate::error::Error;
use crate::event::{LeaseAnswer, LeaseCall, Outcome, ReplySlot};
use crate::lessor::{Lessor, Renewal};
use crate::request::Request;
use crate::state;

/// Lease checkpoints per entry.
const LEASES_PER_TURN: usize = 500;

impl Applier {
    /// Followers do not hear of renewals: whoever begins to lead gives every lease its time anew.
    pub(super) fn take_over_leases(&mut self, now: Now) -> Result<(), Error> {
        let rows = state::leases(self.state.store.root())?;
        self.lessor = Lessor::new(self.election_timeout);
        self.lessor.restore(
            rows.iter()
                .map(|row| (row.id, row.granted_ttl, row.remaining_ttl)),
            now,
        );
        Ok(())
    }

    pub(super) fn answer_lease(
        &mut self,
        now: Now,
        call: LeaseCall,
        slot: ReplySlot,
        effects: &mut ApplyEffects,
    ) {
        let answer = match call {
            LeaseCall::KeepAlive { id } => match self.renew(now, id, effects) {
                None => Ok(LeaseAnswer::default()),
                Some(renewal) if renewal.checkpointed => {
                    effects.proposals.push(checkpoint_request(vec![(id, 0)]));
                    self.waiting_renewals
                        .entry(id)
                        .or_default()
                        .push((slot, renewal.ttl));
                    return;
                }
                Some(renewal) => Ok(LeaseAnswer {
                    ttl: renewal.ttl,
                    ..Default::default()
                }),
            },
            LeaseCall::TimeToLive { id, keys } => self.time_to_live(now, id, keys),
            LeaseCall::Leases => {
                let leases = self
                    .lessor
                    .list(now)
                    .into_iter()
                    .map(|lease| lease.id)
                    .collect();
                Ok(LeaseAnswer {
                    leases,
                    ..Default::default()
                })
            }
            LeaseCall::CheckpointAll => {
                // Whoever only follows does not know of renewals.
                let checkpoints = match self.leading {
                    Some(_) => self.lessor.checkpoint_all(now),
                    None => Vec::new(),
                };
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

    fn time_to_live(&self, now: Now, id: i64, keys: bool) -> Result<LeaseAnswer, Error> {
        let Some(lease) = self.lessor.remaining(id, now) else {
            return Ok(LeaseAnswer {
                ttl: -1,
                ..Default::default()
            });
        };
        let root = self.state.store.root();
        Ok(LeaseAnswer {
            ttl: lease.remaining.as_secs() as i64,
            granted_ttl: lease.granted_ttl,
            keys: if keys {
                state::lease_keys(root, id)?
            } else {
                Vec::new()
            },
            ..Default::default()
        })
    }

    /// A checkpoint of zero takes an earlier one back; whoever renewed the lease may hear of it.
    pub(super) fn finish_renewals(&mut self, request: &Request, effects: &mut ApplyEffects) {
        let Request::LeaseCheckpoint(request) = request else {
            return;
        };
        for checkpoint in request.checkpoints.iter().filter(|c| c.remaining_ttl == 0) {
            for (slot, ttl) in self
                .waiting_renewals
                .remove(&checkpoint.id)
                .unwrap_or_default()
            {
                let answer = LeaseAnswer {
                    ttl,
                    ..Default::default()
                };
                effects
                    .replies
                    .push((slot, self.answer(Ok(Outcome::Lease(answer)))));
            }
        }
    }

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
