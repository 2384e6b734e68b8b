//! The bytes of one node: a slotted page. This module reads, `validate` checks, `image` changes.
//!
//! ```text
//! 0        64                                heap                                units * 4096
//! +--------+------+------+-- ... --+--------+------+------+--- ... ---+------+--------+
//! | header | slot | slot |         |  free  | cell | cell |           | cell | prefix |
//! +--------+------+------+-- ... --+--------+------+------+--- ... ---+------+--------+
//!            slots in key order, 8 bytes:     cells in any order,
//!            offset of the cell, key hint     dead bytes between them
//! ```
//!
//! | offset | size | name | meaning |
//! |---|---|---|---|
//! | 0 | 4 | magic | `StlP` |
//! | 4 | 1 | version | of this format: 4; 1 to 3 are read as well |
//! | 5 | 1 | tree | which tree of the file the node belongs to |
//! | 6 | 1 | level | 0 for a leaf, else one more than its children |
//! | 7 | 1 | order | of the keys: 0 bytes, 1 user key then revision suffix; 128 more: there is a prefix |
//! | 8 | 4 | count | slots |
//! | 12 | 4 | units | length of the run, in units of 4096 bytes |
//! | 16 | 4 | heap | where the cells begin |
//! | 20 | 4 | dead | bytes of the heap that belong to no cell |
//! | 24 | 4 | key id | of encryption at rest; zero: not sealed |
//! | 28 | 12 | salt | of the seal (see `sealed`), its first bytes; zero while not sealed |
//! | 40 | 16 | tag | zero while not sealed |
//! | 56 | 4 | skip | bytes that all (user) keys of the page begin with, those that hints leave out |
//! | 60 | 4 | salt | its last bytes; zero while not sealed |
//!
//! A cell is `key length u16, value length u16, key, value`. A key length of `0xffff` means that
//! both lengths follow as `u32` (for a key longer than 65534 or a value longer than 65535 bytes).
//! Integers are little endian. The page's parent stores its [`checksum`].
//!
//! The prefix, if there is one, is what all (user) keys of the page begin with. Cells leave it out,
//! their key lengths do not count it, and its length `u32` follows it. Versions before 4 have none.
//!
//! A hint is four bytes of the key after the skipped ones, big endian, with zeros for missing ones;
//! a revision suffix does not count. Hints ascend with the keys. A search compares hints, which are
//! close together, and looks at very few cells.
//!
//! The value of a branch entry, 24 bytes: two words of 64 bits, the child's units `u32`, its crc
//! `u32`. The low 40 bits of the first word are the count below the child, those of the second word
//! the child's first unit. The high 24 bits of both, the second ones higher, are the bytes below
//! the child. In version 1 these are zero, as is the size of all entries written then. The key is a
//! lower bound of the child's keys. The first entry's key is empty and means "no bound"; its hint
//! is zero, and it does not count for the skipped bytes.

mod validate;

use std::cmp::Ordering;

use super::key::{Key, hint};
use crate::btree::kind::{KeyOrder, TreeKind};
use crate::btree::weight::Weight;
pub(crate) use validate::validate;

/// Space in the file is allocated in multiples of this.
pub(crate) const UNIT: usize = 4096;

/// A branch splits when it would outgrow this.
pub(crate) const BRANCH_BYTES: usize = UNIT;

pub(crate) const MAGIC: [u8; 4] = *b"StlP";
pub(crate) const VERSION: u8 = 4;

/// The oldest version that is read. Its branches have no sums of bytes.
const VERSION_OLDEST: u8 = 1;
/// From this version on, checksums are CRC-32; before, they are CRC-32C.
const VERSION_OF_CRC32: u8 = 3;
/// From this version on, pages may have a prefix.
const VERSION_OF_PREFIX: u8 = 4;

/// Bit of the byte at `ORDER`: the page has a prefix.
const PREFIXED: u8 = 0x80;

/// Low bits of both words of a branch entry; the high bits hold the sum of bytes.
const LOW_BITS: u32 = 40;
const LOW_MASK: u64 = (1 << LOW_BITS) - 1;
const HIGH_BITS: u32 = u64::BITS - LOW_BITS;

