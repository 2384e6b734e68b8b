//! What a branch does after a child lost an entry: drop an empty child, or merge it with a
//! neighbour if both fit into one page.

use std::sync::Arc;

use super::Writer;
use super::split::target;
use crate::btree::node::Node;
use crate::btree::node::image::{Image, round_up};
use crate::btree::node::page::{CHILD_BYTES, HEADER, Page, PageRef, SLOT, cell_len, child_value};
use crate::btree::node::weight::Weight;
use crate::btree::tree::TreeKind;

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
fn is_lonely(page: Page<'_>) -> bool {
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
    let level = parent.page().level() - 1;
    let target = target(kind, level);
    let bound = if level == 0 {
        0
    } else {
        // The right one's first entry gets the bound that it has in the parent.
        parent.page().key(right).len() + 8
    };
    let (Some(a), Some(b)) = (used(kind, w, parent, left), used(kind, w, parent, right)) else {
        return false;
    };
    let used = a + b - HEADER + bound;
    // Leave some room, or the next insert would split the page again.
    if !forced && used > target - target / 8 {
        return false;
    }
    if w.load_child(kind, parent, left).is_err() || w.load_child(kind, parent, right).is_err() {
        return false;
    }
    let bound = parent.page().key(right).to_vec();
    let weight = parent.page().weight(left) + parent.page().weight(right);
    let sibling = parent.children.remove(right).expect("loaded above");
    parent.image.remove(right);
    let node = w.own(parent.children[left].as_mut().expect("loaded above"));
    let image = joined(kind, node.page(), sibling.page(), &bound, used);
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

/// Bytes that child `index` uses; `None` if it cannot be read.
fn used(kind: &TreeKind, w: &Writer, parent: &Node, index: usize) -> Option<usize> {
    if let Some(child) = &parent.children[index] {
        return Some(child.page().used());
    }
    let page: PageRef = parent.page().child(index);
    let bytes = w.pages.read(page, kind, parent.page().level() - 1).ok()?;
    Some(Page(&bytes).used())
}

/// All entries of two nodes in one.
fn joined(kind: &TreeKind, left: Page<'_>, right: Page<'_>, bound: &[u8], used: usize) -> Image {
    let mut image = Image::new(kind, left.level(), round_up(used));
    let first = if left.first() < left.count() {
        left.key(left.first())
    } else {
        bound
    };
    let last = if right.first() < right.count() {
        right.key(right.count() - 1)
    } else {
        bound
    };
    image.expect(first, last);
    (0..left.count()).for_each(|i| image.push_cell(left.cell(i), left.key(i)));
    for i in 0..right.count() {
        if i == 0 && right.level() > 0 {
            image.push(bound, right.value(0));
        } else {
            image.push_cell(right.cell(i), right.key(i));
        }
    }
    image
}

/// Cuts branch `index` of `parent`, which has at least four children, into two halves.
fn part(kind: &TreeKind, w: &mut Writer, parent: &mut Node, index: usize) {
    let node = w.own(parent.children[index].as_mut().expect("just merged"));
    let page = node.page();
    let (count, cut) = (page.count(), page.count() / 2);
    let bound = page.key(cut).to_vec();
    let [left, right] = [0..cut, cut..count].map(|range| {
        let bytes = range
            .clone()
            .map(|i| SLOT + page.cell(i).len())
            .sum::<usize>();
        Image::part(page, range, round_up(HEADER + bytes))
    });
    let weights = [0..cut, cut..count].map(|range| page.weigh(kind, range));
    w.set_image(node, left);
    let children = node.children.split_off(cut);
    let right = w.node(right, children);
    parent.image.set_weight(index, weights[0]);
    insert_child(w, parent, index + 1, &bound, weights[1], right);
}

/// Adds a child without splitting the parent; the parent's next insert will do that.
fn insert_child(
    w: &mut Writer,
    parent: &mut Node,
    index: usize,
    bound: &[u8],
    weight: Weight,
    child: Arc<Node>,
) {
    let value = child_value(weight, crate::btree::node::image::NOWHERE);
    if !parent.image.has_room(bound.len(), CHILD_BYTES) {
        let used = parent.page().used() + SLOT + cell_len(bound.len(), CHILD_BYTES);
        let len = round_up(used).max(parent.image.len());
        let packed = parent.image.packed(len);
        w.set_image(parent, packed);
    }
    parent.image.insert(index, bound, &value);
    parent.children.insert(index, Some(child));
}
