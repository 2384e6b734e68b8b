//! Watches: clients that watch the same range share a watch of the cluster, and all watches for a
//! user share a stream to it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use etcd_api::etcdserverpb as pb;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::raw;
use futures_util::stream::{self, Stream, StreamExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

mod events;
mod hub;
mod link;

use super::forward::Along;
use super::kv::Kv;
use super::leader::Leader;
use super::upstream::Upstream;
use crate::basics::error::Error;
use crate::telemetry::metrics::Metrics;
use hub::{Action, Heard, Hub};
use link::{Command, Link};

/// Answers that wait for one client, as in etcd.
const ANSWERS_MAX: usize = 1024;

/// How long all others wait for a client whose answers fill that.
const SLOW_PATIENCE: Duration = Duration::from_millis(50);

/// What waits for the hub.
const NOTES_MAX: usize = 1024;

/// The end of a range without an end.
const NO_END: &[u8] = &[0];

type Answer = Result<raw::WatchResponse, Status>;

/// What the hub is told.
#[derive(Debug)]
enum Note {
    /// A client's stream: where its answers go, and why it is cut if it takes them too slowly.
    Opened(u64, mpsc::Sender<Answer>, oneshot::Sender<Status>),
    /// A watch that the client may have; and the state at which that was found.
    Create(
        u64,
        Along,
        pb::WatchCreateRequest,
        Option<pb::ResponseHeader>,
    ),
    Refuse(u64, String),
    Cancel(u64, i64),
    Closed(u64),
    Heard(i64, Heard),
}

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Watches {
    kv: Kv,
    leader: Leader,
    notes: mpsc::Sender<Note>,
    next_stream: Arc<AtomicU64>,
}

impl Watches {
    /// Must be called inside the runtime.
    pub(super) fn new(
        upstream: Upstream,
        kv: Kv,
        leader: Leader,
        metrics: Arc<Metrics>,
    ) -> Watches {
        let (notes, noted) = mpsc::channel(NOTES_MAX);
        let keeper = Keeper {
            hub: Hub::default(),
            upstream,
            kv: kv.clone(),
            metrics,
            notes: notes.clone(),
            clients: HashMap::new(),
            links: HashMap::new(),
        };
        tokio::spawn(keeper.run(noted));
        Watches {
            kv,
            leader,
            notes,
            next_stream: Arc::default(),
        }
    }

    /// Serves one client's stream.
    pub(super) async fn serve(
        self,
        along: Along,
        requests: impl Stream<Item = Result<pb::WatchRequest, Status>> + Send + Unpin + 'static,
    ) -> Result<impl Stream<Item = Answer> + Send + 'static, Status> {
        let requires_leader = along.wants_leader();
        if requires_leader {
            self.leader.required().await?;
        }
        let stream = self.next_stream.fetch_add(1, Ordering::Relaxed);
        let (answers, answered) = mpsc::channel(ANSWERS_MAX);
        let (cut, too_slow) = oneshot::channel();
        // Dropped with the answers, when the client has left.
        let (open, closed) = oneshot::channel::<()>();
        self.tell(Note::Opened(stream, answers, cut)).await;
        let leader = self.leader.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = self.listen(stream, along.user_alone(), requests) => {}
                _ = closed => {}
            }
            self.tell(Note::Closed(stream)).await;
        });
        let error = stream::once(too_slow).filter_map(async |status| status.ok().map(Err));
        let answers = ReceiverStream::new(answered)
            .chain(error)
            .map(move |answer| {
                let _ = &open;
                answer
            });
        Ok(leader.guard(requires_leader, answers))
    }

    async fn tell(&self, note: Note) {
        // The hub lives as long as the proxy.
        let _ = self.notes.send(note).await;
    }

    /// Takes a client's requests until its stream ends.
    async fn listen(
        &self,
        stream: u64,
        user: Along,
        mut requests: impl Stream<Item = Result<pb::WatchRequest, Status>> + Unpin,
    ) {
        while let Some(Ok(request)) = requests.next().await {
            match request.request_union {
                Some(RequestUnion::CreateRequest(mut create)) => {
                    if create.key.is_empty() {
                        // The first key there can be.
                        create.key = Bytes::from_static(NO_END);
                    }
                    let note = match self.check(&user, &create).await {
                        Ok(now) => Note::Create(stream, user.clone(), create, now),
                        Err(reason) => Note::Refuse(stream, reason),
                    };
                    self.tell(note).await;
                }
                Some(RequestUnion::CancelRequest(cancel)) => {
                    self.tell(Note::Cancel(stream, cancel.watch_id)).await;
                }
                other => {
                    tracing::error!(request = ?other, "not supported request type by gRPC proxy");
                }
            }
        }
    }

    /// Finds out whether the user may watch the range, as in etcd: whether it may be read. That also
    /// shows the revision behind which a watch of what comes begins.
    async fn check(
        &self,
        user: &Along,
        create: &pb::WatchCreateRequest,
    ) -> Result<Option<pb::ResponseHeader>, String> {
        let (key, end) = (create.key.clone(), create.range_end.clone());
        if create.start_revision < 0 {
            return Err(Error::Compacted.to_string());
        }
        if !end.is_empty() && &end[..] != NO_END && end <= key {
            return Err(String::new());
        }
        let range = pb::RangeRequest {
            key,
            range_end: end,
            serializable: true,
            count_only: true,
            limit: 1,
            ..pb::RangeRequest::default()
        };
        let read = self.kv.read(user, range).await;
        read.map(|read| read.header)
            .map_err(|status| status.message().to_owned())
    }
}

