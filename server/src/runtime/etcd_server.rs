//! The server as its request handlers see it. Changes go into the log; reads come from a view of
//! the published root. Cheap to clone: every gRPC and HTTP handler has one.

mod access;
mod downgrade;
mod hashes;
mod leases;
mod login;
pub(crate) mod members;
mod proposals;

use std::sync::Arc;
use std::time::Duration;

use etcd_api::etcdserverpb as pb;
use storage::mvcc::{Reader, View};
use tokio::sync::Semaphore;

use crate::auth::{self, Tokens};
use crate::basics::clock::Clock;
use crate::basics::error::Error;
use crate::member::cluster::peer::Peers;
use crate::member::driver::{Published, RequestIds};
use crate::member::event::admission::{self, Admission};
use crate::member::event::inbox::Sender;
use crate::member::event::{Answer, ApplyEvent, ConsensusEvent, ReplySlot};
use crate::state::hashes::Hashes;
use crate::state::held_back::HeldBack;
use crate::state::watch::HubHandle;
use crate::state::{self, MemberInfo};
use crate::telemetry::metrics::Metrics;
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

    /// Like [`Self::wait`], but logs a line if the read index takes long.
    async fn wait_for_read(
        &self,
        mut reply: tokio::sync::oneshot::Receiver<crate::member::event::Reply>,
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

    /// What the views of slow readers cost.
    pub(crate) fn held_back(&self) -> HeldBack {
        self.0.shared.space.held_back()
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

    async fn wait(
        &self,
        reply: tokio::sync::oneshot::Receiver<crate::member::event::Reply>,
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
