//! Writes changed leaves before a checkpoint needs them, so that they need not stay in memory:
//!
//! - Full leaves of a tree that grows at its end ([`spill`]). They will hardly change again. Kept
//!   until the checkpoint they would only take memory, and force a checkpoint that must write the
//!   other trees, too.
//! - All changed leaves of any tree ([`spill_changed`]), in the middle of a change that is too
//!   large for memory. One that changes again is read back, and its page is given up.
//!
//! Nothing durable refers to a spilled page, and its units are free in both metas on disk, so a
//! power cut forgets it. The next checkpoint refers to it, and syncs the file before its meta.

use std::sync::Arc;

use super::output::Output;
use super::save;
use crate::btree::edit::Writer;
use crate::btree::kind::KeyOrder;
use crate::btree::node::{Link, Node};
use crate::btree::pages::Shared;
use crate::btree::space::Space;
use crate::btree::tree::Tree;
use crate::vfs::File;
use crate::{Error, Result};

/// Syncs what was spilled, in good time; runs on any thread.
#[derive(Debug)]
pub(crate) struct SyncJob {
    pub(crate) file: Arc<dyn File>,
    pub(in crate::btree) shared: Arc<Shared>,
}

impl SyncJob {
    /// An error is final: lost pages would not be written again.
    pub(crate) fn run(self) -> Result<()> {
        self.file
            .sync_data()
            .map_err(Error::unsynced(self.shared.path()))
    }
}

/// Writes about `budget` bytes of leaves changed since the last checkpoint began, from the one with
/// the key `from` on, but not the last leaf of the tree. Moves `from` forward. Only while no
/// checkpoint runs. After an error the page file must be opened again. Returns false if the disk is
/// full; then nothing has changed.
pub(crate) fn spill(
    tree: &mut Tree,
    w: &mut Writer,
    space: &mut Space,
    out: &mut Output,
    from: &mut Vec<u8>,
    budget: usize,
) -> Result<bool> {
    let Some(Link::Memory(root)) = &mut tree.root else {
        return Ok(true);
    };
    let Some(last) = last_leaf(root) else {
        return Ok(true);
    };
    let end = last.page().key(0).to_vec();
    if end == *from {
        return Ok(true);
    }
    let mut spilling = Spilling {
        order: tree.kind.order,
        w,
        space,
        out,
        budget,
        spilled: Vec::new(),
    };
    match spilling.run(root, from, true)? {
        Spilled::All => *from = end,
        Spilled::Through(rest) => *from = rest,
        Spilled::DiskFull => return Ok(false),
    }
    Ok(true)
}

/// Like [`spill`], but of all leaves changed since the last checkpoint began, the last leaf of the
/// tree included. Returns where to continue.
pub(crate) fn spill_changed(
    tree: &mut Tree,
    w: &mut Writer,
    space: &mut Space,
    out: &mut Output,
    from: &[u8],
    budget: usize,
) -> Result<Spilled> {
    let Some(Link::Memory(root)) = &mut tree.root else {
        return Ok(Spilled::All);
    };
    if root.born != w.counter {
        return Ok(Spilled::All);
    }
    let mut spilling = Spilling {
        order: tree.kind.order,
        w,
        space,
        out,
        budget,
        spilled: Vec::new(),
    };
    spilling.run(root, from, false)
}

/// How far a call came.
pub(crate) enum Spilled {
    All,
    /// The budget is used up: continue from the leaf with this key.
    Through(Vec<u8>),
    /// Nothing has changed.
    DiskFull,
}

/// The last leaf, if it is in memory and has entries.
fn last_leaf(root: &Arc<Node>) -> Option<&Arc<Node>> {
    let mut node = root;
    while node.page().level() > 0 {
        node = node.children.last()?.as_ref()?;
    }
    (node.page().count() > 0).then_some(node)
}

struct Spilling<'a> {
    order: KeyOrder,
    w: &'a mut Writer,
    space: &'a mut Space,
    out: &'a mut Output,
    budget: usize,
    /// Leaves taken out of the tree whose bytes may not have reached the file yet.
    spilled: Vec<Arc<Node>>,
}

impl Spilling<'_> {
    /// `keep_last`: not the last leaf of the tree.
    fn run(&mut self, root: &mut Arc<Node>, from: &[u8], keep_last: bool) -> Result<Spilled> {
        let rest = self.below(root, from, keep_last);
        match rest.and_then(|rest| self.out.flush().map(|()| rest)) {
            Ok(None) => Ok(Spilled::All),
            Ok(Some(rest)) => Ok(Spilled::Through(rest)),
            Err(error) if error.is_full() => {
                self.take_back(root);
                Ok(Spilled::DiskFull)
            }
            Err(error) => Err(error),
        }
    }

    /// `edge`: the last leaf, which is kept, is below. Returns the key to continue from if the
    /// budget is used up.
    fn below(&mut self, link: &mut Arc<Node>, from: &[u8], edge: bool) -> Result<Option<Vec<u8>>> {
        let (level, count) = (link.page().level(), link.page().count());
        if level == 0 {
            return Ok(None);
        }
        let start = match from {
            [] => 0,
            from => link.page().child_for(self.order, from),
        };
        for i in start..count {
            let edge = edge && i + 1 == count;
            let Some(child) = &link.children[i] else {
                continue;
            };
            // Nodes that the last checkpoint holds have their place already.
            if child.born != self.w.counter || (level == 1 && edge) {
                continue;
            }
            if level == 1 && self.budget == 0 {
                return Ok(Some(child.page().key(0).to_vec()));
            }
            // May copy a node that views share: the writer would copy it, too, with its next edit.
            let node = self.w.own(link);
            if level == 1 {
                self.leaf(node, i)?;
                continue;
            }
            let child = node.children[i].as_mut().expect("looked at above");
            let from = if i == start { from } else { &[] };
            let rest = self.below(child, from, edge)?;
            if rest.is_some() {
                return Ok(rest);
            }
        }
        Ok(None)
    }

    /// Writes leaf `i` of `parent`; from now on it is read from the file.
    fn leaf(&mut self, parent: &mut Node, i: usize) -> Result<()> {
        let leaf = parent.children[i].clone().expect("looked at by the caller");
        let page = save(&leaf, self.space, self.out)?;
        parent.image.set_child(i, page);
        parent.children[i] = None;
        self.w.dirty_bytes -= leaf.image.len();
        self.budget = self.budget.saturating_sub(leaf.image.len());
        self.spilled.push(leaf);
        Ok(())
    }

    /// Puts the spilled leaves back into memory: nobody has seen the tree without them.
    fn take_back(&mut self, root: &mut Arc<Node>) {
        for leaf in std::mem::take(&mut self.spilled) {
            let page = *leaf.saved.get().expect("it was spilled");
            self.space.give_back(page.id, page.units);
            let mut link = &mut *root;
            loop {
                let node = self.w.own(link);
                let i = node
                    .page()
                    .child_for(self.order, &leaf.page().key(0).to_vec());
                if node.page().level() == 1 {
                    // Without the place that it has lost.
                    node.children[i] = Some(self.w.node(leaf.image.clone(), Vec::new()));
                    break;
                }
                link = node.children[i].as_mut().expect("owned on the way down");
            }
        }
    }
}