/// Runs the hub: takes notes to it, and carries out what it decides.
struct Keeper {
    hub: Hub,
    upstream: Upstream,
    kv: Kv,
    metrics: Arc<Metrics>,
    notes: mpsc::Sender<Note>,
    clients: HashMap<u64, (mpsc::Sender<Answer>, oneshot::Sender<Status>)>,
    /// The streams to the cluster, by user.
    links: HashMap<Vec<u8>, (mpsc::UnboundedSender<Command>, usize)>,
}

impl Keeper {
    async fn run(mut self, mut notes: mpsc::Receiver<Note>) {
        while let Some(note) = notes.recv().await {
            self.take(note);
            while !self.hub.actions.is_empty() {
                for action in std::mem::take(&mut self.hub.actions) {
                    self.act(action).await;
                }
            }
            let saved = std::mem::take(&mut self.hub.saved_events);
            self.metrics.proxy_events_coalescing.add(saved);
            let coalesced = i64::try_from(self.hub.coalesced()).unwrap_or(i64::MAX);
            self.metrics.proxy_watchers_coalescing.set(coalesced);
        }
    }

    fn take(&mut self, note: Note) {
        match note {
            Note::Opened(stream, answers, cut) => {
                self.clients.insert(stream, (answers, cut));
            }
            Note::Create(stream, user, create, now) => {
                self.hub.create(stream, &user, create, now);
            }
            Note::Refuse(stream, reason) => self.hub.refuse(stream, None, reason),
            Note::Cancel(stream, id) => self.hub.cancel(stream, id),
            Note::Closed(stream) => {
                self.clients.remove(&stream);
                self.hub.gone(stream);
            }
            Note::Heard(broadcast, heard) => self.hub.hear(broadcast, &heard),
        }
    }

    async fn act(&mut self, action: Action) {
        match action {
            Action::Answer(stream, answer) => self.answer(stream, answer).await,
            Action::Begin {
                broadcast,
                user,
                mut range,
                revision,
            } => {
                let entered = self.kv.namespace().enter(&mut range.0, &mut range.1);
                debug_assert_eq!(entered, Ok(()), "its range was read before");
                let (link, uses) = self.link(&user);
                *uses += 1;
                // A link runs as long as its sender is here.
                let _ = link.send(Command::Begin {
                    broadcast,
                    range,
                    revision,
                });
            }
            Action::End { broadcast, user } => {
                let (link, uses) = self.link(&user);
                let _ = link.send(Command::End(broadcast));
                *uses = uses.saturating_sub(1);
                if *uses == 0 {
                    self.links.remove(&user.user());
                }
            }
        }
    }

    async fn answer(&mut self, stream: u64, answer: raw::WatchResponse) {
        let Some((answers, _)) = self.clients.get(&stream) else {
            return;
        };
        let sent = tokio::time::timeout(SLOW_PATIENCE, answers.send(Ok(answer)));
        if sent.await.is_err() {
            tracing::error!(
                "failed to put a watch response on the watcher's proxy stream channel,err is timeout"
            );
            if let Some((_, cut)) = self.clients.remove(&stream) {
                // Its client goes on from the last event that it got.
                let _ = cut.send(Status::unavailable(
                    "the client reads its watches too slowly",
                ));
            }
            self.hub.gone(stream);
        }
    }

    /// The stream to the cluster for a user, and how many broadcasts use it.
    fn link(&mut self, user: &Along) -> &mut (mpsc::UnboundedSender<Command>, usize) {
        self.links.entry(user.user()).or_insert_with(|| {
            let (sender, commands) = mpsc::unbounded_channel();
            let link = Link {
                upstream: self.upstream.clone(),
                user: user.clone(),
                namespace: self.kv.namespace().clone(),
                commands,
                notes: self.notes.clone(),
                watches: BTreeMap::new(),
            };
            tokio::spawn(link.run());
            (sender, 0)
        })
    }
}
