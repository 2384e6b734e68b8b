//! Follows the store with one watch over everything, and updates the watch caches.
//!
//! One watch for all collections gives one order of all changes: once the reflector reaches a
//! revision, every cache shows everything up to it. A reader that needs the newest state asks the
//! store for its revision and waits until the reflector reaches it.
//!
//! Collections join and leave while it runs. One that joins first gets a cache that keeps its
//! changes back, then the list of what there is: whatever happened before the cache was there is
//! in the list, whatever happened after the list is among the changes. Only then is it served.

mod membership;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::{Event, event::EventType};
use futures_util::future::join_all;
use machinery::schema::Kind;
use machinery::status::Status;
use parking_lot::RwLock;
use pb::watch_request::RequestUnion;
use tokio::sync::{Mutex, Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use crate::resources::catalogue::{Catalogue, ROOT, Resource, Storage, StorageId};
use crate::storage::cache::{Cache, Content, Heard};
use crate::storage::store::{Raw, Store, prefix_end};
use crate::storage::stored::Stored;
use membership::Followed;

/// Keys per request while loading.
const PAGE_KEYS: i64 = 5000;
/// Sealed values that are opened at the same time: a provider may have to ask for the key of each.
const OPENED_AT_ONCE: usize = 256;
/// Delay before the next attempt to reach the store.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// Longest wait of a reader for the reflector to reach a revision.
const WAIT_MAX: Duration = Duration::from_secs(3);
/// Delay before a waiting reader sends its first progress request.
const PROGRESS_AFTER: Duration = Duration::from_millis(2);
/// Upper bound of the back-off between two progress requests.
const PROGRESS_EVERY_MAX: Duration = Duration::from_millis(100);
/// Longest time the store may take to answer a progress request. After that the stream counts as
/// dead, even without an error.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Bound of requests queued on the watch stream. While it is full, further progress requests are
/// dropped.
const STREAM_REQUESTS_MAX: usize = 4;

/// The watch caches and their revision.
pub(crate) struct Reflector {
    store: Store,
    state: RwLock<State>,
    /// Held while everything is read and while collections join: each reads what there is, and
    /// changes between the two lists would reach neither.
    loading: Mutex<()>,
    /// Held while the catalogue is replaced, so that of two changes none is lost.
    changing: Mutex<()>,
    /// The caches have every change up to this revision; 0 before they are loaded.
    revision: watch::Sender<i64>,
    progress_wanted: Notify,
}

struct State {
    /// What is served.
    catalogue: Arc<Catalogue>,
    /// What is kept of the store: collections that are served, and those that are about to be.
    followed: Arc<Followed>,
}

/// What is found of each collection in a list.
type Found = HashMap<StorageId, Content>;

/// Why following the watch ended.
enum Ended {
    /// The connection broke: continue from the same revision.
    Lost(String),
    /// The store has compacted the next revision: load everything again.
    Compacted,
}

impl Reflector {
    /// A reflector that serves a catalogue at first.
    pub(crate) fn new(store: Store, catalogue: Catalogue) -> Reflector {
        let catalogue = Arc::new(catalogue);
        let state = State {
            followed: Arc::new(Followed::default().with(catalogue.storages())),
            catalogue,
        };
        Reflector {
            store,
            state: RwLock::new(state),
            loading: Mutex::new(()),
            changing: Mutex::new(()),
            revision: watch::Sender::new(0),
            progress_wanted: Notify::new(),
        }
    }

    /// What is served now.
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.state.read().catalogue)
    }

    /// The cache of a collection; an error if it is no longer served.
    pub(crate) fn cache(&self, storage: &Storage) -> Result<Arc<Cache>, Status> {
        self.cache_if_followed(storage)
            .ok_or_else(Status::unknown_path)
    }

    /// The same for requests: the definition of one that is under way may have changed, and then it
    /// reads the store.
    pub(crate) fn cache_if_followed(&self, storage: &Storage) -> Option<Arc<Cache>> {
        let state = self.state.read();
        state.followed.caches.get(&storage.id).cloned()
    }

    /// What is served of a kind now, with its cache; `None` if it is not served or not stored.
    pub(crate) fn served(&self, kind: &Kind) -> Option<(Arc<Resource>, Arc<Cache>)> {
        // Under one lock: every collection of the catalogue is followed.
        let state = self.state.read();
        let resource = state.catalogue.of(kind).ok()?;
        let cache = state.followed.caches.get(&resource.storage.as_ref()?.id)?;
        Some((Arc::clone(resource), Arc::clone(cache)))
    }

    /// The revision of the caches.
    pub(crate) fn revision(&self) -> i64 {
        *self.revision.borrow()
    }

    /// Number of watchers of all collections.
    pub(crate) fn watchers(&self) -> usize {
        let followed = self.followed();
        followed.caches.values().map(|one| one.watchers()).sum()
    }

    /// Waits until the caches are loaded.
    pub(crate) async fn loaded(&self) {
        let mut revision = self.revision.subscribe();
        // Fails only if the sender is dropped, and `self` owns it.
        let _ = revision.wait_for(|revision| *revision > 0).await;
    }

    /// Waits until the caches show everything acknowledged before this call. Returns their
    /// revision.
    pub(crate) async fn fresh(&self) -> Result<i64, Status> {
        let revision = self.store.revision().await?;
        self.reach(revision).await?;
        Ok(revision)
    }

    /// Waits up to [`WAIT_MAX`] until the caches reach a revision.
    pub(crate) async fn reach(&self, asked: i64) -> Result<(), Status> {
        if self.revision() >= asked {
            return Ok(());
        }
        let mut revision = self.revision.subscribe();
        let wait = async {
            let mut pause = PROGRESS_AFTER;
            loop {
                let reached = revision.wait_for(|revision| *revision >= asked);
                if tokio::time::timeout(pause, reached).await.is_ok() {
                    return;
                }
                self.progress_wanted.notify_one();
                pause = (pause * 2).min(PROGRESS_EVERY_MAX);
            }
        };
        let waited = tokio::time::timeout(WAIT_MAX, wait).await;
        waited.map_err(|_| Status::future_version(asked, self.revision()))
    }

    /// Follows the store forever.
    pub(crate) async fn run(self: Arc<Reflector>) {
        let mut retries = self.store.at_rest().retries();
        loop {
            match self.load().await {
                Ok(revision) => self.follow_from(revision, &mut retries).await,
                Err(error) => {
                    tracing::warn!(%error, "the store cannot be read");
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            }
        }
    }

    /// Follows the store until changes are lost to a compaction.
    async fn follow_from(&self, revision: i64, retries: &mut watch::Receiver<u64>) {
        let mut from = revision + 1;
        loop {
            match self.follow(&mut from, retries).await {
                Ended::Compacted => return,
                Ended::Lost(why) => tracing::warn!(from, why, "the watch of the store ended"),
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    /// Loads everything at one revision.
    async fn load(&self) -> Result<i64, Status> {
        let _loading = self.loading.lock().await;
        let followed = self.followed();
        let (mut found, revision) = self.read(ROOT, &followed, 0).await?;
        for (id, cache) in &followed.caches {
            cache.reset(found.remove(id).unwrap_or_default(), revision);
        }
        self.advance(revision);
        Ok(revision)
    }

    /// Reads collections again that have values which could not be opened, as of the revision of
    /// the caches. Only the task that applies changes may call it. Watchers see that they missed
    /// changes.
    async fn mend(&self) {
        let _loading = self.loading.lock().await;
        let (followed, revision) = (self.followed(), self.revision());
        for storage in followed.storages() {
            let Some(cache) = followed.caches.get(&storage.id) else {
                continue;
            };
            let before = cache.unreadable();
            if before == 0 {
                continue;
            }
            let own = Followed::default().with([storage]);
            match self.read(&storage.prefix, &own, revision).await {
                Ok((mut found, _)) => {
                    let content = found.remove(&storage.id).unwrap_or_default();
                    if content.unreadable() < before {
                        cache.reset(content, revision);
                    }
                }
                Err(error) => tracing::warn!(prefix = %storage.prefix, %error, "not read again"),
            }
        }
    }

    /// Reads everything below a prefix as of one revision (0: the newest).
    async fn read(
        &self,
        prefix: &str,
        followed: &Followed,
        mut revision: i64,
    ) -> Result<(Found, i64), Status> {
        let mut found = Found::new();
        let mut start = prefix.to_owned();
        loop {
            let page = self.store.list(&start, prefix, PAGE_KEYS, revision).await?;
            if revision == 0 {
                revision = page.revision;
            }
            let mut sealed = Vec::new();
            for raw in &page.items {
                let Ok(key) = std::str::from_utf8(&raw.key) else {
                    continue;
                };
                for storage in followed.of_key(key) {
                    if raw.is_sealed() {
                        sealed.push((storage, key, raw));
                        continue;
                    }
                    let stored = self.stored(storage, key, raw).await;
                    found.entry(storage.id).or_default().insert(key, stored);
                }
            }
            for some in sealed.chunks(OPENED_AT_ONCE) {
                let opening = some.iter();
                let opening = opening.map(|(storage, key, raw)| self.stored(storage, key, raw));
                let opened = join_all(opening).await;
                for ((storage, key, _), stored) in some.iter().zip(opened) {
                    found.entry(storage.id).or_default().insert(key, stored);
                }
            }
            match page.items.last() {
                Some(last) if page.more => {
                    start = format!("{}\0", String::from_utf8_lossy(&last.key));
                }
                _ => return Ok((found, revision)),
            }
        }
    }

    fn followed(&self) -> Arc<Followed> {
        Arc::clone(&self.state.read().followed)
    }

    /// Opens a watch and applies its events. `from` is the next revision; it advances.
    async fn follow(&self, from: &mut i64, retries: &mut watch::Receiver<u64>) -> Ended {
        let (requests, stream) = mpsc::channel(STREAM_REQUESTS_MAX);
        let create = pb::WatchCreateRequest {
            key: ROOT.as_bytes().to_vec().into(),
            range_end: prefix_end(ROOT).into(),
            start_revision: *from,
            progress_notify: true,
            ..Default::default()
        };
        // The channel is new and has room.
        let _ = requests.try_send(request(RequestUnion::CreateRequest(create)));
        let opened = self.store.watch(ReceiverStream::new(stream)).await;
        let mut answers = match opened {
            Ok(answers) => answers,
            Err(error) => return Ended::Lost(error.message),
        };
        let mut asked: Option<Instant> = None;
        loop {
            let overdue = asked.map(|asked| asked + ANSWER_WITHIN);
            tokio::select! {
                answer = answers.message() => {
                    asked = None;
                    match answer {
                        Ok(Some(answer)) => {
                            if let Some(ended) = self.take(answer, from).await {
                                return ended;
                            }
                        }
                        Ok(None) => return Ended::Lost("the store closed it".into()),
                        Err(error) => return Ended::Lost(error.message().to_owned()),
                    }
                }
                () = self.progress_wanted.notified() => {
                    let progress = RequestUnion::ProgressRequest(pb::WatchProgressRequest {});
                    // If the queue is full, a progress request is in it already.
                    let _ = requests.try_send(request(progress));
                    asked.get_or_insert_with(Instant::now);
                }
                // The store owns the sender: there is one.
                Ok(()) = retries.changed() => self.mend().await,
                () = sleep_until(overdue) => return Ended::Lost("the store is silent".into()),
            }
        }
    }

    async fn take(&self, answer: pb::WatchResponse, from: &mut i64) -> Option<Ended> {
        if answer.compact_revision > 0 {
            return Some(Ended::Compacted);
        }
        if answer.canceled {
            return Some(Ended::Lost(answer.cancel_reason));
        }
        if answer.created {
            return None;
        }
        let reached = match answer.events.last().and_then(|event| event.kv.as_ref()) {
            // A response without events is progress: all events up to its revision have been sent.
            None => answer.header.map_or(0, |header| header.revision),
            Some(last) => last.mod_revision,
        };
        self.apply(answer.events).await;
        self.advance(reached);
        *from = (*from).max(reached + 1);
        None
    }

    /// Puts the changes of one message into the caches. The collections are those that are
    /// followed when it begins: one that joins meanwhile reads all of these changes in its list.
    async fn apply(&self, events: Vec<Event>) {
        let followed = self.followed();
        let mut changes: HashMap<StorageId, Vec<Heard>> = HashMap::new();
        for event in events {
            let is_put = event.r#type() == EventType::Put;
            let Some(raw) = event.kv.map(Raw::from) else {
                continue;
            };
            let Ok(key) = std::str::from_utf8(&raw.key) else {
                continue;
            };
            for storage in followed.of_key(key) {
                let heard = Heard {
                    key: Arc::from(key),
                    revision: raw.revision,
                    stored: if is_put {
                        self.stored(storage, key, &raw).await.map(Some)
                    } else {
                        Ok(None)
                    },
                };
                changes.entry(storage.id).or_default().push(heard);
            }
        }
        for (id, changes) in changes {
            if let Some(cache) = followed.caches.get(&id) {
                cache.apply(changes);
            }
        }
    }

    /// Opens and reads a value of a collection.
    async fn stored(&self, storage: &Arc<Storage>, key: &str, raw: &Raw) -> Result<Stored, Status> {
        let read = Stored::open(&self.store, storage, key, raw).await;
        read.inspect_err(|error| tracing::error!(key, %error, "a value of the store is no object"))
    }

    fn advance(&self, revision: i64) {
        self.revision.send_if_modified(|now| {
            let newer = revision > *now;
            *now = revision.max(*now);
            newer
        });
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn request(union: RequestUnion) -> pb::WatchRequest {
    pb::WatchRequest {
        request_union: Some(union),
    }
}
