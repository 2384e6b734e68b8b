//! Follows the store with one watch over everything, and updates the caches.
//!
//! One watch for all collections gives one order of all changes: once the feed reaches a revision,
//! every cache shows everything up to it. A reader that needs the newest state asks the store for
//! its revision and waits until the feed reaches it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::{Event, event::EventType};
use machinery::status::Status;
use pb::watch_request::RequestUnion;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use crate::resources::catalogue::{ROOT, Storage, storage_of_key, storages};
use crate::storage::cache::Cache;
use crate::storage::store::{self, Store, prefix_end};
use crate::storage::stored::Stored;

/// Keys per request while loading.
const PAGE_KEYS: i64 = 5000;
/// Delay before the next attempt to reach the store.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// Longest wait of a reader for the feed to reach a revision.
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

/// The caches and their revision.
pub(crate) struct Feed {
    store: Store,
    caches: Vec<Cache>,
    /// The caches have every change up to this revision; 0 before they are loaded.
    revision: watch::Sender<i64>,
    progress_wanted: Notify,
}

/// Why the watch ended.
enum Ended {
    /// The connection broke: continue from the same revision.
    Lost(String),
    /// The store has compacted the next revision: load everything again.
    Compacted,
}

impl Feed {
    pub(crate) fn new(store: Store) -> Feed {
        Feed {
            store,
            caches: storages()
                .iter()
                .map(|storage| Cache::new(&storage.prefix))
                .collect(),
            revision: watch::Sender::new(0),
            progress_wanted: Notify::new(),
        }
    }

    /// The cache of a collection.
    pub(crate) fn cache(&self, storage: &Storage) -> &Cache {
        &self.caches[storage.at]
    }

    /// The revision of the caches.
    pub(crate) fn revision(&self) -> i64 {
        *self.revision.borrow()
    }

    /// Number of watchers of all collections.
    pub(crate) fn watchers(&self) -> usize {
        self.caches.iter().map(Cache::watchers).sum()
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
    pub(crate) async fn run(self: Arc<Feed>) {
        loop {
            match self.load().await {
                Ok(revision) => self.follow_from(revision).await,
                Err(error) => {
                    tracing::warn!(%error, "the store cannot be read");
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            }
        }
    }

    /// Follows the store until changes are lost to a compaction.
    async fn follow_from(&self, revision: i64) {
        let mut from = revision + 1;
        loop {
            match self.follow(&mut from).await {
                Ended::Compacted => return,
                Ended::Lost(why) => tracing::warn!(from, why, "the watch of the store ended"),
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    /// Loads everything at one revision.
    async fn load(&self) -> Result<i64, Status> {
        let mut found: Vec<BTreeMap<Arc<str>, Arc<Stored>>> = Vec::new();
        found.resize_with(self.caches.len(), BTreeMap::new);
        let mut unreadable = Vec::new();
        let (mut start, mut revision) = (ROOT.to_owned(), 0);
        loop {
            let page = self.store.list(&start, ROOT, PAGE_KEYS, revision).await?;
            if revision == 0 {
                revision = page.revision;
            }
            for kv in &page.items {
                let Some((storage, key)) = place(&kv.key) else {
                    continue;
                };
                match Stored::read(storage, key, &kv.value, kv.mod_revision) {
                    Ok(entry) => {
                        found[storage.at].insert(Arc::clone(&entry.key), Arc::new(entry));
                    }
                    Err(error) => unreadable.push((storage.at, key.to_owned(), error)),
                }
            }
            match page.items.last() {
                Some(last) if page.more => {
                    start = format!("{}\0", String::from_utf8_lossy(&last.key));
                }
                _ => break,
            }
        }
        for (cache, items) in self.caches.iter().zip(found) {
            cache.reset(items, revision);
        }
        for (at, key, error) in unreadable {
            self.set_unreadable(at, &key, &error);
        }
        self.advance(revision);
        Ok(revision)
    }

    /// Opens a watch and applies its events. `from` is the next revision; it advances.
    async fn follow(&self, from: &mut i64) -> Ended {
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
        let opened = self
            .store
            .client
            .watch()
            .watch(ReceiverStream::new(stream))
            .await;
        let mut answers = match opened {
            Ok(answers) => answers.into_inner(),
            Err(error) => return Ended::Lost(store::status(error).message),
        };
        let mut asked: Option<Instant> = None;
        loop {
            let overdue = asked.map(|asked| asked + ANSWER_WITHIN);
            tokio::select! {
                answer = answers.message() => {
                    asked = None;
                    match answer {
                        Ok(Some(answer)) => {
                            if let Some(ended) = self.take(answer, from) {
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
                () = sleep_until(overdue) => return Ended::Lost("the store is silent".into()),
            }
        }
    }

    fn take(&self, answer: pb::WatchResponse, from: &mut i64) -> Option<Ended> {
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
        self.apply(answer.events);
        self.advance(reached);
        *from = (*from).max(reached + 1);
        None
    }

    fn apply(&self, events: Vec<Event>) {
        let mut changes: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        // Keys whose last value cannot be decoded.
        let mut unreadable = BTreeMap::new();
        for event in events {
            let Some(kv) = &event.kv else { continue };
            let Some((storage, key)) = place(&kv.key) else {
                continue;
            };
            let entry = match event.r#type() {
                EventType::Delete => None,
                EventType::Put => match Stored::read(storage, key, &kv.value, kv.mod_revision) {
                    Ok(entry) => Some(entry),
                    Err(error) => {
                        unreadable.insert((storage.at, key.to_owned()), error);
                        continue;
                    }
                },
            };
            unreadable.remove(&(storage.at, key.to_owned()));
            let change = (Arc::from(key), kv.mod_revision, entry);
            changes.entry(storage.at).or_default().push(change);
        }
        for (at, changes) in changes {
            self.caches[at].apply(changes);
        }
        for ((at, key), error) in unreadable {
            self.set_unreadable(at, &key, &error);
        }
    }

    fn set_unreadable(&self, at: usize, key: &str, error: &Status) {
        tracing::error!(key, %error, "a value of the store is no object");
        self.caches[at].set_unreadable(key, error);
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

fn place(key: &[u8]) -> Option<(&'static Storage, &str)> {
    let key = std::str::from_utf8(key).ok()?;
    Some((storage_of_key(key)?, key))
}

fn request(union: RequestUnion) -> pb::WatchRequest {
    pb::WatchRequest {
        request_union: Some(union),
    }
}
