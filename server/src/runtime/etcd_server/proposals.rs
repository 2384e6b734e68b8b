//! Proposals: admitted, sent to consensus, and waited for.

use std::time::Duration;

use super::{EtcdServer, PHYSICAL_COMPACTION_TIMEOUT, post};
use crate::auth::{self, Credentials};
use crate::basics::error::Error;
use crate::member::event::{Answer, ApplyEvent, ConsensusEvent, Outcome, Proposal, ReplySlot};
use crate::request::nesting::nest_ranges;
use crate::request::{AuthInfo, Request};
use crate::state;
use crate::telemetry::metrics::Operation;

impl EtcdServer {
    /// Sends a change by the server itself through the log. Returns when it is applied and visible
    /// to readers. With auth enabled, it counts as made by no user.
    pub(crate) async fn propose(&self, request: Request) -> Result<Answer, Error> {
        self.check_space(&request).await?;
        self.propose_unchecked(request, &AuthInfo::default()).await
    }

    /// Sends a client's change through the log. Its permission is checked when it is applied.
    pub(crate) async fn propose_by(
        &self,
        request: Request,
        who: &Credentials,
    ) -> Result<Answer, Error> {
        self.check_space(&request).await?;
        if self.0.shared.progress.has_older_members() {
            return self.propose_to_older(request, who).await;
        }
        let by = self.auth_info(who).await?.unwrap_or_default();
        self.propose_unchecked(request, &by).await
    }

    /// The same in a cluster with members of etcd before 3.7, which make some changes that Stele
    /// refuses: those of transactions whose ranges are refused, see [`crate::request::nesting`]; and
    /// etcd 3.5 checks no permissions at all while the space alarm is raised. So what would be refused
    /// for its user does not enter the log. Should users or roles change before it is applied, all
    /// members refuse it.
    async fn propose_to_older(
        &self,
        mut request: Request,
        who: &Credentials,
    ) -> Result<Answer, Error> {
        let mut by = self.auth_info(who).await?.unwrap_or_default();
        if self.check_change(&request, &by).is_err() {
            // By users and roles that may be those of a moment ago.
            self.linearizable().await?;
            by = self.auth_info(who).await?.unwrap_or_default();
            self.check_change(&request, &by)?;
        }
        let nested = match &mut request {
            Request::Txn(txn) => nest_ranges(txn),
            _ => None,
        };
        let mut answer = self.propose_unchecked(request, &by).await?;
        if let (Some(nested), Outcome::Txn(response)) = (nested, &mut answer.outcome) {
            nested.restore(response);
        }
        Ok(answer)
    }

    /// The check that decides when the change is applied, by the users and roles in force here.
    fn check_change(&self, request: &Request, by: &AuthInfo) -> Result<(), Error> {
        if !self.is_auth_enabled() {
            return Ok(());
        }
        let view = self.view();
        auth::authorize(&self.0.auth.image(), by, request, &|lease, from| {
            state::first_lease_key(&view, lease, from)
        })
    }

    /// Refuses a change without a user before it enters the log, where auth is enabled: otherwise
    /// anybody who can connect could keep the disks of all members busy. A change of a user who may
    /// not make it is refused when it is applied.
    async fn refuse_anonymous(&self, request: &Request, by: &AuthInfo) -> Result<(), Error> {
        let is_refused = || self.check_change(request, by) == Err(Error::UserEmpty);
        if by.revision != 0 || !is_refused() {
            return Ok(());
        }
        // This member may not have applied yet that auth is disabled.
        self.linearizable().await?;
        if is_refused() {
            Err(Error::UserEmpty)
        } else {
            Ok(())
        }
    }

    async fn propose_unchecked(&self, request: Request, by: &AuthInfo) -> Result<Answer, Error> {
        let metrics = &self.0.metrics;
        let (operation, began) = (Operation::of(&request), self.0.clock.now());
        let pending = metrics.proposals_pending.hold();
        let result = self.send_and_wait(request, by).await;
        drop(pending);
        let result = result.map_err(|error| self.explain(error, began));
        let timed_out = result.as_ref().is_err_and(Error::is_timeout);
        // A change that was applied and refused is not a failed proposal.
        let failed = timed_out
            || matches!(
                result,
                Err(Error::NoLeader | Error::Stopped | Error::RequestTooLarge)
            );
        if timed_out {
            metrics.proposals_failed.inc();
        }
        if let Some(operation) = operation {
            let duration = self.0.clock.now() - began;
            metrics
                .request_duration
                .of(operation, !failed)
                .observe(duration);
        }
        result
    }

