//! One watch stream of one server. A task collects the responses per watch and checks the rules for
//! a single stream; the two servers' streams are compared elsewhere.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use etcd_api::etcdserverpb::watch_client::WatchClient;
use etcd_api::etcdserverpb::watch_request::RequestUnion;
use etcd_api::etcdserverpb::{
    WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use etcd_api::mvccpb::Event;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;
use tonic::transport::Channel;

/// Slots for streams.
pub(crate) const STREAMS: usize = 4;
/// Watches that start in the future live on this stream alone: it tells no progress meanwhile.
pub(crate) const FUTURE_STREAM: usize = 3;

/// Requests on their way to the server.
const REQUESTS_MAX: usize = 64;
/// How long a message that must come may take.
const MESSAGE_WITHIN: Duration = Duration::from_secs(60);
/// A progress request is not answered while a watch still reads history; it is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(15);

/// What one watch has said and has not been compared yet.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(crate) events: Vec<Event>,
    pub(crate) canceled: bool,
    /// Parts of one response with `fragment` set: the next response goes on with this revision.
    fragment_open: bool,
    last_revision: i64,
}

/// Everything collected.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// By watch id; the ids of canceled watches may come back, hence a list.
    pub(crate) watches: BTreeMap<i64, Vec<Watched>>,
    pub(crate) control: Vec<WatchResponse>,
    pub(crate) progress: usize,
    /// A watch was canceled by a compaction: it counts as one that lags, until the client cancels
    /// it too, and so no progress is told.
    compacted: bool,
    pub(crate) broken: Option<String>,
}

pub(crate) struct Stream {
    requests: mpsc::Sender<WatchRequest>,
    collected: Arc<(Mutex<Collected>, Notify)>,
    task: JoinHandle<()>,
    /// The highest start revision asked for on this stream.
    latest_start: i64,
}

impl Stream {
    /// The server tells nothing of the stream itself before its first message: what goes wrong
    /// with the call is therefore found in `broken` like everything later.
    pub(crate) fn open(client: WatchClient<Channel>) -> Stream {
        let (requests, receiver) = mpsc::channel(REQUESTS_MAX);
        let collected: Arc<(Mutex<Collected>, Notify)> = Arc::default();
        let task = tokio::spawn(collect(client, receiver, collected.clone()));
        Stream {
            requests,
            collected,
            task,
            latest_start: 0,
        }
    }

    pub(crate) fn collected(&self) -> MutexGuard<'_, Collected> {
        lock(&self.collected.0)
    }

    /// Fails only when the stream has ended, which `collected` then tells.
    pub(crate) async fn send(&self, request: Option<RequestUnion>) {
        let _ = self
            .requests
            .send(WatchRequest {
                request_union: request,
            })
            .await;
    }

    pub(crate) async fn create(&mut self, request: WatchCreateRequest) {
        self.latest_start = self.latest_start.max(request.start_revision);
        self.send(Some(RequestUnion::CreateRequest(request))).await;
    }

    pub(crate) async fn cancel(&self, watch_id: i64) {
        self.send(Some(RequestUnion::CancelRequest(WatchCancelRequest {
            watch_id,
        })))
        .await;
    }

    /// The next `count` control messages, or the one that refuses what was asked for. Which ids
    /// of canceled watches may be used again is the servers' affair, so a refusal can come
    /// unforeseen.
    pub(crate) async fn control(&self, count: usize) -> Result<Vec<WatchResponse>, Status> {
        let refused = |message: &WatchResponse| message.created && message.canceled;
        let arrived = self.wait(|collected| {
            collected.control.len() >= count || collected.control.iter().any(refused)
        });
        if tokio::time::timeout(MESSAGE_WITHIN, arrived).await.is_err() {
            return Err(Status::deadline_exceeded("a control message is missing"));
        }
        let mut collected = self.collected();
        let count = count.min(collected.control.len());
        Ok(collected.control.drain(..count).collect())
    }

    /// Whether the server answers progress requests on this stream, the store being at `revision`:
    /// there is a watch, and none of them waits for the future.
    pub(crate) fn tells_progress(&self, revision: i64) -> bool {
        let collected = self.collected();
        collected.live() > 0 && !collected.compacted && self.latest_start <= revision
    }

    /// Waits until every watch of this stream has said all it has to say: the server answers a
    /// progress request only then. Where it gives no answer at all, asks and does not wait.
    pub(crate) async fn settle(&mut self, revision: i64) -> Result<(), Status> {
        let before = self.collected().progress;
        let ask = RequestUnion::ProgressRequest(WatchProgressRequest {});
        self.send(Some(ask.clone())).await;
        if !self.tells_progress(revision) {
            return Ok(());
        }
        let settled = async {
            loop {
                let answered = self.wait(|collected| collected.progress > before);
                if tokio::time::timeout(ASK_AGAIN_AFTER, answered)
                    .await
                    .is_ok()
                {
                    return;
                }
                self.send(Some(ask.clone())).await;
            }
        };
        let waited = tokio::time::timeout(MESSAGE_WITHIN, settled).await;
        waited.map_err(|_| Status::deadline_exceeded("a progress request was never answered"))
    }

    async fn wait(&self, ready: impl Fn(&Collected) -> bool) {
        loop {
            {
                let collected = self.collected();
                if ready(&collected) || collected.broken.is_some() {
                    return;
                }
            }
            self.collected.1.notified().await;
        }
    }
}

