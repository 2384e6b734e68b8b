//! What readers see of a deletion that is not written completely.

use std::ops::ControlFlow;

use super::super::key::{self, Row, Stamp, VersionKey};
use super::super::view::Flow;
use super::super::write::lease_of;
use super::super::{Bucket, End, KeyRange, Revision, Root};
use super::{Deletion, TOMB};
use crate::Result;
use crate::btree::Weight;

/// A piece of a range, and the deletions that take keys there, in their order: one that takes all, or
/// some that take those of leases.
#[derive(Debug)]
pub(in crate::mvcc) struct Piece<'a> {
    pub(in crate::mvcc) range: KeyRange<'a>,
    pub(in crate::mvcc) deletions: Vec<&'a Deletion>,
}

/// A version of a key.
type Newest = Option<(Revision, Stamp)>;

impl Piece<'_> {
    /// The deletion that takes all keys of the piece.
    pub(in crate::mvcc) fn whole(&self) -> Option<&Deletion> {
        let last = self.deletions.last().copied();
        last.filter(|deletion| deletion.is_whole())
    }
}

/// The range in pieces, in key order, as these deletions have it.
pub(in crate::mvcc) fn pieces<'a>(
    deletions: &'a [Deletion],
    range: KeyRange<'a>,
) -> Vec<Piece<'a>> {
    let piece = |range, whole: Option<&'a Deletion>| Piece {
        range,
        deletions: match whole {
            Some(deletion) => vec![deletion],
            None => deletions
                .iter()
                .filter(|deletion| deletion.meets(range))
                .collect(),
        },
    };
    let whole = deletions.iter().filter(|deletion| deletion.is_whole());
    let mut whole: Vec<&Deletion> = whole.filter(|deletion| deletion.meets(range)).collect();
    if range.end == End::Single {
        return vec![piece(range, whole.pop())];
    }
    whole.sort_by(|a, b| a.start.cmp(&b.start));
    let mut pieces = Vec::with_capacity(2 * whole.len() + 1);
    let mut rest = Some(range);
    for deletion in whole {
        let Some(range) = rest else { break };
        let part = deletion.range();
        let (before, others) = cut(range, part.start);
        let (within, behind) = match part.end {
            End::Before(end) => others.map_or((None, None), |others| cut(others, end)),
            _ => (others, None),
        };
        pieces.extend(before.map(|range| piece(range, None)));
        pieces.extend(within.map(|range| piece(range, Some(deletion))));
        rest = behind;
    }
    pieces.extend(rest.map(|range| piece(range, None)));
    pieces
}

impl Root {
    /// True if a deletion is not written completely.
    pub fn is_deleting(&self) -> bool {
        !self.deletions.is_empty()
    }

    /// Number of tombstones not written yet.
    pub fn unwritten_deletes(&self) -> u64 {
        self.deletions.iter().map(|deletion| deletion.left).sum()
    }

    /// The deletions that readers of main revision `at` see.
    pub(in crate::mvcc) fn deletions_by(&self, at: i64) -> &[Deletion] {
        let deletions = &self.deletions;
        &deletions[..deletions.partition_point(|deletion| deletion.main() <= at)]
    }

    /// The newest version of `key` not above `through`, which may be a tombstone.
    pub(in crate::mvcc) fn version_through(
        &self,
        key: &[u8],
        through: Revision,
    ) -> Result<Option<(Revision, Stamp)>> {
        let deletions = &self.deletions;
        let by = deletions.partition_point(|deletion| deletion.last() <= through);
        self.version_with(&deletions[..by], key, through)
    }

    /// The same, as the trees and these first deletions have it.
    fn version_with(
        &self,
        deletions: &[Deletion],
        key: &[u8],
        through: Revision,
    ) -> Result<Option<(Revision, Stamp)>> {
        match self.last_to_take(deletions, key, through)? {
            (Some(place), None) => self.deleted_by(place, key),
            (_, version) => Ok(version),
        }
    }

    /// The place of the last deletion that has taken `key`.
    pub(in crate::mvcc) fn deletion_with(&self, key: &[u8]) -> Result<Option<usize>> {
        let (place, _) = self.last_to_take(&self.deletions, key, Revision::MAX)?;
        Ok(place)
    }

