//! The key tree, and sorted changes in front of it.
//!
//! # Why
//!
//! A change of a random key changes a leaf of 4 KiB for an entry of some 60 bytes. As long as a
//! checkpoint comes after many changes to each leaf, that is cheap. In a tree that is larger than
//! the bound of changed pages it is not: each change writes its own leaf, and some branches. So the
//! changes of a large tree are collected until many of them fall into each leaf.
//!
//! # How
//!
//! The *base* is the key tree itself. *Delta trees* hold what changed since: one entry for each
//! version that was added, and one for each version that a compaction removed. They are trees like
//! the base, in the same page file, under the same root. So views, checkpoints, power cuts,
//! encryption, and the return of space are the same for all of them, and a start reads nothing but
//! root pages.
//!
//! ```text
//!   open     changes go here               age 0, newest
//!   closed   wait                          age 1 ..
//!   merging  are moved into the base       .. age `closed`, oldest
//!   base
//! ```
//!
//! 1. While the base is small and there are no deltas, changes go into the base directly.
//! 2. A checkpoint closes the open tree if it is large enough, and begins another. So most pages of
//!    a delta tree are written once.
//! 3. When enough trees are closed, all of them are merged: their entries are moved into the base,
//!    in key order, a few with each change (`merge`). Leaves of the base that the merge has passed
//!    are written at once, and leave memory.
//! 4. A merged tree is empty, and its place in the ring is free.
//!
//! Reads of one key pass by the delta trees that do not have it (`filter`). Ranges look into all.
//!
//! A put of a random key then writes its entry once into a delta tree, and its share of a leaf of
//! the base. If the trees that are merged together have *n* entries, and the base has *b* leaves,
//! the share is *b / n* leaves. Trees wait until they have as many entries as the base, but not
//! more than ten at once: so the share grows again with a base of more than some ten million keys.
//!
//! # What readers rely on
//!
//! - Each version of a key is in one tree. A delta tree may also hold a *mark* that the version is
//!   removed; the mark is in a newer tree than the version, or has taken its place.
//! - All versions of a key in a tree that is not merging are newer than those in older trees. Those
//!   in merging trees and the base are mixed: entries of one key move one by one.
//! - Versions of a key are removed from the oldest to the newest. So a mark says that all versions
//!   of its key below it are removed, too.
//!
//! # Counts
//!
//! The weight of a tree is that of its entries. In the base, the newest version of each key there
//! has the head mark, and weighs what the key weighs. In a delta tree, the newest version of each
//! key there has the head mark, too. It weighs the *difference* that the tree makes for the key:
//! its own weight, less what the key weighed below this tree, which is stored with it (`key`). So
//! the sum over all trees is right for every range of whole keys, and takes two descents in each.
//!
//! While a key is merged, the heads of all merging trees move together, the oldest first. So what a
//! step takes from the delta trees weighs what it adds to the base: the other versions weigh
//! nothing, in either.

mod announce;
mod cursor;
mod filter;
mod heads;
mod merge;
mod read;

use std::ops::Range;

use super::key::{self, REVISION_BYTES};
use super::{Bucket, Store};
use crate::Result;
use crate::btree::{KeyOrder, Pages, Tree, TreeKind, Weight};
pub(super) use cursor::KeyCursor;
use filter::{Filter, KeyHash};
pub(super) use heads::Heads;
pub(super) use read::newest_in;

/// Places for delta trees, of which one is open. Part of the disk format.
pub(super) const DELTA_TREES: usize = 12;

/// Leaves of the key tree are rewritten at random places: small leaves make small checkpoints.
const LEAF_BYTES: usize = 4096;

/// Bytes of leaves in the key tree up to which changes go into it directly: all of the tree is then a
/// third as large as the bound of changed pages. A put of a random key costs most just below, where
/// each checkpoint writes all of the tree.
pub const KEY_BYTES_DIRECT: u64 = 32 << 20;

/// Bytes of leaves from which on a delta tree is closed, before a small base and before a large one. A
/// checkpoint comes after 75,000 entries at most, less than 4 MiB of them: a tree before a small base is
/// written by two checkpoints. With trees of one the base would be merged twice as often. Before the
/// largest bases, trees of 60 MiB cost more in checkpoints than they save in merges (docs/engine.md).
const CLOSE_BYTES: u64 = 5 << 20;
const CLOSE_BYTES_MAX: u64 = 42 << 20;

/// Closed trees with which a merge begins in any case. While ten large ones are merged about one more
/// is closed, and one is open.
const MERGE_TREES_MAX: u8 = 10;
const _: () = assert!(MERGE_TREES_MAX as usize + 2 <= DELTA_TREES);

