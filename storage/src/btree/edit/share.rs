//! What a branch does with a leaf that was split: if a leaf beside it has room, the entries of both
//! go into two leaves instead of three. Leaves are then some four fifths full, where they would be
//! two thirds, and keys that come in order fill those that they leave behind.

use super::Writer;
use super::split::{self, Split};
use crate::btree::kind::TreeKind;
use crate::btree::node::Node;
use crate::btree::node::image::{Image, Layout, NOWHERE, round_up};
use crate::btree::node::key::Key;
use crate::btree::node::page::{HEADER, Page, SLOT, cell_len, child_value};

/// Of two full leaves, one part in this many stays free, or the next entries would have to be shared
/// again, which costs as much as a split.
const PARTS_FREE: usize = 8;

/// Leaf `index` of `parent` was split. Returns true if a leaf beside it took some entries, so that the
/// new leaf is not needed. Only one that the next checkpoint writes anyhow is changed.
pub(super) fn share(
    kind: &TreeKind,
    w: &mut Writer,
    parent: &mut Node,
    index: usize,
    split: &Split,
) -> bool {
    let left = index.checked_sub(1);
    // The left one first: where keys come in order, no more of them come there.
    left.is_some_and(|left| {
        is_changed(w, parent, left) && share_between(kind, w, parent, left, index, split)
    }) || (is_changed(w, parent, index + 1) && share_between(kind, w, parent, index, index, split))
}

fn is_changed(w: &Writer, parent: &Node, index: usize) -> bool {
    let child = parent.children.get(index).and_then(Option::as_ref);
    child.is_some_and(|child| child.born == w.counter)
}

/// Puts the entries of leaves `left` and `left + 1`, of which `index` was split, into these two.
/// Returns false if they do not fit.
fn share_between(
    kind: &TreeKind,
    w: &mut Writer,
    parent: &mut Node,
    left: usize,
    index: usize,
    split: &Split,
) -> bool {
    let page = |i: usize| parent.children[i].as_ref().expect("in memory").page();
    let split_page = split.node.page();
    let row = Row(if left == index {
        [page(left), split_page, page(left + 1)]
    } else {
        [page(left), page(index), split_page]
    });
    let most = 2 * kind.leaf_bytes;
    if row.used() > most - most / PARTS_FREE {
        return false;
    }
    let count = row.count();
    let cut = split::even_cut(count, 1, |i| row.bytes(i));
    let parts = [0..cut, cut..count].map(|range| range.map(move |i| row.entry(i)));
    let layouts = parts.clone().map(|part| Layout::of(kind, 0, part));
    if layouts.iter().any(|layout| layout.used > kind.leaf_bytes) {
        return false;
    }
    let bound = split::separator(kind, row.entry(cut - 1).0, row.entry(cut).0);
    let image = |i: usize| {
        let len = round_up(layouts[i].used);
        Image::new(kind, 0, len).filled(&layouts[i], parts[i].clone())
    };
    let images = [image(0), image(1)];
    let [first, second] = [0, 1].map(|i| {
        let page = images[i].page();
        page.weigh(kind, 0..page.count())
    });
    for (i, image) in (left..).zip(images) {
        let leaf = w.own(parent.children[i].as_mut().expect("in memory"));
        w.set_image(leaf, image);
    }
    parent.image.set_weight(left, first);
    parent.image.remove(left + 1);
    let value = child_value(second, NOWHERE);
    // Without splitting the parent if the bound is longer; its next insert will do that.
    split::insert(kind, w, parent, left + 1, (&bound, &value), usize::MAX);
    true
}

/// The entries of three leaves side by side.
#[derive(Clone, Copy)]
struct Row<'a>([Page<'a>; 3]);

impl<'a> Row<'a> {
    fn count(self) -> usize {
        self.0.iter().map(|page| page.count()).sum()
    }

    /// Bytes of all entries and one header. Prefixes that become shorter come on top.
    fn used(self) -> usize {
        let entries = self.0.iter().map(|page| page.used() - HEADER);
        HEADER + entries.sum::<usize>()
    }

    fn entry(self, mut i: usize) -> (Key<'a>, &'a [u8]) {
        for page in self.0 {
            if i < page.count() {
                return (page.key(i), page.value(i));
            }
            i -= page.count();
        }
        unreachable!("an entry behind the last one")
    }

    /// Bytes of an entry in a page without a prefix.
    fn bytes(self, i: usize) -> usize {
        let (key, value) = self.entry(i);
        SLOT + cell_len(key.len(), value.len())
    }
}
