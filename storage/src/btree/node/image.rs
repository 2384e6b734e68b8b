//! Changes the bytes of a node in memory. Knows nothing of trees: the caller gives the positions.

use std::ops::Range;

use super::page::{
    HEADER, MAGIC, Page, PageRef, SLOT, UNIT, VERSION, at, cell_len, child_value, hint, shared,
    u32_at, write_cell,
};
use super::weight::Weight;
use crate::btree::tree::TreeKind;

/// The page of a node in memory, always a whole number of units long.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    bytes: Vec<u8>,
}

/// Rounds `bytes` up to whole units, in bytes.
pub(crate) fn round_up(bytes: usize) -> usize {
    bytes.next_multiple_of(UNIT)
}

/// Placeholder for a child that has no place on disk yet.
pub(crate) const NOWHERE: PageRef = PageRef {
    id: 0,
    units: 0,
    crc: 0,
};

impl Image {
    /// An empty page of `len` bytes.
    pub(crate) fn new(kind: &TreeKind, level: u8, len: usize) -> Image {
        Image::with(kind.id, kind.order.code(), level, len)
    }

    /// An empty page of `len` bytes for the entries `range` of another one.
    fn like(page: Page<'_>, range: Range<usize>, len: usize) -> Image {
        let order = page.order();
        let mut image = Image::with(page.tree(), order.code(), page.level(), len);
        let first = range.start + page.first();
        if first < range.end {
            image.expect(page.key(first), page.key(range.end - 1));
        }
        image
    }

    /// The entries `range` of another page, packed tightly. A branch's first one loses its bound.
    pub(crate) fn part(page: Page<'_>, range: Range<usize>, len: usize) -> Image {
        let mut image = Image::like(page, range.clone(), len);
        for i in range.clone() {
            if i == range.start && page.level() > 0 {
                image.push(&[], page.value(i));
            } else {
                image.push_cell(page.cell(i), page.key(i));
            }
        }
        image
    }

    /// Prepares an empty page for keys between these two: their common prefix is common to all.
    pub(crate) fn expect(&mut self, first: &[u8], last: &[u8]) {
        assert_eq!(self.page().count(), 0);
        let order = self.page().order();
        let skip = shared(order.user_key(first), order.user_key(last));
        self.set(at::SKIP, skip as u32);
    }

    fn with(tree: u8, order: u8, level: u8, len: usize) -> Image {
        assert!(len >= UNIT && len.is_multiple_of(UNIT));
        let len_u32 = u32::try_from(len).expect("a node below 4 GiB");
        let mut bytes = vec![0; len];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[at::VERSION] = VERSION;
        bytes[at::TREE] = tree;
        bytes[at::LEVEL] = level;
        bytes[at::ORDER] = order;
        let mut image = Image { bytes };
        image.set(at::UNITS, len_u32 / UNIT as u32);
        image.set(at::HEAP, len_u32);
        image
    }

    /// A page that passed validation, ready to be changed.
    pub(crate) fn from_disk(mut bytes: Vec<u8>) -> Image {
        bytes[at::VERSION] = VERSION;
        Image { bytes }
    }

