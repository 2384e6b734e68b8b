//! The server as its request handlers see it. Changes go into the log; reads come from a view of
//! the published root. Cheap to clone: every gRPC and HTTP handler has one.

mod access;
mod downgrade;
mod login;
pub(crate) mod members;

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use etcd_api::etcdserverpb as pb;
use storage::mvcc::{Reader, View};
use tokio::sync::Semaphore;
use tokio::sync::oneshot::{self, error::TryRecvError};

use crate::auth::{self, Credentials, Tokens};
use crate::clock::Clock;
use crate::cluster::corruption::PeerHash;
use crate::cluster::peer::{self, Peers};
use crate::driver::{Published, RequestIds};
use crate::error::Error;
use crate::event::admission::{self, Admission};
use crate::event::inbox::Sender;
use crate::event::{
    Answer, ApplyEvent, ConsensusEvent, LeaseAnswer, LeaseCall, Outcome, Proposal, ReplySlot,
};
use crate::request::{AuthInfo, Request};
use crate::state::hashes::{Hashes, KvHash};
use crate::state::watch::HubHandle;
use crate::state::{self, MemberInfo};
use crate::telemetry::metrics::{Metrics, Operation};
pub(crate) use login::Login;

/// What clients may have in flight; see [`Admission`]. Far more requests than one machine serves
/// well, and the bytes of 340 requests of the largest size.
const IN_FLIGHT: admission::Limits = admission::Limits {
    requests: 32_768,
    bytes: 512 << 20,
};

/// etcd's value: 5 s for disk and queues. Callers add two election timeouts.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// A million revisions take some seconds under a full load of puts.
const PHYSICAL_COMPACTION_TIMEOUT: Duration = Duration::from_secs(600);

/// Looks without a leader until streams end. etcd's value: streams are expensive to open again.
const LOOKS_WITHOUT_LEADER: u32 = 3;

/// A read index that took longer is counted and logged as slow. etcd's value.
const SLOW_READ: Duration = Duration::from_millis(500);

/// Pause before a follower asks the leader again. etcd's value.
const LEADER_RETRY: Duration = Duration::from_millis(50);

/// Time between two looks at whether a transfer of leadership is done.
const TRANSFER_POLL: Duration = Duration::from_millis(2);

#[derive(Clone)]
pub(crate) struct EtcdServer(Arc<Inner>);

/// This member's identity. Fixed for the life of a data directory, except the URLs.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub cluster_id: u64,
    pub member_id: u64,
    pub name: String,
    pub client_urls: Vec<String>,
}

/// Limits of requests, and the times above which they count as slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub max_request_bytes: usize,
    pub max_txn_ops: usize,
    /// Bytes; 0: no quota.
    pub quota_bytes: u64,
    pub election_timeout: Duration,
    /// Refuses changes of members that could cost the quorum.
    pub strict_reconfig_check: bool,
    /// Admits revokes of leases even when other changes are refused (`PriorityRequest`).
    pub revokes_first: bool,
    /// Slower reads are logged.
    pub slow_apply: Duration,
    /// Slower calls are logged.
    pub slow_call: Duration,
}

/// The answer to the Status call.
#[derive(Clone, Debug)]
pub(crate) struct ServerStatus {
    /// 0: no leader is known.
    pub leader: u64,
    pub term: u64,
    pub raft_index: u64,
    pub applied_index: u64,
    pub db_size: i64,
    pub db_size_in_use: i64,
    pub quota: i64,
    /// In etcd's words: no leader, active alarms.
    pub errors: Vec<String>,
}

pub(crate) struct Inner {
    pub reader: Reader,
    pub consensus: Sender<ConsensusEvent>,
    pub apply: Sender<ApplyEvent>,
    pub hub: HubHandle,
    pub shared: Arc<Published>,
    pub hashes: Arc<Hashes>,
    /// Held while a digest for a client or a peer is computed.
    pub hash_turn: Arc<Semaphore>,
    pub identity: Identity,
    pub limits: Limits,
    pub admission: Admission,
    pub request_ids: Arc<RequestIds>,
    pub clock: Clock,
    pub metrics: Arc<Metrics>,
    pub auth: Arc<auth::CurrentAuth>,
    pub tokens: Tokens,
    pub login: Login,
    pub peers: Peers,
    /// Changes when no leader has been known for long.
    pub leader_lost: tokio::sync::watch::Sender<()>,
}

impl EtcdServer {
    pub(crate) fn new(inner: Inner) -> EtcdServer {
        EtcdServer(Arc::new(inner))
    }

    pub(crate) fn new_admission() -> Admission {
        Admission::new(IN_FLIGHT)
    }

