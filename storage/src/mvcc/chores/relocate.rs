//! Gives back the end of the page file, in steps. The checkpoint after the last step moves the
//! pages there to the front; after two more checkpoints the end is cut off.

use super::rewrite::Place;
use crate::Result;
use crate::btree::Unfit;
use crate::mvcc::Store;

/// A pass over the trees.
#[derive(Debug)]
pub(crate) struct Relocation {
    /// Pages that end behind this unit move.
    limit: u64,
    place: Place,
}

impl Store {
    /// Bytes by which the page file could be shorter; `None` while a checkpoint runs.
    pub fn surplus_bytes(&self) -> Option<u64> {
        self.file.surplus_bytes()
    }

    /// Looks at about `budget` bytes of pages, and marks those for the next checkpoint to move that
    /// should; `true` at the end of a pass. Does nothing while a checkpoint runs or memory of the
    /// last one is still held.
    pub fn relocate_step(&mut self, budget: u64) -> Result<bool> {
        if self.file.checkpoint_running() || self.releasing {
            return Ok(false);
        }
        let limit = self.file.shortest();
        let mut pass = self.relocation.take().unwrap_or(Relocation {
            limit,
            place: Place::default(),
        });
        let unfit = Unfit::EndsBehind(pass.limit);
        let (_, over) = self.rewrite_step(&mut pass.place, unfit, budget)?;
        self.relocation = (!over).then_some(pass);
        Ok(over)
    }

    /// Makes the next checkpoint happen even if nothing has changed: with it, space freed before
    /// the last one may be reused or cut off.
    pub fn settle_space(&mut self) {
        self.unsaved = self.unsaved.max(1);
    }
}
