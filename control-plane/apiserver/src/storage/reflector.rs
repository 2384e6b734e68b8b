//! Follows the store with one watch over everything, and keeps the watch caches.
//!
//! One watch for all collections gives one order of all changes: once the reflector has reached a
//! revision, every cache shows everything up to it. A reader that must see the newest asks the
//! store for its revision and waits here until that is reached.
//!
//! Collections join and leave while it runs. One that joins first gets a cache that keeps its
//! changes back, then the list of what there is: whatever happened before the cache was there is
//! in the list, whatever happened after the list is among the changes. Only then is it served.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use etcd_api::etcdserverpb as pb;
use etcd_api::mvccpb::{Event, KeyValue, event::EventType};
use machinery::status::Status;
use parking_lot::RwLock;
use pb::watch_request::RequestUnion;
use tokio::sync::{Mutex, Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;

use crate::resources::catalogue::{Catalogue, ROOT, Resource, Storage, StorageId};
use crate::storage::cache::{Cache, Content, Heard};
use crate::storage::store::{self, Store, prefix_end};
use crate::storage::stored::Stored;

/// Keys read at once while loading.
const PAGE_KEYS: i64 = 5000;
/// How long to wait before trying the store again.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// How long a reader waits for the feed to reach a revision.
const WAIT_MAX: Duration = Duration::from_secs(3);
/// When a waiting reader first asks the store how far the watch is.
const PROGRESS_AFTER: Duration = Duration::from_millis(2);
/// And how seldom it comes to ask at last.
const PROGRESS_EVERY_MAX: Duration = Duration::from_millis(100);
/// How long the store may leave a question for progress unanswered: then the stream is dead, even
/// if nobody has said so.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Requests under way on the watch stream; more progress than this need not be asked for.
const STREAM_REQUESTS_MAX: usize = 4;

/// The watch caches and how far they are.
pub(crate) struct Reflector {
    store: Store,
    state: RwLock<State>,
    /// Held while everything is read and while collections join: each reads what there is, and
    /// changes between the two lists would reach neither.
    loading: Mutex<()>,
    /// Held while the catalogue is replaced, so that of two changes none is lost.
    changing: Mutex<()>,
    /// Every change up to this revision is in the caches; 0 before they are loaded.
    revision: watch::Sender<i64>,
    progress_wanted: Notify,
}

struct State {
    /// What is served.
    catalogue: Arc<Catalogue>,
    /// What is kept of the store: collections that are served, and those that are about to be.
    followed: Arc<Followed>,
}

/// The collections whose changes are kept, each with its cache.
#[derive(Default, Clone)]
struct Followed {
    caches: HashMap<StorageId, Arc<Cache>>,
    /// By prefix. No prefix begins with another, but a collection that joins may have that of one
    /// that is about to leave.
    by_prefix: BTreeMap<Arc<str>, Vec<Arc<Storage>>>,
}

/// What is found of each collection in a list.
type Found = HashMap<StorageId, Content>;

/// Why following the store ended.
enum Ended {
    /// The connection broke: go on from where it was.
    Lost(String),
    /// The store forgot what came next: start over.
    Compacted,
}

impl Reflector {
    pub(crate) fn new(store: Store) -> Reflector {
        let catalogue = Arc::new(Catalogue::new([]));
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
        let state = self.state.read();
        let cache = state.followed.caches.get(&storage.id);
        cache.cloned().ok_or_else(Status::unknown_path)
    }

    /// Serves these custom resources in the place of those that `leaves` chooses. It returns when
    /// they are served, or with nothing changed. A collection that joins and is served already keeps
    /// its cache and its watches.
    pub(crate) async fn replace(
        &self,
        leaves: impl Fn(&Resource) -> bool,
        joining: Vec<Arc<Resource>>,
    ) -> Result<(), Status> {
        let _changing = self.changing.lock().await;
        let before = self.catalogue();
        let stay: Vec<_> = before
            .custom()
            .filter(|one| !leaves(one))
            .cloned()
            .collect();
        let is_new = |storage: &Arc<Storage>| self.cache(storage).is_err();
        let joins: Vec<_> = storages(&joining).filter(is_new).collect();
        let new = Arc::new(Catalogue::new(stay.into_iter().chain(joining)));
        if let Err(error) = self.fill(&joins).await {
            self.follow_only(&before);
            return Err(error);
        }
        self.state.write().catalogue = Arc::clone(&new);
        self.follow_only(&new);
        Ok(())
    }

    /// Follows new collections besides the others and fills their caches.
    async fn fill(&self, joins: &[Arc<Storage>]) -> Result<(), Status> {
        let mut reached = 0;
        {
            let _loading = self.loading.lock().await;
            {
                let mut state = self.state.write();
                state.followed = Arc::new(state.followed.with(joins));
            }
            // From here on their caches get all changes. What was on its way before is in the
            // store by now, and so in the list.
            for storage in joins {
                let own = Followed::default().with([storage]);
                let (mut found, revision) = self.read(&storage.prefix, &own).await?;
                let content = found.remove(&storage.id).unwrap_or_default();
                self.cache(storage)?.reset(content, revision);
                reached = reached.max(revision);
            }
        }
        // What is shown afterwards must not be newer than what the reflector says it is.
        let mut revision = self.revision.subscribe();
        loop {
            let wait = revision.wait_for(|revision| *revision >= reached);
            if tokio::time::timeout(PROGRESS_EVERY_MAX, wait).await.is_ok() {
                return Ok(());
            }
            self.progress_wanted.notify_one();
        }
    }

    /// Follows the collections of a catalogue alone; watchers of others are told that they ended.
    fn follow_only(&self, catalogue: &Catalogue) {
        let mut state = self.state.write();
        let stay: HashMap<StorageId, &Arc<Storage>> =
            catalogue.storages().map(|one| (one.id, one)).collect();
        let mut caches = state.followed.caches.clone();
        caches.retain(|id, cache| {
            let stays = stay.contains_key(id);
            if !stays {
                cache.close();
            }
            stays
        });
        let followed = Followed {
            caches,
            by_prefix: BTreeMap::new(),
        };
        state.followed = Arc::new(followed.with(stay.into_values()));
    }

    /// How far the caches are.
    pub(crate) fn revision(&self) -> i64 {
        *self.revision.borrow()
    }

    /// How many watches there are.
    pub(crate) fn watchers(&self) -> usize {
        let followed = self.followed();
        followed.caches.values().map(|one| one.watchers()).sum()
    }

    /// Whether the caches are loaded.
    pub(crate) async fn loaded(&self) {
        let mut revision = self.revision.subscribe();
        // Fails only when the sender is gone, and that is ours.
        let _ = revision.wait_for(|revision| *revision > 0).await;
    }

    /// Waits until the caches show everything acknowledged before this call.
    pub(crate) async fn fresh(&self) -> Result<i64, Status> {
        let revision = self.store.revision().await?;
        self.reach(revision).await?;
        Ok(revision)
    }

    /// Waits until the caches are at a revision, for a while.
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

    /// Follows the store for ever.
    pub(crate) async fn run(self: Arc<Reflector>) {
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

    /// Follows until changes were missed.
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

    /// Reads everything as of one revision.
    async fn load(&self) -> Result<i64, Status> {
        let _loading = self.loading.lock().await;
        let followed = self.followed();
        let (mut found, revision) = self.read(ROOT, &followed).await?;
        for (id, cache) in &followed.caches {
            cache.reset(found.remove(id).unwrap_or_default(), revision);
        }
        self.advance(revision);
        Ok(revision)
    }

    /// Reads everything below a prefix as of one revision.
    async fn read(&self, prefix: &str, followed: &Followed) -> Result<(Found, i64), Status> {
        let mut found = Found::new();
        let (mut start, mut revision) = (prefix.to_owned(), 0);
        loop {
            let page = self.store.list(&start, prefix, PAGE_KEYS, revision).await?;
            if revision == 0 {
                revision = page.revision;
            }
            for kv in &page.items {
                let Ok(key) = std::str::from_utf8(&kv.key) else {
                    continue;
                };
                for storage in followed.of_key(key) {
                    let entry = stored(storage, key, kv);
                    found.entry(storage.id).or_default().insert(key, entry);
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

    /// Opens a watch and applies what it tells; `from` moves along.
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
                    // When it is full, progress is asked for already.
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
            // Without events it tells of progress: everything up to there was sent before.
            None => answer.header.map_or(0, |header| header.revision),
            Some(last) => last.mod_revision,
        };
        self.apply(answer.events);
        self.advance(reached);
        *from = (*from).max(reached + 1);
        None
    }

    /// Puts the changes of one message into the caches. The collections are those that are
    /// followed when it begins: one that joins meanwhile reads all of these changes in its list.
    fn apply(&self, events: Vec<Event>) {
        let followed = self.followed();
        let mut changes: HashMap<StorageId, Vec<Heard>> = HashMap::new();
        for event in events {
            let Some(kv) = &event.kv else { continue };
            let Ok(key) = std::str::from_utf8(&kv.key) else {
                continue;
            };
            for storage in followed.of_key(key) {
                let heard = Heard {
                    key: Arc::from(key),
                    revision: kv.mod_revision,
                    entry: match event.r#type() {
                        EventType::Delete => Ok(None),
                        EventType::Put => stored(storage, key, kv).map(Some),
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

impl Followed {
    /// These collections and those.
    fn with<'a>(&self, more: impl IntoIterator<Item = &'a Arc<Storage>>) -> Followed {
        let mut followed = self.clone();
        for storage in more {
            let cache = || Arc::new(Cache::new(Arc::clone(&storage.prefix)));
            followed.caches.entry(storage.id).or_insert_with(cache);
            let prefix = Arc::clone(&storage.prefix);
            let of_prefix = followed.by_prefix.entry(prefix).or_default();
            of_prefix.push(Arc::clone(storage));
        }
        followed
    }

    /// The collections that a key belongs to.
    fn of_key(&self, key: &str) -> &[Arc<Storage>] {
        // No prefix begins with another, so the one that sorts last before the key is the only one.
        let until = (Bound::Unbounded, Bound::Included(key));
        match self.by_prefix.range::<str, _>(until).next_back() {
            Some((prefix, storages)) if key.starts_with(&**prefix) => storages,
            _ => &[],
        }
    }
}

/// Reads a value of a collection.
fn stored(storage: &Arc<Storage>, key: &str, kv: &KeyValue) -> Result<Stored, Status> {
    let read = Stored::read(storage, key, &kv.value, kv.mod_revision);
    read.inspect_err(|error| tracing::error!(key, %error, "a value of the store is no object"))
}

/// The collections of some resources, each once.
fn storages(resources: &[Arc<Resource>]) -> impl Iterator<Item = Arc<Storage>> {
    let all = resources.iter().filter_map(|one| one.storage.clone());
    let all: HashMap<StorageId, Arc<Storage>> = all.map(|one| (one.id, one)).collect();
    all.into_values()
}

fn request(union: RequestUnion) -> pb::WatchRequest {
    pb::WatchRequest {
        request_union: Some(union),
    }
}