pub(crate) mod at {
    pub(crate) const VERSION: usize = 4;
    pub(crate) const TREE: usize = 5;
    pub(crate) const LEVEL: usize = 6;
    pub(crate) const ORDER: usize = 7;
    pub(crate) const COUNT: usize = 8;
    pub(crate) const UNITS: usize = 12;
    pub(crate) const HEAP: usize = 16;
    pub(crate) const DEAD: usize = 20;
    pub(crate) const KEY_ID: usize = 24;
    pub(crate) const NONCE: usize = 28;
    pub(crate) const TAG: usize = 40;
    pub(crate) const SKIP: usize = 56;
    /// The last bytes of the seal's salt.
    pub(crate) const SPARE: usize = 60;
}

pub(crate) const HEADER: usize = 64;
pub(crate) const SLOT: usize = 8;
pub(crate) const CHILD_BYTES: usize = 24;
const PREFIX_LENGTH: usize = 4;
const LENGTHS: usize = 4;
const LENGTHS_LONG: usize = 12;
const LONG: u16 = u16::MAX;

const _: () = {
    assert!(at::KEY_ID + 4 == at::NONCE && at::NONCE + 12 == at::TAG && at::TAG + 16 == at::SKIP);
    assert!(at::SKIP + 4 == at::SPARE && at::SPARE + 4 == HEADER && at::DEAD + 4 == at::KEY_ID);
    assert!(CHILD_BYTES == 8 + 8 + 4 + 4);
    assert!(LENGTHS_LONG == LENGTHS + 4 + 4);
};

/// The checksum of a run of the file: a page or a free list. Both have the version of their format at
/// the same place, in clear when they are sealed. A version that is damaged selects the wrong
/// algorithm, which fails like any other damage.
pub(crate) fn checksum(run: &[u8]) -> u32 {
    if run[at::VERSION] >= VERSION_OF_CRC32 {
        crc32fast::hash(run)
    } else {
        crc32c::crc32c(run)
    }
}

/// The value of a branch entry.
pub(crate) fn child_value(weight: Weight, child: PageRef) -> [u8; CHILD_BYTES] {
    let weight = weight.cut();
    let first = weight.bytes << LOW_BITS | weight.count;
    let second = weight.bytes >> HIGH_BITS << LOW_BITS | child.id & LOW_MASK;
    let mut value = [0; CHILD_BYTES];
    value[..8].copy_from_slice(&first.to_le_bytes());
    value[8..16].copy_from_slice(&second.to_le_bytes());
    value[16..20].copy_from_slice(&child.units.to_le_bytes());
    value[20..].copy_from_slice(&child.crc.to_le_bytes());
    value
}

/// A run of units on disk, and the checksum of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageRef {
    pub(crate) id: u64,
    pub(crate) units: u32,
    pub(crate) crc: u32,
}

/// The bytes of a node that passed [`validate`], or that this process made.
#[derive(Clone, Copy)]
pub(crate) struct Page<'a>(pub(crate) &'a [u8]);

#[inline]
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let chunk = bytes[offset..].first_chunk().expect("inside the page");
    u32::from_le_bytes(*chunk)
}

#[inline]
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let chunk = bytes[offset..].first_chunk().expect("inside the page");
    u64::from_le_bytes(*chunk)
}

#[inline]
fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    let chunk = bytes[offset..].first_chunk().expect("inside the page");
    u16::from_le_bytes(*chunk)
}

/// True if the short form of a cell's lengths can hold these.
#[inline]
fn is_short(key: usize, value: usize) -> bool {
    key < LONG as usize && value <= LONG as usize
}

/// Bytes of a cell.
#[inline]
pub(crate) fn cell_len(key: usize, value: usize) -> usize {
    let lengths = if is_short(key, value) {
        LENGTHS
    } else {
        LENGTHS_LONG
    };
    lengths + key + value
}

/// Bytes that a prefix takes at the end of a page; 0 if it is empty.
#[inline]
pub(crate) fn tail_len(prefix: usize) -> usize {
    if prefix == 0 {
        return 0;
    }
    prefix + PREFIX_LENGTH
}

/// Fills the end of an empty page, and marks it as having a prefix.
pub(crate) fn write_prefix(page: &mut [u8], prefix: Key<'_>) {
    let length = page.len() - PREFIX_LENGTH;
    page[length..].copy_from_slice(&(prefix.len() as u32).to_le_bytes());
    let rest = length - prefix.rest.len();
    page[rest..length].copy_from_slice(prefix.rest);
    page[rest - prefix.prefix.len()..rest].copy_from_slice(prefix.prefix);
    page[at::ORDER] |= PREFIXED;
}

