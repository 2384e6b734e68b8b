//! The live versions of a range, one by one.

use std::ops::ControlFlow;

use super::{EachVersion, Flow, Root, end_of};
use crate::Result;
use crate::btree::Tree;
use crate::mvcc::key::{Stamp, VersionKey};
use crate::mvcc::keys::KeyCursor;
use crate::mvcc::{KeyRange, Revision};

/// Superseded versions of a key that a range steps over before it seeks past the rest: a step is
/// cheap, but a key may have a million versions.
const STEPS_MAX: usize = 6;

/// Deleted keys in a row that a range of the newest revision steps over before it asks the tree for
/// the next live one: before a compaction there may be a million of them.
const DEAD_MAX: usize = 8;

/// The same where there are delta trees: the way to the next live key is about thirty times longer.
const DEAD_MAX_WITH_DELTAS: usize = 256;

/// Moves over the versions in a range that are live at a revision, in key order.
pub(in crate::mvcc) struct LiveVersions<'a> {
    root: &'a Root,
    cursor: KeyCursor<'a>,
    range: KeyRange<'a>,
    at: i64,
    /// Deleted keys in a row after which to ask the trees for the next live key.
    dead_max: Option<usize>,
    place: Place,
    /// That of the current version.
    key: Vec<u8>,
}

enum Place {
    /// Before the first version of the range.
    Before,
    /// On a version.
    On,
    Behind,
}

impl<'a> LiveVersions<'a> {
    /// As the trees of keys have them, whatever deletions have taken.
    pub(in crate::mvcc) fn of_trees(root: &'a Root, range: KeyRange<'a>, at: i64) -> Self {
        let dead_max = if root.keys.is_plain() {
            DEAD_MAX
        } else {
            DEAD_MAX_WITH_DELTAS
        };
        let dead_max = (at >= root.revision).then_some(dead_max);
        LiveVersions::new(root, root.keys.cursor(&root.pages), range, at, dead_max)
    }

    /// Those that one tree has, which is like the base.
    pub(in crate::mvcc) fn of_tree(
        root: &'a Root,
        tree: &'a Tree,
        range: KeyRange<'a>,
        at: i64,
    ) -> Self {
        let cursor = KeyCursor::of_one(tree.cursor(&root.pages));
        LiveVersions::new(root, cursor, range, at, None)
    }

    fn new(
        root: &'a Root,
        cursor: KeyCursor<'a>,
        range: KeyRange<'a>,
        at: i64,
        dead_max: Option<usize>,
    ) -> Self {
        LiveVersions {
            root,
            cursor,
            range,
            at,
            dead_max,
            place: Place::Before,
            key: Vec::new(),
        }
    }

    /// The key of the current version.
    pub(in crate::mvcc) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The next version is the first one from `start` on, which is behind the current one.
    pub(in crate::mvcc) fn continue_from(&mut self, start: &'a [u8]) {
        self.range.start = start;
        self.place = Place::Before;
    }

    /// Moves to the next version. `None` behind the last one.
    pub(in crate::mvcc) fn next(&mut self) -> Result<Option<(Revision, Stamp)>> {
        let mut next = None;
        let _ = self.each(&mut |_, revision, stamp| {
            next = Some((revision, stamp));
            Ok(ControlFlow::Break(()))
        })?;
        Ok(next)
    }

    /// Calls `f` with each version behind the current one, until it breaks off: then that one is the
    /// current one.
    pub(in crate::mvcc) fn each(&mut self, f: &mut EachVersion<'_>) -> Result<Flow> {
        let LiveVersions {
            root,
            cursor,
            range,
            at,
            dead_max,
            place,
            key: user_key,
        } = self;
        let (root, range, at, dead_max) = (*root, *range, *at, *dead_max);
        let mut dead = 0;
        let mut more = match place {
            Place::Before => cursor.seek(&VersionKey::new(range.start, end_of(at)))?,
            Place::On => root.skip_to(cursor, user_key, 0)?,
            Place::Behind => false,
        };
        while more {
            let (key, revision) = root.split(cursor.key())?;
            if !range.contains(key) {
                break;
            }
            user_key.clear();
            user_key.extend_from_slice(key);
            if revision.main > at {
                more = root.skip_to(cursor, user_key, at)?;
                continue;
            }
            let stamp = root.stamp(cursor.value(), revision)?;
            if !stamp.is_tombstone() {
                dead = 0;
                if f(user_key, revision, stamp)?.is_break() {
                    *place = Place::On;
                    return Ok(ControlFlow::Break(()));
                }
            } else {
                dead += 1;
            }
            more = if dead_max.is_some_and(|dead_max| dead > dead_max) {
                dead = 0;
                root.next_live(cursor, user_key)?
            } else {
                root.skip_to(cursor, user_key, 0)?
            };
        }
        *place = Place::Behind;
        Ok(ControlFlow::Continue(()))
    }
}

impl Root {
    /// Moves past the versions of `key` that are newer than `at`, to its next version or to the
    /// next key.
    fn skip_to(&self, cursor: &mut KeyCursor<'_>, key: &[u8], at: i64) -> Result<bool> {
        for _ in 0..STEPS_MAX {
            if !cursor.next()? {
                return Ok(false);
            }
            let (found, revision) = self.split(cursor.key())?;
            if found != key || revision.main <= at {
                return Ok(true);
            }
        }
        cursor.seek(&VersionKey::new(key, end_of(at)))
    }
}