    /// One permit: digests for clients and peers are computed one at a time.
    pub(crate) fn new_hash_turn() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(1))
    }

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
        let by = self.auth_info(who).await?.unwrap_or_default();
        self.propose_unchecked(request, &by).await
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
        let physical = matches!(&request, Request::Compaction(c) if c.physical);
        let goes_first = self.0.limits.revokes_first && matches!(request, Request::LeaseRevoke(_));
        let permit = if goes_first {
            self.0.admission.admit_first(data.len())?
        } else {
            self.0.admission.admit(data.len())?
        };
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

    /// After this call, `view` shows every change that was acknowledged before the call.
    pub(crate) async fn linearizable(&self) -> Result<(), Error> {
        if self.0.shared.decides_alone() {
            return Ok(());
        }
        let (slot, reply) = ReplySlot::new(self.0.admission.admit(0)?);
        let began = self.0.clock.now();
        post(&self.0.consensus, ConsensusEvent::Read(slot))?;
        let read = self.wait_for_read(reply).await;
        if self.0.clock.now().saturating_sub(began) >= SLOW_READ {
            self.0.metrics.slow_read_indexes.inc();
        }
        if read.is_err() {
            self.0.metrics.read_indexes_failed.inc();
        }
        read
    }

    /// Hands leadership to the voter `to`. Returns when `to` leads.
    pub(crate) async fn transfer(&self, to: u64) -> Result<(), Error> {
        self.0
            .consensus
            .send(ConsensusEvent::Transfer { to })
            .map_err(|_| Error::Stopped)?;
        let patience = REQUEST_TIMEOUT + 2 * self.0.limits.election_timeout;
        let moved = async {
            while self.0.shared.leadership.leader() != to {
                tokio::time::sleep(TRANSFER_POLL).await;
            }
        };
        tokio::time::timeout(patience, moved).await.map_err(|_| {
            let text = "etcdserver: request timed out, leader transfer took too long";
            Error::Other(tonic::Code::Unknown, text.to_owned())
        })
    }

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

    /// Like [`Self::wait`], but logs a line if the read index takes long.
    async fn wait_for_read(
        &self,
        mut reply: tokio::sync::oneshot::Receiver<crate::event::Reply>,
    ) -> Result<(), Error> {
        if let Ok(answer) = tokio::time::timeout(SLOW_READ, &mut reply).await {
            return answer.unwrap_or(Err(Error::Stopped)).map(drop);
        }
        tracing::warn!(
            "retry-timeout" = crate::config::duration(SLOW_READ),
            "waiting for ReadIndex response took too long, retrying"
        );
        self.wait(reply).await.map(drop)
    }

    /// Time on this server.
    pub(crate) fn now(&self) -> Duration {
        self.0.clock.now()
    }

    pub(crate) fn view(&self) -> View {
        self.0.reader.view()
    }

    /// For callers that take many views.
    pub(crate) fn reader(&self) -> Reader {
        self.0.reader.clone()
    }

    /// An id that no other request has, in etcd's layout.
    pub(crate) fn unique_id(&self) -> u64 {
        self.0.request_ids.next()
    }

    /// Reports a new encryption setting, so that existing data is sealed again with it.
    pub(crate) fn keys_changed(&self) -> Result<(), Error> {
        post(&self.0.apply, ApplyEvent::KeysChanged)
    }

    /// Answers a question about leases, with the store's revision. A follower asks the leader about
    /// renewals and remaining times.
    pub(crate) async fn lease(&self, call: LeaseCall) -> Result<(LeaseAnswer, i64), Error> {
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
        let (slot, reply) = ReplySlot::new(self.0.admission.admit(0)?);
        post(&self.0.apply, ApplyEvent::Lease(call, slot))?;
        let applied = self.wait(reply).await?;
        match applied.outcome {
            Outcome::Lease(answer) => Ok((answer, applied.revision)),
            other => unreachable!("a lease question was answered with {other:?}"),
        }
    }

    /// A header with this revision, the ids of member and cluster, and the term.
    pub(crate) fn header(&self, revision: i64) -> pb::ResponseHeader {
        pb::ResponseHeader {
            cluster_id: self.0.identity.cluster_id,
            member_id: self.0.identity.member_id,
            revision,
            raft_term: self.0.shared.leadership.term(),
        }
    }

    /// A header with the store's current revision.
    pub(crate) fn header_now(&self) -> pb::ResponseHeader {
        self.header(self.view().revision())
    }

    /// Completes a header that has only its revision.
    pub(crate) fn complete(&self, header: &mut Option<pb::ResponseHeader>) {
        let revision = header.as_ref().map_or(0, |header| header.revision);
        *header = Some(self.header(revision));
    }

    pub(crate) fn hub(&self) -> &HubHandle {
        &self.0.hub
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.0.identity
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub(crate) fn is_leader(&self) -> bool {
        self.0.shared.leads()
    }

    pub(crate) fn has_leader(&self) -> bool {
        self.0.shared.leadership.has_leader()
    }

    /// Watches the leader for as long as the server runs. After three looks in a row without a
    /// leader it notifies the streams that require one.
    pub(crate) async fn keep_watch_over_leader(self) {
        let mut missed = 0;
        loop {
            tokio::time::sleep(self.0.limits.election_timeout).await;
            missed = if self.has_leader() { 0 } else { missed + 1 };
            if missed >= LOOKS_WITHOUT_LEADER {
                self.0.leader_lost.send_replace(());
            }
        }
    }

    /// Changes when no leader has been known for long.
    pub(crate) fn leader_lost(&self) -> tokio::sync::watch::Receiver<()> {
        self.0.leader_lost.subscribe()
    }

    pub(crate) fn admission(&self) -> &Admission {
        &self.0.admission
    }

    pub(crate) fn peers(&self) -> &Peers {
        &self.0.peers
    }

    pub(crate) fn shared(&self) -> &Published {
        &self.0.shared
    }

    pub(crate) fn members(&self) -> Result<Vec<MemberInfo>, Error> {
        state::members(&self.view())
    }

    pub(crate) fn alarms(&self) -> Result<Vec<pb::AlarmMember>, Error> {
        state::alarms(&self.view())
    }

    pub(crate) fn cluster_version(&self) -> Result<Option<String>, Error> {
        state::cluster_version(&self.view())
    }

    pub(crate) fn status(&self) -> Result<ServerStatus, Error> {
        let shared = &self.0.shared;
        let leader = shared.leadership.leader();
        let mut errors = Vec::new();
        if leader == 0 {
            errors.push(Error::NoLeader.to_string());
        }
        for alarm in self.alarms()? {
            let kind = pb::AlarmType::try_from(alarm.alarm).map_or("UNKNOWN", |k| k.as_str_name());
            errors.push(format!("memberID:{} alarm:{kind}", alarm.member_id));
        }
        Ok(ServerStatus {
            leader,
            term: shared.leadership.term(),
            raft_index: shared.leadership.committed(),
            applied_index: shared.progress.applied(),
            db_size: shared.space.in_use_bytes() as i64,
            db_size_in_use: shared.space.in_use_bytes() as i64,
            quota: self.0.limits.quota_bytes as i64,
            errors,
        })
    }

    /// The HashKV digest of history up to `revision` (0: the current revision).
    pub(crate) async fn hash_kv(&self, revision: i64) -> Result<KvHash, Error> {
        let began = self.0.clock.now();
        // One at a time, because each digest reads the whole store.
        let turn = Arc::clone(&self.0.hash_turn).acquire_owned().await;
        let turn = turn.map_err(|_| Error::Stopped)?;
        let (hashes, view) = (Arc::clone(&self.0.hashes), self.view());
        let (here, mut asked) = oneshot::channel::<Infallible>();
        let hash = run_blocking(move || {
            // Held until the work ends, even if the client leaves earlier.
            let _turn = turn;
            hashes.at_while(&view, revision, &mut || match asked.try_recv() {
                Err(TryRecvError::Closed) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            })
        });
        let hash = hash.await;
        drop(here);
        self.0
            .metrics
            .hash_revision
            .observe(self.0.clock.now() - began);
        hash
    }

    /// The known digests of the last compactions, newest first.
    pub(crate) fn compaction_hashes(&self) -> Vec<KvHash> {
        self.0.hashes.finished()
    }

    pub(crate) fn stop_hashing(&self) {
        self.0.hashes.stop();
    }

    /// The other members' digests of history up to `revision`.
    pub(crate) async fn peer_hashes(
        &self,
        revision: i64,
        patience: Duration,
    ) -> Result<Vec<PeerHash>, Error> {
        let members = self.members()?;
        Ok(self.0.peers.hashes(&members, revision, patience).await)
    }

    /// Returns unused space to the file system; ends when that is done. Blocks no other call.
    pub(crate) async fn defragment(&self) -> Result<(), Error> {
        tracing::info!("starting defragment");
        let began = self.0.clock.now();
        let (slot, reply) = ReplySlot::new(self.0.admission.admit(0)?);
        post(&self.0.apply, ApplyEvent::Defragment(slot))?;
        reply.await.map_err(|_| Error::Stopped)??;
        let took = self.0.clock.now() - began;
        self.0.metrics.defrag.observe(took);
        tracing::info!(took = crate::config::duration(took), "finished defragment");
        Ok(())
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
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
    fn explain(&self, error: Error, began: Duration) -> Error {
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

    async fn wait(
        &self,
        reply: tokio::sync::oneshot::Receiver<crate::event::Reply>,
    ) -> Result<Answer, Error> {
        let patience = REQUEST_TIMEOUT + 2 * self.0.limits.election_timeout;
        match tokio::time::timeout(patience, reply).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(_)) => Err(Error::Stopped),
            Err(_) => Err(Error::Timeout),
        }
    }
}

/// Sends to an actor. The actor wakes up after the other ready tasks have sent as well.
fn post<T: Send + 'static>(actor: &Sender<T>, event: T) -> Result<(), Error> {
    if let Some(wake_up) = actor.post(event).map_err(|_| Error::Stopped)? {
        tokio::spawn(async move {
            tokio::task::yield_now().await;
            drop(wake_up);
        });
    }
    Ok(())
}

/// Runs work that may take long or wait for the disk outside the runtime's threads.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(_) => Err(Error::Stopped),
    }
}
