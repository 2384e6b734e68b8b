//! A deletion of many keys that takes effect at once and is written in steps.
//!
//! One request may delete every key of the store. To write the tombstones of ten million keys takes
//! half a minute, and all entries of the log behind that one would wait. So an entry that deletes many keys
//! of a range, or of a lease, only notes the deletion in the root, and [`Store::delete_step`] writes the
//! tombstones afterwards, in key order, between other entries.
//!
//! A [`Deletion`] is what is left to do: a part of the range of keys, and what was written *since* to
//! the keys that it has taken there. These are all keys of the part, or those that were attached to a
//! lease ([`attached`]).
//!
//! Deletions are *layers*: each one takes keys of the state below it, which the trees of keys and the
//! deletions before it tell. That state does not change any more in the part: a version of a key goes
//! to the last deletion that has taken the key. So the parts may overlap, and readers look from the trees
//! up:
//!
//! - The trees still say that keys taken are live. What a tree has of a key is hidden if a later
//!   deletion has taken the key: if it takes all keys of the part, or if the version says that the key
//!   is attached to its lease ([`Deletion::takes`]). Then `since` of that deletion tells what follows.
//!   Readers of a revision leave out the deletions above it.
//! - Nothing else is seen of the part of a deletion that takes all keys, and nothing later overlaps it: no
//!   other key is there. Where deletions take keys of leases, ranges merge what is not hidden; counts
//!   add what came since and subtract the number of the keys taken.
//! - A key taken gets the next tombstone: their revisions follow from the order of keys, because
//!   nothing changes which keys are taken. So a reader of history that comes to rows that are not
//!   written yet makes them ([`Root::rows_from`]).
//! - Keys attached to leases are told by `since`, too ([`Root::side_scan`]).
//!
//! A step writes the tombstones of the first keys of the first deletion's part, moves what `since` has of
//! them behind these, and takes these keys out of the part. What is below the next deletion stays as it
//! was. Views hold the root of before.
//!
//! Nothing of this is durable: no checkpoint begins until the last tombstone is written. After a
//! crash the log has the entry, and the replay writes all of its tombstones before it goes on.

mod attached;
mod reads;
mod walk;

use std::sync::Arc;

use super::key::{self, HEAD, Stamp, TOMBSTONE, VersionKey};
use super::keys::BASE_KIND;
use super::write::{Chunk, lease_of, push_into};
use super::{End, KeyRange, Revision, Root, Store};
use crate::Result;
use crate::btree::Tree;
pub(super) use attached::Attached;
pub(super) use reads::{Unwritten, pieces};

/// Keys whose tombstones are written without another look at the memory in use.
const KEYS_PER_STEP: usize = 512;

/// The part of a deletion that is not written yet.
///
/// Invariants: `left` of the part's keys that are live below the deletion are taken. Below it there is
/// no change of a key taken that is newer. No later part overlaps that of a deletion that takes all
/// keys.
#[derive(Clone, Debug)]
pub(super) struct Deletion {
    /// The first key of the part.
    start: Vec<u8>,
    /// The first key behind it; `None`: there is no end.
    end: Option<Vec<u8>>,
    /// Of the next tombstone.
    next: Revision,
    /// Tombstones left to write.
    left: u64,
    /// Versions of keys taken that are newer than the deletion, as in the base.
    since: Tree,
    taken: Taken,
}

/// The keys of the part that a deletion takes.
#[derive(Clone, Debug)]
enum Taken {
    /// All keys, those that were not live included.
    All,
    AttachedTo(Arc<Attached>),
}

/// Versions of one or more keys in [`Deletion::since`].
type Versions = Vec<(Vec<u8>, Revision, Stamp)>;

impl Deletion {
    /// Takes the `keys` live keys of the range.
    pub(super) fn of_range(range: KeyRange<'_>, first: Revision, keys: u64) -> Deletion {
        let end = match range.end {
            End::Single => unreachable!("a single key is deleted at once"),
            End::Before(end) => Some(end.to_vec()),
            End::Unbounded => None,
        };
        Deletion {
            start: range.start.to_vec(),
            end,
            next: first,
            left: keys,
            since: Tree::empty(BASE_KIND),
            taken: Taken::All,
        }
    }

    /// Takes the keys of a lease.
    pub(super) fn of_attached(attached: Attached, first: Revision) -> Deletion {
        Deletion {
            start: attached.start().to_vec(),
            end: Some(attached.end().to_vec()),
            next: first,
            left: attached.keys(),
            since: Tree::empty(BASE_KIND),
            taken: Taken::AttachedTo(Arc::new(attached)),
        }
    }