    async fn send_and_wait(&self, request: Request, by: &AuthInfo) -> Result<Answer, Error> {
        let data = request.encode_by(self.0.request_ids.next(), by);
        if data.len() > self.0.limits.max_request_bytes {
            return Err(Error::RequestTooLarge);
        }
        self.refuse_anonymous(&request, by).await?;
        let physical = matches!(&request, Request::Compaction(c) if c.physical);
        let goes_first = self.0.limits.revokes_first && matches!(request, Request::LeaseRevoke(_));
        let permit = if goes_first {
            self.0.admission.admit_first(data.len())?
        } else {
            self.0.admission.admit(data.len())?
        };
        self.announce(&request);
        let (slot, reply) = ReplySlot::new(permit);
        let proposal = Proposal {
            request,
            data,
            reply: Some(slot),
            term: None,
        };
        post(&self.0.consensus, ConsensusEvent::Propose(proposal))?;
        if physical {
            // Answered when the rows are deleted, as in etcd. The client sets its own deadline.
            return match tokio::time::timeout(PHYSICAL_COMPACTION_TIMEOUT, reply).await {
                Ok(reply) => reply.unwrap_or(Err(Error::Stopped)),
                Err(_) => Err(Error::Timeout),
            };
        }
        self.wait(reply).await
    }

    /// Has the disk look for what the change needs while the log is written, so that the thread that
    /// applies entries, one after the other, finds it in memory. Other members do that when they hear
    /// that it is committed.
    fn announce(&self, request: &Request) {
        let view = self.view();
        if view.misses_pages() {
            request.each_key(&mut |key| view.announce_change(key));
            request.each_value(true, &mut |key| view.announce_value(key));
        }
    }

    /// Checks the quota with etcd's estimate of what a change takes. The first change that does not
    /// fit raises the alarm; from then on the alarm refuses all of them when they are applied. The
    /// refusal is answered only after the alarm is committed, so the client finds it in place. The
    /// quota limits the bytes in use: space that compactions freed inside the file is available
    /// without defragmentation.
    async fn check_space(&self, request: &Request) -> Result<(), Error> {
        let needed = state::space_needed(request);
        let quota = self.0.limits.quota_bytes;
        let in_flight = self.0.admission.held_bytes() as u64;
        if self.0.shared.admits(needed, in_flight, quota) {
            return Ok(());
        }
        let (slot, reply) = ReplySlot::new(self.0.admission.admit(0)?);
        post(&self.0.apply, ApplyEvent::Refused { needed, slot })?;
        match self.wait(reply).await {
            // The alarm could not be raised in time. The change is refused all the same.
            Err(Error::Timeout) | Ok(_) => Err(Error::NoSpace),
            Err(error) => Err(error),
        }
    }

    /// Guesses, like etcd, why a change that began at `began` timed out: this member became the
    /// leader shortly after, or the leader could not be reached all that time.
    pub(super) fn explain(&self, error: Error, began: Duration) -> Error {
        if error != Error::Timeout {
            return error;
        }
        let shared = &self.0.shared;
        let elected = shared.leadership.led_since();
        let lost = elected.saturating_sub(2 * self.0.limits.election_timeout);
        if (lost..elected).contains(&began) {
            return Error::TimeoutByLeader;
        }
        let waited = self.0.clock.now().saturating_sub(began);
        let reached = |id| {
            let connected = self.0.peers.connected_for(id);
            connected.is_some_and(|connected| connected >= waited)
        };
        let leader = shared.leadership.leader();
        let is_connected = match leader {
            0 => true,
            leader if leader == self.0.identity.member_id => {
                let members = self.members().unwrap_or_default();
                let own = self.0.identity.member_id;
                let with = members.iter().filter(|m| m.id == own || reached(m.id));
                with.count() > members.len() / 2
            }
            leader => reached(leader),
        };
        if is_connected {
            Error::Timeout
        } else {
            Error::TimeoutByConnection
        }
    }
}
