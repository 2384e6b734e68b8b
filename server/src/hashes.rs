//! HashKV: digests of history that members and tools compare. etcd keeps the digests of its last
//! compactions, taken just before each one removed anything, and answers with those for exactly
//! their revisions; so does this.

use std::collections::VecDeque;

use etcd_files::hashkv::{HashKv, Row};
use parking_lot::{Condvar, Mutex};
use storage::mvcc::{Change, Root};

use crate::error::Error;

/// How many compactions' digests are kept.
const KEPT: usize = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvHash {
    pub hash: u32,
    /// -1: never compacted.
    pub compact_revision: i64,
    pub hash_revision: i64,
    /// The store's revision when asked.
    pub current_revision: i64,
}

#[derive(Default)]
pub struct Hashes {
    kept: Mutex<VecDeque<Kept>>,
    finished: Condvar,
}

struct Kept {
    revision: i64,
    /// `None` while it is being computed.
    hash: Option<Result<KvHash, Error>>,
}

impl Hashes {
    /// Announces a digest to come, before the compaction is acknowledged.
    pub fn begin(&self, revision: i64) {
        let mut kept = self.kept.lock();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(Kept {
            revision,
            hash: None,
        });
    }

    /// Computes what `begin` announced; `root` is from before the compaction. A compaction at 0 has
    /// the digest of no rows, and from then on etcd answers with that when asked for the current
    /// one.
    pub fn finish(&self, root: &Root, revision: i64) {
        let hash = compute(root, revision, Root::hash_rows_at_compaction);
        let mut kept = self.kept.lock();
        if let Some(entry) = kept.iter_mut().find(|entry| entry.revision == revision) {
            entry.hash = Some(hash);
        }
        self.finished.notify_all();
    }

    /// The digest at `revision` (0: the current one). Waits for one that is being computed.
    pub fn at(&self, root: &Root, revision: i64) -> Result<KvHash, Error> {
        let mut kept = self.kept.lock();
        while let Some(entry) = kept.iter().find(|entry| entry.revision == revision) {
            if let Some(hash) = &entry.hash {
                let current_revision = root.revision();
                return hash.clone().map(|hash| KvHash {
                    current_revision,
                    ..hash
                });
            }
            self.finished.wait(&mut kept);
        }
        drop(kept);
        let current_revision = root.revision();
        if revision > 0 && revision < root.compacted() {
            return Err(Error::Compacted);
        }
        if revision > current_revision {
            return Err(Error::FutureRevision);
        }
        compute(
            root,
            if revision == 0 {
                current_revision
            } else {
                revision
            },
            Root::hash_rows,
        )
    }
}

/// One of the two ways to ask a root for the rows to hash.
type Rows = fn(&Root, i64, &mut dyn FnMut(Change<'_>)) -> storage::Result<()>;

fn compute(root: &Root, at: i64, rows: Rows) -> Result<KvHash, Error> {
    let mut digest = HashKv::new();
    let mut feed = |change: Change<'_>| match change {
        Change::Put { revision, item } => digest.put(
            revision.main,
            revision.sub,
            &Row {
                key: item.key,
                value: item.value,
                create_revision: item.create_revision,
                mod_revision: item.mod_revision,
                version: item.version,
                lease: item.lease,
            },
        ),
        Change::Delete { revision, key } => digest.tombstone(revision.main, revision.sub, key),
    };
    if at > 0 {
        rows(root, at, &mut feed)?;
    }
    Ok(KvHash {
        hash: digest.finish(),
        compact_revision: root.compacted(),
        hash_revision: at,
        current_revision: root.revision(),
    })
}