/// Bytes of an entry beside the user key: slot, lengths, revision and stamp.
const ENTRY_BYTES: u64 = 20 + REVISION_BYTES as u64;

/// A tree with less than so many bytes of leaves does not show what an entry takes.
const LEAF_BYTES_MEASURED: u64 = 1024 * LEAF_BYTES as u64;

/// The kind of the base.
pub(super) const BASE_KIND: TreeKind = TreeKind {
    id: 1,
    order: KeyOrder::KeyThenRevision,
    weigh: key::weigh,
    leaf_bytes: LEAF_BYTES,
    has_prefixes: true,
};

/// The kind of the delta tree at this place of the ring.
pub(super) const fn delta_kind(place: usize) -> TreeKind {
    /// Other trees of the file have the numbers before it.
    const FIRST_ID: u8 = 4;
    TreeKind {
        id: FIRST_ID + place as u8,
        order: KeyOrder::KeyThenRevision,
        weigh: key::weigh_delta,
        leaf_bytes: LEAF_BYTES,
        has_prefixes: true,
    }
}

/// When changes are collected, and how many. Tests make all of this small.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeltaLimits {
    /// Bytes of leaves up to which changes go into the base directly.
    pub(super) direct_bytes: u64,
    /// Bytes of leaves from which on a checkpoint closes the open tree: one in so many parts of the
    /// base, within these bounds. Each checkpoint until then writes the tree anew, and each merge
    /// writes the base anew: a larger base is worth a larger tree.
    pub(super) close_parts: u64,
    pub(super) close_bytes: u64,
    pub(super) close_bytes_max: u64,
    /// Closed trees with which a merge begins if they have one entry for so many of the base, and
    /// those with which it begins in any case. The more changes fall into a leaf of the base the
    /// better; but a range looks into each tree.
    pub(super) merge_trees: u8,
    pub(super) base_entries: u64,
    pub(super) merge_trees_max: u8,
    /// Changes between two steps of a merge, and entries that each step moves. A step takes some
    /// tenths of a millisecond.
    pub(super) merge_every: u32,
    pub(super) merge_entries: usize,
}

impl Default for DeltaLimits {
    fn default() -> DeltaLimits {
        DeltaLimits::beyond(KEY_BYTES_DIRECT)
    }
}

impl DeltaLimits {
    /// For a base that takes changes directly up to `direct_bytes`.
    pub(super) fn beyond(direct_bytes: u64) -> DeltaLimits {
        DeltaLimits {
            direct_bytes,
            close_parts: 16,
            close_bytes: CLOSE_BYTES.min(direct_bytes / 3),
            close_bytes_max: CLOSE_BYTES_MAX.min(direct_bytes * 4 / 3),
            merge_trees: 2,
            base_entries: 1,
            merge_trees_max: MERGE_TREES_MAX,
            merge_every: 32,
            merge_entries: 256,
        }
    }
}

/// The roles of the delta trees, by their places in a ring. Stored with each checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    /// The place of the open tree. The closed ones are at the places before it.
    open: u8,
    closed: u8,
    /// So many of the closed ones, the oldest, are being merged.
    merging: u8,
}

pub(super) const RING_BYTES: usize = 3;

/// A bit for each place of the ring.
pub(super) type PlaceSet = u16;
const _: () = assert!(DELTA_TREES <= PlaceSet::BITS as usize);

impl Ring {
    /// No delta trees but an empty open one.
    pub(super) const NONE: Ring = Ring {
        open: 0,
        closed: 0,
        merging: 0,
    };

    pub(super) fn encode(self) -> [u8; RING_BYTES] {
        [self.open, self.closed, self.merging]
    }

    /// `None` if there is no such ring.
    pub(super) fn decode([open, closed, merging]: [u8; RING_BYTES]) -> Option<Ring> {
        let places = DELTA_TREES as u8;
        let is_possible = open < places && closed < places && merging <= closed;
        is_possible.then_some(Ring {
            open,
            closed,
            merging,
        })
    }

    fn place(self, age: u8) -> usize {
        (usize::from(self.open) + DELTA_TREES - usize::from(age)) % DELTA_TREES
    }
}

/// All trees of one state that hold versions of keys.
#[derive(Clone, Debug)]
pub(super) struct KeyTrees {
    pub(super) base: Tree,
    deltas: [Tree; DELTA_TREES],
    /// One per delta tree.
    filters: [Filter; DELTA_TREES],
    /// Delta trees whose filter in the side tree has all their keys.
    saved: PlaceSet,
    ring: Ring,
    /// Entries of the base when its leaves were last counted, and their bytes.
    measured: Option<(u64, u64)>,
    /// As long as it stays the same, all changes are in the tree that is open, or in those that
    /// were closed before. In memory only.
    era: u64,
}

