//! The effects of one log entry on the store. Knows nothing of the request behind it.
//!
//! # An entry that is larger than memory
//!
//! One entry may delete every key of the store, and each deletion changes a leaf; so may each put of
//! a transaction. So whenever an
//! entry has added [`ENTRY_BYTES_IN_MEMORY`] of changed nodes, it writes all changed leaves to free
//! units of the page file and drops them from memory (`btree/checkpoint/spill.rs`). Only branches
//! stay, some hundredths of the whole.
//!
//! This leaves the entry atomic:
//! - Readers see the last published root until the entry is over: `Store::publish` needs the store,
//!   and a [`Write`] borrows it.
//! - For the same reason no checkpoint begins within an entry. So both meta pages hold states from
//!   before it, and neither refers to a page that it wrote. A crash within the entry, or before the
//!   next checkpoint is done, leaves one of these states, and the log has the entry. The replay
//!   begins it anew, in the same bounded memory, and writes the same free units again.
//!
//! A checkpoint that is running owns the free space, so an entry writes nothing meanwhile, and
//! keeps its changes in memory. The caller does not begin a large one then.

mod attached;
mod chunk;
mod push;

use std::ops::Deref;

use super::deletion::{Deletion, TOMB, pieces};
use super::key;
use super::{Applied, Bucket, End, KeyRange, Revision, Root, Store};
use crate::Result;
pub(super) use chunk::Chunk;
pub(super) use push::{lease_of, push_into, put_stamp};

/// Keys that are gathered before their tombstones are written: memory stays bounded.
const DELETE_CHUNK_KEYS: usize = 512;

/// Deletions that are written in steps at the same time: reads look through all of them.
pub(super) const DELETIONS_MAX: usize = 256;

const TOO_MANY_CHANGES: &str = "a transaction of 2^32 changes";

/// Bytes of changed nodes that one entry adds to memory before their leaves are written.
pub const ENTRY_BYTES_IN_MEMORY: u64 = 32 << 20;

/// The effects of one log entry. All its changes share one main revision, which the first change
/// begins. Reads through it see its writes. Dropping it ends the entry: the applied index and the
/// data have moved together.
#[derive(Debug)]
pub struct Write<'a> {
    store: &'a mut Store,
    applied: Applied,
    /// The revision of the next change.
    next: Revision,
    /// Bytes of changed nodes in memory at which leaves are written.
    spill_at: u64,
    /// Keys that may still be deleted at once; see [`Store::set_keys_deleted_at_once`].
    keys_at_once: u64,
}

