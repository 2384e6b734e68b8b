//! Reads of single keys in all trees.

use std::cmp::Ordering;
use std::path::Path;

use super::super::key::{self, Stamp, VersionKey};
use super::super::view::end_of;
use super::super::{Revision, Root};
use super::{BASE_KIND, KeyCursor, KeyHash};
use crate::btree::{Key, Pages, Tree};
use crate::{Error, Result};

/// An entry of a tree of keys.
#[derive(Clone, Copy)]
pub(super) struct Version {
    pub(super) revision: Revision,
    pub(super) stamp: Stamp,
    pub(super) is_removed: bool,
}

impl Root {
    /// The newest version of `key`, which may be a tombstone.
    pub(in crate::mvcc) fn head(&self, key: &[u8]) -> Result<Option<(Revision, Stamp)>> {
        self.version_at(key, i64::MAX)
    }

    /// The newest version of `key` not above main revision `at`, which may be a tombstone.
    pub(in crate::mvcc) fn version_at(
        &self,
        key: &[u8],
        at: i64,
    ) -> Result<Option<(Revision, Stamp)>> {
        self.version_through(key, end_of(at))
    }

    /// The newest version of `key` older than `revision`, which may be a tombstone.
    pub(in crate::mvcc) fn version_before(
        &self,
        key: &[u8],
        revision: Revision,
    ) -> Result<Option<(Revision, Stamp)>> {
        let Revision { main, sub } = revision;
        let through = match sub {
            0 => end_of(main - 1),
            _ => Revision { main, sub: sub - 1 },
        };
        self.version_through(key, through)
    }

    /// The newest version of `key` that the trees of keys have.
    pub(super) fn trees_head(&self, key: &[u8]) -> Result<Option<(Revision, Stamp)>> {
        self.trees_version_through(key, Revision::MAX)
    }

    /// The newest version of `key` not above `through` that the trees of keys have.
    pub(in crate::mvcc) fn trees_version_through(
        &self,
        key: &[u8],
        through: Revision,
    ) -> Result<Option<(Revision, Stamp)>> {
        if self.keys.is_plain() {
            return self.tree_version_through(&self.keys.base, key, through);
        }
        let from = VersionKey::new(key, through);
        let hash = KeyHash::of(key);
        let waiting = self.keys.waiting_with(hash);
        let rest = self.keys.merging_with(hash).chain([&self.keys.base]);
        newest(
            waiting.map(|tree| self.first_in(tree, key, &from)),
            rest.map(|tree| self.first_in(tree, key, &from)),
        )
    }

    /// The newest version of `key` not above `through` in one tree, which is like the base.
    pub(in crate::mvcc) fn tree_version_through(
        &self,
        tree: &Tree,
        key: &[u8],
        through: Revision,
    ) -> Result<Option<(Revision, Stamp)>> {
        let version = self.first_in(tree, key, &VersionKey::new(key, through))?;
        Ok(version.map(|version| (version.revision, version.stamp)))
    }

    /// The newest version of `key` in the base.
    pub(in crate::mvcc) fn base_head(&self, key: &[u8]) -> Result<Option<(Revision, Stamp)>> {
        newest_in(&self.keys.base, &self.pages, &self.path, key)
    }

    /// The first entry of `key` in one of the trees of keys, from `from` on.
    fn first_in(&self, tree: &Tree, key: &[u8], from: &[u8]) -> Result<Option<Version>> {
        first_in(tree, &self.pages, &self.path, key, from)
    }

    /// An entry of one of the trees of keys, if it is one of `key`.
    pub(super) fn version(
        &self,
        key: &[u8],
        found: Key<'_>,
        value: &[u8],
    ) -> Result<Option<Version>> {
        version(&self.path, key, found, value)
    }

    /// Moves to the next live key after `key`, no matter how many dead ones are between; with
    /// deltas only near to it.
    pub(in crate::mvcc) fn next_live(
        &self,
        cursor: &mut KeyCursor<'_>,
        key: &[u8],
    ) -> Result<bool> {
        let behind = VersionKey::behind(key);
        let before = self.keys.weight_before(&self.pages, &behind)?.count;
        if !self.keys.is_plain() {
            return cursor.seek(&self.near_live(&behind, before)?);
        }
        match self.keys.base.key_at_count(&self.pages, before)? {
            Some(live) => cursor.seek(&live),
            None => Ok(false),
        }
    }

