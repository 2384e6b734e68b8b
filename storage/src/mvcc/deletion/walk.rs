//! Ranges within the part of a deletion.

use std::ops::ControlFlow;

use super::attached::Attached;
use super::{Deletion, Taken};
use crate::Result;
use crate::btree::Weight;
use crate::mvcc::key::{self, Stamp, VersionKey};
use crate::mvcc::keys::Place;
use crate::mvcc::view::{EachVersion, Flow, LiveVersions};
use crate::mvcc::{KeyRange, Revision, Root};

/// Keys taken in a row that a range steps over before it looks how many more follow: there may be a
/// million of them.
const STEPS_MAX: usize = if cfg!(any(test, fuzzing)) { 2 } else { 256 };

impl Root {
    /// Calls `f` with each version of a range within the part that is live at `at`, which is not
    /// before the deletion, in key order.
    pub(in crate::mvcc) fn walk_part(
        &self,
        deletion: &Deletion,
        range: KeyRange<'_>,
        at: i64,
        f: &mut EachVersion<'_>,
    ) -> Result<Flow> {
        let mut since = LiveVersions::of_tree(self, &deletion.since, range, at);
        let attached = match &deletion.taken {
            Taken::All => return since.each(f),
            Taken::AttachedTo(attached) => attached,
        };
        let mut others = NotTaken::new(self, deletion, attached, range, at);
        let (mut of_since, mut of_others) = (since.next()?, others.next()?);
        loop {
            let is_since = match (of_since, of_others) {
                (None, None) => return Ok(ControlFlow::Continue(())),
                (Some(_), Some(_)) => since.key() < others.trees.key(),
                (of_since, _) => of_since.is_some(),
            };
            let (versions, version) = if is_since {
                (&since, of_since)
            } else {
                (&others.trees, of_others)
            };
            if let Some((revision, stamp)) = version
                && f(versions.key(), revision, stamp)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
            if is_since {
                of_since = since.next()?;
            } else {
                of_others = others.next()?;
            }
        }
    }

    /// What the live keys of a range within the part weigh; walks over them.
    pub(in crate::mvcc) fn weigh_part(
        &self,
        deletion: &Deletion,
        range: KeyRange<'_>,
    ) -> Result<Weight> {
        let mut sum = Weight::NONE;
        let _ = self.walk_part(deletion, range, i64::MAX, &mut |key, _, stamp| {
            sum = sum + stamp.weight(key);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(sum)
    }
}

/// The live versions in the trees of keys, without the keys of a lease that a deletion has taken.
struct NotTaken<'a> {
    root: &'a Root,
    deletion: &'a Deletion,
    attached: &'a Attached,
    trees: LiveVersions<'a>,
    /// Among the rows of the lease's keys.
    rows: Place<'a>,
    /// The row of the current key.
    row: Vec<u8>,
    /// All that is live now is seen: counts say what follows.
    is_newest: bool,
    /// Keys taken since the last one that is not.
    taken: usize,
}

impl<'a> NotTaken<'a> {
    fn new(
        root: &'a Root,
        deletion: &'a Deletion,
        attached: &'a Attached,
        range: KeyRange<'a>,
        at: i64,
    ) -> NotTaken<'a> {
        NotTaken {
            root,
            deletion,
            attached,
            trees: LiveVersions::of_trees(root, range, at),
            rows: Place::new(root.side.cursor(&root.pages)),
            row: Vec::new(),
            is_newest: at >= root.revision,
            taken: 0,
        }
    }

    fn next(&mut self) -> Result<Option<(Revision, Stamp)>> {
        while let Some(version) = self.trees.next()? {
            if !self.is_taken()? {
                self.taken = 0;
                return Ok(Some(version));
            }
            self.taken += 1;
            if self.taken > STEPS_MAX && self.is_newest {
                self.taken = 0;
                if let Some(start) = self.behind_taken()? {
                    self.trees.continue_from(start);
                }
            }
        }
        Ok(None)
    }

    /// The deletion takes the current key.
    fn is_taken(&mut self) -> Result<bool> {
        key::lease_key(&mut self.row, self.attached.lease(), self.trees.key());
        let found = self.rows.seek(&self.row)?;
        Ok(found.is_some_and(|found| *found.key() == *self.row))
    }

    /// The last mark before which all live keys from the current one on are taken.
    fn behind_taken(&self) -> Result<Option<&'a [u8]>> {
        let (root, key) = (self.root, self.trees.key());
        let live_before = |key: &[u8]| {
            let place = VersionKey::newest_of(key);
            let weight = root.keys.weight_before(&root.pages, &place);
            weight.map(|weight| weight.count)
        };
        let live = live_before(key)?;
        let taken = root.taken_before(self.deletion, self.attached, key)?;
        let marks = self.attached.marks();
        // All before `low` have only keys taken before them, and none from `high` on.
        let mut low = marks.partition_point(|mark| *mark.key <= *key);
        let (first, mut high) = (low, marks.len());
        while low < high {
            let middle = low.midpoint(high);
            let mark = &marks[middle];
            if live_before(&mark.key)? - live == mark.before - taken {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok((low > first).then(|| &*marks[low - 1].key))
    }
}