    /// The part.
    fn range(&self) -> KeyRange<'_> {
        KeyRange {
            start: &self.start,
            end: self.end.as_deref().map_or(End::Unbounded, End::Before),
        }
    }

    /// A key of the range may be in the part.
    fn meets(&self, range: KeyRange<'_>) -> bool {
        let begins = match range.end {
            End::Single => *self.start <= *range.start,
            End::Before(end) => *self.start < *end,
            End::Unbounded => true,
        };
        begins && self.end.as_deref().is_none_or(|end| range.start < end)
    }

    /// What was written to the keys taken since.
    pub(super) fn since(&self) -> &Tree {
        &self.since
    }

    /// True if it takes all keys of the part.
    pub(super) fn is_whole(&self) -> bool {
        self.attached().is_none()
    }

    /// True if it takes the keys of this lease.
    pub(super) fn is_of(&self, lease: i64) -> bool {
        self.attached().is_some_and(|of| of.lease() == lease)
    }

    /// True if it has taken a key that is attached to `lease` (0: to none) below it. Nothing in its
    /// part is attached to the lease later: see [`Store::end_deletions_of`].
    fn takes(&self, key: &[u8], lease: i64) -> bool {
        (self.is_whole() || self.is_of(lease)) && self.range().contains(key)
    }

    /// The keys taken, if they are those of a lease.
    pub(super) fn attached(&self) -> Option<&Attached> {
        match &self.taken {
            Taken::All => None,
            Taken::AttachedTo(attached) => Some(attached),
        }
    }

    /// The main revision of the deletion.
    fn main(&self) -> i64 {
        self.next.main
    }

    /// Of the last tombstone.
    fn last(&self) -> Revision {
        Revision {
            sub: self.next.sub + self.left as i64 - 1,
            ..self.next
        }
    }
}

/// The stamp of a tombstone that is the newest version of its key.
pub(super) const TOMB: Stamp = Stamp {
    flags: HEAD | TOMBSTONE,
    size: None,
    create_revision: 0,
    version: 0,
    lease: 0,
};

impl Store {
    /// Deletions of ranges with more keys take effect at once, but are written in steps by
    /// [`Store::delete_step`]. Without the call, all deletions are written at once.
    pub fn set_keys_deleted_at_once(&mut self, keys: u64) {
        self.keys_deleted_at_once = keys;
    }

    /// Writes the tombstones of about `keys` keys. Until none is left, no checkpoint begins. Call it
    /// while no checkpoint runs: then what it changed does not stay in memory.
    pub fn delete_step(&mut self, keys: usize) -> Result<()> {
        let mut left = keys.max(1);
        while left > 0 && self.root.is_deleting() {
            self.touch();
            let versions = self.delete_some(left.min(KEYS_PER_STEP))?;
            left = left.saturating_sub(versions.max(1));
        }
        Ok(())
    }

    /// Writes all changed leaves. Returns the bytes in memory at which to write again, after `bytes`
    /// of further changes.
    pub(super) fn spill_for(&mut self, bytes: u64) -> Result<u64> {
        self.spill_all()?;
        self.reserve(false)?;
        Ok(self.file.unsaved_bytes() + bytes)
    }

