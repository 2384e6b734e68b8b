//! Counts keys and bytes without walking over them: branches of the key tree know their weights.

use std::ops::ControlFlow;

use super::Root;
use crate::Result;
use crate::btree::Weight;
use crate::mvcc::deletion::{Deletion, pieces};
use crate::mvcc::key::VersionKey;
use crate::mvcc::{End, KeyRange, Usage};

/// A count at an older revision walks the history since then if that is not longer than the range
/// itself; ranges smaller than this count as this large.
const HISTORY_ROWS_MIN: u64 = 64;

impl Root {
    /// Number of keys live at `at`. At the newest revision: two descents. At an older one: the
    /// shorter of a walk over the range and a walk over the history since.
    pub fn count(&self, range: KeyRange<'_>, at: i64) -> Result<u64> {
        let at = self.or_newest(at);
        if range.end == End::Single {
            let version = self.version_at(range.start, at)?;
            return Ok(version
                .is_some_and(|(_, stamp)| !stamp.is_tombstone())
                .into());
        }
        let now = self.count_with(&self.deletions, range)?;
        if at >= self.revision {
            return Ok(now);
        }
        let budget = now.max(HISTORY_ROWS_MIN);
        if let Some(then) = self.count_back(range, at, now, budget)? {
            return Ok(then);
        }
        let mut count = 0;
        self.walk(range, at, &mut |_, _, _| {
            count += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(count)
    }

    /// Number of live keys of the range at the newest revision, and the bytes of them and their
    /// values: two descents. While deletions of leases' keys are written, walks over their parts:
    /// nobody knows the sum of the bytes of the keys taken.
    pub fn usage(&self, range: KeyRange<'_>) -> Result<Usage> {
        let mut sum = Weight::NONE;
        for piece in pieces(&self.deletions, range) {
            sum = sum
                + match piece.whole() {
                    Some(whole) => self.weigh_since(whole, piece.range),
                    None if piece.deletions.is_empty() => self.weigh_trees(piece.range),
                    None => self.weigh_each(&piece),
                }?;
        }
        let Weight { count, bytes } = sum;
        Ok(Usage { keys: count, bytes })
    }

    /// Number of live keys of a range of more than one, as the trees of keys and these first
    /// deletions have it.
    pub(in crate::mvcc) fn count_with(
        &self,
        deletions: &[Deletion],
        range: KeyRange<'_>,
    ) -> Result<u64> {
        let mut keys = 0;
        for piece in pieces(deletions, range) {
            keys += match piece.whole() {
                Some(whole) => self.weigh_since(whole, piece.range)?.count,
                None => self.count_piece(&piece.deletions, piece.range)?,
            };
        }
        Ok(keys)
    }

    /// The same of a range in which these deletions take keys of leases, and no others take any.
    pub(in crate::mvcc) fn count_piece(
        &self,
        deletions: &[&Deletion],
        range: KeyRange<'_>,
    ) -> Result<u64> {
        let mut keys = self.weigh_trees(range)?.count;
        for deletion in deletions {
            // Below zero meanwhile: what is taken may have come since an earlier one.
            keys = keys.wrapping_add(self.weigh_since(deletion, range)?.count);
            if let Some(attached) = deletion.attached() {
                keys = keys.wrapping_sub(self.taken_in(deletion, attached, range)?);
            }
        }
        Ok(keys)
    }

    fn weigh_trees(&self, range: KeyRange<'_>) -> Result<Weight> {
        let before = |key: &[u8]| self.keys.weight_before(&self.pages, key);
        weigh_with(range, self.keys.weight(), &before)
    }

    fn weigh_since(&self, deletion: &Deletion, range: KeyRange<'_>) -> Result<Weight> {
        let since = deletion.since();
        let before = |key: &[u8]| since.weight_before(&self.pages, key);
        weigh_with(range, since.weight(), &before)
    }

    /// The count at `at`: the count `now`, minus the births since, plus the deaths since. `None` if
    /// `budget` rows are not enough. Every put with version 1 is a birth and every tombstone a
    /// death; none of them is compacted, because `at` is not.
    fn count_back(
        &self,
        range: KeyRange<'_>,
        at: i64,
        now: u64,
        budget: u64,
    ) -> Result<Option<u64>> {
        if (self.revision - at) as u64 > budget {
            return Ok(None);
        }
        let mut count = now;
        let mut left = budget;
        self.rows(at + 1, self.revision, &mut |_, row| {
            if left == 0 {
                return Ok(ControlFlow::Break(()));
            }
            left -= 1;
            if range.contains(row.key) {
                // The final count is never negative: births of this stretch are among `now` or
                // among its deaths. Wrapping makes the order irrelevant.
                if row.stamp.is_tombstone() {
                    count = count.wrapping_add(1);
                } else if row.stamp.version == 1 {
                    count = count.wrapping_sub(1);
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok((left > 0).then_some(count))
    }
}

/// The weight of a range of keys of which all weigh `all`, and those before a place what `before`
/// says.
fn weigh_with(
    range: KeyRange<'_>,
    all: Weight,
    before: &dyn Fn(&[u8]) -> Result<Weight>,
) -> Result<Weight> {
    let through = match range.end {
        End::Single => before(&VersionKey::behind(range.start))?,
        End::Before(end) if end <= range.start => return Ok(Weight::NONE),
        End::Before(end) => before(&VersionKey::newest_of(end))?,
        End::Unbounded => all,
    };
    if range.start.is_empty() {
        return Ok(through);
    }
    Ok(through - before(&VersionKey::newest_of(range.start))?)
}
