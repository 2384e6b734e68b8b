//! Free space may hold what was never sealed, or was under a key that is to be forgotten. Checkpoints
//! write zeros there, so much each, once all pages given up for that are free.
//!
//! What is free as a checkpoint writes its pages is named by neither of the two metas on disk and
//! read by no view: it may be overwritten, with zeros as with pages.

use super::page::UNIT;
use super::space::Space;

/// Units that one checkpoint wipes at most: 64 MiB.
const WIPED_UNITS_MAX: u64 = (64 << 20) / UNIT as u64;

/// How far the wiping has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wipe {
    /// The checkpoint that began after the last old page was given up.
    pub(super) after: u64,
    pub(super) from: u64,
    /// Nothing is left in free space, and nothing behind it.
    pub(super) done: bool,
}

impl Wipe {
    pub(crate) fn is_done(&self) -> bool {
        self.done
    }

    /// Says what to wipe now, start and length, and moves on. `file_units` is how long the file is,
    /// beyond what the checkpoint keeps of it perhaps.
    pub(super) fn next(&mut self, space: &Space, file_units: u64) -> Vec<(u64, u64)> {
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
