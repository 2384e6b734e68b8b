//! Moving pages to the front of the file, so that its end can be given back: a page that lies far
//! back is brought into memory as if it were to be changed, and the next checkpoint writes it to
//! the first free place. Two checkpoints later its old place is free.

use std::sync::Arc;

use super::Pages;
use super::edit::Writer;
use super::node::{Link, Node};
use super::page::PageRef;
use super::pages::View;
use super::tree::{Tree, TreeKind};
use crate::Result;

/// What may be done in one step.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Links to look at.
    pub links: usize,
    /// Bytes of pages to bring into memory.
    pub bytes: usize,
}

/// Brings pages into memory that end behind unit `limit`, beginning with what holds the key `from`
/// (empty: the first); returns where to go on when the budget is used up. After an error the tree
/// is as it was.
pub(super) fn relocate(
    tree: &mut Tree,
    w: &mut Writer,
    limit: u64,
    from: &[u8],
    budget: &mut Budget,
) -> Result<Option<Vec<u8>>> {
    let mut from = from.to_vec();
    loop {
        let pages = w.pages.clone();
        let mut search = Search {
            kind: tree.kind,
            pages: &pages,
            limit,
            links: &mut budget.links,
        };
        match search.tree(tree, &from)? {
            Found::Nothing => return Ok(None),
            Found::Tired { next } => return Ok(Some(next)),
            Found::Page { key, level, bytes } => {
                touch(tree, w, &key, level)?;
                if budget.bytes <= bytes {
                    return Ok(Some(key));
                }
                budget.bytes -= bytes;
                from = key;
            }
        }
    }
}

/// Where the search came to.
enum Found {
    Nothing,
    /// The budget is used up; `next` leads to what was not looked at.
    Tired {
        next: Vec<u8>,
    },
    /// `key` leads to a page of that level to be moved.
    Page {
        key: Vec<u8>,
        level: u8,
        bytes: usize,
    },
}

struct Search<'a> {
    kind: TreeKind,
    pages: &'a Pages,
    limit: u64,
    links: &'a mut usize,
}

impl Search<'_> {
    fn lies_behind(&self, page: PageRef) -> bool {
        page.id + u64::from(page.units) > self.limit
    }

    fn tree(&mut self, tree: &Tree, from: &[u8]) -> Result<Found> {
        if let Some(Link::Disk { page, level }) = tree.root
            && self.lies_behind(page)
        {
            return Ok(found(&[], level, page));
        }
        match tree.view(self.pages)? {
            Some(root) => self.below(&root, from, &[]),
            None => Ok(Found::Nothing),
        }
    }

    /// `bound` leads to this node.
    fn below(&mut self, node: &View<'_>, from: &[u8], bound: &[u8]) -> Result<Found> {
        let level = node.page().level();
        if level == 0 {
            return Ok(Found::Nothing);
        }
        let start = match from {
            [] => 0,
            from => node.page().child_for(self.kind.order, from),
        };
        for i in start..node.page().count() {
            let bound = if i == 0 { bound } else { node.page().key(i) };
            // The first one is always looked at: each call gets ahead.
            if *self.links == 0 && i > start {
                return Ok(Found::Tired {
                    next: bound.to_vec(),
                });
            }
            *self.links = self.links.saturating_sub(1);
            let in_memory = node.children.get(i).is_some_and(Option::is_some);
            if !in_memory && self.lies_behind(node.page().child(i)) {
                return Ok(found(bound, level - 1, node.page().child(i)));
            }
            if level == 1 {
                continue;
            }
            let child = self.pages.child(&self.kind, node, i)?;
            let from = if i == start { from } else { &[] };
            let found = self.below(&child, from, bound)?;
            if !matches!(found, Found::Nothing) {
                return Ok(found);
            }
        }
        Ok(Found::Nothing)
    }
}

fn found(key: &[u8], level: u8, page: PageRef) -> Found {
    Found::Page {
        key: key.to_vec(),
        level,
        bytes: page.units as usize * super::page::UNIT,
    }
}

/// Makes the nodes on the way to `key` the writer's own, down to `level`.
fn touch(tree: &mut Tree, w: &mut Writer, key: &[u8], level: u8) -> Result<()> {
    let kind = tree.kind;
    let mut link: &mut Arc<Node> = tree.root_mut(w)?;
    loop {
        let node = w.own(link);
        if node.page().level() == level {
            return Ok(());
        }
        let index = match key {
            [] => 0,
            key => node.page().child_for(kind.order, key),
        };
        link = w.load_child(&kind, node, index)?;
    }
}
