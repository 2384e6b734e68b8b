//! Removing what a compaction made invisible, in steps, in proportion to what changed.
//!
//! After a compaction at C every key keeps its newest version not above C, and not even that when
//! it is a tombstone below C. After the one before, at P, that was so for P. So what is to be
//! removed now was superseded by a change in (P, C], or is a tombstone at exactly P. The walk goes
//! over the history from P through C in order and removes, for each change, the one version just
//! before it; and the change itself when it is a tombstone below C. Each change superseded exactly
//! one version that is still there: the older ones went with the changes before it.
//!
//! The place the walk has come to moves together with the trees in each checkpoint. A compaction
//! that comes before the walk is over moves its end; when the walk was past the old end, which
//! only spared tombstones at exactly the old C, it goes back to there.

use std::ops::ControlFlow;

use super::key::{self, VersionKey};
use super::{CompactProgress, Revision, Root, Store};
use crate::Result;

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

impl Store {
    pub(super) fn remove_superseded(&mut self, budget: usize) -> Result<CompactProgress> {
        if self.compaction.done {
            return Ok(CompactProgress {
                done: true,
                removed: 0,
            });
        }
        let found = superseded(&self.root, self.compaction.next, budget.max(1))?;
        let mut removed = 0;
        let mut start = 0;
        for &(end, revision) in &found.rows {
            let version_key = VersionKey::new(&found.bytes[start..end], revision);
            start = end;
            let writer = self.file.writer();
            let was_there = self.root.keys.remove(writer, &version_key)?;
            self.root
                .revisions
                .remove(writer, &key::revision_key(revision))?;
            removed += usize::from(was_there);
        }
        self.dirty = true;
        self.compaction = match found.next {
            Some(next) => Compaction { next, done: false },
            None => {
                let main = self.root.compacted;
                Compaction {
                    next: Revision { main, sub: 0 },
                    done: true,
                }
            }
        };
        self.root.settled = self.compaction.done;
        Ok(CompactProgress {
            done: self.compaction.done,
            removed,
        })
    }
}

/// Versions to remove: their keys one behind the other, the end of each and its revision.
#[derive(Default)]
struct Superseded {
    bytes: Vec<u8>,
    rows: Vec<(usize, Revision)>,
    /// Where to go on; `None` at the end of the walk.
    next: Option<Revision>,
}

impl Superseded {
    fn push(&mut self, key: &[u8], revision: Revision) {
        self.bytes.extend_from_slice(key);
        self.rows.push((self.bytes.len(), revision));
    }
}

/// What the next `budget` changes from `first` on superseded.
fn superseded(root: &Root, first: Revision, budget: usize) -> Result<Superseded> {
    let mut found = Superseded::default();
    let mut left = budget;
    let mut versions = root.keys.cursor(&root.pages);
    root.rows_from(first, root.compacted, &mut |revision, row| {
        if left == 0 {
            found.next = Some(revision);
            return Ok(ControlFlow::Break(()));
        }
        left -= 1;
        let itself = VersionKey::new(row.key, revision);
        if !versions.seek(&itself)? || versions.key() != &*itself {
            return Err(root.damaged(format!("row {revision:?} is not in the key tree")));
        }
        if row.stamp.is_tombstone() && revision.main < root.compacted {
            found.push(row.key, revision);
        }
        if versions.next()? {
            let (key, older) = root.split(versions.key())?;
            if key == row.key {
                found.push(key, older);
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}
