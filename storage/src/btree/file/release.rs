//! Gives memory back: links to nodes that a checkpoint saved become links to the file.

use std::sync::Arc;

use crate::btree::edit::Writer;
use crate::btree::kind::KeyOrder;
use crate::btree::node::page::PageRef;
use crate::btree::node::{Link, Node};
use crate::btree::tree::Tree;

/// Looks at nodes from the one with the key `from` (empty: the first) on. Returns the key to
/// continue from if the budget is used up. Only while no checkpoint runs.
pub(crate) fn release(
    tree: &mut Tree,
    w: &mut Writer,
    from: &[u8],
    budget: usize,
) -> Option<Vec<u8>> {
    let Some(Link::Memory(root)) = &mut tree.root else {
        return None;
    };
    if let Some(page) = saved(w, root) {
        let level = root.page().level();
        tree.root = Some(Link::Disk { page, level });
        return None;
    }
    let mut budget = budget.max(1);
    release_below(tree.kind.order, w, root, from, &mut budget)
}

/// Where the last, finished checkpoint put a node; `None` if the node changed since.
fn saved(w: &Writer, node: &Node) -> Option<PageRef> {
    if node.born == w.counter {
        return None;
    }
    Some(*node.saved.get().expect("saved by the last checkpoint"))
}

/// `node` itself changed since the checkpoint, so it stays.
fn release_below(
    order: KeyOrder,
    w: &mut Writer,
    link: &mut Arc<Node>,
    from: &[u8],
    budget: &mut usize,
) -> Option<Vec<u8>> {
    if link.page().level() == 0 {
        return None;
    }
    let start = if from.is_empty() {
        0
    } else {
        link.page().child_for(order, from)
    };
    for i in start..link.page().count() {
        // The first one is always looked at, so that each call makes progress.
        if i > start && *budget == 0 {
            return Some(link.page().key(i).to_vec());
        }
        *budget = budget.saturating_sub(1);
        let Some(child) = &link.children[i] else {
            continue;
        };
        let page = saved(w, child);
        if page.is_none() && child.page().level() == 0 {
            continue;
        }
        // May copy a node that views share: the writer would copy it, too, with its next edit.
        let node = w.own(link);
        if let Some(page) = page {
            node.image.set_child(i, page);
            node.children[i] = None;
            continue;
        }
        let child = node.children[i].as_mut().expect("looked at above");
        let from = if i == start { from } else { &[] };
        let rest = release_below(order, w, child, from, budget);
        if rest.is_some() {
            return rest;
        }
    }
    None
}
