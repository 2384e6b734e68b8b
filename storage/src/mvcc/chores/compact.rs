//! Removes what a compaction made invisible, in steps, in proportion to what changed.
//!
//! After a compaction at C every key keeps its newest version not above C, and not even that if it
//! is a tombstone below C. After the previous compaction, at P, the same held for P. So every
//! version to remove now was superseded by a change in (P, C], or is a tombstone at exactly P. The
//! walk goes over the history from P through C in order. For each change it removes the one version
//! just before it, and the change itself if that is a tombstone below C. Each change superseded
//! exactly one version that still exists: the older ones went with the changes before it. If the
//! changes are a large part of the store, a walk over all keys finds the same versions in less time
//! (`gather`).
//!
//! The versions found this way are anywhere in the history. They are gathered first, and removed
//! from the oldest to the newest. So each page is changed once, and a checkpoint in between writes
//! no page that will change again. They are gathered all together where memory allows it: each batch
//! changes nearly every page of a history whose rows were overwritten at random.
//!
//! Each checkpoint stores the position in the history together with the trees, one whole batch at a
//! time; that of a walk over the keys stays where it was until all keys are done. If a crash
//! interrupts a batch, it is gathered again, and finds what was not yet removed of it: of two
//! versions of a key the older one was always removed first. A compaction that comes before the walk
//! ends moves the walk's end, but not that of the batch. If the walk was already past the old end,
//! it goes back there: it had only kept tombstones at exactly the old C.

mod gather;

use crate::Result;
use crate::mvcc::key;
use crate::mvcc::key::VersionKey;
use crate::mvcc::revision_set::Ascending;
use crate::mvcc::{CompactProgress, Revision, Store};
use gather::{Gathered, Gathering};

/// Memory of a batch: some twenty million versions.
pub(crate) const BATCH_BYTES_MAX: usize = if cfg!(any(test, fuzzing)) {
    24
} else {
    64 << 20
};

/// Rows that the disk looks for at the same time.
const ROWS_ANNOUNCED: usize = 256;

/// Progress of the removal.
///
/// Invariant: no key has more than one version below `next`. At or below the compacted revision
/// before the newest one, no row is left that that compaction dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Compaction {
    pub(crate) next: Revision,
    pub(crate) done: bool,
}

impl Compaction {
    pub(crate) const NONE: Compaction = Compaction {
        next: Revision { main: 0, sub: 0 },
        done: true,
    };

    /// A compaction newer than the one at `previous` was made.
    pub(crate) fn extend(&mut self, previous: i64) {
        let main = previous.max(0);
        self.next = self.next.min(Revision { main, sub: 0 });
        self.done = false;
    }
}

/// The versions being removed.
#[derive(Debug)]
pub(crate) enum Batch {
    Gathering(Gathering),
    Removing {
        rows: Ascending,
        then: Then,
        /// The compacted revision when the walk was begun.
        bound: i64,
    },
}

/// What comes after a batch is removed.
#[derive(Debug)]
pub(crate) enum Then {
    /// The walk over the history continues here. A compaction that came meanwhile counts.
    From(Revision),
    /// The walk over the keys continues.
    Gather(Gathering),
    /// The walk is over, unless another compaction came meanwhile.
    End,
}

impl Store {
    pub(crate) fn remove_superseded(&mut self, budget: usize) -> Result<CompactProgress> {
        let mut left = budget.max(1);
        let mut removed = 0;
        let done = self.root.compaction.done;
        let mut through = done.then_some(self.root.compacted);
        while left > 0 && through.is_none() && !self.root.is_deleting() {
            let root = &self.root;
            let batch = self.batch.take();
            let begin = || Batch::Gathering(Gathering::begin(root, self.batch_bytes_max));
            self.batch = match batch.unwrap_or_else(begin) {
                Batch::Gathering(mut gathering) => {
                    gathering.step(root, &mut left)?;
                    Some(match gathering.next() {
                        Gathered::More(gathering) => Batch::Gathering(gathering),
                        Gathered::Batch { rows, then, bound } => Batch::Removing {
                            rows: rows.ascending(),
                            then,
                            bound,
                        },
                    })
                }
                Batch::Removing {
                    mut rows,
                    then,
                    bound,
                } => {
                    self.touch();
                    let chunk = rows.by_ref().take(left.min(ROWS_ANNOUNCED));
                    let chunk: Vec<Revision> = chunk.collect();
                    self.root.announce_rows(&chunk);
                    left -= chunk.len();
                    for revision in chunk {
                        removed += usize::from(self.remove_version(revision)?);
                    }
                    if rows.is_empty() {
                        if let Then::End = then {
                            through = Some(bound);
                        }
                        self.removed_batch(then, bound)
                    } else {
                        Some(Batch::Removing { rows, then, bound })
                    }
                }
            };
        }
        Ok(CompactProgress {
            done: self.root.compaction.done,
            through,
            removed,
        })
    }

    /// Notes that a batch is removed. Returns what comes next of the same walk.
    fn removed_batch(&mut self, then: Then, bound: i64) -> Option<Batch> {
        let (next, done) = match then {
            Then::Gather(gathering) => return Some(Batch::Gathering(gathering)),
            Then::From(next) => (next, false),
            Then::End => (
                Revision {
                    main: bound,
                    sub: 0,
                },
                true,
            ),
        };
        self.root.compaction = Compaction { next, done };
        if bound != self.root.compacted {
            // The newer compaction came meanwhile, and moved the place before.
            self.root.compaction.extend(bound);
        }
        None
    }

    fn remove_version(&mut self, revision: Revision) -> Result<bool> {
        let revision_key = key::revision_key(revision);
        let root = &mut self.root;
        let key = match root.revisions.get(&root.pages, &revision_key)? {
            None => return Ok(false),
            Some(found) => root.row(&found, revision)?.key.to_vec(),
        };
        let oldest = self.oldest_removed.map_or(revision, |o| o.min(revision));
        self.oldest_removed = Some(oldest);
        let writer = self.file.writer();
        root.revisions.remove(writer, &revision_key)?;
        // Sizes are learned in the base alone, as in `Store::is_direct`.
        let is_older = self.unsized_from.is_some();
        if is_older || root.keys.is_direct(&self.delta_limits, key.len() as u64) {
            let version_key = VersionKey::new(&key, revision);
            root.keys.base.remove(writer, &version_key)?;
        } else {
            self.remove_delta(&key, revision)?;
        }
        Ok(true)
    }
}
