//! Calls about leases: answered here by the leader, asked of it by the others.

use super::{EtcdServer, LEADER_RETRY, REQUEST_TIMEOUT, post, run_blocking};
use crate::basics::error::Error;
use crate::member::cluster::peer;
use crate::member::event::{ApplyEvent, LeaseAnswer, LeaseCall, Outcome, ReplySlot};

impl EtcdServer {
    /// Forwards a question about leases to the leader. Waits while there is none: clients take an
    /// error for the end of their lease. Returns `None` if this member became the leader.
    async fn ask_leader(&self, call: &LeaseCall) -> Result<Option<(LeaseAnswer, i64)>, Error> {
        let (path, body) = match call {
            LeaseCall::TimeToLive { id, keys } => peer::time_to_live(*id, *keys),
            LeaseCall::KeepAlive { id } => peer::keep_alive(*id),
            LeaseCall::Leases | LeaseCall::CheckpointAll => return Err(Error::NotLeader),
        };
        let asked = async {
            loop {
                if self.is_leader() {
                    return Ok(None);
                }
                let leader = self.0.shared.leadership.leader();
                if let Some(urls) = self.0.peers.urls_of(leader)
                    && let Ok(answer) = self.0.peers.post(&urls, path, body.clone()).await
                    && let Some(found) = self.told_by_leader(call, answer)
                {
                    return Ok(Some(found));
                }
                tokio::time::sleep(LEADER_RETRY).await;
            }
        };
        let patience = REQUEST_TIMEOUT + 2 * self.0.limits.election_timeout;
        match tokio::time::timeout(patience, asked).await {
            Ok(outcome) => outcome,
            Err(_) if self.0.shared.leadership.leader() == 0 => Err(Error::NoLeader),
            Err(_) => Err(Error::Timeout),
        }
    }

    /// Returns `None` if the answer is useless: that member does not lead any more, or stops.
    fn told_by_leader(
        &self,
        call: &LeaseCall,
        told: peer::PeerAnswer,
    ) -> Option<(LeaseAnswer, i64)> {
        let answer = match (told.status, call) {
            (200, call) => peer::lease_answer(call, told.body)?,
            (404, call) => LeaseAnswer {
                ttl: match call {
                    LeaseCall::TimeToLive { .. } => -1,
                    _ => 0,
                },
                ..Default::default()
            },
            _ => return None,
        };
        Some((answer, self.view().revision()))
    }

    /// Answers a question about leases, with the store's revision. A follower asks the leader about
    /// renewals and remaining times.
    pub(crate) async fn lease(&self, call: LeaseCall) -> Result<(LeaseAnswer, i64), Error> {
        // Held while a follower waits for the leader, too.
        let permit = self.0.admission.admit(0)?;
        let at_leader = matches!(
            call,
            LeaseCall::KeepAlive { .. } | LeaseCall::TimeToLive { .. }
        );
        if at_leader
            && !self.is_leader()
            && let Some(found) = self.ask_leader(&call).await?
        {
            return Ok(found);
        }
        if let LeaseCall::KeepAlive { .. } = call {
            // A leader that was stopped or cut off may not know that another member leads. That
            // member would expire the lease without this renewal.
            self.linearizable().await?;
        }
        let (slot, reply) = ReplySlot::new(permit);
        post(&self.0.apply, ApplyEvent::Lease(call, slot))?;
        let applied = self.wait(reply).await?;
        match applied.outcome {
            Outcome::Lease(answer) => Ok((with_keys(answer).await?, applied.revision)),
            other => unreachable!("a lease question was answered with {other:?}"),
        }
    }

    /// All leases as this member has them, those that expire first in front, with the store's
    /// revision.
    pub(crate) async fn leases(&self) -> Result<(Vec<i64>, i64), Error> {
        let (answer, revision) = self.lease(LeaseCall::Leases).await?;
        let leases = run_blocking(move || Ok(answer.into_order())).await?;
        Ok((leases, revision))
    }
}

/// The answer with the lease's keys, if they were asked for.
async fn with_keys(mut answer: LeaseAnswer) -> Result<LeaseAnswer, Error> {
    if answer.unread_keys.is_none() {
        return Ok(answer);
    }
    run_blocking(move || {
        answer.read_keys()?;
        Ok(answer)
    })
    .await
}