    /// The place of the last of these first deletions that has taken `key`, and the newest version
    /// since, if one is not above `through`.
    fn last_to_take(
        &self,
        deletions: &[Deletion],
        key: &[u8],
        through: Revision,
    ) -> Result<(Option<usize>, Newest)> {
        let mut place: Option<usize> = None;
        loop {
            let version = match place {
                Some(place) => self.tree_version_through(&deletions[place].since, key, through)?,
                None => self.trees_version_through(key, through)?,
            };
            let lease = lease_of(version.map(|(_, stamp)| stamp));
            let later = place.map_or(0, |place| place + 1);
            let takes = |of: &Deletion| of.takes(key, lease);
            match deletions[later..].iter().position(takes) {
                Some(next) => place = Some(later + next),
                None => return Ok((place, version)),
            }
        }
    }

    /// The newest version of a key that the deletion at this place has taken, and that did not change
    /// since.
    fn deleted_by(&self, place: usize, key: &[u8]) -> Result<Option<(Revision, Stamp)>> {
        let (below, deletion) = (&self.deletions[..place], &self.deletions[place]);
        let before = KeyRange {
            end: End::Before(key),
            ..deletion.range()
        };
        let before = match deletion.attached() {
            Some(attached) => self.taken_in(deletion, attached, before)?,
            None => {
                let newest = self.version_with(below, key, Revision::MAX)?;
                if newest.is_none_or(|(_, stamp)| stamp.is_tombstone()) {
                    return Ok(newest);
                }
                self.count_with(below, before)?
            }
        };
        let revision = Revision {
            sub: deletion.next.sub + before as i64,
            ..deletion.next
        };
        Ok(Some((revision, TOMB)))
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

    /// Number of live keys of the range that came since deletions under way took all keys there.
    /// Another deletion does not take them in steps.
    pub fn count_since(&self, range: KeyRange<'_>) -> Result<u64> {
        let mut keys = 0;
        for piece in pieces(&self.deletions, range) {
            if piece.whole().is_some() {
                keys += self.count(piece.range, 0)?;
            }
        }
        Ok(keys)
    }

    /// Tombstones to write before those of the keys of a lease are written, these included; none if
    /// no deletion takes keys of the lease.
    pub fn unwritten_deletes_through(&self, lease: i64) -> u64 {
        let deletions = &self.deletions;
        let last = deletions.iter().rposition(|of| of.is_of(lease));
        let through = last.map_or(0, |last| last + 1);
        deletions[..through].iter().map(|of| of.left).sum()
    }

    /// The tombstones not written yet, of the main revisions up to `through` and of revisions from
    /// `first` on, as readers of history take them up.
    pub(in crate::mvcc) fn unwritten(&self, first: Revision, through: i64) -> Unwritten<'_> {
        let is_asked_for = |of: &Deletion| of.last() >= first && of.main() <= through;
        let places = 0..self.deletions.len();
        Unwritten {
            root: self,
            first,
            start: None,
            // The last one comes first.
            places: places
                .rev()
                .filter(|place| is_asked_for(&self.deletions[*place]))
                .collect(),
        }
    }

    /// The first key not less than `from` that is attached to the lease: of those that
    /// [`Root::side_scan`] tells. It takes one look at the rows of the lease's keys, however many there
    /// are; while deletions are written, at most one more for each of them, and one for each key that
    /// was put since where a deletion takes all keys.
    pub fn first_attached(&self, lease: i64, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let (key, _) = self.find_attached(lease, from)?;
        Ok(key)
    }

    /// The same, and how many rows it has looked at.
    pub(in crate::mvcc) fn find_attached(
        &self,
        lease: i64,
        from: &[u8],
    ) -> Result<(Option<Vec<u8>>, u64)> {
        let mut head = Vec::new();
        key::lease_key(&mut head, lease, b"");
        let mut row = [&head[..], from].concat();
        let mut cursor = self.side.cursor(&self.pages);
        let mut rows = 0;
        while cursor.seek(&row)? {
            let Some(key) = cursor.key().strip_prefix(&head[..]) else {
                break;
            };
            rows += 1;
            let Some(taker) = self.taker_of(lease, key)? else {
                return Ok((Some(key.to_vec()), rows));
            };
            let Some(next) = self.next_beside(taker, key)? else {
                break;
            };
            row.truncate(head.len());
            row.extend_from_slice(&next);
        }
        Ok((None, rows))
    }