    #[inline]
    pub(crate) fn page(&self) -> Page<'_> {
        Page(&self.bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    fn set(&mut self, offset: usize, value: u32) {
        self.bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// True if an entry can be inserted without moving others.
    #[inline]
    pub(crate) fn has_room(&self, key: usize, value: usize) -> bool {
        self.page().free() >= cell_len(key, value) + SLOT
    }

    /// Inserts an entry before slot `index`; `has_room` must be true.
    #[inline]
    pub(crate) fn insert(&mut self, index: usize, key: &[u8], value: &[u8]) {
        let len = cell_len(key.len(), value.len());
        let hint = self.hint_for(index, key);
        let cell = self.make_cell(index, len, hint);
        write_cell(&mut self.bytes[cell], key, value);
    }

    /// The hint of a key to be inserted. Adjusts the skipped prefix first if necessary.
    #[inline]
    fn hint_for(&mut self, index: usize, key: &[u8]) -> u32 {
        let page = self.page();
        if index < page.first() {
            return 0;
        }
        let user = page.order().user_key(key);
        let (skip, bounded) = (page.skip(), page.count().saturating_sub(page.first()));
        if bounded >= 2 {
            let other = page.key(index.min(page.count() - 1));
            if user.len() >= skip && user[..skip] == other[..skip] {
                return hint(user, skip);
            }
        }
        let skip = match bounded {
            0 => 0,
            _ => shared(user, page.order().user_key(page.key(page.count() - 1))),
        };
        let hint = hint(user, skip);
        self.skip(skip);
        hint
    }

    /// Recomputes all hints.
    #[cold]
    fn skip(&mut self, skip: usize) {
        self.set(at::SKIP, skip as u32);
        for i in self.page().first()..self.page().count() {
            let page = self.page();
            let hint = hint(page.order().user_key(page.key(i)), skip);
            self.set(HEADER + SLOT * i + 4, hint);
        }
    }

    #[inline]
    fn make_cell(&mut self, index: usize, len: usize, hint: u32) -> Range<usize> {
        let page = self.page();
        let (count, heap) = (page.count(), page.heap());
        assert!(index <= count && page.free() >= len + SLOT);
        let slot = HEADER + SLOT * index;
        let end = HEADER + SLOT * count;
        self.bytes.copy_within(slot..end, slot + SLOT);
        let start = heap - len;
        self.set(slot, start as u32);
        self.set(slot + 4, hint);
        self.set(at::HEAP, start as u32);
        self.set(at::COUNT, count as u32 + 1);
        start..heap
    }

    /// Appends an entry; its key must be in the expected range.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        let hint = self.hint_of_next(key);
        let cell = self.make_cell(self.page().count(), cell_len(key.len(), value.len()), hint);
        write_cell(&mut self.bytes[cell], key, value);
    }

    /// Appends a cell of another page; `key` is its key.
    pub(crate) fn push_cell(&mut self, cell: &[u8], key: &[u8]) {
        let hint = self.hint_of_next(key);
        let place = self.make_cell(self.page().count(), cell.len(), hint);
        self.bytes[place].copy_from_slice(cell);
    }

    #[inline]
    fn hint_of_next(&self, key: &[u8]) -> u32 {
        let page = self.page();
        if page.count() < page.first() {
            return 0;
        }
        hint(page.order().user_key(key), page.skip())
    }

    pub(crate) fn remove(&mut self, index: usize) {
        let page = self.page();
        let (count, heap, dead) = (page.count(), page.heap(), page.dead());
        let cell = page.cell(index).len();
        let slot = HEADER + SLOT * index;
        let offset = u32_at(&self.bytes, slot) as usize;
        self.bytes
            .copy_within(slot + SLOT..HEADER + SLOT * count, slot);
        self.set(at::COUNT, count as u32 - 1);
        if offset == heap {
            self.set(at::HEAP, (heap + cell) as u32);
        } else {
            self.set(at::DEAD, (dead + cell) as u32);
        }
    }

    pub(crate) fn value_mut(&mut self, index: usize) -> &mut [u8] {
        let range = self.page().value_range(index);
        &mut self.bytes[range]
    }

    /// An entry's key, and its value for editing.
    pub(crate) fn entry_mut(&mut self, index: usize) -> (&[u8], &mut [u8]) {
        let value = self.page().value_range(index);
        let key = value.start - self.page().key(index).len();
        let (key, value) = self.bytes[key..value.end].split_at_mut(value.start - key);
        (key, value)
    }

    #[inline]
    pub(crate) fn set_weight(&mut self, index: usize, weight: Weight) {
        let child = self.page().child(index);
        self.value_mut(index)
            .copy_from_slice(&child_value(weight, child));
    }

    pub(crate) fn set_child(&mut self, index: usize, child: PageRef) {
        let weight = self.page().weight(index);
        self.value_mut(index)
            .copy_from_slice(&child_value(weight, child));
    }

    /// The same entries, packed tightly in a page of `len` bytes.
    pub(crate) fn packed(&self, len: usize) -> Image {
        let page = self.page();
        Image::part(page, 0..page.count(), len)
    }

    /// Removes the bound from the first entry of a branch.
    pub(crate) fn unbind_first(&mut self) {
        let page = self.page();
        if page.count() > 0 && !page.key(0).is_empty() {
            *self = self.packed(self.len());
        }
    }
}
