//! Adds changes to the delta trees, and moves them into the base.

mod gather;

use std::path::Path;

use super::super::key::{self, Delta, HEAD, Stamp, StampBytes, VersionKey};
use super::super::{Revision, Root, Store};
use super::{BASE_KIND, DELTA_TREES, KeyTrees};
use crate::btree::{Key, Weight};
use crate::{Error, Result};
use gather::{Move, Then, gather};

/// Entries moved between two writes of the leaves that the merge has passed.
const ENTRIES_PER_SPILL: usize = 1024;

/// The entries that one tree loses: its first ones, the last of which has the key `last`.
#[derive(Clone, Copy, Default)]
struct Moved<'m> {
    entries: u64,
    last: &'m [u8],
}

impl Store {
    /// Puts a version into the open delta tree. `make` returns its stamp after it saw that of the
    /// newest version so far.
    pub(in crate::mvcc) fn push_delta(
        &mut self,
        key: &[u8],
        revision: Revision,
        make: impl FnOnce(Option<Stamp>) -> Stamp,
    ) -> Result<Stamp> {
        let head = self.root.open_head(key)?;
        let (old, below) = match &head {
            Some((_, delta)) => ((!delta.is_removed).then_some(delta.stamp), delta.below),
            None => {
                let old = self.root.trees_head(key)?.map(|(_, stamp)| stamp);
                (old, old.map_or(Weight::NONE, |stamp| stamp.weight(key)))
            }
        };
        let stamp = make(old);
        let bytes = StampBytes::of_delta(&stamp, revision, below);
        self.insert_open(key, revision, &bytes, head.map(|(head, _)| head))?;
        self.merge_a_little()?;
        Ok(stamp)
    }

    /// Puts a version into the open delta tree; returns its stamp, and that of the newest version so
    /// far. This is `older` unless the tree itself has the head. Makes no step of a merge.
    pub(in crate::mvcc) fn push_delta_after(
        &mut self,
        key: &[u8],
        revision: Revision,
        older: Option<Stamp>,
        make: impl Fn(Option<Stamp>) -> Stamp,
    ) -> Result<(Stamp, Option<Stamp>)> {
        let version_key = VersionKey::new(key, revision);
        let Store { root, file, .. } = self;
        let path = root.path.clone();
        let mut old = older;
        let make_after = |head: Option<Delta>, old: &mut Option<Stamp>| {
            let mut below = old.map_or(Weight::NONE, |stamp| stamp.weight(key));
            if let Some(delta) = head {
                *old = (!delta.is_removed).then_some(delta.stamp);
                below = delta.below;
            }
            StampBytes::of_delta(&make(*old), revision, below)
        };
        let open = root.keys.open_mut(key);
        let done = open.insert_before_next(file.writer(), &version_key, |next| {
            let mut head = None;
            if let Some((next, value)) = next {
                head = delta_head(&path, key, next, value)?;
                if head.is_some() {
                    value[0] &= !HEAD;
                }
            }
            Ok(make_after(head.map(|(_, delta)| delta), &mut old))
        })?;
        if !done {
            let head = root.open_head(key)?;
            let bytes = make_after(head.map(|(_, delta)| delta), &mut old);
            self.insert_open(key, revision, &bytes, head.map(|(head, _)| head))?;
        }
        Ok((make(old), old))
    }

    /// Puts a new head of its key into the open tree, instead of that with revision `old`.
    fn insert_open(
        &mut self,
        key: &[u8],
        revision: Revision,
        bytes: &StampBytes,
        old: Option<Revision>,
    ) -> Result<()> {
        let Store { root, file, .. } = self;
        let open = root.keys.open_mut(key);
        let version_key = VersionKey::new(key, revision);
        open.insert(file.writer(), &version_key, bytes.as_ref())?;
        if let Some(old) = old {
            let old = VersionKey::new(key, old);
            let found = open.update(file.writer(), &old, |value| value[0] &= !HEAD)?;
            assert!(found, "the head of a key is where it was just read");
        }
        Ok(())
    }

    /// Removes a version that exists.
    pub(in crate::mvcc) fn remove_delta(&mut self, key: &[u8], revision: Revision) -> Result<()> {
        let version_key = VersionKey::new(key, revision);
        let Store { root, file, .. } = self;
        let found = match root.keys.open().get(&root.pages, &version_key)? {
            Some(value) => Some(root.delta(&value, revision)?),
            None => None,
        };
        let open = root.keys.open_mut(key);
        match found {
            Some(delta) if delta.is_removed => {}
            // A head stays: the weight of its key below this tree is with it.
            Some(delta) if delta.stamp.flags & HEAD != 0 => {
                let mark = StampBytes::of_mark(Some(delta.below));
                open.insert(file.writer(), &version_key, mark.as_ref())?;
            }
            Some(_) => {
                open.remove(file.writer(), &version_key)?;
            }
            None => {
                let mark = StampBytes::of_mark(None);
                open.insert(file.writer(), &version_key, mark.as_ref())?;
            }
        }
        self.merge_a_little()
    }

