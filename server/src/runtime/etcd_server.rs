//! The server as its request handlers see it: changes go into the log, reads come from a view of
//! the published root. Cheap to clone; every gRPC and HTTP handler holds one.

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

/// What clients may have under way; see [`Admission`]. Far more requests than there are clients
/// that make sense on one machine, and the bytes of 340 of the largest.
const IN_FLIGHT: admission::Limits = admission::Limits {
    requests: 32_768,
    bytes: 512 << 20,
};

/// etcd's: 5 s for disk and queues plus two election timeouts.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// A million revisions take some seconds beside a full load of puts.
const PHYSICAL_COMPACTION_TIMEOUT: Duration = Duration::from_secs(600);

/// etcd's: streams are dear to open again.
const LOOKS_WITHOUT_LEADER: u32 = 3;

/// A question for the read index that took longer counts as slow: etcd's.
const SLOW_READ: Duration = Duration::from_millis(500);

/// Between two questions to the leader: etcd's.
const LEADER_RETRY: Duration = Duration::from_millis(50);

/// How often a transfer of leadership looks whether it is done.
const TRANSFER_POLL: Duration = Duration::from_millis(2);

#[derive(Clone)]
pub(crate) struct EtcdServer(Arc<Inner>);

/// Who this member is; fixed for the life of a data directory, but for the URLs.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub cluster_id: u64,
    pub member_id: u64,
    pub name: String,
    pub client_urls: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub max_request_bytes: usize,
    pub max_txn_ops: usize,
    /// 0: no quota.
    pub quota_bytes: u64,
    pub election_timeout: Duration,
    /// Refuse changes of the members that could cost the quorum.
    pub strict_reconfig_check: bool,
    /// Revokes of leases are let in when other changes are turned away (`PriorityRequest`).
    pub revokes_first: bool,
    /// Reads that take longer are logged.
    pub slow_apply: Duration,
    /// Calls that take longer are logged.
    pub slow_call: Duration,
}

#[derive(Clone, Debug)]
pub(crate) struct ServerStatus {
    /// 0: none known.
    pub leader: u64,
    pub term: u64,
    pub raft_index: u64,
    pub applied_index: u64,
    pub db_size: i64,
    pub db_size_in_use: i64,
    pub quota: i64,
    /// In etcd's words: no leader, alarms.
    pub errors: Vec<String>,
}

pub(crate) struct Inner {
    pub reader: Reader,
    pub consensus: Sender<ConsensusEvent>,
    pub apply: Sender<ApplyEvent>,
    pub hub: HubHandle,
    pub shared: Arc<Published>,
    pub hashes: Arc<Hashes>,
    /// Of whoever computes a digest for a client or a peer.
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
    /// Told when no leader has been known for long.
    pub leader_lost: tokio::sync::watch::Sender<()>,
}

impl EtcdServer {
    pub(crate) fn new(inner: Inner) -> EtcdServer {
        EtcdServer(Arc::new(inner))
    }

    pub(crate) fn new_admission() -> Admission {
        Admission::new(IN_FLIGHT)
    }

