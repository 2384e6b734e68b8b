//! Puts an entry into a node that may have to grow or split for it.

use std::ops::Range;
use std::sync::Arc;

use super::Writer;
use crate::btree::kind::TreeKind;
use crate::btree::node::Node;
use crate::btree::node::image::{Image, Layout, round_up};
use crate::btree::node::key::Key;
use crate::btree::node::page::{BRANCH_BYTES, HEADER, Page, SLOT, cell_len};
use crate::btree::weight::Weight;

/// A new right sibling, as its parent must know it.
#[derive(Debug)]
pub(crate) struct Split {
    /// Lower bound of its keys, greater than all keys to the left.
    pub(crate) bound: Vec<u8>,
    pub(crate) node: Arc<Node>,
    pub(crate) weight: Weight,
}

#[derive(Debug, Default)]
pub(crate) struct Placed {
    pub(crate) split: Option<Split>,
    /// The entry was not put in: the leaf was split at its place, and now it belongs at an end.
    pub(crate) retry: bool,
}

/// Size that a node of this level should not exceed, in bytes.
pub(crate) fn target(kind: &TreeKind, level: u8) -> usize {
    if level == 0 {
        kind.leaf_bytes
    } else {
        BRANCH_BYTES
    }
}

/// Image length for `used` bytes, for a node that had `old` bytes.
fn image_len(used: usize, old: usize, target: usize) -> usize {
    let tight = round_up(used);
    if tight >= target {
        return tight;
    }
    // Doubling keeps the number of copies small while a page fills. A page that shrank keeps its
    // former length, up to the target.
    let roomy = if used > old { old * 2 } else { old };
    roomy.clamp(tight, target)
}

/// The entries of a node and one new entry, as one sequence.
#[derive(Clone, Copy)]
struct With<'a> {
    page: Page<'a>,
    index: usize,
    key: &'a [u8],
    value: &'a [u8],
}

impl<'a> With<'a> {
    fn count(self) -> usize {
        self.page.count() + 1
    }

    fn key(self, i: usize) -> Key<'a> {
        match i.cmp(&self.index) {
            std::cmp::Ordering::Less => self.page.key(i),
            std::cmp::Ordering::Equal => self.key.into(),
            std::cmp::Ordering::Greater => self.page.key(i - 1),
        }
    }

    fn value(self, i: usize) -> &'a [u8] {
        match i.cmp(&self.index) {
            std::cmp::Ordering::Less => self.page.value(i),
            std::cmp::Ordering::Equal => self.value,
            std::cmp::Ordering::Greater => self.page.value(i - 1),
        }
    }

    fn entries(
        self,
        range: Range<usize>,
    ) -> impl DoubleEndedIterator<Item = (Key<'a>, &'a [u8])> + Clone {
        range.map(move |i| (self.key(i), self.value(i)))
    }

    /// Bytes of each entry in a page that holds the one before or behind it as well, or more if these
    /// have a longer prefix in common.
    fn bytes(self) -> impl Fn(usize) -> usize {
        let prefix = self.page.prefix().len();
        let is_shared = self.key.starts_with(self.page.prefix());
        move |i| {
            let key = self.key(i).len();
            let shared = if is_shared { prefix.min(key) } else { 0 };
            SLOT + cell_len(key - shared, self.value(i).len())
        }
    }

    /// A node of the entries in `range`; a branch's first one loses its bound.
    fn image(self, kind: &TreeKind, range: Range<usize>, target: usize) -> Image {
        Image::of(kind, self.page.level(), self.entries(range), |used| {
            image_len(used, round_up(used), target)
        })
    }
}

/// Puts an entry before slot `index`. Splits the node only if it would exceed its target and both
/// halves are allowed on their own (a leaf with one entry, a branch with two).
#[expect(
    clippy::too_many_arguments,
    reason = "one entry in all its parts, and where it goes"
)]
pub(crate) fn place(
    kind: &TreeKind,
    w: &mut Writer,
    node: &mut Node,
    index: usize,
    key: &[u8],
    value: &[u8],
    child: Option<Arc<Node>>,
    edge: bool,
) -> Placed {
    let (count, level) = (node.page().count(), node.page().level());
    let target = target(kind, level);
    let standing = if level == 0 { 1 } else { 2 };
    let must_stay = count + 1 < 2 * standing;
    let most = if must_stay { usize::MAX } else { target };
    if insert(kind, w, node, index, (key, value), most) {
        if level > 0 {
            node.children.insert(index, child);
        }
        return Placed::default();
    }
    if level > 0 {
        return split_branch(kind, w, node, index, (key, value), child, edge);
    }
    let with = With {
        page: node.page(),
        index,
        key,
        value,
    };
    match choose_cut(with, target, edge) {
        Some(cut) => split_leaf(kind, w, node, index, (key, value), cut),
        None => split_for_retry(kind, w, node, index),
    }
}

