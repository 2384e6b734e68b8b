//! The state that edits share: which nodes the writer owns, and which pages edits free.

use std::mem;
use std::sync::Arc;

use crate::Result;
use crate::btree::Pages;
use crate::btree::kind::TreeKind;
use crate::btree::node::image::Image;
use crate::btree::node::page::PageRef;
use crate::btree::node::{Node, Saved};

/// State shared by edits: where clean pages are read, and which pages edits free.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(in crate::btree) pages: Arc<Pages>,
    /// Number of the newest checkpoint begun.
    pub(in crate::btree) counter: u64,
    /// True while that checkpoint runs.
    pub(in crate::btree) running: bool,
    /// Runs that the trees used at the last `begin_checkpoint` or later, and no longer use.
    pub(in crate::btree) freed: Vec<PageRef>,
    /// Their total length, in units.
    pub(in crate::btree) freed_units: u64,
    /// Places of nodes that the running checkpoint holds and the trees no longer do. It may be
    /// giving them a place in the file now, or earlier, or later: only its end shows which run to
    /// free. The nodes themselves are not held, or memory would grow by everything replaced
    /// meanwhile.
    pub(in crate::btree) replaced: Vec<Arc<Saved>>,
    /// Bytes of the trees' nodes that no checkpoint begun holds.
    pub(in crate::btree) dirty_bytes: usize,
}

impl Writer {
    /// Makes `link` the writer's own; copies the node if anyone else can see it.
    #[inline]
    pub(in crate::btree) fn own<'n>(&mut self, link: &'n mut Arc<Node>) -> &'n mut Node {
        if link.born != self.counter {
            self.renew(link);
        }
        // Born since the last checkpoint began: a copy replaces the old node in `dirty_bytes`, and
        // no place on disk is given up.
        Arc::make_mut(link)
    }

    /// Replaces a node that a checkpoint holds.
    #[cold]
    fn renew(&mut self, link: &mut Arc<Node>) {
        let fresh = self.node(link.image.clone(), link.children.clone());
        let old = mem::replace(link, fresh);
        self.detach(old);
    }

    pub(in crate::btree) fn node(
        &mut self,
        image: Image,
        children: Vec<Option<Arc<Node>>>,
    ) -> Arc<Node> {
        self.dirty_bytes += image.len();
        Arc::new(Node {
            image,
            children,
            born: self.counter,
            saved: Arc::default(),
        })
    }

    /// The trees no longer use this node. Its children are handled elsewhere.
    pub(in crate::btree) fn detach(&mut self, node: Arc<Node>) {
        if node.born == self.counter {
            self.dirty_bytes -= node.image.len();
        } else if self.running {
            self.replaced.push(node.saved.clone());
        } else {
            let saved = *node.saved.get().expect("saved by the last checkpoint");
            self.give_up(saved);
        }
    }

    pub(in crate::btree) fn give_up(&mut self, page: PageRef) {
        self.freed_units += u64::from(page.units);
        self.freed.push(page);
    }

    /// Loads a page into memory in order to change it.
    pub(super) fn load(&mut self, kind: &TreeKind, page: PageRef, level: u8) -> Result<Arc<Node>> {
        let pages = self.pages.clone();
        let image = Image::from_disk(pages.read(page, kind, level)?.to_vec());
        let count = if level > 0 { image.page().count() } else { 0 };
        self.give_up(page);
        Ok(self.node(image, vec![None; count]))
    }

    /// Child `index` of a branch that the writer owns, loaded into memory.
    pub(in crate::btree) fn load_child<'n>(
        &mut self,
        kind: &TreeKind,
        parent: &'n mut Node,
        index: usize,
    ) -> Result<&'n mut Arc<Node>> {
        if parent.children[index].is_none() {
            let page = parent.page();
            let node = self.load(kind, page.child(index), page.level() - 1)?;
            parent.children[index] = Some(node);
        }
        Ok(parent.children[index].as_mut().expect("loaded above"))
    }

    /// Replaces the image of a node that the writer owns.
    pub(in crate::btree) fn set_image(&mut self, node: &mut Node, image: Image) {
        self.dirty_bytes = self.dirty_bytes + image.len() - node.image.len();
        node.image = image;
    }
}
