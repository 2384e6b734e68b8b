//! The row encodings of the three trees. Knows how a row is laid out, not why it exists.
//!
//! A row of the **key tree**, one per version of a key:
//! ```text
//! key    user key ++ !main (8, BE) ++ !sub (4, BE)        newest version of a key first
//! value  flags (1) ++ size ++ main - create ++ version ++ lease    the last four as varints
//! ```
//! The size is that of the value; rows of older files lack it. A tombstone's value is its flags
//! alone. The flags come first and take one byte, so that a newer version can clear the head mark
//! in place.
//!
//! A row of a **delta tree** (`keys`), one per version added or removed since its tree was begun:
//! ```text
//! key    as in the key tree
//! value  as in the key tree ++ below
//! ```
//! `below` is a varint that counts only in a head: what the key weighed below this tree. Zero: there
//! was no live version. Else one more than the bytes of the weight. The mark of a removed version
//! has the flags of a tombstone and `REMOVED`; it has no `below` unless it is a head.
//!
//! A row of the **revision tree**, one per change:
//! ```text
//! key    main (8, BE) ++ sub (4, BE)
//! value  flags (1) ++ main - create ++ version ++ lease ++ key length ++ key ++ value
//! ```
//! The numbers are varints; a tombstone has no value, and of the numbers only the key length.
//!
//! A row of the **side tree**: bucket (1) ++ the caller's key -> the caller's value.
//!
//! | flag | meaning |
//! |---|---|
//! | 1 `TOMBSTONE` | the change deleted the key |
//! | 2 `HEAD` | key tree only: the newest version of its key |
//! | 4 `SIZED` | key tree only: there is a size |
//! | 8 `REMOVED` | delta trees only: a compaction removed the version |

#[cfg(test)]
mod tests;

use std::ops::Deref;

use super::{Bucket, Item, Revision};
use crate::btree::{Key, SUFFIX_BYTES, Weight};
use crate::codec::{self, Reader};

pub(super) const TOMBSTONE: u8 = 1;
pub(super) const HEAD: u8 = 2;
const SIZED: u8 = 4;
const REMOVED: u8 = 8;

/// Bytes of a revision, at the end of a key-tree key and as a revision-tree key.
pub(super) const REVISION_BYTES: usize = SUFFIX_BYTES;

/// Keys up to this length are looked up without a heap allocation.
const INLINE_KEY_BYTES: usize = 116;

/// Longest value of the key tree and the delta trees.
const STAMP_BYTES_MAX: usize = 1 + 5 * VARINT_BYTES_MAX;
const VARINT_BYTES_MAX: usize = 10;

/// The key tree's data of one version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    /// `TOMBSTONE` and `HEAD`.
    pub(super) flags: u8,
    /// Bytes of the value; `None` if the key tree does not know.
    pub(super) size: Option<u64>,
    pub(super) create_revision: i64,
    pub(super) version: i64,
    pub(super) lease: i64,
}

impl Stamp {
    pub(super) fn is_tombstone(&self) -> bool {
        self.flags & TOMBSTONE != 0
    }

    /// What `key` weighs if this is its newest version.
    pub(super) fn weight(&self, key: &[u8]) -> Weight {
        if self.is_tombstone() {
            return Weight::NONE;
        }
        live_weight(self.size, key.len())
    }

    pub(super) fn item<'a>(&self, key: &'a [u8], value: &'a [u8], revision: Revision) -> Item<'a> {
        Item {
            key,
            value,
            create_revision: self.create_revision,
            mod_revision: revision.main,
            version: self.version,
            lease: self.lease,
        }
    }
}

/// A key-tree value, encoded without a heap allocation.
pub(super) struct StampBytes {
    bytes: [u8; STAMP_BYTES_MAX],
    len: usize,
}

impl StampBytes {
    pub(super) fn new(stamp: &Stamp, revision: Revision) -> StampBytes {
        let mut out = StampBytes {
            bytes: [0; STAMP_BYTES_MAX],
            len: 1,
        };
        out.bytes[0] = stamp.flags;
        if !stamp.is_tombstone() {
            if let Some(size) = stamp.size {
                out.bytes[0] |= SIZED;
                out.varint(size);
            }
            out.varint((revision.main - stamp.create_revision) as u64);
            out.varint(stamp.version as u64);
            out.varint(stamp.lease as u64);
        }
        out
    }

    /// The value of a delta tree's row; `below` is what the key weighs below that tree.
    pub(super) fn of_delta(stamp: &Stamp, revision: Revision, below: Weight) -> StampBytes {
        let mut out = StampBytes::new(stamp, revision);
        out.below(below);
        out
    }