impl KeyTrees {
    pub(super) fn new(base: Tree, deltas: [Tree; DELTA_TREES], ring: Ring) -> KeyTrees {
        KeyTrees {
            base,
            deltas,
            filters: [const { Filter::UNKNOWN }; DELTA_TREES],
            saved: 0,
            ring,
            measured: None,
            era: 0,
        }
    }

    /// Learns what entries of the base take, if it has enough of them. Reads some branches.
    pub(super) fn measure(&mut self, pages: &Pages) -> Result<()> {
        let bytes = self.base.leaf_bytes(pages)?;
        self.measured = (bytes >= LEAF_BYTES_MEASURED).then_some((self.base.len(), bytes));
        Ok(())
    }

    /// About the bytes of a tree's leaves, if their keys have this average length.
    fn leaf_bytes(&self, tree: &Tree, key_bytes: u64) -> u64 {
        match self.measured {
            Some((entries, bytes)) => {
                let product = u128::from(tree.len()) * u128::from(bytes);
                u64::try_from(product / u128::from(entries.max(1))).unwrap_or(u64::MAX)
            }
            None => tree.len().saturating_mul(key_bytes + ENTRY_BYTES),
        }
    }

    pub(super) fn saved_filters(&self) -> PlaceSet {
        self.saved
    }

    pub(super) fn era(&self) -> u64 {
        self.era
    }

    /// A change goes into the base without having been in a delta tree.
    pub(super) fn note_direct(&mut self) {
        self.era += 1;
    }

    pub(super) fn ring(&self) -> Ring {
        self.ring
    }

    /// By place, not by age.
    pub(super) fn deltas(&self) -> &[Tree; DELTA_TREES] {
        &self.deltas
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Tree> {
        std::iter::once(&mut self.base).chain(&mut self.deltas)
    }

    /// There are no deltas.
    pub(super) fn is_plain(&self) -> bool {
        self.ring.closed == 0 && self.open().len() == 0
    }

    /// The next change goes into the base.
    pub(super) fn is_direct(&self, limits: &DeltaLimits, key_bytes: u64) -> bool {
        self.is_plain() && self.leaf_bytes(&self.base, key_bytes) <= limits.direct_bytes
    }

    pub(super) fn open(&self) -> &Tree {
        &self.deltas[self.ring.place(0)]
    }

    /// The open tree, to add an entry of `key` to it.
    fn open_mut(&mut self, key: &[u8]) -> &mut Tree {
        let place = self.ring.place(0);
        let (tree, filter) = (&mut self.deltas[place], &mut self.filters[place]);
        if tree.len() == 0 {
            *filter = Filter::new();
        }
        self.saved &= !(1 << place);
        filter.add(KeyHash::of(key));
        tree
    }

    /// The open tree may have entries of `key`.
    fn open_may_have(&self, key: &[u8]) -> bool {
        self.filters[self.ring.place(0)].may_have(KeyHash::of(key))
    }

    /// The open tree and the closed ones that wait, without empty ones, newest first.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Tree> {
        self.aged(0..self.first_merging(), None)
    }

    /// The trees being merged, without empty ones, newest first.
    pub(super) fn merging(&self) -> impl Iterator<Item = &Tree> {
        self.aged(self.first_merging()..self.ring.closed + 1, None)
    }

    /// Those of [`KeyTrees::waiting`] that may have entries of the key.
    fn waiting_with(&self, key: KeyHash) -> impl Iterator<Item = &Tree> {
        self.aged(0..self.first_merging(), Some(key))
    }

    /// Those of [`KeyTrees::merging`] that may have entries of the key.
    fn merging_with(&self, key: KeyHash) -> impl Iterator<Item = &Tree> {
        self.aged(self.first_merging()..self.ring.closed + 1, Some(key))
    }

    fn first_merging(&self) -> u8 {
        self.ring.closed + 1 - self.ring.merging
    }

    fn aged(&self, ages: Range<u8>, key: Option<KeyHash>) -> impl Iterator<Item = &Tree> {
        ages.map(|age| self.ring.place(age))
            .filter(move |place| key.is_none_or(|key| self.filters[*place].may_have(key)))
            .map(|place| &self.deltas[place])
            .filter(|tree| tree.len() > 0)
    }

