//! Has pages written again, elsewhere and in today's form. They are loaded into memory as if they
//! had changed, and the next checkpoint writes them. After two more, their old places are free.

use super::Writer;
use crate::Result;
use crate::btree::kind::TreeKind;
use crate::btree::node::key::Key;
use crate::btree::node::page::PageRef;
use crate::btree::node::{Link, Node};
use crate::btree::pages::View;
use crate::btree::{Pages, Tree};

/// Why a page must be written again.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unfit {
    /// It is sealed under another key than this; 0 means none.
    NotSealedUnder(u32),
    /// It ends behind this unit, so that the file cannot end there.
    EndsBehind(u64),
}

/// Looks at the nodes of a tree from the one with the key `from` (empty: the first) on, `budget`
/// units' worth of them, and makes those dirty whose pages are unfit. Returns the key to continue
/// from. Only while no checkpoint runs.
pub(crate) fn rewrite(
    tree: &mut Tree,
    w: &mut Writer,
    unfit: Unfit,
    from: &[u8],
    budget: &mut u64,
) -> Result<Option<Vec<u8>>> {
    let pages = w.pages.clone();
    let mut search = Search {
        pages: &pages,
        kind: tree.kind,
        counter: w.counter,
        unfit,
        budget: *budget,
        found: Vec::new(),
    };
    let next = search.root(tree, from)?;
    let (left, found) = (search.budget, search.found);
    *budget = left;
    for (level, key) in found {
        tree.make_dirty(w, level, &key)?;
    }
    Ok(next)
}

struct Search<'p> {
    pages: &'p Pages,
    kind: TreeKind,
    /// The writer's counter: nodes born at it are in no checkpoint.
    counter: u64,
    unfit: Unfit,
    budget: u64,
    /// Levels of nodes to write again, each with a key that leads to the node.
    found: Vec<(u8, Vec<u8>)>,
}

impl Search<'_> {
    fn root(&mut self, tree: &Tree, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let view = match &tree.root {
            None => return Ok(None),
            Some(Link::Memory(node)) => {
                self.look_at_node(node, Key::default())?;
                View::of(node)
            }
            Some(Link::Disk { page, level }) => {
                self.look_at_page(*page, *level, Key::default())?;
                View::on_disk(self.pages, *page, &self.kind, *level)?
            }
        };
        self.below(&view, from, Key::default())
    }

    /// `bound` is the lower bound of the node's own keys, and leads to it.
    fn below(&mut self, view: &View<'_>, from: &[u8], bound: Key<'_>) -> Result<Option<Vec<u8>>> {
        let page = view.page();
        if page.level() == 0 {
            return Ok(None);
        }
        let start = child_for(&self.kind, view, from);
        for i in start..page.count() {
            let bound = if i == 0 { bound } else { page.key(i) };
            // The first one is always looked at, so that each call makes progress.
            if i > start && self.budget == 0 {
                return Ok(Some(bound.to_vec()));
            }
            let from = if i == start { from } else { &[] };
            let level = page.level() - 1;
            let rest = match view.children.get(i) {
                Some(Some(node)) => {
                    self.look_at_node(node, bound)?;
                    self.below(&View::of(node), from, bound)?
                }
                _ => {
                    self.look_at_page(page.child(i), level, bound)?;
                    // Leaves have nothing below, and need not be opened.
                    match level {
                        0 => None,
                        _ => self.below(&self.pages.child(&self.kind, view, i)?, from, bound)?,
                    }
                }
            };
            if rest.is_some() {
                return Ok(rest);
            }
        }
        Ok(None)
    }

    fn look_at_node(&mut self, node: &Node, bound: Key<'_>) -> Result<()> {
        match node.saved.get() {
            Some(page) if node.born != self.counter => {
                self.look_at_page(*page, node.page().level(), bound)
            }
            // The next checkpoint will write it anyway.
            _ => Ok(()),
        }
    }

    fn look_at_page(&mut self, page: PageRef, level: u8, bound: Key<'_>) -> Result<()> {
        self.budget = self.budget.saturating_sub(page.units.into());
        let is_unfit = match self.unfit {
            Unfit::NotSealedUnder(key) => self.pages.key_of(page)? != key,
            Unfit::EndsBehind(unit) => page.id + u64::from(page.units) > unit,
        };
        if is_unfit {
            self.found.push((level, bound.to_vec()));
        }
        Ok(())
    }
}

fn child_for(kind: &TreeKind, view: &View<'_>, key: &[u8]) -> usize {
    match key {
        // No key at all: the first child, in any key order.
        [] => 0,
        _ => view.page().child_for(kind.order, key),
    }
}

impl Tree {
    /// Makes the node of that level, on the way to `key`, the writer's own.
    fn make_dirty(&mut self, w: &mut Writer, level: u8, key: &[u8]) -> Result<()> {
        let kind = self.kind;
        let mut link = self.root_mut(w)?;
        loop {
            let node = w.own(link);
            if node.page().level() <= level {
                return Ok(());
            }
            let index = match key {
                [] => 0,
                _ => node.page().child_for(kind.order, key),
            };
            link = w.load_child(&kind, node, index)?;
        }
    }
}
