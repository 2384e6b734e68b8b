//! Changes the bytes of a node in memory. Knows nothing of trees: the caller gives the positions.

use std::ops::Range;

use super::key::{Key, hint, shared};
use super::page::{
    HEADER, MAGIC, Page, PageRef, SLOT, UNIT, VERSION, at, cell_len, child_value, tail_len, u32_at,
    write_cell, write_prefix,
};
use crate::btree::kind::{KeyOrder, TreeKind};
use crate::btree::weight::Weight;

/// A shorter common beginning of keys is not taken out of their cells.
const PREFIX_BYTES_MIN: usize = 4;

/// How a page of some entries is made: what their keys have in common, and the bytes it will need.
/// A branch's first entry has no bound, whatever its key is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout<'a> {
    /// A key that begins with the prefix.
    sample: Key<'a>,
    prefix: usize,
    skip: usize,
    /// Bytes of a page packed tightly.
    pub(crate) used: usize,
}

impl<'a> Layout<'a> {
    /// For these entries, in key order.
    pub(crate) fn of(
        kind: &TreeKind,
        level: u8,
        entries: impl DoubleEndedIterator<Item = (Key<'a>, &'a [u8])> + Clone,
    ) -> Layout<'a> {
        let mut layout = Layout::with_prefix(kind, level, entries.clone());
        layout.used = HEADER + tail_len(layout.prefix);
        for (i, (key, value)) in entries.enumerate() {
            let rest = if is_unbound(level, i) {
                0
            } else {
                key.len() - layout.prefix
            };
            layout.used += SLOT + cell_len(rest, value.len());
        }
        layout
    }

    /// Bytes of the prefix of a page of these entries. Looks at the first and the last one alone.
    pub(crate) fn prefix_of(
        kind: &TreeKind,
        level: u8,
        entries: impl DoubleEndedIterator<Item = (Key<'a>, &'a [u8])>,
    ) -> usize {
        Layout::with_prefix(kind, level, entries).prefix
    }

    /// Without what is used.
    fn with_prefix(
        kind: &TreeKind,
        level: u8,
        entries: impl DoubleEndedIterator<Item = (Key<'a>, &'a [u8])>,
    ) -> Layout<'a> {
        let mut layout = Layout::with_common(kind.order, level, entries);
        if kind.has_prefixes && layout.skip >= PREFIX_BYTES_MIN {
            layout.prefix = layout.skip;
        }
        layout
    }

    /// Without a prefix, and without what is used.
    fn with_common(
        order: KeyOrder,
        level: u8,
        entries: impl DoubleEndedIterator<Item = (Key<'a>, &'a [u8])>,
    ) -> Layout<'a> {
        let mut keys = entries.map(|(key, _)| key);
        if level > 0 {
            keys.next();
        }
        let first = keys.next();
        let skip = match (first, keys.next_back()) {
            (Some(first), Some(last)) => order.shared(first, last),
            _ => 0,
        };
        Layout {
            sample: first.unwrap_or_default(),
            prefix: 0,
            skip,
            used: 0,
        }
    }
}

