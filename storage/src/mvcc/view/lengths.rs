//! The lengths of the rows of history, without reading it. The trees of keys know them, and in a
//! store of large values they are a small part of it. They have them in key order: so the rows are
//! put in order in memory, as many of them as it has room for in each walk.

use std::collections::BinaryHeap;

use super::{Flow, Root, change};
use crate::Result;
use crate::mvcc::Change;
use crate::mvcc::key::{Row, VersionKey};

/// Most rows that are put in order at once: 64 MiB of memory. If there are more, the trees of keys
/// are walked through again for each so many.
const ROWS_PER_WALK: usize = 4 << 20;

/// All walks through the trees of keys together read at most one part in so many of history.
const PAYS_PARTS: u64 = 4;

/// Ordered by revision.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Measured {
    main: i64,
    sub: u32,
    /// What the caller has made of the row.
    measure: u32,
}

impl Measured {
    fn place(&self) -> (i64, u32) {
        (self.main, self.sub)
    }
}

impl Root {
    /// Calls `f` with what `measure` makes of each change that [`Root::changes`] shows, in the same
    /// order. `measure` gets the change with an empty value, and the length of the value. Returns
    /// false, and calls `f` with none, if not all lengths are known or a walk through history is as
    /// good. Takes up to 64 MiB of memory.
    pub fn measure_changes(
        &self,
        measure: &dyn Fn(&Change<'_>, u64) -> u32,
        f: &mut dyn FnMut(u32) -> Flow,
    ) -> Result<bool> {
        // What a deletion has not written yet is in no tree.
        if self.is_deleting() || !self.pays_to_measure()? {
            return Ok(false);
        }
        self.measure_in_walks(ROWS_PER_WALK, measure, f)
    }

    /// The same, with so many rows in each walk, whether it pays or not.
    pub(in crate::mvcc) fn measure_in_walks(
        &self,
        rows_per_walk: usize,
        measure: &dyn Fn(&Change<'_>, u64) -> u32,
        f: &mut dyn FnMut(u32) -> Flow,
    ) -> Result<bool> {
        let mut after = None;
        loop {
            let Some(rows) = self.measure_after(after, rows_per_walk, measure)? else {
                return Ok(false);
            };
            let rows = rows.into_sorted_vec();
            for row in &rows {
                if f(row.measure).is_break() {
                    return Ok(true);
                }
            }
            if rows.len() < rows_per_walk {
                return Ok(true);
            }
            after = rows.last().map(Measured::place);
        }
    }

    /// The first rows after this place. `None` if the length of any value is not known, which the
    /// first walk finds out.
    fn measure_after(
        &self,
        after: Option<(i64, u32)>,
        most: usize,
        measure: &dyn Fn(&Change<'_>, u64) -> u32,
    ) -> Result<Option<BinaryHeap<Measured>>> {
        let mut rows: BinaryHeap<Measured> = BinaryHeap::new();
        let mut compacted_key: Option<Vec<u8>> = None;
        let mut cursor = self.keys.cursor(&self.pages);
        let mut more = cursor.seek(&VersionKey::newest_of(b""))?;
        while more {
            let (key, revision) = self.split(cursor.key())?;
            let stamp = self.stamp(cursor.value(), revision)?;
            let mut is_shown = true;
            // As in `Root::is_kept`: a key's versions come newest first.
            if !self.compaction.done && revision.main <= self.compacted {
                let is_newest = compacted_key.as_deref() != Some(key);
                if is_newest {
                    compacted_key = Some(key.to_vec());
                }
                is_shown = is_newest && (!stamp.is_tombstone() || revision.main == self.compacted);
            }
            let size = match stamp.size {
                _ if stamp.is_tombstone() => 0,
                Some(size) => size,
                None => return Ok(None),
            };
            let place = (revision.main, revision.sub as u32);
            let is_full = rows.len() >= most;
            let is_behind = is_full && rows.peek().is_some_and(|last| last.place() < place);
            if is_shown && !is_behind && after.is_none_or(|after| after < place) {
                let row = Row {
                    stamp,
                    key,
                    value: b"",
                };
                let change = change(revision, row);
                if is_full {
                    rows.pop();
                }
                rows.push(Measured {
                    main: place.0,
                    sub: place.1,
                    measure: measure(&change, size),
                });
            }
            more = cursor.next()?;
        }
        Ok(Some(rows))
    }

    fn pays_to_measure(&self) -> Result<bool> {
        let trees = self.keys.deltas().iter().chain([&self.keys.base]);
        let keys: u64 = trees
            .map(|tree| tree.leaf_bytes(&self.pages))
            .sum::<Result<u64>>()?;
        let walks = self.revisions.len().div_ceil(ROWS_PER_WALK as u64);
        let history = self.revisions.leaf_bytes(&self.pages)?;
        Ok(keys.saturating_mul(walks).saturating_mul(PAYS_PARTS) <= history)
    }
}
