//! Giving the end of the page file back, in steps: what lies there is moved to the front, by the
//! checkpoint after the last step; two more checkpoints, and the end is cut off.

use super::Store;
use super::rewrite::Place;
use crate::Result;
use crate::btree::Unfit;

/// Pages looked at in one step: below a millisecond's work while they are in the page cache.
const BYTES_PER_STEP: u64 = 512 << 10;

/// A pass over the trees.
#[derive(Debug)]
pub(super) struct Relocation {
    /// Pages that end behind this unit move.
    limit: u64,
    place: Place,
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
        let mut pass = self.relocation.take().unwrap_or(Relocation {
            limit,
            place: Place::default(),
        });
        let unfit = Unfit::EndsBehind(pass.limit);
        let (_, over) = self.rewrite_step(&mut pass.place, unfit, BYTES_PER_STEP)?;
        self.relocation = (!over).then_some(pass);
        Ok(over)
    }

    /// Has the next checkpoint made though nothing has changed: what was freed before the last one
    /// may be reused, or cut off, with it.
    pub fn settle_space(&mut self) {
        self.unsaved = self.unsaved.max(1);
    }
}