    /// One change was made: merges some entries if a step is due.
    fn merge_a_little(&mut self) -> Result<()> {
        if self.root.keys.ring.merging == 0 {
            return Ok(());
        }
        self.unmerged += 1;
        // A checkpoint that runs owns the free space: leaves could not be written.
        if self.unmerged < self.delta_limits.merge_every || !self.file.can_spill() {
            return Ok(());
        }
        self.unmerged = 0;
        let began = self.merge_clock.map(|now| now());
        self.merge_step(self.delta_limits.merge_entries)?;
        if let (Some(now), Some(began)) = (self.merge_clock, began) {
            self.merge_time += now() - began;
        }
        Ok(())
    }

    /// Moves about `entries` entries.
    fn merge_step(&mut self, entries: usize) -> Result<()> {
        let moves = gather(&self.root, entries)?;
        announce(&self.root, &moves);
        if self.merged == 0
            && let Some(first) = moves.first()
        {
            let (user_key, _) = self.root.split(&first.key)?;
            self.merged_from = VersionKey::newest_of(user_key).to_vec();
        }
        self.merged += moves.len();
        let mut moved: [Moved<'_>; DELTA_TREES] = Default::default();
        for step in &moves {
            self.merge_one(step)?;
            let moved = &mut moved[step.place];
            moved.entries += 1;
            moved.last = &step.key;
        }
        for (tree, moved) in self.root.keys.deltas.iter_mut().zip(moved) {
            if moved.entries > 0 {
                let removed = tree.remove_through(self.file.writer(), moved.last)?;
                assert_eq!(removed, moved.entries, "an entry is moved once");
            }
        }
        self.root.keys.end_merge();
        if self.merged >= ENTRIES_PER_SPILL || self.root.keys.ring.merging == 0 {
            self.merged = 0;
            // Before that place nothing changed since it was written.
            let from = std::mem::take(&mut self.merged_from);
            self.file.spill_changed(&mut self.root.keys.base, from)?;
        }
        Ok(())
    }

    /// Changes the base by one entry of a merging tree, which stays there.
    fn merge_one(&mut self, step: &Move) -> Result<()> {
        let (user_key, _) = self.root.split(&step.key)?;
        match step.then {
            Then::Head(stamp) => {
                self.push_base(user_key, step.revision, |_| stamp)?;
            }
            Then::NoHead => self.unmark_base(user_key)?,
            Then::Older(stamp) => {
                let bytes = StampBytes::new(&stamp, step.revision);
                let base = &mut self.root.keys.base;
                base.insert(self.file.writer(), &step.key, bytes.as_ref())?;
            }
            Then::Remove => {
                let base = &mut self.root.keys.base;
                base.remove(self.file.writer(), &step.key)?;
            }
            Then::Nothing => {}
        }
        Ok(())
    }

    /// Removes the head mark from the key's newest version in the base.
    fn unmark_base(&mut self, key: &[u8]) -> Result<()> {
        let Store { root, file, .. } = self;
        if let Some((revision, _)) = root.base_head(key)? {
            let head = VersionKey::new(key, revision);
            let base = &mut root.keys.base;
            base.update(file.writer(), &head, |value| value[0] &= !HEAD)?;
        }
        Ok(())
    }
}

impl KeyTrees {
    fn end_merge(&mut self) {
        if self.ring.merging > 0 && self.merging().next().is_none() {
            self.ring.closed -= self.ring.merging;
            self.ring.merging = 0;
        }
    }
}

impl Root {
    /// The newest entry of `key` in the open tree, if that is the head there.
    fn open_head(&self, key: &[u8]) -> Result<Option<(Revision, Delta)>> {
        if !self.keys.open_may_have(key) {
            return Ok(None);
        }
        let newest = VersionKey::newest_of(key);
        let first = self
            .keys
            .open()
            .first_from(&self.pages, &newest, |found, value| {
                delta_head(&self.path, key, found, value)
            })?;
        first.unwrap_or(Ok(None))
    }

    fn delta(&self, value: &[u8], revision: Revision) -> Result<Delta> {
        delta(&self.path, value, revision)
    }
}

fn delta(path: &Path, value: &[u8], revision: Revision) -> Result<Delta> {
    let what = || format!("revision {revision:?} in a delta tree");
    key::delta(value, revision).ok_or_else(|| Error::corrupt(path, 0, what()))
}

/// The first entry from `key` on in a delta tree, if it is the head of `key` there.
fn delta_head(
    path: &Path,
    key: &[u8],
    found: Key<'_>,
    value: &[u8],
) -> Result<Option<(Revision, Delta)>> {
    let split = key::split_key(found);
    let what = "a key of a delta tree is too short";
    let (found, revision) = split.ok_or_else(|| Error::corrupt(path, 0, what))?;
    if found != *key {
        return Ok(None);
    }
    let delta = delta(path, value, revision)?;
    // Marks of versions in older trees come after the versions in this one.
    Ok((delta.stamp.flags & HEAD != 0).then_some((revision, delta)))
}

/// The leaves of the base that the moves change: the disk looks for all of them together.
fn announce(root: &Root, moves: &[Move]) {
    if !root.misses_pages() {
        return;
    }
    let moves = moves
        .iter()
        .filter(|step| !matches!(step.then, Then::Nothing));
    let mut places: Vec<&[u8]> = moves.map(|step| step.key.as_slice()).collect();
    // Heads of a key move before its other versions, the oldest first.
    places.sort_unstable_by(|a, b| BASE_KIND.order.compare(a, b));
    root.keys.base.announce_all(&root.pages, places.iter());
}