    /// Writes tombstones until no deletion takes keys of the lease in a part for which `of_part` holds.
    ///
    /// The rows of the lease's keys say which keys such a deletion takes. So no key of its part is
    /// attached to the lease again, which is granted anew then: this happens rarely.
    pub(super) fn end_deletions_of(
        &mut self,
        lease: i64,
        of_part: &dyn Fn(KeyRange<'_>) -> bool,
    ) -> Result<()> {
        let is_meant = |of: &Deletion| of.is_of(lease) && of_part(of.range());
        while self.root.deletions.iter().any(is_meant) {
            self.delete_some(KEYS_PER_STEP)?;
        }
        Ok(())
    }

    /// Takes up to about `keys` keys out of the first deletion; returns how many versions it wrote.
    fn delete_some(&mut self, keys: usize) -> Result<usize> {
        let deletion = &self.root.deletions[0];
        let part = deletion.range();
        let mut live = match &deletion.taken {
            Taken::All => Chunk::of_trees(&self.root, part, keys)?,
            Taken::AttachedTo(of) => Chunk::of_attached(&self.root, of.lease(), part, keys)?,
        };
        let live_end = live.last().filter(|_| live.len() == keys);
        let (versions, versions_end) =
            self.root
                .first_of(&deletion.since, part.start, live_end, keys)?;
        let through = versions_end.or(live_end.map(<[u8]>::to_vec));
        live.retain_first(|key| through.as_deref().is_none_or(|through| key <= through));
        let wrote = live.len() + versions.len();
        for (key, lease) in live.iter() {
            self.write_tombstone(key, lease)?;
        }
        for of_one in versions.chunk_by(|a, b| user_key(&a.0) == user_key(&b.0)) {
            // Their newest one comes first.
            for (version_key, revision, stamp) in of_one.iter().rev() {
                let flags = stamp.flags | HEAD;
                let stamp = Stamp { flags, ..*stamp };
                self.push_trees(user_key(version_key), *revision, |_| stamp)?;
                let since = &mut self.root.deletions[0].since;
                since.remove(self.file.writer(), version_key)?;
            }
        }
        match through {
            Some(mut through) => {
                // The least key above the last one.
                through.push(0);
                self.root.deletions[0].start = through;
            }
            None => {
                let done = self.root.deletions.remove(0);
                assert!(done.left == 0 && done.since.len() == 0);
                // The next deletion begins by writing what is in memory then.
                self.deletion_spills_at = 0;
            }
        }
        if self.file.unsaved_bytes() >= self.deletion_spills_at {
            // Entries wait for the step that writes: it writes less at a time than they do.
            self.deletion_spills_at = self.spill_for(self.entry_bytes_in_memory / 4)?;
        }
        Ok(wrote)
    }

    /// Writes the tombstone of the first key that the first deletion takes, whose newest version in
    /// the trees of keys is attached to `lease`.
    fn write_tombstone(&mut self, key: &[u8], lease: i64) -> Result<()> {
        let revision = self.root.deletions[0].next;
        let attached = match lease {
            0 => 0,
            // Not attached to it again: see `Store::end_deletions_of`.
            _ if self.root.deletions[0].is_of(lease) => 0,
            _ => lease_of(self.root.head(key)?.map(|(_, stamp)| stamp)),
        };
        self.push_trees(key, revision, |_| TOMB)?;
        self.push_row(key, b"", revision, TOMB)?;
        if attached != lease {
            self.move_lease(key, lease, 0)?;
        }
        let deletion = &mut self.root.deletions[0];
        deletion.next.sub += 1;
        deletion.left -= 1;
        Ok(())
    }

    /// Puts a version of a key that a deletion has taken into what came since.
    pub(super) fn push_since(
        &mut self,
        place: usize,
        key: &[u8],
        revision: Revision,
        make: impl FnOnce(Option<Stamp>) -> Stamp,
    ) -> Result<Stamp> {
        let Root {
            deletions,
            pages,
            path,
            ..
        } = &mut self.root;
        let since = &mut deletions[place].since;
        push_into(since, pages, path, self.file.writer(), key, revision, make)
    }
}

impl Root {
    /// The first versions in a tree, of all keys from `start` through `end` (`None`: there is no
    /// end). If there are more than about `most`, of fewer keys: then also returns the last of these.
    fn first_of(
        &self,
        tree: &Tree,
        start: &[u8],
        end: Option<&[u8]>,
        most: usize,
    ) -> Result<(Versions, Option<Vec<u8>>)> {
        let mut found: Versions = Vec::new();
        let mut cursor = tree.cursor(&self.pages);
        let mut more = cursor.seek(&VersionKey::newest_of(start))?;
        while more {
            let (key, revision) = self.split(cursor.key())?;
            if end.is_some_and(|end| end < key) {
                break;
            }
            let last = found.last().map(|(last, _, _)| user_key(last));
            if found.len() >= most && last != Some(key) {
                let last = last.map(<[u8]>::to_vec);
                return Ok((found, last));
            }
            let stamp = self.stamp(cursor.value(), revision)?;
            found.push((cursor.key().to_vec(), revision, stamp));
            more = cursor.next()?;
        }
        Ok((found, None))
    }
}

#[cfg(any(test, fuzzing))]
impl Root {
    /// How many deletions have a part that overlaps an earlier one's: those of leases' keys, and
    /// those of ranges.
    pub(super) fn overlaps(&self) -> [u64; 2] {
        let mut overlaps = [0, 0];
        for (place, deletion) in self.deletions.iter().enumerate() {
            let part = deletion.range();
            let earlier = &self.deletions[..place];
            let overlaps_one = earlier.iter().any(|earlier| earlier.meets(part));
            overlaps[usize::from(deletion.is_whole())] += u64::from(overlaps_one);
        }
        overlaps
    }
}

fn user_key(version_key: &[u8]) -> &[u8] {
    key::split_version_key(version_key).map_or(b"", |(key, _)| key)
}
