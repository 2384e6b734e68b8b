//! Giving the end of the page file back, in steps: what lies there is moved to the front, by the
//! checkpoint after the last step; two more checkpoints, and the end is cut off.

use super::Store;
use crate::Result;
use crate::btree::Budget;

/// Of one step: well below a millisecond's work while the pages are in the page cache.
const LINKS_PER_STEP: usize = 2048;
const BYTES_PER_STEP: usize = 256 << 10;

/// How far a pass over the trees has come.
#[derive(Debug)]
pub(super) struct Relocation {
    /// Pages that end behind this unit move.
    limit: u64,
    /// Index in the order of the trees.
    tree: usize,
    from: Vec<u8>,
}

impl Store {
    /// Bytes by which the page file could be shorter; `None` while a checkpoint runs.
    pub fn surplus_bytes(&self) -> Option<u64> {
        self.file.surplus_bytes()
    }

    /// Has a bounded number of pages moved with the next checkpoint; `true` at the end of a pass.
    /// Does nothing while a checkpoint runs or memory of the last one is still held.
    pub fn relocate_step(&mut self) -> Result<bool> {
        if self.file.checkpoint_running() || self.releasing {
            return Ok(false);
        }
        let limit = self.file.shortest();
        let pass = self.relocation.get_or_insert(Relocation {
            limit,
            tree: 0,
            from: Vec::new(),
        });
        let mut budget = Budget {
            links: LINKS_PER_STEP,
            bytes: BYTES_PER_STEP,
        };
        let root = &mut self.root;
        let trees = [&mut root.keys, &mut root.revisions, &mut root.side];
        for (i, tree) in trees.into_iter().enumerate().skip(pass.tree) {
            let next = self
                .file
                .relocate(tree, pass.limit, &pass.from, &mut budget)?;
            pass.tree = i;
            if let Some(next) = next {
                pass.from = next;
                return Ok(false);
            }
            pass.from.clear();
        }
        self.relocation = None;
        self.dirty = true;
        Ok(true)
    }

    /// Has the next checkpoint made though nothing has changed: what was freed before the last one
    /// may be reused, or cut off, with it.
    pub fn settle_space(&mut self) {
        self.dirty = true;
    }
}