    /// A place from which on there are only a few leaves of each tree before the live key that
    /// `before` live ones precede. `from` is a place before that key. Halves what is between by the
    /// bounds of all trees.
    pub(in crate::mvcc) fn near_live(&self, from: &[u8], before: u64) -> Result<Vec<u8>> {
        let mut low = from.to_vec();
        let mut high: Option<Vec<u8>> = None;
        let is_less = |a: &[u8], b: &[u8]| BASE_KIND.order.compare(a, b) == Ordering::Less;
        loop {
            let mut middle: Option<(u8, Vec<u8>)> = None;
            for tree in self
                .keys
                .waiting()
                .chain(self.keys.merging())
                .chain([&self.keys.base])
            {
                let found = tree.bound_between(&self.pages, &low, high.as_deref())?;
                let level = |bound: &Option<(u8, Vec<u8>)>| bound.as_ref().map(|(level, _)| *level);
                if level(&found) > level(&middle) {
                    middle = found;
                }
            }
            let Some((_, bound)) = middle else {
                return Ok(low);
            };
            // Counts are right only between keys.
            let (user_key, _) = self.split(&bound)?;
            let mut place = VersionKey::newest_of(user_key);
            if !is_less(&low, &place) {
                place = VersionKey::behind(user_key);
            }
            let is_high = high.as_deref().is_some_and(|high| !is_less(&place, high));
            if is_high || self.keys.weight_before(&self.pages, &place)?.count > before {
                // A bound may be less than all versions of its key: below the place it would be
                // found again.
                let is_lower = is_less(&bound, &place);
                high = Some(if is_lower { bound } else { place.to_vec() });
            } else {
                low = place.to_vec();
            }
        }
    }
}

/// The newest version of `key` in one tree.
pub(in crate::mvcc) fn newest_in(
    tree: &Tree,
    pages: &Pages,
    path: &Path,
    key: &[u8],
) -> Result<Option<(Revision, Stamp)>> {
    let version = first_in(tree, pages, path, key, &VersionKey::newest_of(key))?;
    Ok(version.map(|version| (version.revision, version.stamp)))
}

fn first_in(
    tree: &Tree,
    pages: &Pages,
    path: &Path,
    key: &[u8],
    from: &[u8],
) -> Result<Option<Version>> {
    let first = tree.first_from(pages, from, |found, value| version(path, key, found, value))?;
    first.unwrap_or(Ok(None))
}

fn version(path: &Path, key: &[u8], found: Key<'_>, value: &[u8]) -> Result<Option<Version>> {
    let damaged = |what: String| Error::corrupt(path, 0, what);
    let (found, revision) = key::split_key(found)
        .ok_or_else(|| damaged("a key of the key tree is too short".to_owned()))?;
    if found != *key {
        return Ok(None);
    }
    let stamp = key::stamp(value, revision);
    let what = || damaged(format!("revision {revision:?} in the key tree"));
    Ok(Some(Version {
        revision,
        stamp: stamp.ok_or_else(what)?,
        is_removed: key::is_removed(value),
    }))
}

/// The newest version of a key that is not removed, of the first entries of the key in each tree:
/// in the `waiting` ones from the newest on, and in all others.
pub(super) fn newest(
    waiting: impl Iterator<Item = Result<Option<Version>>>,
    rest: impl Iterator<Item = Result<Option<Version>>>,
) -> Result<Option<(Revision, Stamp)>> {
    // All versions of the key up to this one are removed.
    let mut removed = Revision::default();
    for version in waiting {
        match version? {
            Some(version) if version.is_removed => removed = removed.max(version.revision),
            Some(version) if version.revision > removed => {
                return Ok(Some((version.revision, version.stamp)));
            }
            Some(_) => return Ok(None),
            None => {}
        }
    }
    let mut newest: Option<Version> = None;
    for version in rest {
        match version? {
            Some(version) if version.is_removed => removed = removed.max(version.revision),
            Some(version) if newest.is_none_or(|newest| newest.revision < version.revision) => {
                newest = Some(version);
            }
            _ => {}
        }
    }
    let newest = newest.filter(|version| version.revision > removed);
    Ok(newest.map(|version| (version.revision, version.stamp)))
}