    /// The mark of a removed version. It is a head if `below` is there.
    pub(super) fn of_mark(below: Option<Weight>) -> StampBytes {
        let head = if below.is_some() { HEAD } else { 0 };
        let stamp = Stamp {
            flags: REMOVED | TOMBSTONE | head,
            ..Stamp::default()
        };
        let mut out = StampBytes::new(&stamp, Revision::default());
        if let Some(below) = below {
            out.below(below);
        }
        out
    }

    fn below(&mut self, below: Weight) {
        match below.count {
            0 => self.varint(0),
            _ => self.varint(below.bytes + 1),
        }
    }

    fn varint(&mut self, value: u64) {
        self.len += codec::write_varint(&mut self.bytes[self.len..], value);
    }
}

impl AsRef<[u8]> for StampBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// `None` if the bytes are not a stamp.
pub(super) fn stamp(bytes: &[u8], revision: Revision) -> Option<Stamp> {
    let mut rest = bytes;
    take_stamp(&mut rest, revision)
}

/// True if a key-tree value belongs to a live key.
pub(super) fn is_live_head(value: &[u8]) -> bool {
    value
        .first()
        .is_some_and(|flags| flags & (HEAD | TOMBSTONE) == HEAD)
}

/// The weight of a key-tree row: live keys count, with the bytes of key and, if known, value.
pub(super) fn weigh(key_len: usize, value: &[u8]) -> Weight {
    if !is_live_head(value) {
        return Weight::NONE;
    }
    let mut rest = &value[1..];
    let size = match value[0] & SIZED {
        0 => None,
        _ => take_varint(&mut rest),
    };
    live_weight(size, key_len.saturating_sub(REVISION_BYTES))
}

/// The weight of a delta tree's row: the difference that a head makes for its key.
pub(super) fn weigh_delta(key_len: usize, value: &[u8]) -> Weight {
    if value.first().is_none_or(|flags| flags & HEAD == 0) {
        return Weight::NONE;
    }
    let mut rest = value;
    // The numbers of the stamp do not matter here, so neither does the revision.
    let newest = Revision::MAX;
    if take_stamp(&mut rest, newest).is_none() {
        return Weight::NONE;
    }
    weigh(key_len, value) - take_below(&mut rest).unwrap_or_default()
}

fn live_weight(size: Option<u64>, key: usize) -> Weight {
    Weight {
        count: 1,
        bytes: size.map_or(0, |size| size.saturating_add(key as u64)),
    }
}

/// What a delta tree knows of a version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delta {
    pub(super) stamp: Stamp,
    pub(super) is_removed: bool,
    /// What the key weighs below the tree; only a head knows.
    pub(super) below: Weight,
}

/// `None` if the bytes are not a delta.
pub(super) fn delta(bytes: &[u8], revision: Revision) -> Option<Delta> {
    let mut rest = bytes;
    let stamp = take_stamp(&mut rest, revision)?;
    let below = match stamp.flags & HEAD {
        0 => Weight::NONE,
        _ => take_below(&mut rest)?,
    };
    Some(Delta {
        stamp,
        is_removed: is_removed(bytes),
        below,
    })
}

/// True if a value of the key tree is that of a tombstone.
pub(super) fn is_tombstone(value: &[u8]) -> bool {
    value.first().is_some_and(|flags| flags & TOMBSTONE != 0)
}

/// True if a delta tree's value is the mark of a removed version.
pub(super) fn is_removed(value: &[u8]) -> bool {
    value.first().is_some_and(|flags| flags & REMOVED != 0)
}

/// Fills `out` with the key-tree key of a version.
pub(super) struct VersionKey {
    inline: [u8; INLINE_KEY_BYTES + REVISION_BYTES],
    heap: Vec<u8>,
    len: usize,
}

impl VersionKey {
    pub(super) fn new(key: &[u8], revision: Revision) -> VersionKey {
        let mut out = VersionKey {
            inline: [0; INLINE_KEY_BYTES + REVISION_BYTES],
            heap: Vec::new(),
            len: key.len() + REVISION_BYTES,
        };
        let bytes = match out.inline.get_mut(..out.len) {
            Some(bytes) => bytes,
            None => {
                out.heap.resize(out.len, 0);
                &mut out.heap
            }
        };
        let (head, suffix) = bytes.split_at_mut(key.len());
        head.copy_from_slice(key);
        // Newest first: all bits are inverted.
        suffix.copy_from_slice(&revision_key(revision).map(|byte| !byte));
        out
    }

