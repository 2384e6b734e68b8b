//! Deletes the keys of a lease.

use std::ops::ControlFlow;

use super::super::deletion::{Attached, Deletion};
use super::super::view::Flow;
use super::super::{Bucket, End, KeyRange, Root, Store};
use super::chunk::Chunk;
use super::{DELETE_CHUNK_KEYS, DELETIONS_MAX, Piece, Write};
use crate::Result;

impl Write<'_> {
    /// Deletes every key attached to the lease, in key order; returns how many.
    pub fn delete_attached(&mut self, lease: i64) -> Result<u64> {
        let mut deleted = 0;
        for piece in self.owned_pieces(KeyRange::ALL)? {
            let range = piece.range();
            if self.may_be_in_steps(&piece)
                && let Some(attached) = Attached::more_than(self.keys_at_once, self, lease, range)?
            {
                let keys = attached.keys();
                let first = self.begin_changes(keys);
                let deletion = Deletion::of_attached(attached, first);
                self.store.root.deletions.push(deletion);
                deleted += keys;
                continue;
            }
            let keys = self.delete_attached_in(lease, range)?;
            self.keys_at_once = self.keys_at_once.saturating_sub(keys);
            deleted += keys;
        }
        Ok(deleted)
    }

    fn delete_attached_in(&mut self, lease: i64, range: KeyRange<'_>) -> Result<u64> {
        self.delete_chunks(range, &|root, range| {
            let mut chunk = Chunk::default();
            scan_attached(root, lease, range, &mut |key| {
                chunk.push(key, lease, DELETE_CHUNK_KEYS)
            })?;
            Ok(chunk)
        })
    }

    /// The keys of the piece may be deleted in steps if there are many.
    pub(super) fn may_be_in_steps(&self, piece: &Piece) -> bool {
        self.keys_at_once != u64::MAX && is_room(self, piece)
    }

    /// Writes what is left of deletions of the lease's keys. It must be done before any of these is
    /// attached to the lease again. A put does it itself if need be, but an entry that grants the lease
    /// anew comes before all of them, and its caller knows that it is large.
    pub fn end_deletions_of(&mut self, lease: i64) -> Result<()> {
        self.store.end_deletions_of(lease, &|_| true)
    }
}

impl Store {
    /// How many keys the end of a lease deletes at once, counted no further than to about `most`: if
    /// there are more than [`Store::set_keys_deleted_at_once`] says, they are deleted in steps.
    pub fn attached_keys(&self, lease: i64, most: u64) -> Result<u64> {
        let root = &self.root;
        let at_once = self.keys_deleted_at_once;
        let mut all = 0;
        for piece in root.owned_pieces(KeyRange::ALL)? {
            let is_room = is_room(root, &piece);
            let mut keys: u64 = 0;
            if piece.is_in_part {
                scan_attached(root, lease, piece.range(), &mut |_| {
                    keys += 1;
                    go_on_if(all + keys < most)
                })?;
            } else {
                root.count_attached(lease, piece.range(), &mut |_, rows| {
                    keys += rows;
                    go_on_if(all + keys < most && (!is_room || keys <= at_once))
                })?;
                if is_room && keys > at_once {
                    keys = 0;
                }
            }
            all += keys;
        }
        Ok(all)
    }
}

/// A deletion in steps may have the piece for its part.
fn is_room(root: &Root, piece: &Piece) -> bool {
    !piece.is_in_part && root.deletions.len() < DELETIONS_MAX
}

/// Calls `f` with the keys of the range that are attached to the lease.
fn scan_attached(
    root: &Root,
    lease: i64,
    range: KeyRange<'_>,
    f: &mut dyn FnMut(&[u8]) -> Flow,
) -> Result<()> {
    let lease = lease.to_be_bytes();
    root.side_scan_from(Bucket::LeaseKeys, &lease, range.start, &mut |row, _| {
        let key = &row[lease.len()..];
        match range.end {
            End::Before(end) if end <= key => ControlFlow::Break(()),
            _ => f(key),
        }
    })
}

fn go_on_if(more: bool) -> Flow {
    if more {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}
