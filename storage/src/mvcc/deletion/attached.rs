//! The keys of a lease that a deletion takes.
//!
//! For each key taken whose tombstone is not written there is a row among those of the lease's keys
//! in the side tree, and the lease has no other row within the part: a step removes the row when it
//! writes the tombstone, whatever came since, and no key of the part is attached to the lease
//! meanwhile ([`Store::end_deletions_of`]). So the rows list the keys taken. Another lease's rows may be
//! between them, and another deletion may take these.
//!
//! The revision of a tombstone and counts need the number of rows between two places, and the side
//! tree does not count. So all rows are counted once, leaf by leaf, when the deletion is noted, and
//! at intervals the count is kept with its place: a *mark*. From the mark before a place there are
//! only a few leaves to it.
//!
//! [`Store::end_deletions_of`]: super::super::Store::end_deletions_of

use std::ops::ControlFlow;

use super::Deletion;
use crate::Result;
use crate::mvcc::key;
use crate::mvcc::view::Flow;
use crate::mvcc::{Bucket, End, KeyRange, Root};

/// Rows after which there is another mark, at the next leaf.
const ROWS_PER_MARK: u64 = if cfg!(any(test, fuzzing)) { 1 } else { 1024 };

/// Bytes of a row of a lease's key before the user key.
const HEAD_BYTES: usize = 1 + size_of::<i64>();

/// All keys that a deletion takes of a lease, those already written included.
#[derive(Debug)]
pub(in crate::mvcc) struct Attached {
    lease: i64,
    /// In the order of their keys. The first one is at the first key, the last one behind the last.
    marks: Vec<Mark>,
}

/// A place among the keys taken.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) key: Vec<u8>,
    /// Keys taken that are less.
    pub(super) before: u64,
}

impl Attached {
    /// The keys attached to the lease in a range that no deletion takes as a whole. `None` if they
    /// are no more than `at_once`.
    pub(in crate::mvcc) fn more_than(
        at_once: u64,
        root: &Root,
        lease: i64,
        range: KeyRange<'_>,
    ) -> Result<Option<Attached>> {
        let (mut marks, mut keys): (Vec<Mark>, u64) = (Vec::new(), 0);
        let mut last_leaf = Vec::new();
        root.count_attached(lease, range, &mut |first, rows| {
            let is_far = |last: &Mark| keys - last.before >= ROWS_PER_MARK;
            if marks.last().is_none_or(is_far) {
                let (key, before) = (first.to_vec(), keys);
                marks.push(Mark { key, before });
            }
            last_leaf.clear();
            last_leaf.extend_from_slice(first);
            keys += rows;
            ControlFlow::Continue(())
        })?;
        if keys <= at_once {
            return Ok(None);
        }
        let rest = KeyRange {
            start: &last_leaf,
            ..range
        };
        let mut end = Vec::new();
        let _ = root.walk_attached(lease, rest, &mut |key| {
            end.clear();
            end.extend_from_slice(key);
            Ok(ControlFlow::Continue(()))
        })?;
        // The least key above the last one.
        end.push(0);
        let (key, before) = (end, keys);
        marks.push(Mark { key, before });
        Ok(Some(Attached { lease, marks }))
    }

    pub(super) fn lease(&self) -> i64 {
        self.lease
    }

    pub(super) fn marks(&self) -> &[Mark] {
        &self.marks
    }

    /// The first key.
    pub(super) fn start(&self) -> &[u8] {
        self.marks.first().map_or(b"", |mark| &mark.key)
    }

    /// Behind the last key.
    pub(super) fn end(&self) -> &[u8] {
        self.marks.last().map_or(b"", |mark| &mark.key)
    }

    pub(in crate::mvcc) fn keys(&self) -> u64 {
        self.marks.last().map_or(0, |mark| mark.before)
    }
}

impl Root {
    /// Calls `f` with the key of each row of the lease in the range, also of keys that deletions have
    /// taken, until it breaks off.
    pub(in crate::mvcc) fn walk_attached(
        &self,
        lease: i64,
        range: KeyRange<'_>,
        f: &mut dyn FnMut(&[u8]) -> Result<Flow>,
    ) -> Result<Flow> {
        let (first, end) = rows_of(lease, range);
        let mut cursor = self.side.cursor(&self.pages);
        let mut more = cursor.seek(&first)?;
        while more && *cursor.key() < *end {
            if f(&cursor.key()[HEAD_BYTES..])?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            more = cursor.next()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The same by leaves: calls `f` with the first key of each, and the number of its keys.
    pub(in crate::mvcc) fn count_attached(
        &self,
        lease: i64,
        range: KeyRange<'_>,
        f: &mut dyn FnMut(&[u8], u64) -> Flow,
    ) -> Result<()> {
        let (first, end) = rows_of(lease, range);
        let mut cursor = self.side.cursor(&self.pages);
        let mut key = Vec::new();
        let mut more = cursor.seek(&first)?;
        while more && *cursor.key() < *end {
            key.clear();
            key.extend_from_slice(&cursor.key()[HEAD_BYTES..]);
            let rows;
            (rows, more) = cursor.pass_leaf(&end)?;
            if f(&key, rows).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// How many keys of the range the deletion takes that are not written yet.
    pub(in crate::mvcc) fn taken_in(
        &self,
        deletion: &Deletion,
        attached: &Attached,
        range: KeyRange<'_>,
    ) -> Result<u64> {
        let end = match range.end {
            End::Single => unreachable!("a single key is looked up"),
            End::Before(end) => end.min(attached.end()),
            End::Unbounded => attached.end(),
        };
        if end <= range.start {
            return Ok(0);
        }
        let before = self.taken_before(deletion, attached, range.start)?;
        Ok(self.taken_before(deletion, attached, end)? - before)
    }

    /// How many keys less than `key` the deletion takes, those already written included. The part
    /// does not end before `key`.
    fn taken_before(&self, deletion: &Deletion, attached: &Attached, key: &[u8]) -> Result<u64> {
        let written = attached.keys() - deletion.left;
        if *key <= *deletion.start {
            return Ok(written);
        }
        let above = attached.marks.partition_point(|mark| *mark.key <= *key);
        let mark = above.checked_sub(1).map(|place| &attached.marks[place]);
        // The rows before the part's start are removed.
        let (start, mut before) = match mark {
            Some(mark) if mark.key > deletion.start => (&mark.key, mark.before),
            _ => (&deletion.start, written),
        };
        let range = KeyRange {
            start,
            end: End::Before(key),
        };
        self.count_attached(attached.lease, range, &mut |_, rows| {
            before += rows;
            ControlFlow::Continue(())
        })?;
        Ok(before)
    }
}

/// The row of the first key in the range that may be attached to the lease, and the least row behind
/// those of all others.
fn rows_of(lease: i64, range: KeyRange<'_>) -> (Vec<u8>, Vec<u8>) {
    let (mut first, mut end) = (Vec::new(), Vec::new());
    key::lease_key(&mut first, lease, range.start);
    match range.end {
        End::Single => {
            end.extend_from_slice(&first);
            end.push(0);
        }
        End::Before(key) => key::lease_key(&mut end, lease, key),
        // Bytes compare as unsigned numbers do.
        End::Unbounded => match (lease as u64).checked_add(1) {
            Some(next) => key::lease_key(&mut end, next as i64, b""),
            None => end.push(Bucket::LeaseKeys as u8 + 1),
        },
    }
    (first, end)
}
