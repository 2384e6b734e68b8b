//! Counts keys and bytes without walking over them: branches of the key tree know their weights.

use std::ops::ControlFlow;

use super::Root;
use crate::Result;
use crate::btree::Weight;
use crate::mvcc::deletion::{Attached, Deletion};
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
        let now = self.count_newest(range)?;
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
    /// values: two descents. While the deletion of a lease's keys is written, walks over its part:
    /// nobody knows the sum of the bytes of the keys taken.
    pub fn usage(&self, range: KeyRange<'_>) -> Result<Usage> {
        let of_others = |deletion: &Deletion, _: &Attached, piece: KeyRange<'_>| {
            self.weigh_part(deletion, piece)
        };
        let Weight { count, bytes } = self.weigh(range, &of_others)?;
        Ok(Usage { keys: count, bytes })
    }

    fn count_newest(&self, range: KeyRange<'_>) -> Result<u64> {
        let of_others = |deletion: &Deletion, taken: &Attached, piece: KeyRange<'_>| {
            let all = self.weigh_trees(piece)? + self.weigh_since(deletion, piece)?;
            let taken = Weight {
                count: self.taken_in(deletion, taken, piece)?,
                bytes: 0,
            };
            Ok(all - taken)
        };
        Ok(self.weigh(range, &of_others)?.count)
    }

    /// The weight of the range at the newest revision. `of_others`: that of a piece in the part of a
    /// deletion that takes the keys of a lease.
    fn weigh(
        &self,
        range: KeyRange<'_>,
        of_others: &dyn Fn(&Deletion, &Attached, KeyRange<'_>) -> Result<Weight>,
    ) -> Result<Weight> {
        if self.deletions.is_empty() {
            return self.weigh_trees(range);
        }
        let mut sum = Weight::NONE;
        for (piece, deletion) in self.pieces(range, i64::MAX)? {
            let weight = match deletion.map(|deletion| (deletion, deletion.attached())) {
                None => self.weigh_trees(piece),
                Some((deletion, None)) => self.weigh_since(deletion, piece),
                Some((deletion, Some(attached))) => of_others(deletion, attached, piece),
            };
            sum = sum + weight?;
        }
        Ok(sum)
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
