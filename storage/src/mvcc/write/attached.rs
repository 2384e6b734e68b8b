//! Deletes the keys of a lease.

use std::ops::ControlFlow;

use super::super::deletion::{Attached, Deletion};
use super::super::view::Flow;
use super::super::{KeyRange, Root, Store};
use super::chunk::Chunk;
use super::{DELETE_CHUNK_KEYS, DELETIONS_MAX, Piece, Write};
use crate::Result;

impl Write<'_> {
    /// Deletes every key attached to the lease, in key order; returns how many.
    pub fn delete_attached(&mut self, lease: i64) -> Result<u64> {
        // So each row of the lease tells of a live key, unless a deletion has taken all keys there.
        self.end_deletions_of(lease)?;
        let mut deleted = 0;
        for piece in self.owned_pieces(KeyRange::ALL) {
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
            let keys = self.delete_chunks(range, &|root, range| {
                if piece.is_taken {
                    Chunk::of_visible_attached(root, lease, range, DELETE_CHUNK_KEYS)
                } else {
                    Chunk::of_attached(root, lease, range, DELETE_CHUNK_KEYS)
                }
            })?;
            self.keys_at_once = self.keys_at_once.saturating_sub(keys);
            deleted += keys;
        }
        Ok(deleted)
    }

    /// The keys of the piece may be deleted in steps if there are many.
    pub(super) fn may_be_in_steps(&self, piece: &Piece) -> bool {
        self.keys_at_once != u64::MAX && is_room(self, piece)
    }

    /// Writes what is left of deletions of the lease's keys, and of those before them. It must be
    /// done before any of these keys is attached to the lease again. A put does it itself if need be,
    /// but an entry that grants the lease anew comes before all of them, and its caller knows that it
    /// is large.
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
        for piece in root.owned_pieces(KeyRange::ALL) {
            let is_room = is_room(root, &piece);
            let mut keys: u64 = 0;
            if piece.is_taken {
                root.walk(piece.range(), i64::MAX, &mut |_, _, stamp| {
                    keys += u64::from(stamp.lease == lease);
                    Ok(go_on_if(all + keys < most))
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
    !piece.is_taken && root.deletions.len() < DELETIONS_MAX
}

fn go_on_if(more: bool) -> Flow {
    if more {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}