async fn collect(
    mut client: WatchClient<Channel>,
    requests: mpsc::Receiver<WatchRequest>,
    sink: Arc<(Mutex<Collected>, Notify)>,
) {
    let mut responses = match client.watch(ReceiverStream::new(requests)).await {
        Ok(response) => response.into_inner(),
        Err(status) => {
            lock(&sink.0).broken = Some(status.to_string());
            return sink.1.notify_one();
        }
    };
    loop {
        let message = responses.message().await;
        let ended = !matches!(message, Ok(Some(_)));
        let mut collected = lock(&sink.0);
        match message {
            Ok(Some(response)) => collected.take(response),
            Ok(None) => collected.broken = Some("the stream ended".to_string()),
            Err(status) => collected.broken = Some(status.to_string()),
        }
        drop(collected);
        sink.1.notify_one();
        if ended {
            return;
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Collected {
    fn live(&self) -> usize {
        let last = self.watches.values().filter_map(|list| list.last());
        last.filter(|watch| !watch.canceled).count()
    }

    fn take(&mut self, response: WatchResponse) {
        if response.created {
            if !response.canceled {
                self.watches
                    .entry(response.watch_id)
                    .or_default()
                    .push(Watched::default());
            }
            self.control.push(response);
        } else if response.canceled {
            if let Some(watch) = self.watch(response.watch_id) {
                watch.canceled = true;
            }
            self.compacted |= response.compact_revision != 0;
            self.control.push(response);
        } else if response.events.is_empty() {
            self.progress += usize::from(response.watch_id == -1);
        } else {
            self.take_events(response);
        }
    }

    fn take_events(&mut self, response: WatchResponse) {
        let id = response.watch_id;
        let newest = response.header.map_or(0, |header| header.revision);
        let Some(watch) = self.watch(id).filter(|watch| !watch.canceled) else {
            self.broken = Some(format!("events for watch {id}, which does not exist"));
            return;
        };
        let mut wrong = None;
        let mut first = !watch.fragment_open;
        for event in &response.events {
            let revision = event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
            // One revision never spreads over two responses, except by fragments.
            let before = watch.last_revision;
            if revision < before || (first && revision == before) || revision > newest {
                wrong = Some(format!(
                    "watch {id}: an event of revision {revision} behind {before}, header {newest}"
                ));
            }
            first = false;
            watch.last_revision = revision;
        }
        watch.fragment_open = response.fragment;
        watch.events.extend(response.events);
        self.broken = self.broken.take().or(wrong);
    }

    fn watch(&mut self, id: i64) -> Option<&mut Watched> {
        self.watches.get_mut(&id).and_then(|list| list.last_mut())
    }
}

fn lock(mutex: &Mutex<Collected>) -> MutexGuard<'_, Collected> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