/// Fills `cell` (of `cell_len` bytes).
#[inline]
pub(crate) fn write_cell(cell: &mut [u8], key: Key<'_>, value: &[u8]) {
    let start = if is_short(key.len(), value.len()) {
        cell[..2].copy_from_slice(&(key.len() as u16).to_le_bytes());
        cell[2..4].copy_from_slice(&(value.len() as u16).to_le_bytes());
        LENGTHS
    } else {
        cell[..2].copy_from_slice(&LONG.to_le_bytes());
        cell[2..4].fill(0);
        cell[4..8].copy_from_slice(&(key.len() as u32).to_le_bytes());
        cell[8..12].copy_from_slice(&(value.len() as u32).to_le_bytes());
        LENGTHS_LONG
    };
    let (middle, end) = (start + key.prefix.len(), start + key.len());
    cell[start..middle].copy_from_slice(key.prefix);
    cell[middle..end].copy_from_slice(key.rest);
    cell[end..].copy_from_slice(value);
}

impl<'a> Page<'a> {
    #[inline]
    pub(crate) fn count(self) -> usize {
        u32_at(self.0, at::COUNT) as usize
    }

    #[inline]
    pub(crate) fn level(self) -> u8 {
        self.0[at::LEVEL]
    }

    pub(crate) fn tree(self) -> u8 {
        self.0[at::TREE]
    }

    pub(crate) fn units(self) -> u32 {
        u32_at(self.0, at::UNITS)
    }

    #[inline]
    pub(crate) fn heap(self) -> usize {
        u32_at(self.0, at::HEAP) as usize
    }

    #[inline]
    pub(crate) fn dead(self) -> usize {
        u32_at(self.0, at::DEAD) as usize
    }

    #[inline]
    pub(crate) fn skip(self) -> usize {
        u32_at(self.0, at::SKIP) as usize
    }

    #[inline]
    pub(crate) fn order(self) -> KeyOrder {
        match self.0[at::ORDER] & !PREFIXED {
            0 => KeyOrder::Bytes,
            _ => KeyOrder::KeyThenRevision,
        }
    }

