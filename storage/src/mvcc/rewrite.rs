//! A walk over all trees, in steps, that has unfit pages written again.

use super::{Root, Store};
use crate::Result;
use crate::btree::{UNIT, Unfit};

/// Number of trees of a root.
const TREES: usize = 3;

/// Position of a walk.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    /// Index in the order of the trees.
    tree: usize,
    from: Vec<u8>,
}

impl Store {
    /// Looks at `budget` bytes of pages from `place` on, and moves it; the next checkpoint writes
    /// the unfit ones again. Returns the bytes looked at, and whether the walk is over. Only while
    /// no checkpoint runs.
    pub(super) fn rewrite_step(
        &mut self,
        place: &mut Place,
        unfit: Unfit,
        budget: u64,
    ) -> Result<(u64, bool)> {
        let units = (budget / UNIT as u64).max(1);
        let mut left = units;
        self.touch();
        let Root {
            keys,
            revisions,
            side,
            ..
        } = &mut self.root;
        let trees: [_; TREES] = [keys, revisions, side];
        for tree in trees.into_iter().skip(place.tree) {
            if left == 0 {
                break;
            }
            match self.file.rewrite(tree, unfit, &place.from, &mut left)? {
                Some(from) => {
                    place.from = from;
                    break;
                }
                None => {
                    place.from.clear();
                    place.tree += 1;
                }
            }
        }
        Ok(((units - left) * UNIT as u64, place.tree == TREES))
    }
}
