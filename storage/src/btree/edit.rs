//! Changing a tree. Knows nothing of the disk beyond loading a page it has to change.

use super::Tree;
use crate::Result;

/// What edits share: where clean pages are read, and which pages they set free.
#[derive(Debug)]
pub(crate) struct Writer {}

/// After an error a tree is as it was before the call.
impl Tree {
    /// Sets the value of `key`; answers whether there was one before.
    pub(crate) fn insert(&mut self, _w: &mut Writer, _key: &[u8], _value: &[u8]) -> Result<bool> {
        unimplemented!()
    }

    /// Edits the value of `key` where it lies (same length); answers whether there is one.
    pub(crate) fn update(
        &mut self,
        _w: &mut Writer,
        _key: &[u8],
        _edit: impl FnOnce(&mut [u8]),
    ) -> Result<bool> {
        unimplemented!()
    }

    /// Removes `key`; answers whether it was there.
    pub(crate) fn remove(&mut self, _w: &mut Writer, _key: &[u8]) -> Result<bool> {
        unimplemented!()
    }
}