    /// Sorts before all versions of `key` and after all lesser keys.
    pub(super) fn newest_of(key: &[u8]) -> VersionKey {
        VersionKey::new(key, Revision::MAX)
    }

    /// Sorts after all versions of `key` and before all greater keys: no change has revision zero.
    pub(super) fn behind(key: &[u8]) -> VersionKey {
        VersionKey::new(key, Revision { main: 0, sub: 0 })
    }
}

impl Deref for VersionKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.inline.get(..self.len).unwrap_or(&self.heap)
    }
}

impl AsRef<[u8]> for VersionKey {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

pub(super) fn revision_key(revision: Revision) -> [u8; REVISION_BYTES] {
    let mut out = [0; REVISION_BYTES];
    out[..8].copy_from_slice(&revision.main.to_be_bytes());
    out[8..].copy_from_slice(&(revision.sub as u32).to_be_bytes());
    out
}

/// Splits a key-tree key; `None` if it is too short to be one.
pub(super) fn split_version_key(bytes: &[u8]) -> Option<(&[u8], Revision)> {
    let (key, suffix) = bytes.split_last_chunk::<REVISION_BYTES>()?;
    Some((key, parse_revision_key(&suffix.map(|byte| !byte))?))
}

/// The same for a key of a page.
pub(super) fn split_key(key: Key<'_>) -> Option<(Key<'_>, Revision)> {
    let (key, suffix) = key.split_last_chunk::<REVISION_BYTES>()?;
    Some((key, parse_revision_key(&suffix.map(|byte| !byte))?))
}

pub(super) fn parse_revision_key(bytes: &[u8]) -> Option<Revision> {
    let (main, sub) = bytes.split_first_chunk::<8>()?;
    let sub: [u8; 4] = sub.try_into().ok()?;
    Some(Revision {
        main: i64::from_be_bytes(*main),
        sub: u32::from_be_bytes(sub).into(),
    })
}

/// A parsed row of the revision tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row<'a> {
    pub(super) stamp: Stamp,
    pub(super) key: &'a [u8],
    pub(super) value: &'a [u8],
}

/// Everything of a revision-tree value before the user's value.
pub(super) fn row_head(out: &mut Vec<u8>, stamp: &Stamp, revision: Revision, key: &[u8]) {
    out.clear();
    let flags = Stamp {
        flags: stamp.flags & TOMBSTONE,
        size: None,
        ..*stamp
    };
    out.extend_from_slice(StampBytes::new(&flags, revision).as_ref());
    codec::put_varint(out, key.len() as u64);
    out.extend_from_slice(key);
}

/// `None` if the bytes are not a row.
pub(super) fn row(bytes: &[u8], revision: Revision) -> Option<Row<'_>> {
    let mut rest = bytes;
    let stamp = take_stamp(&mut rest, revision)?;
    let len = usize::try_from(take_varint(&mut rest)?).ok()?;
    let (key, value) = rest.split_at_checked(len)?;
    Some(Row { stamp, key, value })
}

pub(super) fn side_key(out: &mut Vec<u8>, bucket: Bucket, key: &[u8]) {
    out.clear();
    out.push(bucket as u8);
    out.extend_from_slice(key);
}

pub(super) fn lease_key(out: &mut Vec<u8>, lease: i64, key: &[u8]) {
    out.clear();
    out.push(Bucket::LeaseKeys as u8);
    out.extend_from_slice(&lease.to_be_bytes());
    out.extend_from_slice(key);
}

fn take_stamp(rest: &mut &[u8], revision: Revision) -> Option<Stamp> {
    let (&flags, after) = rest.split_first()?;
    *rest = after;
    let mut stamp = Stamp {
        flags: flags & (TOMBSTONE | HEAD),
        ..Stamp::default()
    };
    if !stamp.is_tombstone() {
        if flags & SIZED != 0 {
            stamp.size = Some(take_varint(rest)?);
        }
        stamp.create_revision = revision.main.checked_sub_unsigned(take_varint(rest)?)?;
        stamp.version = take_varint(rest)? as i64;
        stamp.lease = take_varint(rest)? as i64;
    }
    Some(stamp)
}

fn take_below(rest: &mut &[u8]) -> Option<Weight> {
    Some(match take_varint(rest)? {
        0 => Weight::NONE,
        more => Weight {
            count: 1,
            bytes: more - 1,
        },
    })
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut reader = Reader::new(rest);
    let value = reader.varint().ok()?;
    *rest = reader.remaining();
    Some(value)
}
