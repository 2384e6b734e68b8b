//! A walk over all trees, in steps, that has unfit pages written again.

use crate::Result;
use crate::btree::{UNIT, Unfit};
use crate::mvcc::Store;

/// Position of a walk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    /// Index in the order of [`Root::trees_mut`](crate::mvcc::Root::trees_mut).
    tree: usize,
    from: Vec<u8>,
}

impl Store {
    /// Looks at `budget` bytes of pages from `place` on, and moves it; the next checkpoint writes
    /// the unfit ones again. Returns the bytes looked at, and whether the walk is over. Only while
    /// no checkpoint runs.
    pub(crate) fn rewrite_step(
        &mut self,
        place: &mut Place,
        unfit: Unfit,
        budget: u64,
    ) -> Result<(u64, bool)> {
        let units = (budget / UNIT as u64).max(1);
        let mut left = units;
        self.touch();
        let mut is_over = true;
        for tree in self.root.trees_mut().skip(place.tree) {
            if left == 0 {
                is_over = false;
                break;
            }
            match self.file.rewrite(tree, unfit, &place.from, &mut left)? {
                Some(from) => {
                    place.from = from;
                    is_over = false;
                    break;
                }
                None => {
                    place.from.clear();
                    place.tree += 1;
                }
            }
        }
        Ok(((units - left) * UNIT as u64, is_over))
    }
}
