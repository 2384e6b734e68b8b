//! Free space may hold data that was never sealed, or is under a key to be forgotten. Once all
//! pages given up for that reason are free, checkpoints write zeros there, a limited part each.
//!
//! Neither meta on disk refers to what is free while a checkpoint writes its pages, and no view
//! reads it: it may be overwritten, with zeros as well as with pages.

use super::Space;
use crate::btree::node::page::UNIT;

/// Most units that one checkpoint wipes: 64 MiB.
const WIPED_UNITS_MAX: u64 = (64 << 20) / UNIT as u64;

/// Progress of the wiping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wipe {
    /// The checkpoint that began after the last old page was given up.
    pub(crate) after: u64,
    pub(crate) from: u64,
    /// Nothing is left in free space or behind it.
    pub(crate) done: bool,
}

impl Wipe {
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// The extents to wipe now, start and length; moves forward. `file_units` is the length of the
    /// file, perhaps more than the checkpoint keeps of it.
    pub(in crate::btree) fn next(&mut self, space: &Space, file_units: u64) -> Vec<(u64, u64)> {
        let mut extents = Vec::new();
        if !space.is_settled_through(self.after) {
            return extents;
        }
        let mut left = WIPED_UNITS_MAX;
        while let Some((start, units)) = space.free_from(self.from) {
            if left == 0 {
                return extents;
            }
            let now = units.min(left);
            extents.push((start, now));
            self.from = start + now;
            left -= now;
        }
        // A checkpoint cuts the file no shorter than the one before needs it.
        self.done = file_units <= space.units();
        extents
    }
}