/// Puts an entry before slot `index`, if the node then uses at most so many bytes.
pub(crate) fn insert(
    kind: &TreeKind,
    w: &mut Writer,
    node: &mut Node,
    index: usize,
    (key, value): (&[u8], &[u8]),
    most: usize,
) -> bool {
    let page = node.page();
    if let Some(cost) = node.image.cost(key, value.len())
        && cost <= page.free()
        && page.used() + cost <= most
    {
        node.image.insert(index, key, value);
        return true;
    }
    // Packed, and without what all keys have in common now, there may be room.
    let with = With {
        page,
        index,
        key,
        value,
    };
    let entries = with.entries(0..with.count());
    let packed = Layout::of(kind, page.level(), entries.clone());
    if packed.used > most {
        return false;
    }
    let len = image_len(packed.used, node.image.len(), target(kind, page.level()));
    let image = Image::new(kind, page.level(), len).filled(&packed, entries);
    w.set_image(node, image);
    true
}

/// Where to cut a leaf so that both sides fit, as evenly as possible. At the right edge of the
/// tree, so that the left side stays full. `None` if an entry too big to share a leaf is between
/// others.
fn choose_cut(with: With<'_>, target: usize, edge: bool) -> Option<usize> {
    let (count, bytes) = (with.count(), with.bytes());
    if with.index == count - 1 && edge {
        return Some(count - 1);
    }
    let total: usize = (0..count).map(&bytes).sum();
    let fits = |bytes: usize, entries: usize| HEADER + bytes <= target || entries == 1;
    let at_end = with.index == 0 || with.index == count - 1;
    let mut best: Option<(usize, usize)> = None;
    let mut left = 0;
    for cut in 1..count {
        left += bytes(cut - 1);
        let right = total - left;
        let allowed = fits(left, cut) && fits(right, count - cut);
        let widest = left.max(right);
        if allowed && best.is_none_or(|(_, least)| widest < least) {
            best = Some((cut, widest));
        }
    }
    match best {
        Some((cut, _)) => Some(cut),
        // Only a leaf made under a larger target gets here.
        None if at_end => Some(if with.index == 0 { 1 } else { count - 1 }),
        None => None,
    }
}

fn split_leaf(
    kind: &TreeKind,
    w: &mut Writer,
    node: &mut Node,
    index: usize,
    (key, value): (&[u8], &[u8]),
    cut: usize,
) -> Placed {
    let with = With {
        page: node.page(),
        index,
        key,
        value,
    };
    let count = with.count();
    let bound = separator(kind, with.key(cut - 1), with.key(cut));
    let right = with.image(kind, cut..count, kind.leaf_bytes);
    let left = if cut == count - 1 && index == cut {
        // Nothing moved: only give back the units that stayed empty.
        let tight = round_up(node.page().used());
        (tight < node.image.len()).then(|| node.image.packed(tight))
    } else {
        Some(with.image(kind, 0..cut, kind.leaf_bytes))
    };
    if let Some(left) = left {
        w.set_image(node, left);
    }
    let weight = right.page().weigh(kind, 0..right.page().count());
    let split = Split {
        bound,
        node: w.node(right, Vec::new()),
        weight,
    };
    Placed {
        split: Some(split),
        retry: false,
    }
}

/// Cuts a leaf before slot `index` without putting the entry in.
fn split_for_retry(kind: &TreeKind, w: &mut Writer, node: &mut Node, index: usize) -> Placed {
    let page = node.page();
    let [left, right] = [0..index, index..page.count()].map(|range| {
        let entries = page.entries().skip(range.start).take(range.len());
        Image::of(kind, page.level(), entries, round_up)
    });
    let bound = separator(kind, page.key(index - 1), page.key(index));
    let weight = page.weigh(kind, index..page.count());
    w.set_image(node, left);
    let split = Split {
        bound,
        node: w.node(right, Vec::new()),
        weight,
    };
    Placed {
        split: Some(split),
        retry: true,
    }
}

fn split_branch(
    kind: &TreeKind,
    w: &mut Writer,
    node: &mut Node,
    index: usize,
    (key, value): (&[u8], &[u8]),
    child: Option<Arc<Node>>,
    edge: bool,
) -> Placed {
    let with = With {
        page: node.page(),
        index,
        key,
        value,
    };
    let count = with.count();
    let cut = if edge && index == count - 1 {
        count - 2
    } else {
        even_cut(count, 2, with.bytes())
    };
    let bound = with.key(cut).to_vec();
    let left = with.image(kind, 0..cut, BRANCH_BYTES);
    let right = with.image(kind, cut..count, BRANCH_BYTES);
    w.set_image(node, left);
    node.children.insert(index, child);
    let children = node.children.split_off(cut);
    let weight = right.page().weigh(kind, 0..right.page().count());
    let split = Split {
        bound,
        node: w.node(right, children),
        weight,
    };
    Placed {
        split: Some(split),
        retry: false,
    }
}

pub(crate) fn separator(kind: &TreeKind, left: Key<'_>, right: Key<'_>) -> Vec<u8> {
    kind.order.separator(&left.to_vec(), &right.to_vec())
}

/// Where to cut `count` entries of so many bytes each into two parts, as evenly as possible, with at
/// least `least` entries in each.
pub(crate) fn even_cut(count: usize, least: usize, bytes: impl Fn(usize) -> usize) -> usize {
    let total: usize = (0..count).map(&bytes).sum();
    let mut left: usize = (0..least).map(&bytes).sum();
    let mut best = (least, left.max(total - left));
    for cut in least + 1..=count - least {
        left += bytes(cut - 1);
        let widest = left.max(total - left);
        if widest < best.1 {
            best = (cut, widest);
        }
    }
    best.0
}
