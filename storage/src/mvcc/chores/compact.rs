//! Removes what a compaction made invisible, in steps, in proportion to what changed.
//!
//! After a compaction at C every key keeps its newest version not above C, and not even that if it
//! is a tombstone below C. After the previous compaction, at P, the same held for P. So every
//! version to remove now was superseded by a change in (P, C], or is a tombstone at exactly P. The
//! walk goes over the history from P through C in order. For each change it removes the one version
//! just before it, and the change itself if that is a tombstone below C. Each change superseded
//! exactly one version that still exists: the older ones went with the changes before it.
//!
//! The versions found this way are anywhere in the history. They are gathered first, and removed
//! from the oldest to the newest. So each page is changed once, and a checkpoint in between writes
//! no page that will change again. They are gathered all together where memory allows it: each batch
//! changes nearly every page of a history whose rows were overwritten at random.
//!
//! Each checkpoint stores the walk's position together with the trees, one whole batch at a time.
//! If a crash interrupts a batch, it is gathered again, and finds what was not yet removed of it:
//! of two versions of a key the older one was always removed first. A compaction that comes before
//! the walk ends moves the walk's end, but not that of the batch. If the walk was already past the
//! old end, it goes back there: it had only kept tombstones at exactly the old C.

use std::ops::ControlFlow;

use crate::Result;
use crate::mvcc::key;
use crate::mvcc::key::VersionKey;
use crate::mvcc::revision_set::{Ascending, RevisionSet};
use crate::mvcc::{CompactProgress, Revision, Root, Store};

/// Memory of a batch: some twenty million versions.
const BATCH_BYTES_MAX: usize = if cfg!(any(test, fuzzing)) {
    24
} else {
    64 << 20
};

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

/// The versions being removed, between two positions of the walk.
#[derive(Debug)]
pub(crate) enum Batch {
    Gathering(Gathering),
    Removing {
        rows: Ascending,
        /// Where the walk continues.
        then: Revision,
        /// The walk is over, unless another compaction came meanwhile.
        is_last: bool,
        bound: i64,
    },
}

#[derive(Debug)]
pub(crate) struct Gathering {
    /// `None` at the end of the walk.
    from: Option<Revision>,
    /// The compacted revision when the batch was begun.
    bound: i64,
    rows: RevisionSet,
}

impl Store {
    pub(crate) fn remove_superseded(&mut self, budget: usize) -> Result<CompactProgress> {
        let mut left = budget.max(1);
        let mut removed = 0;
        let done = self.root.compaction.done;
        let mut through = done.then_some(self.root.compacted);
        while left > 0 && through.is_none() && !self.root.is_deleting() {
            let begin = Batch::Gathering(Gathering {
                from: Some(self.root.compaction.next),
                bound: self.root.compacted,
                rows: RevisionSet::default(),
            });
            self.batch = match self.batch.take().unwrap_or(begin) {
                Batch::Gathering(mut gathering) => {
                    gathering.step(&self.root, &mut left)?;
                    Some(gathering.next())
                }
                Batch::Removing {
                    mut rows,
                    then,
                    is_last,
                    bound,
                } => {
                    self.touch();
                    for revision in rows.by_ref().take(left) {
                        removed += usize::from(self.remove_version(revision)?);
                        left -= 1;
                    }
                    let is_over = rows.is_empty();
                    if is_over {
                        through = is_last.then_some(bound);
                        self.root.compaction = Compaction {
                            next: then,
                            done: is_last,
                        };
                        if bound != self.root.compacted {
                            // The newer compaction came meanwhile, and moved the place before.
                            self.root.compaction.extend(bound);
                        }
                    }
                    (!is_over).then_some(Batch::Removing {
                        rows,
                        then,
                        is_last,
                        bound,
                    })
                }
            };
        }
        Ok(CompactProgress {
            done: self.root.compaction.done,
            through,
            removed,
        })
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
        if root.keys.is_direct(&self.delta_limits, key.len() as u64) {
            let version_key = VersionKey::new(&key, revision);
            root.keys.base.remove(writer, &version_key)?;
        } else {
            self.remove_delta(&key, revision)?;
        }
        Ok(true)
    }
}

impl Gathering {
    /// Adds the versions that the next `left` changes superseded.
    fn step(&mut self, root: &Root, left: &mut usize) -> Result<()> {
        let Some(first) = self.from.take() else {
            return Ok(());
        };
        let (bound, rows, from) = (self.bound, &mut self.rows, &mut self.from);
        let mut versions = root.keys.cursor(&root.pages);
        root.rows_from(first, bound, &mut |revision, row| {
            if *left == 0 || rows.bytes() >= BATCH_BYTES_MAX {
                *from = Some(revision);
                return Ok(ControlFlow::Break(()));
            }
            *left -= 1;
            if row.stamp.is_tombstone() && revision.main < bound {
                rows.push(revision);
            }
            // Of a key that it made there is no older version, except a tombstone, which goes itself.
            if row.stamp.version == 1 {
                return Ok(ControlFlow::Continue(()));
            }
            let is_there = versions.seek_version(row.key, revision)?;
            if !is_there || versions.key() != &*VersionKey::new(row.key, revision) {
                return Err(root.damaged(format!("row {revision:?} is not in the key tree")));
            }
            if versions.next()? {
                let (key, older) = root.split(versions.key())?;
                if key == row.key {
                    rows.push(older);
                }
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Continues gathering, or begins to remove.
    fn next(self) -> Batch {
        let is_last = self.from.is_none();
        if !is_last && self.rows.bytes() < BATCH_BYTES_MAX {
            return Batch::Gathering(self);
        }
        let end = Revision {
            main: self.bound,
            sub: 0,
        };
        Batch::Removing {
            // A tombstone is found twice: by itself, and by the change after it.
            rows: self.rows.ascending(),
            then: self.from.unwrap_or(end),
            is_last,
            bound: self.bound,
        }
    }
}
