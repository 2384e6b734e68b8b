//! What a branch does after a child lost an entry: drop an empty child, or merge it with a
//! neighbour if both fit into one page.

use super::Writer;
use super::split::{self, target};
use crate::btree::kind::TreeKind;
use crate::btree::node::Node;
use crate::btree::node::image::{Image, Layout, NOWHERE, round_up};
use crate::btree::node::key::Key;
use crate::btree::node::page::{HEADER, Page, PageRef, child_value, tail_len};
use crate::btree::pages::Bytes;

/// Call after entries were removed below child `index` of a branch that the writer owns.
pub(crate) fn settle(kind: &TreeKind, w: &mut Writer, parent: &mut Node, index: usize) {
    let child = parent.children[index].as_ref().expect("was just edited");
    let page = child.page();
    if page.count() == 0 {
        let child = parent.children.remove(index).expect("looked at above");
        parent.image.remove(index);
        parent.image.unbind_first();
        w.detach(child);
        return;
    }
    let lonely = is_lonely(page);
    if !lonely && page.used() > target(kind, page.level()) / 2 {
        return;
    }
    // The left one first: compaction comes from there and has left it sparse.
    let merged = (index > 0 && merge(kind, w, parent, index - 1, false))
        || (index + 1 < parent.page().count() && merge(kind, w, parent, index, false));
    if !merged && lonely {
        merge(kind, w, parent, index.saturating_sub(1), true);
    }
}

/// A branch with a single child, which must not stay so.
pub(super) fn is_lonely(page: Page<'_>) -> bool {
    page.level() > 0 && page.count() < 2
}

/// Merges children `left` and `left + 1` if they fit into one page with some room to spare. If
/// `forced`, merges in any case, and cuts the result in two again if it is too long. A neighbour
/// that cannot be read stays: a reader that needs it will report the error.
fn merge(kind: &TreeKind, w: &mut Writer, parent: &mut Node, left: usize, forced: bool) -> bool {
    let right = left + 1;
    if right >= parent.page().count() {
        return false;
    }
    let target = target(kind, parent.page().level() - 1);
    // Leave some room, or the next insert would split the page again.
    let most = if forced {
        usize::MAX
    } else {
        target - target / 8
    };
    let Some(used) = used_by_both(kind, w, parent, left, most) else {
        return false;
    };
    if w.load_child(kind, parent, left).is_err() || w.load_child(kind, parent, right).is_err() {
        return false;
    }
    // The right one's first entry gets the bound that it has in the parent.
    let bound = parent.page().key(right).to_vec();
    let weight = parent.page().weight(left) + parent.page().weight(right);
    let sibling = parent.children.remove(right).expect("loaded above");
    parent.image.remove(right);
    let node = w.own(parent.children[left].as_mut().expect("loaded above"));
    let entries = both(node.page(), sibling.page(), bound.as_slice().into());
    let image = Image::of(kind, node.page().level(), entries, round_up);
    w.set_image(node, image);
    node.children.extend_from_slice(&sibling.children);
    w.detach(sibling);
    parent.image.set_weight(left, weight);
    if forced && used > target && node_count(parent, left) >= 4 {
        part(kind, w, parent, left);
    }
    true
}

fn node_count(parent: &Node, index: usize) -> usize {
    let child = parent.children[index].as_ref().expect("in memory");
    child.page().count()
}

/// Bytes that the entries of children `left` and `left + 1` need in one page, if that is at most
/// `most` and both can be read.
fn used_by_both(
    kind: &TreeKind,
    w: &Writer,
    parent: &Node,
    left: usize,
    most: usize,
) -> Option<usize> {
    let (a, b) = (
        bytes_of(kind, w, parent, left)?,
        bytes_of(kind, w, parent, left + 1)?,
    );
    let (a, b) = (Page(&a), Page(&b));
    let bound = parent.page().key(left + 1);
    let entries = both(a, b, bound);
    // Most pages that lost an entry do not fit: that must not cost a walk over all entries each time.
    // The bound of a branch comes on top.
    let prefix = Layout::prefix_of(kind, a.level(), entries.clone());
    let least = HEADER + cells(a, prefix) + cells(b, prefix);
    if least > most {
        return None;
    }
    let layout = Layout::of(kind, a.level(), entries);
    debug_assert!(layout.used >= least, "{} < {least}", layout.used);
    (layout.used <= most).then_some(layout.used)
}

/// Bytes that the entries of a page need where the prefix has so many bytes, which all of their
/// keys have.
fn cells(page: Page<'_>, prefix: usize) -> usize {
    let own = page.prefix().len();
    let bounded = page.count() - page.first();
    page.used() - HEADER - tail_len(own) + bounded * own - bounded * prefix
}

/// The page of child `index`; `None` if it cannot be read.
fn bytes_of<'p>(
    kind: &TreeKind,
    w: &'p Writer,
    parent: &'p Node,
    index: usize,
) -> Option<Bytes<'p>> {
    if let Some(child) = &parent.children[index] {
        return Some(Bytes::InPlace(child.image.bytes()));
    }
    let page: PageRef = parent.page().child(index);
    w.pages.read(page, kind, parent.page().level() - 1).ok()
}

/// All entries of two neighbours, the right one's first with this bound.
fn both<'a>(
    left: Page<'a>,
    right: Page<'a>,
    bound: Key<'a>,
) -> impl DoubleEndedIterator<Item = (Key<'a>, &'a [u8])> + Clone {
    let is_branch = right.level() > 0;
    let entries = right.entries().enumerate();
    let bounded = entries.map(move |(i, (key, value))| {
        let key = if i == 0 && is_branch { bound } else { key };
        (key, value)
    });
    left.entries().chain(bounded)
}

/// Cuts branch `index` of `parent`, which has at least four children, into two halves.
fn part(kind: &TreeKind, w: &mut Writer, parent: &mut Node, index: usize) {
    let node = w.own(parent.children[index].as_mut().expect("just merged"));
    let page = node.page();
    let (count, cut) = (page.count(), page.count() / 2);
    let bound = page.key(cut).to_vec();
    let [left, right] = [0..cut, cut..count].map(|range| {
        let entries = page.entries().skip(range.start).take(range.len());
        Image::of(kind, page.level(), entries, round_up)
    });
    let weights = [0..cut, cut..count].map(|range| page.weigh(kind, range));
    w.set_image(node, left);
    let children = node.children.split_off(cut);
    let right = w.node(right, children);
    parent.image.set_weight(index, weights[0]);
    // Without splitting the parent; its next insert will do that.
    let value = child_value(weights[1], NOWHERE);
    split::insert(kind, w, parent, index + 1, (&bound, &value), usize::MAX);
    parent.children.insert(index + 1, Some(right));
}
