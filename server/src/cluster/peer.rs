//! The way to the other members: etcd's peer protocol, HTTP/1.1 on the peer URLs.
//!
//! The receiver dials: of each pair, either side holds two streams open to the other and reads
//! what that one has to say. Sending never waits: what finds no room is dropped, and raft is told
//! that the peer cannot be reached. All of it lives on a thread of its own, so that heartbeats
//! wait for nobody. Only `guard` knows what messages mean.

mod codec;
mod dial;
mod dialer;
mod guard;
mod hash;
pub(crate) mod join;
mod lease;
mod link;
mod pace;
mod serve;
mod transfer;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::Builder;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::RwLock;
use raft::{Body, Message};
use storage::mvcc::{Reader, View};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::AbortHandle;

use crate::api::serve::Door;
use crate::clock::Clock;
use crate::cluster::corruption::PeerHash;
use crate::config::Url;
use crate::event::inbox::Sender;
use crate::event::{ApplyEvent, MemberEvent};
use crate::runtime::node::Node;
use crate::state::MemberInfo;
use crate::state::snapshot::{Received, Receiver};
use crate::telemetry::metrics::{Metrics, Traffic};
use codec::Kind;
use guard::{Refusal, Standing, Told};
use link::Link;

pub(crate) use dial::REMOVED;
pub(crate) use dialer::Dialer;
pub(crate) use hash::hashes;
pub(crate) use lease::{keep_alive, lease_answer, time_to_live};

/// What members of ours say in all that they answer, and others do not.
const MAKE_HEADER: &str = "X-Stele-Version";
/// Messages that wait for one stream: etcd's.
const STREAM_MESSAGES_MAX: usize = 4096;
/// Messages that wait for a POST of their own while there is no stream: etcd's.
const PIPELINE_MESSAGES_MAX: usize = 64;
/// Messages that come by requests of their own and are read at one time.
const POSTS_MAX: usize = 16;
/// Peers that our log knows nothing of, at one time.
const REMOTES_MAX: usize = 64;

/// What members say of themselves in every request to each other.
#[derive(Clone, Debug)]
pub struct Introduction {
    pub member_id: u64,
    pub cluster_id: u64,
    pub peer_urls: Vec<String>,
}

/// Cheap to clone.
#[derive(Clone)]
pub struct Peers(Arc<Inner>);

struct Inner {
    me: Introduction,
    member: Sender<MemberEvent>,
    apply: Sender<ApplyEvent>,
    /// As last told: every other member is known to be one of ours.
    all_are_ours: AtomicBool,
    runtime: Handle,
    clock: Clock,
    metrics: Arc<Metrics>,
    dialer: Dialer,
    peers: RwLock<HashMap<u64, Peer>>,
    /// What states for other members are read from.
    reader: Reader,
    /// Where states of other members go.
    receiver: Receiver,
    /// Members once, and never again.
    removed: RwLock<HashSet<u64>>,
    told: Told,
    /// Requests with messages whose bodies are being read.
    posts: Semaphore,
    /// Turns true when this member was removed.
    gone: watch::Sender<bool>,
}

struct Peer {
    target: dial::Target,
    /// By kind; closed while the peer does not read.
    streams: [mpsc::Sender<Message>; 2],
    pipeline: mpsc::Sender<Message>,
    link: Arc<Link>,
    /// Known from itself or from others; as far as our log goes it is no member.
    is_remote: bool,
    /// We read its streams.
    is_read: bool,
    /// It said that it is one of ours.
    is_ours: AtomicBool,
    tasks: Vec<AbortHandle>,
}

/// Where what other members say goes.
pub(crate) struct Inboxes {
    pub(crate) member: Sender<MemberEvent>,
    pub(crate) apply: Sender<ApplyEvent>,
}

