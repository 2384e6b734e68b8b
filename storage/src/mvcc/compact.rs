//! Removing what a compaction made invisible, in steps, in proportion to what changed.
//!
//! After a compaction at C every key keeps its newest version not above C, and not even that when
//! it is a tombstone below C. After the one before, at P, that was so for P. So what is to be
//! removed now was superseded by a change in (P, C], or is a tombstone at exactly P. The walk goes
//! over the history from P through C in order and removes, for each change, the one version just
//! before it; and the change itself when it is a tombstone below C. Each change superseded exactly
//! one version that is still there: the older ones went with the changes before it.
//!
//! Found that way, the versions lie anywhere in the history. They are gathered first, and removed
//! from the oldest to the newest: so each page is changed once, and a checkpoint on the way writes
//! none that will change again.
//!
//! The place the walk has come to moves together with the trees in each checkpoint, with a whole
//! batch at a time. A batch that a crash cut short is gathered again, which finds what was not yet
//! removed of it: of two versions of a key the older one always went first. A compaction that comes
//! before the walk is over moves its end, but not that of the batch; when the walk was past the old
//! end, which only spared tombstones at exactly the old C, it goes back to there.

use std::ops::ControlFlow;
use std::vec;

use super::key::{self, VersionKey};
use super::{CompactProgress, Revision, Root, Store};
use crate::Result;

/// Versions removed in one batch: some megabytes of memory.
const BATCH_MAX: usize = 1 << 18;

/// How far the removal has come.
///
/// Invariant: no key has more than one version below `next`, and at or below the compacted
/// revision before the newest no row is left that it dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Compaction {
    pub(super) next: Revision,
    pub(super) done: bool,
}

impl Compaction {
    pub(super) const NONE: Compaction = Compaction {
        next: Revision { main: 0, sub: 0 },
        done: true,
    };

    /// There is a newer compaction than the one at `previous`.
    pub(super) fn extend(&mut self, previous: i64) {
        let main = previous.max(0);
        self.next = self.next.min(Revision { main, sub: 0 });
        self.done = false;
    }
}

/// What is being removed, between two places of the walk.
#[derive(Debug)]
pub(super) enum Batch {
    Gathering(Gathering),
    Removing {
        /// Rising.
        rows: vec::IntoIter<Revision>,
        /// Where the walk goes on.
        then: Revision,
        /// It is over, unless there was another compaction meanwhile.
        is_last: bool,
        bound: i64,
    },
}

#[derive(Debug)]
pub(super) struct Gathering {
    /// `None` at the end of the walk.
    from: Option<Revision>,
    /// The compacted revision when the batch was begun.
    bound: i64,
    rows: Vec<Revision>,
}

impl Store {
    pub(super) fn remove_superseded(&mut self, budget: usize) -> Result<CompactProgress> {
        let mut left = budget.max(1);
        let mut removed = 0;
        while left > 0 && !self.compaction.done {
            let begin = Batch::Gathering(Gathering {
                from: Some(self.compaction.next),
                bound: self.root.compacted,
                rows: Vec::new(),
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
                    let is_over = rows.len() == 0;
                    if is_over {
                        let done = is_last && bound == self.root.compacted;
                        self.compaction = Compaction { next: then, done };
                        self.root.settled = done;
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
            done: self.compaction.done,
            removed,
        })
    }

    fn remove_version(&mut self, revision: Revision) -> Result<bool> {
        let revision_key = key::revision_key(revision);
        let root = &mut self.root;
        let version_key = match root.revisions.get(&root.pages, &revision_key)? {
            None => return Ok(false),
            Some(found) => VersionKey::new(root.row(&found, revision)?.key, revision),
        };
        let writer = self.file.writer();
        root.keys.remove(writer, &version_key)?;
        root.revisions.remove(writer, &revision_key)
    }
}

impl Gathering {
    /// Adds what the next `left` changes superseded.
    fn step(&mut self, root: &Root, left: &mut usize) -> Result<()> {
        let Some(first) = self.from.take() else {
            return Ok(());
        };
        let (bound, rows, from) = (self.bound, &mut self.rows, &mut self.from);
        let mut versions = root.keys.cursor(&root.pages);
        root.rows_from(first, bound, &mut |revision, row| {
            if *left == 0 || rows.len() >= BATCH_MAX {
                *from = Some(revision);
                return Ok(ControlFlow::Break(()));
            }
            *left -= 1;
            let itself = VersionKey::new(row.key, revision);
            if !versions.seek(&itself)? || versions.key() != &*itself {
                return Err(root.damaged(format!("row {revision:?} is not in the key tree")));
            }
            if row.stamp.is_tombstone() && revision.main < bound {
                rows.push(revision);
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

    /// Goes on gathering, or begins to remove.
    fn next(mut self) -> Batch {
        let is_last = self.from.is_none();
        if !is_last && self.rows.len() < BATCH_MAX {
            return Batch::Gathering(self);
        }
        // A tombstone is found by itself, and by the change after it.
        self.rows.sort_unstable();
        self.rows.dedup();
        let end = Revision {
            main: self.bound,
            sub: 0,
        };
        Batch::Removing {
            rows: self.rows.into_iter(),
            then: self.from.unwrap_or(end),
            is_last,
            bound: self.bound,
        }
    }
}
