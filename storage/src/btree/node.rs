//! Nodes in memory and the links between them.

pub(super) mod image;
pub(super) mod key;
pub(super) mod page;

use std::sync::{Arc, OnceLock};

use image::Image;
use page::{Page, PageRef};

/// A node in memory. Only the writer changes it, and only while its `Arc` is not shared. All others
/// see it behind a shared `Arc`, so they never see it change.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) image: Image,
    /// Branches: one per entry; `None` when the child is on disk, where the entry says.
    /// Leaves: empty.
    pub(super) children: Vec<Option<Arc<Node>>>,
    /// The newest checkpoint begun when this node was made or last became the writer's own.
    /// Invariant: equal to the writer's `counter` exactly when no checkpoint begun holds the node.
    pub(super) born: u64,
    /// Outlives the node where the writer must know later what became of it.
    pub(super) saved: Arc<Saved>,
}

/// Where a checkpoint wrote a node. Set once, by the checkpoint's thread.
pub(super) type Saved = OnceLock<PageRef>;

impl Clone for Node {
    /// Only for `Arc::make_mut` in `Writer::own`: copies a node that no checkpoint holds.
    fn clone(&self) -> Node {
        debug_assert!(self.saved.get().is_none());
        Node {
            image: self.image.clone(),
            children: self.children.clone(),
            born: self.born,
            saved: Arc::default(),
        }
    }
}

impl Node {
    #[inline]
    pub(super) fn page(&self) -> Page<'_> {
        self.image.page()
    }
}

/// How a root is reached.
#[derive(Clone, Debug)]
pub(super) enum Link {
    Memory(Arc<Node>),
    Disk { page: PageRef, level: u8 },
}
