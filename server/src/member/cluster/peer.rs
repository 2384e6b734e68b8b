//! Connections to the other members: etcd's peer protocol, HTTP/1.1 on the peer URLs.
//!
//! The receiver dials: each member of a pair opens two streams to the other and reads its messages
//! from them. Sending never waits: a message that does not fit in the queue is dropped, and Raft is
//! told that the peer is unreachable. All connections run on a dedicated thread, so that heartbeats
//! are never delayed by other work. Only `guard` interprets messages.

mod codec;
mod dial;
mod dialer;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod guard;
pub(crate) mod hash;
pub(crate) mod join;
pub(crate) mod lease;
mod link;
mod members;
mod outgoing;
mod pace;
pub(crate) mod page;
pub(crate) mod serve;
mod transfer;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::Builder;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::RwLock;
use raft::{Body, Message};
use storage::mvcc::View;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::AbortHandle;

use crate::basics::clock::Clock;
use crate::config::ETCD_VERSION;
use crate::member::cluster::corruption::PeerHash;
use crate::member::event::inbox::Sender;
use crate::member::event::{ApplyEvent, ConsensusEvent};
use crate::state::MemberInfo;
use crate::state::snapshot::{Received, Receiver};
use crate::telemetry::metrics::{Metrics, Traffic};
use codec::Kind;
use guard::{LogOnce, Refusal, Standing};
use link::Link;
use outgoing::{Outgoing, Turn};
use transfer::arrival::Arrivals;

pub(crate) use dial::REMOVED;
pub(crate) use dialer::Dialer;
pub(crate) use hash::hashes;
pub(crate) use lease::{keep_alive, lease_answer, time_to_live};

/// A header in all answers of Stele members; etcd members do not send it.
const MAKE_HEADER: &str = "X-Stele-Version";
/// Messages queued for one stream, as in etcd.
const STREAM_MESSAGES_MAX: usize = 4096;
/// Messages queued for the pipeline (one POST each) while there is no stream, as in etcd.
const PIPELINE_MESSAGES_MAX: usize = 64;
/// Messages of one peer, received by POST, that are read at the same time: etcd sends as many.
const POSTS_OF_PEER_MAX: usize = 4;
/// The same of all senders together that are no known peers. One more is refused, and does not wait.
const POSTS_OF_STRANGERS_MAX: usize = 4;

/// How members identify themselves in every request to each other.
#[derive(Clone, Debug)]
pub(crate) struct Introduction {
    pub member_id: u64,
    pub cluster_id: u64,
    pub peer_urls: Vec<String>,
}

impl Introduction {
    /// A request that says who sends it.
    fn request(&self, method: &str, path: &str) -> http::request::Builder {
        http::Request::builder()
            .method(method)
            .uri(path)
            .header("X-Server-From", format!("{:x}", self.member_id))
            .header("X-Server-Version", ETCD_VERSION)
            .header("X-Min-Cluster-Version", "3.0.0")
            .header("X-Etcd-Cluster-ID", format!("{:x}", self.cluster_id))
            .header("X-PeerURLs", self.peer_urls.join(","))
    }
}

/// Cheap to clone.
#[derive(Clone)]
pub(crate) struct Peers(Arc<Inner>);

struct Inner {
    me: Introduction,
    consensus: Sender<ConsensusEvent>,
    apply: Sender<ApplyEvent>,
    /// The value last sent to the applier: all other members are known to be Stele members.
    all_are_ours: AtomicBool,
    runtime: Handle,
    clock: Clock,
    metrics: Arc<Metrics>,
    dialer: Dialer,
    peers: RwLock<HashMap<u64, Peer>>,
    /// Destination of snapshots from other members.
    receiver: Receiver,
    /// What is on its way to it.
    arrivals: Arrivals,
    /// Ids of removed members; they are never reused.
    removed: RwLock<HashSet<u64>>,
    logged: LogOnce,
    /// Limits the POSTed messages whose bodies are being read, of senders that are no known peers.
    posts: Arc<Semaphore>,
    /// Turns true when this member was removed.
    gone: watch::Sender<bool>,
}

