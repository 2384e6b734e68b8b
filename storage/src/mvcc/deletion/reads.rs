//! What readers see of a deletion that is not written completely.

use std::ops::ControlFlow;

use super::super::key::{Row, Stamp, VersionKey};
use super::super::view::{Flow, end_of};
use super::super::write::lease_of;
use super::super::{Bucket, End, KeyRange, Revision, Root};
use super::{RangeDeletion, TOMB};
use crate::Result;
use crate::btree::{Tree, Weight};

impl Root {
    /// True if a deletion is not written completely.
    pub fn is_deleting(&self) -> bool {
        !self.deletions.is_empty()
    }

    /// Number of tombstones not written yet.
    pub fn unwritten_deletes(&self) -> u64 {
        self.deletions.iter().map(|deletion| deletion.left).sum()
    }

    /// The deletion that has taken `key`, if its revision is not above `through`.
    pub(in crate::mvcc) fn deletion_of(
        &self,
        key: &[u8],
        through: Revision,
    ) -> Option<&RangeDeletion> {
        let of_key = |deletion: &&RangeDeletion| deletion.range().contains(key);
        let deletion = self.deletions.iter().find(of_key)?;
        (deletion.last() <= through).then_some(deletion)
    }

    /// The newest version of a key that a deletion has taken, and that did not change since.
    pub(in crate::mvcc) fn deleted_by(
        &self,
        deletion: &RangeDeletion,
        key: &[u8],
    ) -> Result<Option<(Revision, Stamp)>> {
        let newest = self.trees_head(key)?;
        if newest.is_none_or(|(_, stamp)| stamp.is_tombstone()) {
            return Ok(newest);
        }
        let live_before = |key: &[u8]| {
            let place = VersionKey::newest_of(key);
            self.keys.weight_before(&self.pages, &place)
        };
        let before = live_before(key)? - live_before(&deletion.start)?;
        let revision = Revision {
            sub: deletion.next.sub + before.count as i64,
            ..deletion.next
        };
        Ok(Some((revision, TOMB)))
    }

    /// The range in pieces, in key order. Those with a tree have their versions at `at` there; the
    /// others have them in the trees of keys.
    pub(in crate::mvcc) fn pieces<'a>(
        &'a self,
        range: KeyRange<'a>,
        at: i64,
    ) -> Vec<(KeyRange<'a>, Option<&'a Tree>)> {
        if range.end == End::Single {
            let deletion = self.deletion_of(range.start, end_of(at));
            return vec![(range, deletion.map(RangeDeletion::since))];
        }
        let mut parts: Vec<&RangeDeletion> = self.deletions.iter().collect();
        parts.retain(|deletion| deletion.main() <= at);
        parts.sort_by(|a, b| a.start.cmp(&b.start));
        let mut pieces = Vec::with_capacity(2 * parts.len() + 1);
        let mut rest = Some(range);
        for deletion in parts {
            let Some(range) = rest else { break };
            let part = deletion.range();
            let (before, others) = cut(range, part.start);
            let (within, behind) = match part.end {
                End::Before(end) => others.map_or((None, None), |others| cut(others, end)),
                _ => (others, None),
            };
            pieces.extend(before.map(|piece| (piece, None)));
            pieces.extend(within.map(|piece| (piece, Some(&deletion.since))));
            rest = behind;
        }
        pieces.extend(rest.map(|piece| (piece, None)));
        pieces
    }

    /// What deletions change in the number of live keys; wraps around.
    pub(in crate::mvcc) fn live_keys_of_deletions(&self) -> u64 {
        let since = self
            .deletions
            .iter()
            .map(|deletion| deletion.since.weight());
        let Weight { count, .. } = since.sum();
        count.wrapping_sub(self.unwritten_deletes())
    }

    /// The tombstones not written yet, of the main revisions up to `through` and of revisions from
    /// `first` on, as readers of history take them up.
    pub(in crate::mvcc) fn unwritten(&self, first: Revision, through: i64) -> Unwritten<'_> {
        let deletions = self.deletions.iter();
        let mut deletions: Vec<&RangeDeletion> = deletions
            .filter(|deletion| deletion.last() >= first && deletion.main() <= through)
            .collect();
        // The last one comes first.
        deletions.reverse();
        Unwritten {
            root: self,
            first,
            deletions,
        }
    }

    /// True if a row of a lease's key tells of a version that a deletion has taken.
    pub(in crate::mvcc) fn is_detached(&self, bucket: Bucket, row: &[u8]) -> Result<bool> {
        if self.deletions.is_empty() || bucket != Bucket::LeaseKeys {
            return Ok(false);
        }
        let Some((lease, key)) = row.split_first_chunk() else {
            return Err(self.damaged("a row of a lease's key is too short"));
        };
        if self.deletion_of(key, Revision::MAX).is_none() {
            return Ok(false);
        }
        let newest = self.head(key)?.map(|(_, stamp)| stamp);
        Ok(lease_of(newest) != i64::from_be_bytes(*lease))
    }
}

/// See [`Root::unwritten`].
pub(in crate::mvcc) struct Unwritten<'a> {
    root: &'a Root,
    first: Revision,
    deletions: Vec<&'a RangeDeletion>,
}

impl Unwritten<'_> {
    /// Hands over all that come before `revision`.
    pub(in crate::mvcc) fn before(
        &mut self,
        revision: Revision,
        f: &mut dyn FnMut(Revision, Row<'_>) -> Result<Flow>,
    ) -> Result<Flow> {
        while let Some(deletion) = self.deletions.pop_if(|deletion| deletion.next < revision) {
            let live = i64::MAX;
            let mut revision = deletion.next;
            let mut tell = |key: &[u8], _: Revision, _: Stamp| {
                let at = revision;
                revision.sub += 1;
                if at < self.first {
                    return Ok(ControlFlow::Continue(()));
                }
                let (stamp, value) = (TOMB, &[][..]);
                f(at, Row { stamp, key, value })
            };
            let flow = self.root.walk_trees(deletion.range(), live, &mut tell)?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// The range before `at`, and from there on.
fn cut<'a>(range: KeyRange<'a>, at: &'a [u8]) -> (Option<KeyRange<'a>>, Option<KeyRange<'a>>) {
    let ends_before = match range.end {
        End::Before(end) => end <= at,
        _ => false,
    };
    if ends_before {
        return (Some(range), None);
    }
    if at <= range.start {
        return (None, Some(range));
    }
    let before = KeyRange {
        end: End::Before(at),
        ..range
    };
    (Some(before), Some(KeyRange { start: at, ..range }))
}