    /// The least key, behind one attached to a lease that this deletion has taken, that may be attached
    /// to the lease. `None`: there is none.
    fn next_beside(&self, taker: &Deletion, key: &[u8]) -> Result<Option<Vec<u8>>> {
        // Of a part whose keys are all taken, those put since may be attached. Of the part of a lease's
        // end none is attached to this lease: see `Store::end_deletions_of`.
        if taker.is_whole() {
            let mut since = taker.since.cursor(&self.pages);
            if since.seek(&VersionKey::behind(key))? {
                let (next, _) = self.split(since.key())?;
                return Ok(Some(next.to_vec()));
            }
        }
        Ok(taker.end.clone())
    }

    /// True if a row of a lease's key tells of a version that a deletion has taken.
    pub(in crate::mvcc) fn is_detached(&self, bucket: Bucket, row: &[u8]) -> Result<bool> {
        if self.deletions.is_empty() || bucket != Bucket::LeaseKeys {
            return Ok(false);
        }
        let Some((lease, key)) = row.split_first_chunk() else {
            return Err(self.damaged("a row of a lease's key is too short"));
        };
        let taker = self.taker_of(i64::from_be_bytes(*lease), key)?;
        Ok(taker.is_some())
    }

    /// The deletion that has taken the version that a row of the lease's keys tells of: the one of
    /// the lease in whose part the key is, or else the one that takes all keys there.
    fn taker_of(&self, lease: i64, key: &[u8]) -> Result<Option<&Deletion>> {
        let mut parts = self.deletions.iter().filter(|of| of.range().contains(key));
        if let Some(of_lease) = parts.clone().find(|deletion| deletion.is_of(lease)) {
            return Ok(Some(of_lease));
        }
        let Some(whole) = parts.find(|deletion| deletion.is_whole()) else {
            return Ok(None);
        };
        let is_attached = lease_of(self.head(key)?.map(|(_, stamp)| stamp)) == lease;
        Ok((!is_attached).then_some(whole))
    }
}

/// See [`Root::unwritten`].
pub(in crate::mvcc) struct Unwritten<'a> {
    root: &'a Root,
    first: Revision,
    /// The least key behind that of the change before `first`, if it is known.
    start: Option<Vec<u8>>,
    /// Of deletions.
    places: Vec<usize>,
}

impl Unwritten<'_> {
    /// The change before the first one to tell was of `key`: the keys before it need no look.
    pub(in crate::mvcc) fn behind(mut self, key: &[u8]) -> Self {
        self.start = Some([key, &[0]].concat());
        self
    }

    /// Hands over all that come before `revision`.
    pub(in crate::mvcc) fn before(
        &mut self,
        revision: Revision,
        f: &mut dyn FnMut(Revision, Row<'_>) -> Result<Flow>,
    ) -> Result<Flow> {
        let deletions = &self.root.deletions;
        while let Some(place) = self
            .places
            .pop_if(|place| deletions[*place].next < revision)
        {
            let deletion = &deletions[place];
            let mut part = deletion.range();
            let mut revision = deletion.next;
            if let Some(start) = &self.start
                && revision < self.first
            {
                // This deletion's last tombstone is not before `first`, so the change before `first` is
                // one of its tombstones, too, and these are in the order of keys.
                part.start = start;
                revision = self.first;
            }
            let mut tell = |key: &[u8]| {
                let at = revision;
                revision.sub += 1;
                if at < self.first {
                    return Ok(ControlFlow::Continue(()));
                }
                let (stamp, value) = (TOMB, &[][..]);
                f(at, Row { stamp, key, value })
            };
            let flow = match deletion.attached() {
                Some(attached) => self.root.walk_attached(attached.lease(), part, &mut tell)?,
                None => {
                    let mut tell = |key: &[u8], _: Revision, _: Stamp| tell(key);
                    let below = &deletions[..place];
                    self.root.walk_with(below, part, i64::MAX, &mut tell)?
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