struct Peer {
    target: dial::Target,
    /// Indexed by kind; closed while the peer does not read the stream.
    streams: [mpsc::Sender<Outgoing>; 2],
    pipeline: mpsc::Sender<Message>,
    /// Limits its POSTed messages whose bodies are being read: others cannot take its places.
    posts: Arc<Semaphore>,
    link: Arc<Link>,
    /// Known from itself or from other members, but not a member according to our log.
    is_remote: bool,
    /// This member reads its streams.
    is_read: bool,
    /// It has identified itself as a Stele member.
    is_ours: AtomicBool,
    tasks: Vec<AbortHandle>,
}

/// Where messages of other members are delivered.
pub(crate) struct Inboxes {
    pub(crate) consensus: Sender<ConsensusEvent>,
    pub(crate) apply: Sender<ApplyEvent>,
}

impl Peers {
    /// Starts the thread that runs all connections between members.
    pub(crate) fn start(
        me: Introduction,
        to: Inboxes,
        clock: Clock,
        receiver: Receiver,
        metrics: Arc<Metrics>,
        dialer: Dialer,
    ) -> std::io::Result<Peers> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        // The thread ends with the process: at a stop, the last messages must still be sent.
        Builder::new()
            .name("peers".to_owned())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        Ok(Peers(Arc::new(Inner {
            me,
            consensus: to.consensus,
            apply: to.apply,
            all_are_ours: AtomicBool::new(false),
            runtime: handle,
            clock,
            metrics,
            dialer,
            peers: RwLock::default(),
            receiver,
            arrivals: Arrivals::default(),
            removed: RwLock::default(),
            logged: LogOnce::default(),
            posts: Arc::new(Semaphore::new(POSTS_OF_STRANGERS_MAX)),
            gone: watch::channel(false).0,
        })))
    }

    /// Runs a task on the thread of the connections.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.0.runtime.spawn(task);
    }

    /// Time since which this peer has been reachable without interruption.
    pub(crate) fn connected_for(&self, id: u64) -> Option<Duration> {
        self.0.peers.read().get(&id)?.link.age()
    }

    /// Sends and drains `messages`.
    pub(crate) fn send(&self, messages: &mut Vec<Message>) {
        if messages.is_empty() {
            return;
        }
        let peers = self.0.peers.read();
        let mut turn = Turn::default();
        for message in messages.drain(..) {
            let to = message.to;
            let Some(peer) = peers.get(&to) else {
                continue;
            };
            if peer.send(turn.outgoing(message)).is_err() {
                peer.link.traffic.sent_failures.inc();
                // The inbox closes when the member stops; then the event no longer matters.
                let _ = self
                    .0
                    .consensus
                    .send(ConsensusEvent::Unreachable { peer: to });
            }
        }
    }

    /// Sends a snapshot: the message and the state that it describes.
    pub(crate) fn send_snapshot(&self, message: Message, view: View) {
        let to = message.to;
        let peers = self.0.peers.read();
        let target = peers.get(&to).map(|peer| peer.target.clone());
        drop(peers);
        let consensus = self.0.consensus.clone();
        self.0.runtime.spawn(async move {
            let ok = match target {
                Some(target) => transfer::send(target, message, view).await,
                None => false,
            };
            let _ = consensus.send(ConsensusEvent::SnapshotSent { to, ok });
        });
    }

    fn receive_snapshot(&self, message: Message, received: Received) {
        let received = Box::new(received);
        let event = ConsensusEvent::SnapshotReceived { message, received };
        let _ = self.0.consensus.send(event);
    }

    /// Opens a stream for the peer `id`, which has begun to read; ends its former stream.
    fn attach(&self, id: u64, kind: Kind) -> Option<(mpsc::Receiver<Outgoing>, Arc<Traffic>)> {
        let (sender, receiver) = mpsc::channel(STREAM_MESSAGES_MAX);
        let mut peers = self.0.peers.write();
        let peer = peers.get_mut(&id).filter(|peer| peer.is_read)?;
        peer.streams[kind as usize] = sender;
        peer.note_up(id);
        Some((receiver, Arc::clone(&peer.link.traffic)))
    }

    /// Sends a request to the member with these URLs; tries them in turn until one answers.
    pub(crate) async fn post(
        &self,
        urls: &[String],
        path: &str,
        body: Bytes,
    ) -> std::io::Result<PeerAnswer> {
        self.0.dialer.post(&self.0.me, urls, path, body).await
    }

    /// Asks `members` for the hash of their history at `revision`.
    pub(crate) async fn hashes(
        &self,
        members: &[MemberInfo],
        revision: i64,
        patience: Duration,
    ) -> Vec<PeerHash> {
        hashes(&self.0.dialer, &self.0.me, members, revision, patience).await
    }

    pub(crate) fn dialer(&self) -> &Dialer {
        &self.0.dialer
    }

    pub(crate) fn me(&self) -> &Introduction {
        &self.0.me
    }

    /// Delivers a message that came over the connection of `speaker`, unless it is refused. Returns
    /// false if the member has stopped and nobody receives it.
    fn receive(&self, message: Message, speaker: Option<u64>) -> Result<bool, Refusal> {
        self.check(&message, speaker)?;
        Ok(self
            .0
            .consensus
            .send(ConsensusEvent::Receive(message))
            .is_ok())
    }

    fn check(&self, message: &Message, speaker: Option<u64>) -> Result<(), Refusal> {
        let me = self.0.me.member_id;
        let standing = |id| match () {
            () if self.is_removed(id) => Standing::Removed,
            () if self.reads(id) => Standing::Member,
            () => Standing::Unknown,
        };
        let Some(refusal) = guard::refusal(message, me, speaker, standing) else {
            return Ok(());
        };
        self.note_refusal(speaker.unwrap_or(message.from), &refusal.to_string());
        Err(refusal)
    }

    /// Logs each refusal once: a broken peer repeats itself.
    fn note_refusal(&self, from: u64, why: &str) {
        let id = format!("{from:x}");
        // Only for known peers: made-up ids must not create metrics rows.
        if let Some(peer) = self.0.peers.read().get(&from) {
            peer.link.traffic.received_failures.inc();
        }
        if self.0.logged.first(&id, why) {
            tracing::warn!(
                "remote-peer-id" = id,
                error = why,
                "refused a message from a peer"
            );
        }
    }
}

impl Peer {
    fn end(&self) {
        self.link.down();
        self.tasks.iter().for_each(AbortHandle::abort);
    }

    fn note_up(&self, id: u64) {
        if self.link.up() {
            tracing::info!("peer-id" = format!("{id:x}"), "peer became active");
        }
    }

    fn send(&self, mut outgoing: Outgoing) -> Result<(), ()> {
        let kinds: &[Kind] = match outgoing.message.body {
            Body::Append { .. } => &[Kind::MsgApp, Kind::Message],
            _ => &[Kind::Message],
        };
        for kind in kinds {
            match self.streams[*kind as usize].try_send(outgoing) {
                Ok(()) => return Ok(()),
                Err(mpsc::error::TrySendError::Full(_)) => return Err(()),
                Err(mpsc::error::TrySendError::Closed(back)) => outgoing = back,
            }
        }
        self.pipeline.try_send(outgoing.message).map_err(drop)
    }
}

fn closed() -> mpsc::Sender<Outgoing> {
    mpsc::channel(1).0
}

/// A member's answer to a request that is not a Raft message.
pub(crate) struct PeerAnswer {
    pub status: u16,
    /// From its header; empty if missing.
    pub cluster_id: String,
    pub body: Bytes,
}
