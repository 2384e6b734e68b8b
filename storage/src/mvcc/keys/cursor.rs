//! One walk over the base and all delta trees.

use super::filter::Filter;
use super::{BASE_KIND, KeyHash};
use crate::Result;
use crate::btree::Cursor;
use crate::mvcc::Revision;
use crate::mvcc::key::{self, VersionKey};

/// A place among the versions of all trees; like [`Cursor`]. The value of an entry begins with its
/// stamp.
#[derive(Debug)]
pub(in crate::mvcc) struct KeyCursor<'a> {
    base: Cursor<'a>,
    /// Newest first; empty if there are none.
    deltas: Vec<Cursor<'a>>,
    /// What says which keys they may have.
    filters: Vec<&'a Filter>,
    /// The trees that are on an entry, by its key, and those on the same key newest first. The base
    /// has the number after the deltas. Empty without deltas.
    order: Vec<usize>,
    /// Reused in each move.
    passed: Vec<usize>,
}

impl<'a> KeyCursor<'a> {
    /// A walk over one tree.
    pub(in crate::mvcc) fn of_one(tree: Cursor<'a>) -> KeyCursor<'a> {
        KeyCursor::new(tree, std::iter::empty())
    }

    pub(super) fn new(
        base: Cursor<'a>,
        deltas: impl Iterator<Item = (Cursor<'a>, &'a Filter)>,
    ) -> KeyCursor<'a> {
        let (deltas, filters) = deltas.unzip();
        KeyCursor {
            base,
            deltas,
            filters,
            order: Vec::new(),
            passed: Vec::new(),
        }
    }

    /// Moves to the first version whose key is `>= key`.
    pub(in crate::mvcc) fn seek(&mut self, key: &[u8]) -> Result<bool> {
        if self.deltas.is_empty() {
            return self.base.seek(key);
        }
        self.seek_in(|_| true, key)
    }

    /// Moves to the first version of a user key that is not newer than `revision`. Moved forward from
    /// there, the cursor finds every version of this key, but not all of others.
    pub(in crate::mvcc) fn seek_version(&mut self, key: &[u8], revision: Revision) -> Result<bool> {
        let hash = KeyHash::of(key);
        self.seek_in(
            |filter| filter.may_have(hash),
            &VersionKey::new(key, revision),
        )
    }

    fn seek_in(&mut self, may_have: impl Fn(&Filter) -> bool, key: &[u8]) -> Result<bool> {
        self.order.clear();
        for i in 0..=self.deltas.len() {
            if self.filters.get(i).is_none_or(|filter| may_have(filter))
                && self.tree_mut(i).seek(key)?
            {
                self.arrive(i);
            }
        }
        self.settle()
    }

    /// Moves one version forward; past the last one the cursor is on none.
    #[inline]
    pub(in crate::mvcc) fn next(&mut self) -> Result<bool> {
        if self.deltas.is_empty() {
            return self.base.next();
        }
        self.next_of_all()
    }

    fn next_of_all(&mut self) -> Result<bool> {
        self.pass()?;
        self.settle()
    }

    #[inline]
    pub(in crate::mvcc) fn key(&self) -> &[u8] {
        self.current().key()
    }

    #[inline]
    pub(in crate::mvcc) fn value(&self) -> &[u8] {
        self.current().value()
    }

    #[inline]
    fn current(&self) -> &Cursor<'a> {
        match self.order.first() {
            Some(least) => self.tree(*least),
            None => &self.base,
        }
    }

    #[inline]
    fn tree(&self, i: usize) -> &Cursor<'a> {
        self.deltas.get(i).unwrap_or(&self.base)
    }

    fn tree_mut(&mut self, i: usize) -> &mut Cursor<'a> {
        self.deltas.get_mut(i).unwrap_or(&mut self.base)
    }

    /// Moves past versions that are removed.
    fn settle(&mut self) -> Result<bool> {
        while let Some(least) = self.order.first() {
            let is_delta = *least < self.deltas.len();
            if !(is_delta && key::is_removed(self.value())) {
                return Ok(true);
            }
            self.pass()?;
        }
        Ok(false)
    }

    /// Moves past the current key in all trees.
    fn pass(&mut self) -> Result<()> {
        let key = self.key();
        let others = self.order[1..].iter();
        let same = others.take_while(|i| self.tree(**i).key() == key).count();
        let mut passed = std::mem::take(&mut self.passed);
        passed.extend(self.order.drain(..=same));
        for i in passed.drain(..) {
            if self.tree_mut(i).next()? {
                self.arrive(i);
            }
        }
        self.passed = passed;
        Ok(())
    }

    /// The tree has come to an entry.
    fn arrive(&mut self, i: usize) {
        let KeyCursor {
            base,
            deltas,
            order,
            ..
        } = self;
        put_in_order(order, i, |i| deltas.get(i).unwrap_or(base).key());
    }
}

/// Puts tree `i`, which is on an entry, among those that are: by their keys, and those on the same key
/// newest (the least number) first.
pub(super) fn put_in_order<'k>(
    order: &mut Vec<usize>,
    i: usize,
    key_of: impl Fn(usize) -> &'k [u8],
) {
    let key = key_of(i);
    let place = order.partition_point(|other| {
        let order = BASE_KIND.order.compare(key_of(*other), key);
        order.then(other.cmp(&i)).is_lt()
    });
    order.insert(place, i);
}
