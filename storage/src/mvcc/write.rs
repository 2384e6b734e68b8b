//! One log entry's effects on the store.

use std::ops::Deref;

use super::{Bucket, KeyRange, Root, Store};
use crate::Result;

/// The effects of one log entry. All its changes share one main revision, begun by the first of
/// them. Reads through it see what it wrote. Dropping it ends the entry: the applied index and
/// the data have moved together.
#[derive(Debug)]
pub struct Write<'a> {
    store: &'a mut Store,
}

impl Write<'_> {
    pub fn put(&mut self, _key: &[u8], _value: &[u8], _lease: i64) -> Result<()> {
        unimplemented!()
    }

    /// Deletes every live key of the range, in key order; returns how many. None means that no
    /// revision was begun.
    pub fn delete_range(&mut self, _range: KeyRange<'_>) -> Result<u64> {
        unimplemented!()
    }

    /// Makes all that a compaction at `revision` drops invisible at once;
    /// [`Store::compact_step`] removes it.
    pub fn compact(&mut self, _revision: i64) -> Result<()> {
        unimplemented!()
    }

    pub fn set(&mut self, _bucket: Bucket, _key: &[u8], _value: &[u8]) -> Result<()> {
        unimplemented!()
    }

    pub fn remove(&mut self, _bucket: Bucket, _key: &[u8]) -> Result<()> {
        unimplemented!()
    }

    /// Whether a new main revision was begun.
    pub fn changed(&self) -> bool {
        unimplemented!()
    }
}

impl Deref for Write<'_> {
    type Target = Root;

    fn deref(&self) -> &Root {
        &self.store.root
    }
}
