//! Changing the bytes of a node in memory. Knows nothing of trees: positions are the caller's.

use std::ops::Range;

use super::page::{
    CHILD_BYTES, HEADER, MAGIC, Page, PageRef, SLOT, UNIT, VERSION, at, cell_len, u32_at,
    write_cell,
};

/// The page of a node in memory, always a whole number of units long.
#[derive(Clone, Debug)]
pub(super) struct Image {
    bytes: Vec<u8>,
}

/// Whole units for `bytes`, in bytes.
pub(super) fn round_up(bytes: usize) -> usize {
    bytes.next_multiple_of(UNIT)
}

/// The value of a branch entry.
pub(super) fn child_value(weight: u64, child: PageRef) -> [u8; CHILD_BYTES] {
    let mut value = [0; CHILD_BYTES];
    value[..8].copy_from_slice(&weight.to_le_bytes());
    value[8..16].copy_from_slice(&child.id.to_le_bytes());
    value[16..20].copy_from_slice(&child.units.to_le_bytes());
    value[20..].copy_from_slice(&child.crc.to_le_bytes());
    value
}

/// Stands for a child that has no place on disk yet.
pub(super) const NOWHERE: PageRef = PageRef {
    id: 0,
    units: 0,
    crc: 0,
};

impl Image {
    /// An empty page of `len` bytes.
    pub(super) fn new(tree: u8, level: u8, len: usize) -> Image {
        assert!(len >= UNIT && len.is_multiple_of(UNIT));
        let len_u32 = u32::try_from(len).expect("a node below 4 GiB");
        let mut bytes = vec![0; len];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[at::VERSION] = VERSION;
        bytes[at::TREE] = tree;
        bytes[at::LEVEL] = level;
        let mut image = Image { bytes };
        image.set(at::UNITS, len_u32 / UNIT as u32);
        image.set(at::HEAP, len_u32);
        image
    }

    /// A page that passed validation.
    pub(super) fn from_disk(bytes: Vec<u8>) -> Image {
        Image { bytes }
    }

    #[inline]
    pub(super) fn page(&self) -> Page<'_> {
        Page(&self.bytes)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    #[inline]
    fn set(&mut self, offset: usize, value: u32) {
        self.bytes[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    }

    /// Whether an entry can be inserted without moving others.
    #[inline]
    pub(super) fn has_room(&self, key: usize, value: usize) -> bool {
        self.page().free() >= cell_len(key, value) + SLOT
    }

    /// Inserts an entry before slot `index`; the room must be there.
    #[inline]
    pub(super) fn insert(&mut self, index: usize, key: &[u8], value: &[u8]) {
        let len = cell_len(key.len(), value.len());
        let cell = self.make_cell(index, len);
        write_cell(&mut self.bytes[cell], key, value);
    }

    #[inline]
    fn make_cell(&mut self, index: usize, len: usize) -> Range<usize> {
        let page = self.page();
        let (count, heap) = (page.count(), page.heap());
        assert!(index <= count && page.free() >= len + SLOT);
        let slot = HEADER + SLOT * index;
        let end = HEADER + SLOT * count;
        self.bytes.copy_within(slot..end, slot + SLOT);
        let start = heap - len;
        self.set(slot, start as u32);
        self.set(at::HEAP, start as u32);
        self.set(at::COUNT, count as u32 + 1);
        start..heap
    }

    /// Appends an entry.
    pub(super) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.insert(self.page().count(), key, value);
    }

    /// Appends a cell of another page.
    pub(super) fn push_cell(&mut self, cell: &[u8]) {
        let place = self.make_cell(self.page().count(), cell.len());
        self.bytes[place].copy_from_slice(cell);
    }

    pub(super) fn remove(&mut self, index: usize) {
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

    pub(super) fn value_mut(&mut self, index: usize) -> &mut [u8] {
        let range = self.page().value_range(index);
        &mut self.bytes[range]
    }

    #[inline]
    pub(super) fn set_weight(&mut self, index: usize, weight: u64) {
        self.value_mut(index)[..8].copy_from_slice(&weight.to_le_bytes());
    }

    pub(super) fn set_child(&mut self, index: usize, child: PageRef) {
        let weight = self.page().weight(index);
        self.value_mut(index)
            .copy_from_slice(&child_value(weight, child));
    }

    /// The same entries, tightly packed in a page of `len` bytes.
    pub(super) fn packed(&self, len: usize) -> Image {
        let page = self.page();
        let mut image = Image::new(page.tree(), page.level(), len);
        for i in 0..page.count() {
            image.push_cell(page.cell(i));
        }
        image
    }

    /// Takes the bound from the first entry of a branch.
    pub(super) fn unbind_first(&mut self) {
        let page = self.page();
        if page.count() == 0 || page.key(0).is_empty() {
            return;
        }
        let mut value = [0; CHILD_BYTES];
        value.copy_from_slice(page.value(0));
        self.remove(0);
        // Removing gave back at least as much as the shorter cell takes, perhaps as dead bytes.
        if !self.has_room(0, CHILD_BYTES) {
            *self = self.packed(self.len());
        }
        self.insert(0, &[], &value);
    }
}
