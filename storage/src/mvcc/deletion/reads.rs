//! What readers see of a deletion that is not written completely.

use std::ops::ControlFlow;

use super::super::key::{Row, Stamp, VersionKey};
use super::super::view::{Flow, end_of};
use super::super::write::lease_of;
use super::super::{Bucket, End, KeyRange, Revision, Root};
use super::{Deletion, TOMB};
use crate::Result;
use crate::btree::Weight;

/// A piece of a range, and the deletion in whose part it is.
pub(in crate::mvcc) type Piece<'a> = (KeyRange<'a>, Option<&'a Deletion>);

impl Root {
    /// True if a deletion is not written completely.
    pub fn is_deleting(&self) -> bool {
        !self.deletions.is_empty()
    }

    /// Number of tombstones not written yet.
    pub fn unwritten_deletes(&self) -> u64 {
        self.deletions.iter().map(|deletion| deletion.left).sum()
    }

    /// The place of the deletion that has taken `key`.
    pub(in crate::mvcc) fn deletion_with(&self, key: &[u8]) -> Result<Option<usize>> {
        let place = self.place_of_part(key);
        match place.map(|place| self.deletions[place].attached()) {
            Some(Some(attached)) if !self.is_attached(attached.lease(), key)? => Ok(None),
            _ => Ok(place),
        }
    }

    /// The place of the deletion whose part has `key`.
    fn place_of_part(&self, key: &[u8]) -> Option<usize> {
        let mut deletions = self.deletions.iter();
        deletions.position(|deletion| deletion.range().contains(key))
    }

    /// The deletion that has taken `key`, if its revision is not above `through`.
    pub(in crate::mvcc) fn deletion_of(
        &self,
        key: &[u8],
        through: Revision,
    ) -> Result<Option<&Deletion>> {
        let place = self.deletion_with(key)?;
        let deletion = place.map(|place| &self.deletions[place]);
        Ok(deletion.filter(|deletion| deletion.last() <= through))
    }

    /// The newest version of a key that a deletion has taken, and that did not change since.
    pub(in crate::mvcc) fn deleted_by(
        &self,
        deletion: &Deletion,
        key: &[u8],
    ) -> Result<Option<(Revision, Stamp)>> {
        let newest = self.trees_head(key)?;
        if newest.is_none_or(|(_, stamp)| stamp.is_tombstone()) {
            return Ok(newest);
        }
        let before = match deletion.attached() {
            Some(attached) => {
                let range = KeyRange {
                    end: End::Before(key),
                    ..deletion.range()
                };
                self.taken_in(deletion, attached, range)?
            }
            None => {
                let live_before = |key: &[u8]| {
                    let place = VersionKey::newest_of(key);
                    self.keys.weight_before(&self.pages, &place)
                };
                (live_before(key)? - live_before(&deletion.start)?).count
            }
        };
        let revision = Revision {
            sub: deletion.next.sub + before as i64,
            ..deletion.next
        };
        Ok(Some((revision, TOMB)))
    }

    /// The range in pieces, in key order, as they are at `at`: those in the part of a deletion, with
    /// it, and those between.
    pub(in crate::mvcc) fn pieces<'a>(
        &'a self,
        range: KeyRange<'a>,
        at: i64,
    ) -> Result<Vec<Piece<'a>>> {
        if range.end == End::Single {
            return Ok(vec![(range, self.deletion_of(range.start, end_of(at))?)]);
        }
        let mut parts: Vec<&Deletion> = self.deletions.iter().collect();
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
            pieces.extend(within.map(|piece| (piece, Some(deletion))));
            rest = behind;
        }
        pieces.extend(rest.map(|piece| (piece, None)));
        Ok(pieces)
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

    /// Number of live keys of the range that deletions under way have in their parts.
    pub fn count_in_parts(&self, range: KeyRange<'_>) -> Result<u64> {
        let mut keys = 0;
        for (piece, deletion) in self.pieces(range, i64::MAX)? {
            if deletion.is_some() {
                keys += self.count(piece, 0)?;
            }
        }
        Ok(keys)
    }

    /// Tombstones not written yet of the keys of a lease.
    pub fn unwritten_deletes_of(&self, lease: i64) -> u64 {
        let deletions = self.deletions.iter();
        let of_lease = deletions.filter(|deletion| deletion.is_of(lease));
        of_lease.map(|deletion| deletion.left).sum()
    }

    /// The tombstones not written yet, of the main revisions up to `through` and of revisions from
    /// `first` on, as readers of history take them up.
    pub(in crate::mvcc) fn unwritten(&self, first: Revision, through: i64) -> Unwritten<'_> {
        let deletions = self.deletions.iter();
        let mut deletions: Vec<&Deletion> = deletions
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
        let lease = i64::from_be_bytes(*lease);
        let Some(place) = self.place_of_part(key) else {
            return Ok(false);
        };
        match self.deletions[place].attached() {
            Some(attached) => Ok(attached.lease() == lease),
            None => Ok(lease_of(self.head(key)?.map(|(_, stamp)| stamp)) != lease),
        }
    }
}

/// See [`Root::unwritten`].
pub(in crate::mvcc) struct Unwritten<'a> {
    root: &'a Root,
    first: Revision,
    deletions: Vec<&'a Deletion>,
}

impl Unwritten<'_> {
    /// Hands over all that come before `revision`.
    pub(in crate::mvcc) fn before(
        &mut self,
        revision: Revision,
        f: &mut dyn FnMut(Revision, Row<'_>) -> Result<Flow>,
    ) -> Result<Flow> {
        while let Some(deletion) = self.deletions.pop_if(|deletion| deletion.next < revision) {
            let mut revision = deletion.next;
            let mut tell = |key: &[u8]| {
                let at = revision;
                revision.sub += 1;
                if at < self.first {
                    return Ok(ControlFlow::Continue(()));
                }
                let (stamp, value) = (TOMB, &[][..]);
                f(at, Row { stamp, key, value })
            };
            let part = deletion.range();
            let flow = match deletion.attached() {
                Some(attached) => self.root.walk_attached(attached.lease(), part, &mut tell)?,
                None => {
                    let mut tell = |key: &[u8], _: Revision, _: Stamp| tell(key);
                    self.root.walk_trees(part, i64::MAX, &mut tell)?
                }
            };
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