    /// What all (user) keys begin with, if cells leave it out.
    #[inline]
    pub(crate) fn prefix(self) -> &'a [u8] {
        if self.0[at::ORDER] & PREFIXED == 0 {
            return &[];
        }
        let end = self.prefix_end();
        &self.0[end - u32_at(self.0, end) as usize..end]
    }

    /// Where the prefix ends, if there is one.
    #[inline]
    pub(super) fn prefix_end(self) -> usize {
        self.0.len() - PREFIX_LENGTH
    }

    /// Index of the first entry with a bound.
    #[inline]
    pub(crate) fn first(self) -> usize {
        usize::from(self.level() > 0)
    }

    #[inline]
    fn hint(self, index: usize) -> u32 {
        u32_at(self.0, HEADER + SLOT * index + 4)
    }

    /// Bytes between the last slot and the first cell.
    #[inline]
    pub(crate) fn free(self) -> usize {
        self.heap() - (HEADER + SLOT * self.count())
    }

    /// Bytes that the entries need: the length of the page when packed tightly.
    #[inline]
    pub(crate) fn used(self) -> usize {
        self.0.len() - self.free() - self.dead()
    }

    #[inline]
    fn cell_at(self, index: usize) -> (usize, usize, usize) {
        let offset = u32_at(self.0, HEADER + SLOT * index) as usize;
        let key = u16_at(self.0, offset);
        if key == LONG {
            let key = u32_at(self.0, offset + 4) as usize;
            return (
                offset + LENGTHS_LONG,
                key,
                u32_at(self.0, offset + 8) as usize,
            );
        }
        (
            offset + LENGTHS,
            key as usize,
            u16_at(self.0, offset + 2) as usize,
        )
    }

    /// The whole cell, to copy it to another page.
    #[inline]
    pub(crate) fn cell(self, index: usize) -> &'a [u8] {
        let offset = u32_at(self.0, HEADER + SLOT * index) as usize;
        let (start, key, value) = self.cell_at(index);
        &self.0[offset..start + key + value]
    }

    #[inline]
    pub(crate) fn key(self, index: usize) -> Key<'a> {
        let prefix = if index < self.first() {
            &[]
        } else {
            self.prefix()
        };
        Key {
            prefix,
            rest: self.rest(index),
        }
    }

    /// The part of a key that its cell has.
    #[inline]
    pub(super) fn rest(self, index: usize) -> &'a [u8] {
        let (start, key, _) = self.cell_at(index);
        &self.0[start..start + key]
    }

    /// All entries.
    pub(crate) fn entries(
        self,
    ) -> impl DoubleEndedIterator<Item = (Key<'a>, &'a [u8])> + ExactSizeIterator + Clone {
        (0..self.count()).map(move |i| (self.key(i), self.value(i)))
    }

    #[inline]
    pub(crate) fn value(self, index: usize) -> &'a [u8] {
        &self.0[self.value_range(index)]
    }

    #[inline]
    pub(crate) fn value_range(self, index: usize) -> std::ops::Range<usize> {
        let (start, key, value) = self.cell_at(index);
        start + key..start + key + value
    }

    /// Weight of the subtree below a branch's child.
    #[inline]
    pub(crate) fn weight(self, index: usize) -> Weight {
        let value = self.value(index);
        let (first, second) = (u64_at(value, 0), u64_at(value, 8));
        Weight {
            count: first & LOW_MASK,
            bytes: second >> LOW_BITS << HIGH_BITS | first >> LOW_BITS,
        }
    }

    /// Where a branch's child is stored, if it is on disk.
    pub(crate) fn child(self, index: usize) -> PageRef {
        let value = self.value(index);
        PageRef {
            id: u64_at(value, 8) & LOW_MASK,
            units: u32_at(value, 16),
            crc: u32_at(value, 20),
        }
    }

    /// The slot of `key`, or the slot where it would be inserted.
    #[inline]
    pub(crate) fn search(self, order: KeyOrder, key: &[u8]) -> Result<usize, usize> {
        self.search_from(0, order, key)
    }

    /// The child of a branch whose keys may contain `key`.
    #[inline]
    pub(crate) fn child_for(self, order: KeyOrder, key: &[u8]) -> usize {
        // Entry 0 has no bound: it takes all keys less than the others.
        match self.search_from(1, order, key) {
            Ok(index) => index,
            Err(index) => index - 1,
        }
    }

    /// Like [`Page::search`], among the slots from `first` on.
    #[inline]
    pub(crate) fn search_from(
        self,
        first: usize,
        order: KeyOrder,
        key: &[u8],
    ) -> Result<usize, usize> {
        let count = self.count();
        let (mut low, mut high) = (first, count);
        if low >= high {
            return Err(low);
        }
        let prefix = self.prefix();
        let user = order.user_key(key);
        let (head, user) = user.split_at(prefix.len().min(user.len()));
        match head.cmp(prefix) {
            Ordering::Less => return Err(first),
            Ordering::Equal => {}
            Ordering::Greater => return Err(count),
        }
        // From here on without the prefix.
        let key = &key[prefix.len()..];
        let skip = self.skip() - prefix.len();
        let hint = hint(user, skip);
        while low < high {
            let middle = low + (high - low) / 2;
            let ordering = match self.hint(middle).cmp(&hint) {
                Ordering::Equal => order.compare(self.rest(middle), key),
                other => other,
            };
            match ordering {
                Ordering::Less => low = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => high = middle,
            }
        }
        if skip > 0 {
            // All keys of the page begin alike, so any of them shows whether this one does, too.
            // One beside the found place is likely to be needed anyway. If it does not, hints meant
            // nothing.
            let neighbour = self.rest(low.min(count - 1));
            match user[..skip.min(user.len())].cmp(&neighbour[..skip]) {
                Ordering::Less => return Err(first),
                Ordering::Equal => {}
                Ordering::Greater => return Err(count),
            }
        }
        Err(low)
    }

    /// Sum of the weights of the entries in `range`.
    pub(crate) fn weigh(self, kind: &TreeKind, range: std::ops::Range<usize>) -> Weight {
        if self.level() > 0 {
            return range.map(|i| self.weight(i)).sum();
        }
        range
            .map(|i| (kind.weigh)(self.key(i).len(), self.value(i)))
            .sum()
    }
}