impl Peers {
    /// Starts the thread that all connections between members live on.
    pub(crate) fn start(
        me: Introduction,
        to: Inboxes,
        clock: Clock,
        reader: Reader,
        receiver: Receiver,
        metrics: Arc<Metrics>,
        dialer: Dialer,
    ) -> std::io::Result<Peers> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        // It ends with the process: the last messages of a stop still have to leave.
        Builder::new()
            .name("peers".to_owned())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
        Ok(Peers(Arc::new(Inner {
            me,
            member: to.member,
            apply: to.apply,
            all_are_ours: AtomicBool::new(false),
            runtime: handle,
            clock,
            metrics,
            dialer,
            peers: RwLock::default(),
            reader,
            receiver,
            removed: RwLock::default(),
            told: Told::default(),
            posts: Semaphore::new(POSTS_MAX),
            gone: watch::channel(false).0,
        })))
    }

    /// Serves the other members on `doors`, for as long as the process lives.
    pub(crate) fn serve(&self, doors: Vec<Door>, node: &Node) {
        for door in doors {
            let (peers, node) = (self.clone(), node.clone());
            self.0.runtime.spawn(serve::accept(door, peers, node));
        }
    }

    /// Who the others are now, and who was removed.
    pub fn set_members(&self, members: &[MemberInfo], removed: &[u64]) {
        *self.0.removed.write() = removed.iter().copied().collect();
        if removed.contains(&self.0.me.member_id) {
            self.leave();
        }
        let mut peers = self.0.peers.write();
        peers.retain(|id, peer| {
            let stays = members.iter().any(|member| member.id == *id)
                || (peer.is_remote && !removed.contains(id));
            if !stays {
                peer.end();
            }
            stays
        });
        for member in members.iter().filter(|m| m.id != self.0.me.member_id) {
            match peers.get_mut(&member.id) {
                Some(peer) if peer.target.urls == member.peer_urls && peer.is_read => {
                    peer.is_remote = false;
                }
                known => {
                    if let Some(peer) = known {
                        peer.end();
                    }
                    peers.insert(member.id, self.connect(member, false, true));
                }
            }
        }
        self.tell_make(&peers);
    }

    /// What the peer `id` is: one of ours says so in all that it answers.
    fn note_make(&self, id: u64, is_ours: bool) {
        let peers = self.0.peers.read();
        if let Some(peer) = peers.get(&id) {
            peer.is_ours.store(is_ours, Ordering::Relaxed);
        }
        self.tell_make(&peers);
    }

    /// Members of etcd never take back what is written down of a lease. One that has not been heard
    /// of yet may be such a member.
    fn tell_make(&self, peers: &HashMap<u64, Peer>) {
        let mut members = peers.values().filter(|peer| !peer.is_remote);
        let allowed = members.all(|peer| peer.is_ours.load(Ordering::Relaxed));
        if self.0.all_are_ours.swap(allowed, Ordering::Relaxed) != allowed {
            // Nobody to tell once the member has stopped.
            let _ = self.0.apply.send(ApplyEvent::LeaseCheckpoints { allowed });
        }
    }

    /// Members as others know them, before our own log tells of them.
    pub fn add_remotes(&self, members: &[MemberInfo]) {
        let mut peers = self.0.peers.write();
        for member in members.iter().filter(|m| m.id != self.0.me.member_id) {
            peers
                .entry(member.id)
                .or_insert_with(|| self.connect(member, true, true));
        }
    }

    /// Whoever asks says where it can be answered, should our log not know it yet.
    fn add_remote(&self, id: u64, urls: &str) {
        let mut peers = self.0.peers.write();
        let remotes = peers.values().filter(|peer| peer.is_remote).count();
        let is_known = id == self.0.me.member_id || peers.contains_key(&id);
        if is_known || remotes >= REMOTES_MAX || self.is_removed(id) {
            return;
        }
        let peer_urls: Vec<String> = urls.split(',').map(str::to_owned).collect();
        if peer_urls.iter().all(|url| Url::parse(url).is_ok()) {
            let member = MemberInfo {
                id,
                peer_urls,
                ..Default::default()
            };
            peers.insert(id, self.connect(&member, true, false));
        }
    }

    fn connect(&self, member: &MemberInfo, is_remote: bool, is_read: bool) -> Peer {
        let (pipeline, posts) = mpsc::channel(PIPELINE_MESSAGES_MAX);
        let link = Arc::new(Link::new(
            self.0.clock,
            self.0.metrics.network.of(member.id),
        ));
        let target = dial::Target {
            id: member.id,
            urls: member.peer_urls.clone(),
            link: Arc::clone(&link),
            peers: self.clone(),
        };
        let runtime = &self.0.runtime;
        let mut tasks = vec![runtime.spawn(dial::pipeline(target.clone(), posts))];
        if is_read {
            tasks.push(runtime.spawn(dial::probe(target.clone())));
            for kind in [Kind::Message, Kind::MsgApp] {
                tasks.push(runtime.spawn(dial::follow(target.clone(), kind)));
            }
        }
        Peer {
            target,
            streams: [closed(), closed()],
            pipeline,
            link,
            is_remote,
            is_read,
            is_ours: AtomicBool::new(false),
            tasks: tasks.iter().map(|task| task.abort_handle()).collect(),
        }
    }

    /// This member was removed: nobody wants to hear from it again.
    pub fn leave(&self) {
        self.0.gone.send_replace(true);
    }

    /// Returns when this member has been removed.
    pub async fn gone(&self) {
        // The sender lives as long as we do.
        let _ = self.0.gone.subscribe().wait_for(|gone| *gone).await;
    }

    /// Whether it is a member whose streams are read here, and who may read ours.
    fn reads(&self, id: u64) -> bool {
        self.0
            .peers
            .read()
            .get(&id)
            .is_some_and(|peer| peer.is_read)
    }

    fn is_removed(&self, id: u64) -> bool {
        self.0.removed.read().contains(&id)
    }

    /// For how long this peer has been reachable without a break.
    pub(crate) fn connected_for(&self, id: u64) -> Option<Duration> {
        self.0.peers.read().get(&id)?.link.age()
    }

    /// Leaves `messages` empty.
    pub fn send(&self, messages: &mut Vec<Message>) {
        if messages.is_empty() {
            return;
        }
        let peers = self.0.peers.read();
        for message in messages.drain(..) {
            let to = message.to;
            let Some(peer) = peers.get(&to) else {
                continue;
            };
            if peer.send(message).is_err() {
                peer.link.traffic.sent_failures.inc();
                // The inbox closes when the member stops, and then nothing is lost any more.
                let _ = self.0.member.send(MemberEvent::Unreachable { peer: to });
            }
        }
    }

    /// Sends a message and the state that goes with it.
    pub fn send_snapshot(&self, message: Message, view: View) {
        let to = message.to;
        let peers = self.0.peers.read();
        let target = peers.get(&to).map(|peer| peer.target.clone());
        drop(peers);
        let member = self.0.member.clone();
        self.0.runtime.spawn(async move {
            let ok = match target {
                Some(target) => transfer::send(target, message, view).await,
                None => false,
            };
            let _ = member.send(MemberEvent::SnapshotSent { to, ok });
        });
    }

    fn receive_snapshot(&self, message: Message, received: Received) {
        let received = Box::new(received);
        let event = MemberEvent::SnapshotReceived { message, received };
        let _ = self.0.member.send(event);
    }

    pub(crate) fn urls_of(&self, id: u64) -> Option<Vec<String>> {
        let peers = self.0.peers.read();
        peers.get(&id).map(|peer| peer.target.urls.clone())
    }

    /// The peer `id` began to read; what was for its former connection ends.
    fn attach(&self, id: u64, kind: Kind) -> Option<(mpsc::Receiver<Message>, Arc<Traffic>)> {
        let (sender, receiver) = mpsc::channel(STREAM_MESSAGES_MAX);
        let mut peers = self.0.peers.write();
        let peer = peers.get_mut(&id).filter(|peer| peer.is_read)?;
        peer.streams[kind as usize] = sender;
        peer.note_up(id);
        Some((receiver, Arc::clone(&peer.link.traffic)))
    }

    /// Asks the member with these URLs, one after the other until one answers.
    pub(crate) async fn post(
        &self,
        urls: &[String],
        path: &str,
        body: Bytes,
    ) -> std::io::Result<Answer> {
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

    fn me(&self) -> &Introduction {
        &self.0.me
    }

    /// Hands over what came from another member, over the connection of `speaker`, unless it is
    /// refused. Whether anybody was there to take it: not once the member has stopped.
    fn receive(&self, message: Message, speaker: Option<u64>) -> Result<bool, Refusal> {
        self.check(&message, speaker)?;
        Ok(self.0.member.send(MemberEvent::Receive(message)).is_ok())
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

    /// Told once: whoever is broken repeats itself.
    fn note_refusal(&self, from: u64, why: &str) {
        let id = format!("{from:x}");
        // Whoever makes up ids must not make up as many rows of figures.
        if let Some(peer) = self.0.peers.read().get(&from) {
            peer.link.traffic.received_failures.inc();
        }
        if self.0.told.first(&id, why) {
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

    fn send(&self, mut message: Message) -> Result<(), ()> {
        let kinds: &[Kind] = match message.body {
            Body::Append { .. } => &[Kind::MsgApp, Kind::Message],
            _ => &[Kind::Message],
        };
        for kind in kinds {
            match self.streams[*kind as usize].try_send(message) {
                Ok(()) => return Ok(()),
                Err(mpsc::error::TrySendError::Full(_)) => return Err(()),
                Err(mpsc::error::TrySendError::Closed(back)) => message = back,
            }
        }
        self.pipeline.try_send(message).map_err(drop)
    }
}

fn closed() -> mpsc::Sender<Message> {
    mpsc::channel(1).0
}

/// A member's answer to a question that is no raft message.
pub(crate) struct Answer {
    pub status: u16,
    /// As in its header; empty without one.
    pub cluster_id: String,
    pub body: Bytes,
}

/// Bytes as one of the streams from another member: whatever they are, there is an end and no
/// panic; what gets past the guard is written as a stream that reads the same.
#[cfg(any(test, fuzzing))]
pub(crate) fn any_stream(data: &[u8]) {
    let Some((first, bytes)) = data.split_first() else {
        return;
    };
    let kind = match first % 2 {
        0 => Kind::Message,
        _ => Kind::MsgApp,
    };
    let (from, to) = (1, 2);
    let (mut decoder, mut passed) = (codec::Decoder::new(kind, from, to), Vec::new());
    for piece in bytes.chunks(usize::from(first / 2).max(1)) {
        decoder.push(piece);
        while let Ok(Some(frame)) = decoder.next() {
            if let codec::Frame::Message(message) = frame
                && guard::refusal(&message, to, Some(from), |_| Standing::Member).is_none()
            {
                passed.push(message);
            }
        }
    }
    let (mut encoder, mut again) = (codec::Encoder::new(Kind::Message), Vec::new());
    passed.iter().for_each(|m| encoder.message(m, &mut again));
    let mut decoder = codec::Decoder::new(Kind::Message, from, to);
    decoder.push(&again);
    for message in passed {
        assert_eq!(decoder.next(), Ok(Some(codec::Frame::Message(message))));
    }
}
