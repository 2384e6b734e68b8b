//! Puts the parts of one change into the trees. Knows nothing of entries.

use std::path::Path;

use super::super::key::{self, HEAD, Stamp, StampBytes, VersionKey};
use super::super::keys::newest_in;
use super::super::{Bucket, Revision, Root, Store};
use crate::btree::{Pages, Tree, Writer};
use crate::{Error, Result};

impl Store {
    /// Puts a live version into the key tree; returns its stamp, and the lease of the one before.
    pub(in crate::mvcc) fn push_put(
        &mut self,
        key: &[u8],
        value: &[u8],
        revision: Revision,
        lease: i64,
    ) -> Result<(Stamp, i64)> {
        if lease != 0 && !self.root.deletions.is_empty() {
            self.end_deletions_of(lease, &|part| part.contains(key))?;
        }
        let mut old_lease = 0;
        let stamp = self.push_version(key, revision, |old| {
            old_lease = lease_of(old);
            put_stamp(old, value, revision, lease)
        })?;
        Ok((stamp, old_lease))
    }

    /// Puts a version among those of its key. `make` returns its stamp after it saw the stamp of the
    /// newest version so far.
    pub(super) fn push_version(
        &mut self,
        key: &[u8],
        revision: Revision,
        make: impl FnOnce(Option<Stamp>) -> Stamp,
    ) -> Result<Stamp> {
        self.note_key(key);
        if !self.root.deletions.is_empty()
            && let Some(place) = self.root.deletion_with(key)?
        {
            return self.push_since(place, key, revision, make);
        }
        self.push_trees(key, revision, make)
    }

    /// The same, into the trees of keys even if a deletion has taken the key.
    pub(in crate::mvcc) fn push_trees(
        &mut self,
        key: &[u8],
        revision: Revision,
        make: impl FnOnce(Option<Stamp>) -> Stamp,
    ) -> Result<Stamp> {
        if self.is_direct() {
            self.root.keys.note_direct();
            self.push_base(key, revision, make)
        } else {
            self.push_delta(key, revision, make)
        }
    }

    /// The next change goes into the base.
    pub(in crate::mvcc) fn is_direct(&self) -> bool {
        // Sizes are learned in the base alone.
        let is_older = self.unsized_from.is_some();
        let keys = &self.root.keys;
        is_older || keys.is_direct(&self.delta_limits, self.key_bytes())
    }

    /// Puts a version into the base, and removes the head mark from the newest version there so
    /// far, whose stamp `make` sees.
    pub(in crate::mvcc) fn push_base(
        &mut self,
        key: &[u8],
        revision: Revision,
        make: impl FnOnce(Option<Stamp>) -> Stamp,
    ) -> Result<Stamp> {
        let Root {
            keys, pages, path, ..
        } = &mut self.root;
        let writer = self.file.writer();
        push_into(&mut keys.base, pages, path, writer, key, revision, make)
    }

    /// Puts a change into the revision tree.
    pub(in crate::mvcc) fn push_row(
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
    pub(in crate::mvcc) fn move_lease(&mut self, key: &[u8], old: i64, new: i64) -> Result<()> {
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
    pub(in crate::mvcc) fn load_change(
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
    pub(in crate::mvcc) fn set_side(
        &mut self,
        bucket: Bucket,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
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

/// Puts a version into a tree, and removes the head mark from the newest version of its key there so
/// far, whose stamp `make` sees.
pub(in crate::mvcc) fn push_into(
    tree: &mut Tree,
    pages: &Pages,
    path: &Path,
    writer: &mut Writer,
    key: &[u8],
    revision: Revision,
    make: impl FnOnce(Option<Stamp>) -> Stamp,
) -> Result<Stamp> {
    let damaged = |what: String| Error::corrupt(path, 0, what);
    let version_key = VersionKey::new(key, revision);
    let (mut make, mut stamp) = (Some(make), None);
    let mut make = |old| {
        let make = make.take().expect("asked for once");
        *stamp.insert(make(old))
    };
    let done = tree.insert_before_next(writer, &version_key, |next| {
        // A key's versions come newest first: the entry after the new one was the head.
        let mut old = None;
        if let Some((next, value)) = next {
            let (next, at) = key::split_key(next)
                .ok_or_else(|| damaged("a key of the key tree is too short".to_owned()))?;
            if next == *key {
                let stamp = key::stamp(value, at);
                let what = || damaged(format!("revision {at:?} in the key tree"));
                old = Some(stamp.ok_or_else(what)?);
                value[0] &= !HEAD;
            }
        }
        Ok(StampBytes::new(&make(old), revision))
    })?;
    if !done {
        let old = newest_in(tree, pages, path, key)?;
        let bytes = StampBytes::new(&make(old.map(|(_, stamp)| stamp)), revision);
        tree.insert(writer, &version_key, bytes.as_ref())?;
        if let Some((old, _)) = old {
            let old = VersionKey::new(key, old);
            let found = tree.update(writer, &old, |value| value[0] &= !HEAD)?;
            assert!(found, "the head of a key is where it was just read");
        }
    }
    Ok(stamp.expect("made on either way"))
}

/// The stamp of a put after the newest version so far.
pub(in crate::mvcc) fn put_stamp(
    old: Option<Stamp>,
    value: &[u8],
    revision: Revision,
    lease: i64,
) -> Stamp {
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
pub(in crate::mvcc) fn lease_of(newest: Option<Stamp>) -> i64 {
    newest.map_or(
        0,
        |stamp| {
            if stamp.is_tombstone() { 0 } else { stamp.lease }
        },
    )
}
