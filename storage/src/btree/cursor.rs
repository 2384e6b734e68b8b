//! Walking a tree in key order.

use std::marker::PhantomData;

use crate::Result;

/// A place in a tree. All moves answer whether the cursor stands on an entry afterwards; `key` and
/// `value` may be called only then. Starts nowhere.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    tree: PhantomData<&'a ()>,
}

impl<'a> Cursor<'a> {
    /// To the first entry.
    pub(crate) fn first(&mut self) -> Result<bool> {
        unimplemented!()
    }

    /// To the last entry.
    pub(crate) fn last(&mut self) -> Result<bool> {
        unimplemented!()
    }

    /// To the first entry whose key is `>= key`. Cheap when it lies in the leaf the cursor is in.
    pub(crate) fn seek(&mut self, _key: &[u8]) -> Result<bool> {
        unimplemented!()
    }

    /// To the last entry whose key is `< key`.
    pub(crate) fn seek_before(&mut self, _key: &[u8]) -> Result<bool> {
        unimplemented!()
    }

    /// One entry on; past the last one the cursor stands nowhere.
    pub(crate) fn next(&mut self) -> Result<bool> {
        unimplemented!()
    }

    /// One entry back.
    pub(crate) fn prev(&mut self) -> Result<bool> {
        unimplemented!()
    }

    /// Whether the cursor stands on an entry.
    pub(crate) fn valid(&self) -> bool {
        unimplemented!()
    }

    pub(crate) fn key(&self) -> &[u8] {
        unimplemented!()
    }

    pub(crate) fn value(&self) -> &[u8] {
        unimplemented!()
    }
}