impl<'a> Write<'a> {
    pub(super) fn new(store: &'a mut Store, applied: Applied) -> Write<'a> {
        let next = Revision {
            main: store.root.revision + 1,
            sub: 0,
        };
        let spill_at = store.file.unsaved_bytes() + store.entry_bytes_in_memory;
        Write {
            keys_at_once: store.keys_deleted_at_once,
            store,
            applied,
            next,
            spill_at,
        }
    }

    /// Puts a new version of `key`; `lease` 0 means none. Moves the key from its former lease.
    pub fn put(&mut self, key: &[u8], value: &[u8], lease: i64) -> Result<()> {
        let revision = self.begin_change();
        let (stamp, old_lease) = self.store.push_put(key, value, revision, lease)?;
        self.store.push_row(key, value, revision, stamp)?;
        self.store.move_lease(key, old_lease, lease)?;
        match revision.sub {
            // What a single put changes is little.
            0 => Ok(()),
            _ => self.bound_memory(),
        }
    }

    /// Deletes every live key of the range, in key order; returns how many. If there is none, no
    /// revision is begun.
    pub fn delete_range(&mut self, range: KeyRange<'_>) -> Result<u64> {
        if range.end == End::Single || self.keys_at_once == u64::MAX {
            return self.delete_each(range);
        }
        let mut deleted = 0;
        for piece in self.owned_pieces(range) {
            let range = piece.range();
            let keys = self.count(range, 0)?;
            if keys > self.keys_at_once && self.may_be_in_steps(&piece) {
                let first = self.begin_changes(keys);
                let deletion = Deletion::of_range(range, first, keys);
                self.store.root.deletions.push(deletion);
            } else {
                self.keys_at_once = self.keys_at_once.saturating_sub(keys);
                self.delete_each(range)?;
            }
            deleted += keys;
        }
        Ok(deleted)
    }

    fn delete_each(&mut self, range: KeyRange<'_>) -> Result<u64> {
        self.delete_chunks(range, &|root, range| {
            Chunk::of_visible(root, range, DELETE_CHUNK_KEYS)
        })
    }

    /// Deletes the keys of the range that `next` finds, some at a time: it returns
    /// [`DELETE_CHUNK_KEYS`] of them, or fewer if there are no more.
    fn delete_chunks(
        &mut self,
        range: KeyRange<'_>,
        next: &dyn Fn(&Root, KeyRange<'_>) -> Result<Chunk>,
    ) -> Result<u64> {
        let mut deleted = 0;
        let mut resume: Option<Vec<u8>> = None;
        loop {
            let start = resume.as_deref().unwrap_or(range.start);
            let chunk = next(&self.store.root, KeyRange { start, ..range })?;
            for (key, lease) in chunk.iter() {
                self.delete(key, lease)?;
            }
            deleted += chunk.len() as u64;
            if chunk.len() < DELETE_CHUNK_KEYS {
                return Ok(deleted);
            }
            resume = Some(chunk.end());
        }
    }

    /// Makes everything that a compaction at `revision` drops invisible at once;
    /// [`Store::compact_step`] removes it. The caller must refuse revisions at or below the
    /// compacted one and above the newest.
    pub fn compact(&mut self, revision: i64) -> Result<()> {
        let store = &mut *self.store;
        assert!(store.root.compacted < revision && revision <= store.root.revision);
        store.root.compaction.extend(store.root.compacted);
        store.root.compacted = revision;
        Ok(())
    }

    /// Sets a row of a side table; begins no revision.
    pub fn set(&mut self, bucket: Bucket, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.set_side(bucket, key, value)
    }

    /// Removes a row of a side table, if it exists; begins no revision.
    pub fn remove(&mut self, bucket: Bucket, key: &[u8]) -> Result<()> {
        let store = &mut *self.store;
        key::side_key(&mut store.scratch, bucket, key);
        let Store {
            root,
            file,
            scratch,
            ..
        } = store;
        root.side.remove(file.writer(), scratch)?;
        Ok(())
    }

    /// True if a new main revision was begun.
    pub fn changed(&self) -> bool {
        self.next.sub > 0
    }

    fn begin_change(&mut self) -> Revision {
        let revision = self.next;
        assert!(revision.sub < Revision::MAX.sub, "{TOO_MANY_CHANGES}");
        self.store.root.revision = revision.main;
        self.next.sub += 1;
        revision
    }

    /// The first of the next `changes` revisions, whose rows [`Store::delete_step`] writes.
    fn begin_changes(&mut self, changes: u64) -> Revision {
        let first = self.begin_change();
        self.next.sub += changes as i64 - 1;
        assert!(self.next.sub <= Revision::MAX.sub, "{TOO_MANY_CHANGES}");
        first
    }

    /// Deletes a live key, which is attached to `lease`.
    fn delete(&mut self, key: &[u8], lease: i64) -> Result<()> {
        let revision = self.begin_change();
        self.store.push_version(key, revision, |_| TOMB)?;
        self.store.push_row(key, b"", revision, TOMB)?;
        self.store.move_lease(key, lease, 0)?;
        self.bound_memory()
    }

    fn bound_memory(&mut self) -> Result<()> {
        if self.store.file.unsaved_bytes() < self.spill_at {
            return Ok(());
        }
        self.spill_at = self.store.spill_for(self.store.entry_bytes_in_memory)?;
        Ok(())
    }
}

/// A piece of a range; see [`pieces`].
struct Piece {
    start: Vec<u8>,
    /// `None`: there is no end.
    end: Option<Vec<u8>>,
    /// A deletion takes all its keys: those that are live came since.
    is_taken: bool,
}

impl Piece {
    fn range(&self) -> KeyRange<'_> {
        KeyRange {
            start: &self.start,
            end: self.end.as_deref().map_or(End::Unbounded, End::Before),
        }
    }
}

impl Root {
    /// The pieces of a range of more than one key, for a caller that changes the root meanwhile.
    fn owned_pieces(&self, range: KeyRange<'_>) -> Vec<Piece> {
        let pieces = pieces(&self.deletions, range).into_iter();
        let owned = pieces.map(|piece| Piece {
            start: piece.range.start.to_vec(),
            end: match piece.range.end {
                End::Before(end) => Some(end.to_vec()),
                End::Single | End::Unbounded => None,
            },
            is_taken: piece.whole().is_some(),
        });
        owned.collect()
    }
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        self.store.root.applied = self.applied;
    }
}

impl Deref for Write<'_> {
    type Target = Root;

    fn deref(&self) -> &Root {
        &self.store.root
    }
}
