//! One walk over the base and all delta trees.

use super::BASE_KIND;
use crate::Result;
use crate::btree::Cursor;
use crate::mvcc::key;

/// A place among the versions of all trees; like [`Cursor`]. The value of an entry begins with its
/// stamp.
#[derive(Debug)]
pub(in crate::mvcc) struct KeyCursor<'a> {
    base: Cursor<'a>,
    /// Newest first; empty if there are none.
    deltas: Vec<Cursor<'a>>,
    /// Whether each of the deltas, and the base after them, is on an entry.
    on: Vec<bool>,
    /// The one of these that is on the least key. Of several the newest.
    least: usize,
}

impl<'a> KeyCursor<'a> {
    pub(super) fn new(base: Cursor<'a>, deltas: Vec<Cursor<'a>>) -> KeyCursor<'a> {
        let on = match deltas.len() {
            0 => Vec::new(),
            deltas => vec![false; deltas + 1],
        };
        KeyCursor {
            base,
            least: 0,
            deltas,
            on,
        }
    }

    /// Moves to the first version whose key is `>= key`.
    pub(in crate::mvcc) fn seek(&mut self, key: &[u8]) -> Result<bool> {
        if self.deltas.is_empty() {
            return self.base.seek(key);
        }
        for (cursor, on) in self.deltas.iter_mut().zip(&mut self.on) {
            *on = cursor.seek(key)?;
        }
        let base = self.deltas.len();
        self.on[base] = self.base.seek(key)?;
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
        self.at(self.least).key()
    }

    #[inline]
    pub(in crate::mvcc) fn value(&self) -> &[u8] {
        self.at(self.least).value()
    }

    #[inline]
    fn at(&self, i: usize) -> &Cursor<'a> {
        self.deltas.get(i).unwrap_or(&self.base)
    }

    /// Moves past the current key in all trees.
    fn pass(&mut self) -> Result<()> {
        for i in (0..self.on.len()).rev() {
            let is_same = i == self.least || (self.on[i] && self.at(i).key() == self.key());
            // The current one moves last: the others are compared with its key.
            if is_same && i != self.least {
                self.step(i)?;
            }
        }
        self.step(self.least)
    }

    fn step(&mut self, i: usize) -> Result<()> {
        self.on[i] = match self.deltas.get_mut(i) {
            Some(delta) => delta.next()?,
            None => self.base.next()?,
        };
        Ok(())
    }

    /// Finds the least key that is not removed.
    fn settle(&mut self) -> Result<bool> {
        loop {
            let mut least: Option<usize> = None;
            for i in (0..self.on.len()).filter(|i| self.on[*i]) {
                let is_less = |than| BASE_KIND.order.compare(self.at(i).key(), than).is_lt();
                if least.is_none_or(|least| is_less(self.at(least).key())) {
                    least = Some(i);
                }
            }
            let Some(least) = least else {
                return Ok(false);
            };
            self.least = least;
            let is_delta = least < self.deltas.len();
            if !(is_delta && key::is_removed(self.value())) {
                return Ok(true);
            }
            self.pass()?;
        }
    }
}