/// True for the first entry of a branch.
fn is_unbound(level: u8, index: usize) -> bool {
    level > 0 && index == 0
}

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

    /// A page of these entries, packed tightly; `len` makes its length of the bytes used.
    pub(crate) fn of<'a>(
        kind: &TreeKind,
        level: u8,
        entries: impl DoubleEndedIterator<Item = (Key<'a>, &'a [u8])> + Clone,
        len: impl FnOnce(usize) -> usize,
    ) -> Image {
        let layout = Layout::of(kind, level, entries.clone());
        Image::new(kind, level, len(layout.used)).filled(&layout, entries)
    }

    /// An empty page that gets the entries for which the layout is.
    pub(crate) fn filled<'a>(
        mut self,
        layout: &Layout<'_>,
        entries: impl Iterator<Item = (Key<'a>, &'a [u8])>,
    ) -> Image {
        if layout.prefix > 0 {
            write_prefix(&mut self.bytes, layout.sample.up_to(layout.prefix));
            let heap = self.len() - tail_len(layout.prefix);
            self.set(at::HEAP, heap as u32);
        }
        self.set(at::SKIP, layout.skip as u32);
        let level = self.page().level();
        for (i, (key, value)) in entries.enumerate() {
            let rest = if is_unbound(level, i) {
                Key::default()
            } else {
                key.after(layout.prefix)
            };
            self.push(rest, value, layout.skip - layout.prefix);
        }
        self
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

    /// Bytes that an entry adds; `None` if its key does not begin with the page's prefix.
    #[inline]
    pub(crate) fn cost(&self, key: &[u8], value: usize) -> Option<usize> {
        let page = self.page();
        let prefix = page.prefix();
        let begins = page.order().user_key(key).starts_with(prefix);
        begins.then(|| SLOT + cell_len(key.len() - prefix.len(), value))
    }

    /// Inserts an entry before slot `index`: it has a cost, and there is so much free.
    #[inline]
    pub(crate) fn insert(&mut self, index: usize, key: &[u8], value: &[u8]) {
        let rest = &key[self.page().prefix().len().min(key.len())..];
        let len = cell_len(rest.len(), value.len());
        let hint = self.hint_for(index, rest);
        let cell = self.make_cell(index, len, hint);
        write_cell(&mut self.bytes[cell], rest.into(), value);
    }

    /// The hint of a key to be inserted, of which this is the rest. Adjusts the skipped bytes first
    /// if necessary.
    #[inline]
    fn hint_for(&mut self, index: usize, rest: &[u8]) -> u32 {
        let page = self.page();
        if index < page.first() {
            return 0;
        }
        let (order, prefix) = (page.order(), page.prefix().len());
        let user = order.user_key(rest);
        let skip = page.skip() - prefix;
        let bounded = page.count().saturating_sub(page.first());
        if bounded >= 2 {
            let other = page.rest(index.min(page.count() - 1));
            if user.len() >= skip && user[..skip] == other[..skip] {
                return hint(user, skip);
            }
        }
        let skip = match bounded {
            0 => 0,
            _ => shared(user, order.user_key(page.rest(page.count() - 1))),
        };
        let hint = hint(user, skip);
        self.skip(prefix + skip);
        hint
    }

    /// Recomputes all hints.
    #[cold]
    fn skip(&mut self, skip: usize) {
        self.set(at::SKIP, skip as u32);
        for i in self.page().first()..self.page().count() {
            let page = self.page();
            let user = page.order().user_key(page.rest(i));
            let hint = hint(user, skip - page.prefix().len());
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

    /// Appends an entry without the prefix; hints skip so many bytes of it.
    fn push(&mut self, rest: Key<'_>, value: &[u8], skip: usize) {
        let page = self.page();
        let (index, first) = (page.count(), page.first());
        let cell = self.make_cell(index, cell_len(rest.len(), value.len()), 0);
        write_cell(&mut self.bytes[cell], rest, value);
        if index >= first {
            let page = self.page();
            let hint = hint(page.order().user_key(page.rest(index)), skip);
            self.set(HEADER + SLOT * index + 4, hint);
        }
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
    pub(crate) fn entry_mut(&mut self, index: usize) -> (Key<'_>, &mut [u8]) {
        let page = self.page();
        let (key, value) = (page.key(index), page.value_range(index));
        let (rest, prefix) = (value.start - key.rest.len(), key.prefix.len());
        let prefix_start = page.prefix_end() - prefix;
        let (before, others) = self.bytes.split_at_mut(value.start);
        let (value, behind) = others.split_at_mut(value.len());
        // A prefix is behind all cells; without one, the last cell may end behind its place.
        let prefix = if prefix == 0 {
            &[]
        } else {
            let start = prefix_start - before.len() - value.len();
            &behind[start..start + prefix]
        };
        let key = Key {
            prefix,
            rest: &before[rest..],
        };
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
        let entries = page.entries();
        let mut layout = Layout::with_common(page.order(), page.level(), entries.clone());
        // Fewer than two keys have nothing in common.
        layout.sample = page.prefix().into();
        layout.prefix = page.prefix().len();
        layout.skip = layout.skip.max(layout.prefix);
        let image = Image::with(page.tree(), page.order().code(), page.level(), len);
        image.filled(&layout, entries)
    }

    /// Removes the bound from the first entry of a branch.
    pub(crate) fn unbind_first(&mut self) {
        let page = self.page();
        if page.count() > 0 && !page.key(0).is_empty() {
            *self = self.packed(self.len());
        }
    }
}
