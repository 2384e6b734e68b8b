//! Walks a tree in key order. Knows nothing of edits: the tree cannot change meanwhile.
//!
//! A walk from leaf to leaf announces the pages it will need next, so that it need not wait for the
//! disk page by page. It announces few at first, because most walks are short, and more the longer
//! it continues.

use super::pages::View;
use super::{Pages, Tree};
use crate::Result;

/// Pages announced when a walk first leaves a leaf.
const AHEAD_MIN: usize = 2;
/// Most pages announced at once: 256 KiB of leaves of one page each.
const AHEAD_MAX: usize = 64;

/// A place in a tree. All moves return whether the cursor is on an entry afterwards; only then may
/// `key` and `value` be called. A new cursor is on no entry.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    tree: &'a Tree,
    pages: &'a Pages,
    /// From the root to a leaf; empty if the cursor is on no entry. Every index is that of an
    /// entry; the last one is the current entry's.
    path: Vec<Step<'a>>,
    /// Number of pages to announce next.
    ahead: usize,
    /// The current key, if its page has a prefix.
    key: Vec<u8>,
}

#[derive(Debug)]
struct Step<'a> {
    view: View<'a>,
    index: usize,
    /// Children before this one were announced, or need not be.
    announced: usize,
}

impl Tree {
    /// A cursor that is on no entry yet.
    pub(crate) fn cursor<'a>(&'a self, pages: &'a Pages) -> Cursor<'a> {
        Cursor::new(self, pages)
    }
}

impl<'a> Step<'a> {
    fn new(view: View<'a>, index: usize) -> Step<'a> {
        Step {
            view,
            index,
            announced: index + 1,
        }
    }

    /// At its first entry, of which nothing was announced.
    fn first(view: View<'a>) -> Step<'a> {
        Step {
            view,
            index: 0,
            announced: 0,
        }
    }
}

impl<'a> Cursor<'a> {
    fn new(tree: &'a Tree, pages: &'a Pages) -> Cursor<'a> {
        Cursor {
            tree,
            pages,
            path: Vec::new(),
            ahead: AHEAD_MIN,
            key: Vec::new(),
        }
    }

    /// Moves to the first entry whose key is `>= key`. Cheap if it is in the current leaf.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<bool> {
        if self.settle_in_leaf(key) {
            return Ok(self.arrive());
        }
        self.path.clear();
        self.ahead = AHEAD_MIN;
        self.find_below(key)
    }

    /// Like [`Cursor::seek`] for a key that is not less than those sought before: a cursor that is on
    /// an entry moves forward only, and climbs no higher than it must.
    pub(crate) fn seek_on(&mut self, key: &[u8]) -> Result<bool> {
        let order = self.tree.kind.order;
        let Some(leaf) = self.path.last_mut() else {
            return self.seek(key);
        };
        let (page, index) = (leaf.view.page(), leaf.index);
        if order.compare_key(page.key(index), key).is_ge() {
            return Ok(true);
        }
        let (Ok(found) | Err(found)) = page.search_from(index + 1, order, key);
        if found < page.count() {
            leaf.index = found;
            return Ok(self.arrive());
        }
        // To the lowest branch that has a bound behind the key.
        self.path.pop();
        while let Some(step) = self.path.last_mut() {
            let page = step.view.page();
            let child = page.child_for(order, key);
            if child + 1 < page.count() || self.path.len() == 1 {
                break;
            }
            self.path.pop();
        }
        self.ahead = AHEAD_MIN;
        self.find_below(key)
    }

