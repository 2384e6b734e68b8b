//! Finds the versions to remove, in steps, in one of two ways.
//!
//! **By the changes.** To find what a change superseded takes a descent to its key, anywhere in the
//! key tree: some microseconds. That is in proportion to what changed.
//!
//! **By the keys.** A walk over all keys in order meets each version in a tenth of the time, and
//! reads no history. That is in proportion to the store.

use std::ops::ControlFlow;

use super::Then;
use crate::Result;
use crate::mvcc::key::{self, VersionKey};
use crate::mvcc::keys::BASE_KIND;
use crate::mvcc::revision_set::RevisionSet;
use crate::mvcc::{Revision, Root};

/// Versions that a walk over the keys passes in the time of one descent, at least.
const VERSIONS_PER_DESCENT: usize = 8;

/// Changes whose keys the disk looks for at the same time.
const CHANGES_ANNOUNCED: usize = 256;

/// A batch that is being gathered.
#[derive(Debug)]
pub(crate) struct Gathering {
    walk: Walk,
    /// The compacted revision when the walk was begun.
    bound: i64,
    rows: RevisionSet,
    /// Bytes of `rows` with which they are a batch.
    bytes_max: usize,
}

#[derive(Debug)]
enum Walk {
    /// From this change on.
    Changes(Revision),
    Keys(KeyWalk),
    End,
}

/// A place in the walk over the keys.
#[derive(Debug)]
struct KeyWalk {
    /// Where it continues: a whole key of the key tree.
    from: Vec<u8>,
    /// The user key of the last version.
    key: Vec<u8>,
    /// The newest version of this key not above the bound was passed: all that follow are superseded.
    is_superseded: bool,
}

/// What a step came to.
pub(super) enum Gathered {
    /// There is more to gather.
    More(Gathering),
    Batch {
        rows: RevisionSet,
        then: Then,
        bound: i64,
    },
}

impl Gathering {
    /// The walk over what the newest compaction of `root` left to remove.
    pub(super) fn begin(root: &Root, bytes_max: usize) -> Gathering {
        let (next, bound) = (root.compaction.next, root.compacted);
        // There are at least as many changes as main revisions.
        let changes = u64::try_from(bound - next.main).unwrap_or(0);
        let walk = if changes.saturating_mul(VERSIONS_PER_DESCENT as u64) >= root.revisions.len() {
            Walk::Keys(KeyWalk {
                from: VersionKey::newest_of(b"").to_vec(),
                key: Vec::new(),
                is_superseded: false,
            })
        } else {
            Walk::Changes(next)
        };
        Gathering {
            walk,
            bound,
            rows: RevisionSet::default(),
            bytes_max,
        }
    }

    /// Takes as long as `left` descents, or as some of them while pages are missing.
    pub(super) fn step(&mut self, root: &Root, left: &mut usize) -> Result<()> {
        self.walk = match std::mem::replace(&mut self.walk, Walk::End) {
            Walk::Changes(from) if root.misses_pages() => {
                let part = (*left).min(CHANGES_ANNOUNCED);
                announce(root, from, self.bound, part)?;
                let mut left_of_part = part;
                let walk = self.by_changes(root, from, &mut left_of_part)?;
                *left -= part - left_of_part;
                walk
            }
            Walk::Changes(from) => self.by_changes(root, from, left)?,
            Walk::Keys(walk) => self.by_keys(root, walk, left)?,
            Walk::End => Walk::End,
        };
        Ok(())
    }

    /// Continues gathering, or begins to remove.
    pub(super) fn next(self) -> Gathered {
        let is_full = self.is_full();
        let (rows, bound) = (self.rows, self.bound);
        let then = match self.walk {
            Walk::End => Then::End,
            _ if !is_full => return Gathered::More(Gathering { rows, ..self }),
            Walk::Changes(from) => Then::From(from),
            Walk::Keys(_) => Then::Gather(Gathering {
                rows: RevisionSet::default(),
                ..self
            }),
        };
        Gathered::Batch { rows, then, bound }
    }

    fn is_full(&self) -> bool {
        self.rows.bytes() >= self.bytes_max
    }

    /// Adds the versions that the next `left` changes superseded.
    fn by_changes(&mut self, root: &Root, from: Revision, left: &mut usize) -> Result<Walk> {
        let (bound, bytes_max, rows) = (self.bound, self.bytes_max, &mut self.rows);
        let mut walk = Walk::End;
        let mut versions = root.keys.cursor(&root.pages);
        root.rows_from(from, bound, &mut |revision, row| {
            if *left == 0 || rows.bytes() >= bytes_max {
                walk = Walk::Changes(revision);
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
        })?;
        Ok(walk)
    }

    /// Adds what is superseded of the next versions, in the order of keys. All versions of a key are
    /// in one batch, so that the older of two is removed first.
    fn by_keys(&mut self, root: &Root, mut walk: KeyWalk, left: &mut usize) -> Result<Walk> {
        let mut versions = root.keys.cursor(&root.pages);
        let mut more = versions.seek(&walk.from)?;
        let mut versions_left = left.saturating_mul(VERSIONS_PER_DESCENT);
        while more {
            let (key, revision) = root.split(versions.key())?;
            let is_next_key = walk.key != key;
            let is_full = self.is_full();
            if is_full && !is_next_key {
                // This key has more versions than a batch may hold, and all of them must be in one.
                // The changes give the oldest first, so any part of them is a batch.
                self.rows = RevisionSet::default();
                *left = 0;
                return Ok(Walk::Changes(root.compaction.next));
            }
            if is_full || versions_left == 0 {
                walk.from.clear();
                walk.from.extend_from_slice(versions.key());
                break;
            }
            versions_left -= 1;
            if is_next_key {
                walk.key.clear();
                walk.key.extend_from_slice(key);
                walk.is_superseded = false;
            }
            if revision.main <= self.bound {
                let is_last_change = !std::mem::replace(&mut walk.is_superseded, true);
                let stays = !key::is_tombstone(versions.value()) || revision.main == self.bound;
                if !(is_last_change && stays) {
                    self.rows.push(revision);
                }
            }
            more = versions.next()?;
        }
        *left = versions_left / VERSIONS_PER_DESCENT;
        Ok(if more { Walk::Keys(walk) } else { Walk::End })
    }
}

/// What the next changes superseded is anywhere in the base: the disk looks for all of it together.
fn announce(root: &Root, from: Revision, through: i64, changes: usize) -> Result<()> {
    let mut places: Vec<Vec<u8>> = Vec::new();
    let mut left = changes;
    root.rows_from(from, through, &mut |revision, row| {
        if left == 0 {
            return Ok(ControlFlow::Break(()));
        }
        left -= 1;
        if row.stamp.version != 1 {
            places.push(VersionKey::new(row.key, revision).to_vec());
        }
        Ok(ControlFlow::Continue(()))
    })?;
    places.sort_unstable_by(|a, b| BASE_KIND.order.compare(a, b));
    root.keys.base.announce_all(&root.pages, places.iter());
    Ok(())
}
