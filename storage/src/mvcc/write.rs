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

use std::ops::{ControlFlow, Deref};

use super::key::{self, HEAD, Stamp, StampBytes, TOMBSTONE, VersionKey};
use super::{Applied, Bucket, KeyRange, Revision, Root, Store};
use crate::{Error, Result};

/// Keys that a large deletion gathers before it writes their tombstones: a tree cannot be read and
/// written at once, and memory stays bounded.
const DELETE_CHUNK_KEYS: usize = 512;

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
}

impl<'a> Write<'a> {
    pub(super) fn new(store: &'a mut Store, applied: Applied) -> Write<'a> {
        let next = Revision {
            main: store.root.revision + 1,
            sub: 0,
        };
        let spill_at = store.file.unsaved_bytes() + store.entry_bytes_in_memory;
        Write {
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
        let mut deleted = 0;
        let mut resume: Option<Vec<u8>> = None;
        loop {
            let start = resume.as_deref().unwrap_or(range.start);
            let chunk = self.live_keys(KeyRange { start, ..range })?;
            for (key, lease) in chunk.iter() {
                self.delete(key, lease)?;
            }
            deleted += chunk.rows.len() as u64;
            if chunk.rows.len() < DELETE_CHUNK_KEYS {
                return Ok(deleted);
            }
            // The least key above the last one.
            let mut next = chunk
                .iter()
                .last()
                .map_or(Vec::new(), |(key, _)| key.to_vec());
            next.push(0);
            resume = Some(next);
        }
    }

    /// Deletes every key attached to the lease, in key order; returns how many.
    pub fn delete_attached(&mut self, lease: i64) -> Result<u64> {
        let mut deleted = 0;
        loop {
            let chunk = self.attached_keys(lease)?;
            for (key, lease) in chunk.iter() {
                self.delete(key, lease)?;
            }
            // A deleted key is not attached any more: the next chunk begins behind this one.
            deleted += chunk.rows.len() as u64;
            if chunk.rows.len() < DELETE_CHUNK_KEYS {
                return Ok(deleted);
            }
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
        assert!(
            revision.sub < Revision::MAX.sub,
            "a transaction of 2^32 changes"
        );
        self.store.root.revision = revision.main;
        self.next.sub += 1;
        revision
    }

    /// Deletes a live key, which is attached to `lease`.
    fn delete(&mut self, key: &[u8], lease: i64) -> Result<()> {
        let revision = self.begin_change();
        let stamp = Stamp {
            flags: HEAD | TOMBSTONE,
            ..Stamp::default()
        };
        self.store.push_version(key, revision, |_| stamp)?;
        self.store.push_row(key, b"", revision, stamp)?;
        self.store.move_lease(key, lease, 0)?;
        self.bound_memory()
    }

    fn bound_memory(&mut self) -> Result<()> {
        if self.store.file.unsaved_bytes() < self.spill_at {
            return Ok(());
        }
        self.store.spill_all()?;
        self.store.reserve(false)?;
        self.spill_at = self.store.file.unsaved_bytes() + self.store.entry_bytes_in_memory;
        Ok(())
    }

    fn attached_keys(&self, lease: i64) -> Result<Chunk> {
        let mut chunk = Chunk::default();
        let prefix = lease.to_be_bytes();
        let bucket = Bucket::LeaseKeys;
        self.store.root.side_scan(bucket, &prefix, &mut |row, _| {
            chunk.bytes.extend_from_slice(&row[prefix.len()..]);
            chunk.rows.push((chunk.bytes.len(), lease));
            if chunk.rows.len() < DELETE_CHUNK_KEYS {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        })?;
        Ok(chunk)
    }

    fn live_keys(&self, range: KeyRange<'_>) -> Result<Chunk> {
        let mut chunk = Chunk::default();
        self.store
            .root
            .walk(range, i64::MAX, &mut |key, _, stamp| {
                chunk.bytes.extend_from_slice(key);
                chunk.rows.push((chunk.bytes.len(), stamp.lease));
                Ok(if chunk.rows.len() < DELETE_CHUNK_KEYS {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                })
            })?;
        Ok(chunk)
    }
}

impl Store {
    /// Puts a live version into the key tree; returns its stamp, and the lease of the one before.
    pub(super) fn push_put(
        &mut self,
        key: &[u8],
        value: &[u8],
        revision: Revision,
        lease: i64,
    ) -> Result<(Stamp, i64)> {
        let mut old_lease = 0;
        let stamp = self.push_version(key, revision, |old| {
            old_lease = lease_of(old);
            put_stamp(old, value, revision, lease)
        })?;
        Ok((stamp, old_lease))
    }

    /// Puts a version among those of its key. `make` returns its stamp after it saw the stamp of the
    /// newest version so far.
    fn push_version(
        &mut self,
        key: &[u8],
        revision: Revision,
        make: impl FnOnce(Option<Stamp>) -> Stamp,
    ) -> Result<Stamp> {
        self.note_key(key);
        if self.is_direct() {
            self.root.keys.note_direct();
            self.push_base(key, revision, make)
        } else {
            self.push_delta(key, revision, make)
        }
    }

    /// The next change goes into the base.
    pub(super) fn is_direct(&self) -> bool {
        // Sizes are learned in the base alone.
        let is_older = self.unsized_from.is_some();
        let keys = &self.root.keys;
        is_older || keys.is_direct(&self.delta_limits, self.key_bytes())
    }

    /// Puts a version into the base, and removes the head mark from the newest version there so
    /// far, whose stamp `make` sees.
    pub(super) fn push_base(
        &mut self,
        key: &[u8],
        revision: Revision,
        make: impl FnOnce(Option<Stamp>) -> Stamp,
    ) -> Result<Stamp> {
        let Store { root, file, .. } = self;
        let Root { keys, path, .. } = root;
        let damaged = |what: String| Error::corrupt(path, 0, what);
        let version_key = VersionKey::new(key, revision);
        let (mut make, mut stamp) = (Some(make), None);
        let mut make = |old| {
            let make = make.take().expect("asked for once");
            *stamp.insert(make(old))
        };
        let done = keys
            .base
            .insert_before_next(file.writer(), &version_key, |next| {
                // A key's versions come newest first: the entry after the new one was the head.
                let mut old = None;
                if let Some((next, value)) = next {
                    let (next, at) = key::split_version_key(next)
                        .ok_or_else(|| damaged("a key of the key tree is too short".to_owned()))?;
                    if next == key {
                        let stamp = key::stamp(value, at);
                        let what = || damaged(format!("revision {at:?} in the key tree"));
                        old = Some(stamp.ok_or_else(what)?);
                        value[0] &= !HEAD;
                    }
                }
                Ok(StampBytes::new(&make(old), revision))
            })?;
        if !done {
            let old = root.base_head(key)?;
            let bytes = StampBytes::new(&make(old.map(|(_, stamp)| stamp)), revision);
            root.keys
                .base
                .insert(file.writer(), &version_key, bytes.as_ref())?;
            if let Some((old, _)) = old {
                let old = VersionKey::new(key, old);
                let found = root
                    .keys
                    .base
                    .update(file.writer(), &old, |value| value[0] &= !HEAD)?;
                assert!(found, "the head of a key is where it was just read");
            }
        }
        Ok(stamp.expect("made on either way"))
    }

    /// Puts a change into the revision tree.
    pub(super) fn push_row(
        &mut self,
        key: &[u8],
        value: &[u8],
        revision: Revision,
        stamp: Stamp,
    ) -> Result<()> {
        let Store {
            root,
            file,
            scratch,
            ..
        } = self;
        key::row_head(scratch, &stamp, revision, key);
        scratch.extend_from_slice(value);
        root.revisions
            .insert(file.writer(), &key::revision_key(revision), scratch)?;
        Ok(())
    }

    /// Attaches a key to another lease; 0 means none.
    pub(super) fn move_lease(&mut self, key: &[u8], old: i64, new: i64) -> Result<()> {
        if old == new {
            return Ok(());
        }
        let Store {
            root,
            file,
            scratch,
            ..
        } = self;
        if old != 0 {
            key::lease_key(scratch, old, key);
            root.side.remove(file.writer(), scratch)?;
        }
        if new != 0 {
            key::lease_key(scratch, new, key);
            root.side.insert(file.writer(), scratch, b"")?;
        }
        Ok(())
    }

    /// One change of another store's history, with its original numbers.
    pub(super) fn load_change(
        &mut self,
        key: &[u8],
        value: &[u8],
        revision: Revision,
        stamp: Stamp,
    ) -> Result<()> {
        let mut old_lease = 0;
        self.push_version(key, revision, |old| {
            old_lease = lease_of(old);
            stamp
        })?;
        self.push_row(key, value, revision, stamp)?;
        self.move_lease(key, old_lease, stamp.lease)
    }

    /// Sets a row of a side table.
    pub(super) fn set_side(&mut self, bucket: Bucket, key: &[u8], value: &[u8]) -> Result<()> {
        let Store {
            root,
            file,
            scratch,
            ..
        } = self;
        key::side_key(scratch, bucket, key);
        root.side.insert(file.writer(), scratch, value)?;
        Ok(())
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

/// The stamp of a put after the newest version so far.
pub(super) fn put_stamp(old: Option<Stamp>, value: &[u8], revision: Revision, lease: i64) -> Stamp {
    let live = old.filter(|stamp| !stamp.is_tombstone());
    Stamp {
        flags: HEAD,
        size: Some(value.len() as u64),
        create_revision: live.map_or(revision.main, |old| old.create_revision),
        version: live.map_or(1, |old| old.version + 1),
        lease,
    }
}

/// The lease to which a key with this newest version is attached; 0 for none.
pub(super) fn lease_of(newest: Option<Stamp>) -> i64 {
    newest.map_or(
        0,
        |stamp| {
            if stamp.is_tombstone() { 0 } else { stamp.lease }
        },
    )
}

/// Live keys in one buffer: the end of each, and its lease.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    rows: Vec<(usize, i64)>,
}

impl Chunk {
    fn iter(&self) -> impl Iterator<Item = (&[u8], i64)> {
        let mut start = 0;
        self.rows.iter().map(move |&(end, lease)| {
            let key = &self.bytes[start..end];
            start = end;
            (key, lease)
        })
    }
}