    /// Closes the open tree if it is large enough, and begins a merge if there is enough to merge.
    pub(super) fn turn(&mut self, limits: &DeltaLimits, key_bytes: u64) {
        let is_room = usize::from(self.ring.closed) + 1 < DELTA_TREES;
        let full = self.leaf_bytes(&self.base, key_bytes) / limits.close_parts;
        let full = full.clamp(limits.close_bytes, limits.close_bytes_max);
        let is_full = self.leaf_bytes(self.open(), key_bytes) >= full;
        if is_room && is_full && self.open().len() > 0 {
            self.ring.open = (self.ring.open + 1) % DELTA_TREES as u8;
            self.ring.closed += 1;
            self.era += 1;
            assert_eq!(
                self.open().len(),
                0,
                "a place in the ring that was given up"
            );
        }
        if self.ring.merging > 0 {
            return;
        }
        let closed: u64 = self
            .aged(1..self.ring.closed + 1, None)
            .map(Tree::len)
            .sum();
        let is_much = closed.saturating_mul(limits.base_entries) >= self.base.len();
        if (is_much && self.ring.closed >= limits.merge_trees)
            || self.ring.closed >= limits.merge_trees_max
        {
            self.ring.merging = self.ring.closed;
        }
    }

    /// Sum of all weights.
    pub(super) fn weight(&self) -> Weight {
        let deltas: Weight = self.deltas.iter().map(Tree::weight).sum();
        (self.base.weight() + deltas).cut()
    }

    /// Sum of the weights of the entries before `key`, which no version of a key may be on both
    /// sides of.
    pub(super) fn weight_before(&self, pages: &Pages, key: &[u8]) -> Result<Weight> {
        let mut sum = self.base.weight_before(pages, key)?;
        for tree in self.deltas.iter().filter(|tree| tree.len() > 0) {
            sum = sum + tree.weight_before(pages, key)?;
        }
        Ok(sum.cut())
    }

    /// A cursor over the versions in all trees that are not removed. It is on no entry yet.
    pub(super) fn cursor<'a>(&'a self, pages: &'a Pages) -> KeyCursor<'a> {
        let places = (0..=self.ring.closed).map(|age| self.ring.place(age));
        let deltas = places.filter(|place| self.deltas[*place].len() > 0);
        let delta = |place: usize| (self.deltas[place].cursor(pages), &self.filters[place]);
        KeyCursor::new(self.base.cursor(pages), deltas.map(delta))
    }
}

impl super::Root {
    /// Takes the filters of these places from the side tree.
    pub(super) fn load_filters(&mut self, saved: PlaceSet) -> Result<()> {
        for place in (0..DELTA_TREES).filter(|place| saved & 1 << place != 0) {
            let row = self.side_get(Bucket::DeltaFilters, &[place as u8])?;
            let filter = row.and_then(|row| Filter::decode(&row));
            let what = || self.damaged(format!("the filter of delta tree {place}"));
            self.keys.filters[place] = filter.ok_or_else(what)?;
        }
        self.keys.saved = saved;
        Ok(())
    }
}

impl Store {
    /// Puts the filter of the open tree into the side tree, if the one there lacks keys.
    pub(super) fn save_filter(&mut self) {
        let keys = &self.root.keys;
        let place = keys.ring.place(0);
        if keys.saved & 1 << place != 0 {
            return;
        }
        let Some(bytes) = keys.filters[place].encode(keys.open().len()) else {
            return;
        };
        // If a page of the side tree cannot be read, whoever needs it reports that. The filter is
        // not among the saved ones then.
        if self
            .set_side(Bucket::DeltaFilters, &[place as u8], &bytes)
            .is_ok()
        {
            self.root.keys.saved |= 1 << place;
        }
    }
}

#[cfg(test)]
impl KeyTrees {
    /// Number of delta trees with entries, and of those that a read of `key` looks into.
    pub(super) fn delta_trees_of(&self, key: &[u8]) -> (usize, usize) {
        let ages = || 0..self.ring.closed + 1;
        let with_key = self.aged(ages(), Some(KeyHash::of(key)));
        (self.aged(ages(), None).count(), with_key.count())
    }
}

#[cfg(any(test, fuzzing))]
impl super::Root {
    /// Number of versions that are not removed.
    pub(super) fn versions(&self) -> Result<u64> {
        let mut cursor = self.keys.cursor(&self.pages);
        let mut count = 0;
        let mut more = cursor.seek(&key::VersionKey::newest_of(b""))?;
        while more {
            count += 1;
            more = cursor.next()?;
        }
        Ok(count)
    }
}