    /// Digests for clients and peers are computed one at a time.
    pub(crate) fn new_hash_turn() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(1))
    }

    /// Sends a change of the server's own through the log; returns when it is applied and visible to
    /// readers. Where users are asked who they are, it is nobody's.
    pub(crate) async fn propose(&self, request: Request) -> Result<Answer, Error> {
        self.check_space(&request).await?;
        self.propose_unchecked(request, &AuthInfo::default()).await
    }

    /// Sends the change that a call asks for; whether its user may is decided where it is applied.
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
        // What was applied and refused did not fail as a proposal.
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
            // Answered when the rows are gone, as by etcd; the client has a deadline of its own.
            return match tokio::time::timeout(PHYSICAL_COMPACTION_TIMEOUT, reply).await {
                Ok(reply) => reply.unwrap_or(Err(Error::Stopped)),
                Err(_) => Err(Error::Timeout),
            };
        }
        self.wait(reply).await
    }

    /// After this, `view` shows every change that was acknowledged before the call.
    ///
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

    /// Hands leadership to the voter `to`; returns when someone else leads.
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

    /// Leases live at the leader: a follower asks there, and waits for one while there is none, as
    /// clients take an error for the end of their lease. `None`: this member leads by now.
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

    /// `None`: it has no answer, for it leads no more or is about to stop.
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

    /// As [`Self::wait`], and says so when it takes long.
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

    /// Time on the clock of this server.
    pub(crate) fn now(&self) -> Duration {
        self.0.clock.now()
    }

    pub(crate) fn view(&self) -> View {
        self.0.reader.view()
    }

    /// For those who read again and again.
    pub(crate) fn reader(&self) -> Reader {
        self.0.reader.clone()
    }

    /// A number no one else gets, as etcd lays it out.
    pub(crate) fn unique_id(&self) -> u64 {
        self.0.request_ids.next()
    }

    /// New writes are sealed otherwise than before: everything else is to follow.
    pub(crate) fn keys_changed(&self) -> Result<(), Error> {
        post(&self.0.apply, ApplyEvent::KeysChanged)
    }

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
            // One that was stopped or cut off may not know that another member leads, which counts
            // the lease's time without this renewal.
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

    pub(crate) fn header(&self, revision: i64) -> pb::ResponseHeader {
        pb::ResponseHeader {
            cluster_id: self.0.identity.cluster_id,
            member_id: self.0.identity.member_id,
            revision,
            raft_term: self.0.shared.leadership.term(),
        }
    }

    /// A header at the store's current revision.
    pub(crate) fn header_now(&self) -> pb::ResponseHeader {
        self.header(self.view().revision())
    }

    /// Completes a header that so far has only its revision.
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

    /// Watches over the leader for as long as the server runs: streams that want one are told when
    /// there has been none at three looks in a row.
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

    /// Changes when the leader has been lost for long.
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

    /// The HashKV digest of history up to `revision` (0: the current one).
    pub(crate) async fn hash_kv(&self, revision: i64) -> Result<KvHash, Error> {
        let began = self.0.clock.now();
        // One at a time: each reads the whole store.
        let turn = Arc::clone(&self.0.hash_turn).acquire_owned().await;
        let turn = turn.map_err(|_| Error::Stopped)?;
        let (hashes, view) = (Arc::clone(&self.0.hashes), self.view());
        let (here, mut asked) = oneshot::channel::<Infallible>();
        let hash = run_blocking(move || {
            // The next one's turn comes when this work ends, not when its client leaves.
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

    /// The digests of the last compactions that are known, the newest first.
    pub(crate) fn compaction_hashes(&self) -> Vec<KvHash> {
        self.0.hashes.finished()
    }

    pub(crate) fn stop_hashing(&self) {
        self.0.hashes.stop();
    }

    /// The digests that the other members have of history up to `revision`.
    pub(crate) async fn peer_hashes(
        &self,
        revision: i64,
        patience: Duration,
    ) -> Result<Vec<PeerHash>, Error> {
        let members = self.members()?;
        Ok(self.0.peers.hashes(&members, revision, patience).await)
    }

    /// Ends once the space that nothing needs is back with the file system. Stops nobody.
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

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// By etcd's reckoning of what a change takes. The first one that would not fit raises the
    /// alarm, which from then on refuses them all where they are applied. A client that reads the
    /// refusal finds the alarm in place: the answer waits until it is committed. The quota is for
    /// what is in use: what compactions have freed in the file is room, and needs no
    /// defragmentation.
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
            // Nobody can be told of an alarm: the change is refused all the same.
            Err(Error::Timeout) | Ok(_) => Err(Error::NoSpace),
            Err(error) => Err(error),
        }
    }

    /// Why a change that was asked for at `began` may have had no answer, as etcd guesses it: this
    /// member has taken the lead over meanwhile, or the leader could not be reached all the time.
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

/// Sends to an actor, which wakes when the calls that are ready with this one have sent, too.
fn post<T: Send + 'static>(actor: &Sender<T>, event: T) -> Result<(), Error> {
    if let Some(wake_up) = actor.post(event).map_err(|_| Error::Stopped)? {
        tokio::spawn(async move {
            tokio::task::yield_now().await;
            drop(wake_up);
        });
    }
    Ok(())
}

/// Runs what may take long, or may wait for the disk, off the runtime's threads.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(_) => Err(Error::Stopped),
    }
}
