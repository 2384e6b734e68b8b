//! A tree as its users see it: kinds, orders, point reads and totals.

use std::ops::Deref;

use super::{Cursor, Pages};
use crate::Result;

/// How the keys of a tree compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyOrder {
    /// As bytes.
    Bytes,
    /// The last [`super::SUFFIX_BYTES`] bytes are a revision suffix: keys compare by what comes
    /// before it, then by the suffix. Every key given to such a tree must be long enough.
    KeyThenRevision,
}

/// What makes one tree of a page file differ from the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeKind {
    /// Stands in every page of the tree; unique in the file.
    pub id: u8,
    pub order: KeyOrder,
    /// The weight of an entry; branches keep the sums.
    pub weigh: fn(key: &[u8], value: &[u8]) -> u64,
    /// A leaf splits when it would outgrow this; a multiple of 4096.
    pub leaf_bytes: usize,
}

/// A tree: cheap to clone, and a clone never changes.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    kind: TreeKind,
}

/// A value that was found, without copying it where the file is mapped.
#[derive(Debug)]
pub(crate) struct Found<'a>(std::borrow::Cow<'a, [u8]>);

impl Deref for Found<'_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Tree {
    pub(crate) fn kind(&self) -> TreeKind {
        self.kind
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> u64 {
        unimplemented!()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sum of the weights of all entries.
    pub(crate) fn weight(&self) -> u64 {
        unimplemented!()
    }

    pub(crate) fn get<'a>(&'a self, _pages: &'a Pages, _key: &[u8]) -> Result<Option<Found<'a>>> {
        unimplemented!()
    }

    /// Sum of the weights of the entries whose key is less than `key`; one descent.
    pub(crate) fn weight_before(&self, _pages: &Pages, _key: &[u8]) -> Result<u64> {
        unimplemented!()
    }

    /// A cursor that stands nowhere yet.
    pub(crate) fn cursor<'a>(&'a self, _pages: &'a Pages) -> Cursor<'a> {
        unimplemented!()
    }
}
