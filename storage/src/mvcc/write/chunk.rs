//! Some keys, gathered before they are deleted: a tree cannot be read and written at once.

use std::ops::ControlFlow;

use super::super::key::Stamp;
use super::super::view::Flow;
use super::super::{KeyRange, Revision, Root};
use crate::Result;

/// Live keys in one buffer: the end of each, and its lease.
#[derive(Default)]
pub(in crate::mvcc) struct Chunk {
    bytes: Vec<u8>,
    rows: Vec<(usize, i64)>,
}

impl Chunk {
    /// The first live keys of the range.
    pub(super) fn of_visible(root: &Root, range: KeyRange<'_>, keys: usize) -> Result<Chunk> {
        let mut chunk = Chunk::default();
        root.walk(range, i64::MAX, &mut |key, _, stamp| {
            Ok(chunk.push(key, stamp.lease, keys))
        })?;
        Ok(chunk)
    }

    /// The same without those that are not attached to `lease`.
    pub(super) fn of_visible_attached(
        root: &Root,
        lease: i64,
        range: KeyRange<'_>,
        keys: usize,
    ) -> Result<Chunk> {
        let mut chunk = Chunk::default();
        root.walk(range, i64::MAX, &mut |key, _, stamp| {
            Ok(if stamp.lease == lease {
                chunk.push(key, lease, keys)
            } else {
                ControlFlow::Continue(())
            })
        })?;
        Ok(chunk)
    }

    /// All that are visible, as the trees of keys have them: see [`crate::mvcc::deletion`].
    pub(in crate::mvcc) fn of_trees(
        root: &Root,
        range: KeyRange<'_>,
        keys: usize,
    ) -> Result<Chunk> {
        let mut chunk = Chunk::default();
        let mut take = |key: &[u8], _: Revision, stamp: Stamp| -> Result<Flow> {
            Ok(chunk.push(key, stamp.lease, keys))
        };
        let _ = root.walk_trees(range, i64::MAX, &mut take)?;
        Ok(chunk)
    }

    /// The first keys of the rows that the side tree has of a lease, within the range.
    pub(in crate::mvcc) fn of_attached(
        root: &Root,
        lease: i64,
        range: KeyRange<'_>,
        keys: usize,
    ) -> Result<Chunk> {
        let mut chunk = Chunk::default();
        let mut take = |key: &[u8]| -> Result<Flow> { Ok(chunk.push(key, lease, keys)) };
        let _ = root.walk_attached(lease, range, &mut take)?;
        Ok(chunk)
    }

    /// Adds a key; breaks off with the last of `keys`.
    pub(super) fn push(&mut self, key: &[u8], lease: i64, keys: usize) -> Flow {
        self.bytes.extend_from_slice(key);
        self.rows.push((self.bytes.len(), lease));
        if self.rows.len() < keys {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }

    /// Drops the keys from the first one on that is not `wanted`.
    pub(in crate::mvcc) fn retain_first(&mut self, wanted: impl Fn(&[u8]) -> bool) {
        let count = self.iter().take_while(|(key, _)| wanted(key)).count();
        self.rows.truncate(count);
    }

    pub(in crate::mvcc) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(in crate::mvcc) fn iter(&self) -> impl Iterator<Item = (&[u8], i64)> {
        let mut start = 0;
        self.rows.iter().map(move |&(end, lease)| {
            let key = &self.bytes[start..end];
            start = end;
            (key, lease)
        })
    }

    /// The least key above the last one.
    pub(super) fn end(&self) -> Vec<u8> {
        let mut end = self.last().unwrap_or_default().to_vec();
        end.push(0);
        end
    }

    pub(in crate::mvcc) fn last(&self) -> Option<&[u8]> {
        self.iter().last().map(|(key, _)| key)
    }
}
