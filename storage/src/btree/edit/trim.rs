//! Removes the beginning of a tree: a merge takes a delta tree away step by step, from its front.

use std::sync::Arc;

use super::Writer;
use super::merge::{is_lonely, settle};
use crate::Result;
use crate::btree::kind::TreeKind;
use crate::btree::node::Node;
use crate::btree::node::page::PageRef;
use crate::btree::pages::{Pages, View};
use crate::btree::{Tree, Weight};

impl Tree {
    /// Removes the entries up to `key`, that one included; returns how many there were. Cheaper than
    /// to remove one after the other: what lies wholly before `key` is given up unchanged. A sparse
    /// first leaf is not merged with the next one, because the next call will empty it. After an error
    /// the tree is as it was before the call.
    pub(crate) fn remove_through(&mut self, w: &mut Writer, key: &[u8]) -> Result<u64> {
        if self.root.is_none() {
            return Ok(0);
        }
        let kind = self.kind;
        let root = self.root_mut(w)?;
        let removed = remove_through_below(&kind, w, root, key)?;
        self.len -= removed.entries;
        self.weight = self.weight - removed.weight;
        self.collapse(w);
        Ok(removed.entries)
    }
}

struct Removed {
    entries: u64,
    weight: Weight,
}

fn remove_through_below(
    kind: &TreeKind,
    w: &mut Writer,
    link: &mut Arc<Node>,
    key: &[u8],
) -> Result<Removed> {
    let node = w.own(link);
    let page = node.page();
    if page.level() == 0 {
        let end = match page.search(kind.order, key) {
            Ok(index) => index + 1,
            Err(index) => index,
        };
        let weight = page.weigh(kind, 0..end);
        (0..end).for_each(|_| node.image.remove(0));
        return Ok(Removed {
            entries: end as u64,
            weight,
        });
    }
    let index = page.child_for(kind.order, key);
    let mut before = Subtrees::default();
    for i in 0..index {
        before.add(kind, &w.pages, &View::of(node), i)?;
    }
    let child = w.load_child(kind, node, index)?;
    let below = remove_through_below(kind, w, child, key)?;
    // The last call that can fail has changed the tree: nothing after it may fail.
    let left = node.page().weight(index) - below.weight;
    let weight = below.weight + node.page().weigh(kind, 0..index);
    node.image.set_weight(index, left);
    (0..index).for_each(|_| node.image.remove(0));
    node.children.drain(..index);
    node.image.unbind_first();
    let entries = below.entries + before.entries;
    before.give_up(w);
    let first = node.children[0].as_ref().expect("just edited").page();
    if first.count() == 0 || is_lonely(first) {
        settle(kind, w, node, 0);
    }
    Ok(Removed { entries, weight })
}

/// Subtrees that are removed as a whole.
#[derive(Default)]
struct Subtrees {
    entries: u64,
    /// Their nodes in memory, and the pages of the others.
    nodes: Vec<Arc<Node>>,
    pages: Vec<PageRef>,
}

impl Subtrees {
    /// Adds child `i` of a branch. Leaves are read for the number of their entries alone, but whoever
    /// removes entries has just read them.
    fn add(&mut self, kind: &TreeKind, pages: &Pages, parent: &View<'_>, i: usize) -> Result<()> {
        let child = pages.child(kind, parent, i)?;
        let page = child.page();
        match page.level() {
            0 => self.entries += page.count() as u64,
            _ => (0..page.count()).try_for_each(|i| self.add(kind, pages, &child, i))?,
        }
        match parent.children.get(i) {
            Some(Some(node)) => self.nodes.push(node.clone()),
            _ => self.pages.push(parent.page().child(i)),
        }
        Ok(())
    }

    fn give_up(self, w: &mut Writer) {
        self.nodes.into_iter().for_each(|node| w.detach(node));
        self.pages.into_iter().for_each(|page| w.give_up(page));
    }
}
