//! HashKV: hashes of the history that members and tools compare. Like etcd, this keeps the hashes
//! of the last compactions, computed just before each compaction removes rows, and returns them for
//! exactly those revisions.
//!
//! Computing a hash reads the whole history, except what the last hash had already (`places`). The
//! hashes of compactions are computed one at a time, with rests, on a thread that no client waits
//! for. At most one more job waits (`queue`). So however often clients compact, at most two views
//! are held, and a fixed share of one core is used. While a client waits for a hash, there are no
//! rests.

mod places;
mod queue;

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use etcd_files::hashkv::HashKv;
use parking_lot::{Condvar, Mutex};
use storage::mvcc::{Change, HashRows, Revision, Root, View};

use crate::basics::error::Error;
use crate::config;
use crate::state::snapshot::row_of;
use places::Places;
use queue::Queue;

/// Number of compactions whose hashes are kept.
const KEPT: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvHash {
    pub hash: u32,
    /// -1 if never compacted.
    pub compact_revision: i64,
    pub hash_revision: i64,
    /// The store's revision at the time of the request.
    pub current_revision: i64,
}

/// A compaction whose rows are all removed.
#[derive(Clone, Copy, Debug)]
pub struct Compacted {
    pub revision: i64,
    pub took: Duration,
    pub rows: u64,
    /// Bytes that the store uses now.
    pub bytes: u64,
}

/// A hash to compute: of the history up to the compaction's revision, before the compaction.
pub struct HashJob {
    pub view: View,
    pub revision: i64,
    /// The oldest row that compactions removed since the view of the job before.
    pub oldest_removed: Option<Revision>,
}

#[derive(Default)]
pub struct Hashes {
    state: Mutex<State>,
    changed: Condvar,
    /// Readers that wait for a hash that is being computed.
    awaited: AtomicUsize,
}

#[derive(Default)]
struct State {
    kept: VecDeque<Kept>,
    queue: Queue,
    /// Of the last hash that was begun, also if it was given up.
    places: Option<Places>,
    /// Compactions to log once their hashes are known.
    ended: Vec<Compacted>,
    stopped: bool,
}

struct Kept {
    revision: i64,
    /// `None` while the job waits or runs.
    hash: Option<Result<KvHash, Error>>,
}

impl Hashes {
    /// Queues a job; must be called before its compaction is acknowledged. Of two that wait, and of
    /// one that runs and a more important one, only one is computed; the revision of the other has
    /// no kept hash.
    pub fn announce(&self, job: HashJob) {
        let mut state = self.state.lock();
        if state.kept.len() == KEPT {
            state.kept.pop_front();
        }
        state.kept.push_back(Kept {
            revision: job.revision,
            hash: None,
        });
        if let Some(gone) = state.queue.push(job, !self.is_awaited()) {
            state.kept.retain(|entry| entry.revision != gone);
        }
        state.tell();
        self.changed.notify_all();
    }

    /// Computes announced hashes until [`Hashes::stop`]. `begin` is called for each hash, and what
    /// it returns after each piece of work; if that breaks off, the hash is given up.
    pub fn run<F: FnMut() -> ControlFlow<()>>(&self, mut begin: impl FnMut() -> F) {
        while let Some((job, removed)) = self.next() {
            self.compute(&job, removed, &mut begin());
        }
    }

    /// Computes the waiting job, if there is one.
    pub fn run_one(&self) {
        let job = self.state.lock().queue.take();
        if let Some((job, removed)) = job {
            self.compute(&job, removed, &mut || ControlFlow::Continue(()));
        }
    }

    /// Ends [`Hashes::run`], also in the middle of a hash.
    pub fn stop(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        state.tell();
        self.changed.notify_all();
    }

    /// Logs a finished compaction, with its hash if there will be one.
    pub fn ended(&self, compacted: Compacted) {
        let mut state = self.state.lock();
        state.ended.push(compacted);
        state.tell();
    }

    /// True if a reader waits for a hash; its computation should then not rest.
    pub fn is_awaited(&self) -> bool {
        self.awaited.load(Ordering::Relaxed) > 0
    }

    /// The hash at `revision` (0: the current one). Waits if that hash is being computed.
    pub fn at(&self, root: &Root, revision: i64) -> Result<KvHash, Error> {
        self.at_while(root, revision, &mut || ControlFlow::Continue(()))
    }

    /// The same; fails with `Stopped` when `go_on` breaks off. `go_on` is called at intervals.
    pub fn at_while(
        &self,
        root: &Root,
        revision: i64,
        go_on: &mut dyn FnMut() -> ControlFlow<()>,
    ) -> Result<KvHash, Error> {
        let mut state = self.state.lock();
        while let Some(entry) = state.kept.iter().find(|entry| entry.revision == revision) {
            if let Some(hash) = &entry.hash {
                let current_revision = root.revision();
                return hash.clone().map(|hash| KvHash {
                    current_revision,
                    ..hash
                });
            }
            if state.stopped {
                return Err(Error::Stopped);
            }
            self.awaited.fetch_add(1, Ordering::Relaxed);
            self.changed.wait(&mut state);
            self.awaited.fetch_sub(1, Ordering::Relaxed);
        }
        drop(state);
        let current_revision = root.revision();
        if revision > 0 && revision < root.compacted() {
            return Err(Error::Compacted);
        }
        if revision > current_revision {
            return Err(Error::FutureRevision);
        }
        match revision {
            0 => current(root, go_on),
            revision => at_revision(root, revision, go_on),
        }
    }