    /// Moves one entry forward; past the last one the cursor is on no entry.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<bool> {
        if let Some(leaf) = self.path.last_mut()
            && leaf.index + 1 < leaf.view.page().count()
        {
            leaf.index += 1;
            return Ok(self.arrive());
        }
        while let Some(step) = self.path.last_mut() {
            if step.index + 1 < step.view.page().count() {
                step.index += 1;
                // A long walk announces leaves while it has half of those before to go, so that the
                // disk works meanwhile.
                let is_long = self.ahead == AHEAD_MAX && step.view.page().level() == 1;
                let to_go = if is_long { AHEAD_MAX / 2 } else { 0 };
                if step.index + to_go >= step.announced {
                    self.announce();
                }
                return self.descend();
            }
            self.path.pop();
        }
        Ok(false)
    }

    /// Moves forward to the first entry whose key is `>= end`, but no further than to the next leaf.
    /// Returns how many entries it passed, and whether the cursor is on an entry.
    pub(crate) fn pass_leaf(&mut self, end: &[u8]) -> Result<(u64, bool)> {
        let order = self.tree.kind.order;
        let leaf = self.path.last_mut().expect("stands on an entry");
        let (page, index) = (leaf.view.page(), leaf.index);
        let (Ok(found) | Err(found)) = page.search_from(index, order, end);
        let passed = (found - index) as u64;
        if found < page.count() {
            leaf.index = found;
            return Ok((passed, self.arrive()));
        }
        leaf.index = found - 1;
        Ok((passed, self.next()?))
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        let leaf = self.path.last().expect("stands on an entry");
        let key = leaf.view.page().key(leaf.index);
        key.as_slice().unwrap_or(&self.key)
    }

    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        let leaf = self.path.last().expect("stands on an entry");
        leaf.view.page().value(leaf.index)
    }

    /// Finds `key`'s place if it is between the first and the last key of the current leaf.
    fn settle_in_leaf(&mut self, key: &[u8]) -> bool {
        let order = self.tree.kind.order;
        let Some(leaf) = self.path.last_mut() else {
            return false;
        };
        let page = leaf.view.page();
        let last = page.count() - 1;
        if order.compare_key(page.key(last), key).is_lt()
            || order.compare_key(page.key(0), key).is_gt()
        {
            return false;
        }
        let (Ok(index) | Err(index)) = page.search(order, key);
        leaf.index = index;
        true
    }

    /// Moves to the first entry whose key is `>= key`, from the branch at the path's end on, below
    /// which `key` belongs; from the root if the path is empty.
    fn find_below(&mut self, key: &[u8]) -> Result<bool> {
        let order = self.tree.kind.order;
        let mut view = match self.path.pop() {
            Some(step) => step.view,
            None => match self.tree.view(self.pages)? {
                Some(view) => view,
                None => return Ok(false),
            },
        };
        while view.page().level() > 0 {
            let index = view.page().child_for(order, key);
            let child = self.pages.child(&self.tree.kind, &view, index);
            self.path.push(Step::new(view, index));
            view = child.inspect_err(|_| self.path.clear())?;
        }
        let (Ok(index) | Err(index)) = view.page().search(order, key);
        let is_in_leaf = index < view.page().count();
        let index = if is_in_leaf { index } else { index - 1 };
        self.path.push(Step::new(view, index));
        if is_in_leaf {
            Ok(self.arrive())
        } else {
            self.next()
        }
    }

    /// Descends from the entry at the path's end to the first entry of the leaf below it.
    fn descend(&mut self) -> Result<bool> {
        while let Some(step) = self.path.last()
            && step.view.page().level() > 0
        {
            let child = self.pages.child(&self.tree.kind, &step.view, step.index);
            let view = child.inspect_err(|_| self.path.clear())?;
            self.path.push(Step::first(view));
            self.announce();
        }
        Ok(self.arrive())
    }

    /// Joins the key of the entry at the path's end, if its page has a prefix.
    #[inline]
    fn arrive(&mut self) -> bool {
        if let Some(leaf) = self.path.last() {
            let key = leaf.view.page().key(leaf.index);
            if key.as_slice().is_none() {
                key.join_into(&mut self.key);
            }
        }
        true
    }

    /// Announces the next children of the branch at the path's end, so that they are read ahead.
    fn announce(&mut self) {
        let Some(step) = self.path.last_mut() else {
            return;
        };
        let page = step.view.page();
        if page.level() == 0 {
            return;
        }
        // Each child is a branch with many leaves: one more is enough.
        let ahead = match page.level() {
            1 => self.ahead,
            _ => AHEAD_MIN,
        };
        let from = step.announced.max(step.index);
        let end = page.count().min(from + ahead);
        let in_memory = |i: usize| step.view.children.get(i).is_some_and(Option::is_some);
        let on_disk = (from..end).filter(|i| !in_memory(*i));
        self.pages.announce(on_disk.map(|i| page.child(i)));
        if page.level() == 1 {
            self.ahead = (2 * self.ahead).min(AHEAD_MAX);
        }
        step.announced = end;
    }
}