    /// The known hashes of the last compactions, newest first.
    pub fn finished(&self) -> Vec<KvHash> {
        let state = self.state.lock();
        let known = |entry: &Kept| entry.hash.clone().and_then(Result::ok);
        let mut finished: Vec<KvHash> = state.kept.iter().filter_map(known).collect();
        finished.sort_by_key(|hash| std::cmp::Reverse(hash.hash_revision));
        finished
    }

    fn next(&self) -> Option<(HashJob, Option<Revision>)> {
        let mut state = self.state.lock();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(job) = state.queue.take() {
                return Some(job);
            }
            self.changed.wait(&mut state);
        }
    }

    /// A compaction at revision 0 has the hash of no rows. As in etcd, a request for the current
    /// hash (0) then returns it. `removed`: the oldest row removed since the last hash. The places
    /// of one that is given up are kept: the next one goes on from there, so that at last one ends.
    fn compute(
        &self,
        job: &HashJob,
        removed: Option<Revision>,
        rest: &mut dyn FnMut() -> ControlFlow<()>,
    ) {
        let mut places = self
            .state
            .lock()
            .places
            .clone()
            .unwrap_or_else(Places::none);
        let mut go_on = || {
            if rest().is_break() {
                let revision = job.revision;
                let text = "gave up the hash of a compaction; its view held space back";
                tracing::warn!(revision, "{text}");
                return ControlFlow::Break(());
            }
            let state = self.state.lock();
            if state.stopped || state.queue.is_superseded() {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let rows = job
            .view
            .hash_rows_at_compaction(job.revision, &mut go_on)
            .map_err(Error::from);
        let mut has_begun = false;
        let hash = rows.and_then(|rows| {
            let Some(rows) = rows else {
                return Err(Error::Stopped);
            };
            let same = rows.same_before();
            let same = same.map(|same| removed.map_or(same, |removed| same.min(removed)));
            let root = &job.view;
            let begin = places.begin(root.generation(), root.compacted(), same);
            has_begun = true;
            compute(root, job.revision, rows, begin, &mut places, &mut go_on)
        });
        let mut state = self.state.lock();
        state.queue.ended(removed.filter(|_| !has_begun));
        if has_begun {
            state.places = Some(places);
        }
        if matches!(hash, Err(Error::Stopped)) && !state.stopped {
            state.kept.retain(|entry| entry.revision != job.revision);
        }
        let mut kept = state.kept.iter_mut();
        if let Some(entry) = kept.find(|entry| entry.revision == job.revision) {
            entry.hash = Some(hash);
        }
        state.tell();
        self.changed.notify_all();
    }
}

impl State {
    /// Logs finished compactions whose hashes are known, or will not be computed.
    fn tell(&mut self) {
        let State {
            kept,
            ended,
            stopped,
            ..
        } = self;
        ended.retain(|compacted| {
            let entry = kept
                .iter()
                .find(|entry| entry.revision == compacted.revision);
            let digest = entry.map(|entry| entry.hash.as_ref());
            if matches!(digest, Some(None)) && !*stopped {
                return true;
            }
            let digest = digest.flatten().and_then(|digest| digest.as_ref().ok());
            log_end(compacted, digest.map(|digest| digest.hash));
            false
        });
    }
}

/// With etcd's text.
fn log_end(compacted: &Compacted, hash: Option<u32>) {
    let size = utl::humanized(compacted.bytes);
    tracing::info!(
        "compact-revision" = compacted.revision,
        took = config::duration(compacted.took),
        "number-of-keys-compacted" = compacted.rows,
        hash,
        "current-db-size-bytes" = compacted.bytes,
        "current-db-size" = size,
        "current-db-size-in-use-bytes" = compacted.bytes,
        "current-db-size-in-use" = size,
        "finished scheduled compaction"
    );
}

/// The hash of everything that `root` shows.
pub fn current(root: &Root, go_on: &mut dyn FnMut() -> ControlFlow<()>) -> Result<KvHash, Error> {
    at_revision(root, root.revision(), go_on)
}

fn at_revision(
    root: &Root,
    at: i64,
    go_on: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<KvHash, Error> {
    let Some(rows) = root.hash_rows(at, go_on)? else {
        return Err(Error::Stopped);
    };
    let begin = (Revision::default(), HashKv::new());
    compute(root, at, rows, begin, &mut Places::none(), go_on)
}

fn compute(
    root: &Root,
    at: i64,
    rows: HashRows<'_>,
    (from, mut digest): (Revision, HashKv),
    places: &mut Places,
    go_on: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<KvHash, Error> {
    let mut feed = |change: Change<'_>| {
        places.note(&change, &digest);
        match change {
            Change::Put { revision, item } => {
                digest.put(revision.main, revision.sub, &row_of(&item));
            }
            Change::Delete { revision, key } => digest.tombstone(revision.main, revision.sub, key),
        }
    };
    if at > 0 && rows.visit(from, &mut feed, go_on)?.is_break() {
        return Err(Error::Stopped);
    }
    Ok(KvHash {
        hash: digest.finish(),
        compact_revision: root.compacted(),
        hash_revision: at,
        current_revision: root.revision(),
    })
}

#[cfg(test)]
mod tests;
