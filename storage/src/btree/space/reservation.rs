//! Disk space for the next checkpoint. Copy-on-write needs space to free space. So space for the
//! changed nodes is reserved before there are many, and some more for the deletes and compactions
//! that make room when the disk is full. The first failure to reserve comes early enough to refuse
//! requests that only add data.
//!
//! The reservation is behind the end of the file and does not change its length. For the disk,
//! writing there is no growth and needs no new space.

use std::path::Path;

use super::Space;
use crate::btree::node::page::UNIT;
use crate::vfs::{File, is_full};
use crate::{Error, Result};

/// Reserved beyond what the changed nodes take: for entries in flight when the disk is found full,
/// and for those that free space.
const RESERVE_UNITS: u64 = (4 << 20) / UNIT as u64;
/// Reservations grow in steps of this size.
const STEP_UNITS: u64 = (4 << 20) / UNIT as u64;

#[derive(Debug, Default)]
pub(crate) struct Reservation {
    /// The disk holds space for this many units of the file.
    reserved: u64,
    /// The last reservation failed.
    short: bool,
    /// End of the file and free units in it, as last seen: a running checkpoint has them for
    /// itself, and what it writes was counted before.
    end: u64,
    free: u64,
    /// Units of the lists of free space at that time. Any checkpoint may write them anew, in one run:
    /// in a large file they are longer than any free run, and than the reserve.
    list: u64,
}

impl Reservation {
    pub(crate) fn is_short(&self) -> bool {
        self.short
    }

    pub(crate) fn ran_out(&mut self) {
        self.short = true;
    }

    /// The file was cut, and with it the reservation behind its end.
    pub(crate) fn forget(&mut self) {
        self.reserved = 0;
    }

    pub(crate) fn note(&mut self, space: &Space) {
        self.end = space.units();
        self.free = space.free_now();
        self.list = space.list_units();
    }

    /// Free units count only half for dirty nodes: longer runs may not fit into them.
    pub(crate) fn reserve(
        &mut self,
        file: &dyn File,
        path: &Path,
        dirty_bytes: u64,
        again: bool,
    ) -> Result<()> {
        if self.short && !again {
            return Ok(());
        }
        let dirty = dirty_bytes / UNIT as u64;
        let dirty = dirty.saturating_sub(self.free / 2);
        let needed = self.end + dirty + self.list + RESERVE_UNITS;
        if needed > self.reserved {
            let from = self.reserved.max(self.end);
            for units in [needed + STEP_UNITS, needed] {
                match file.reserve(from * UNIT as u64, units * UNIT as u64) {
                    Ok(()) => {
                        self.reserved = units;
                        break;
                    }
                    Err(error) if is_full(&error) => {}
                    Err(error) => return Err(Error::io("reserve", path)(error)),
                }
            }
        }
        self.short = needed > self.reserved;
        Ok(())
    }

    /// True if this many bytes of changed nodes can almost certainly be written. Not quite: free
    /// space may be in pieces that are too small.
    pub(crate) fn holds(&self, space: &Space, dirty_bytes: u64) -> bool {
        let behind = self.reserved.saturating_sub(space.units());
        let needed = dirty_bytes / UNIT as u64 + space.list_units();
        !self.short || needed <= behind + space.free_now()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vfs::sim::SimVfs;
    use crate::vfs::{Open, Vfs};

    #[test]
    fn there_is_space_for_the_lists_of_free_space_beyond_the_reserve() {
        let mut space = Space::new();
        space.units = 100_000;
        for run in 0..3000 {
            space.give_back(10 + 4 * run, 1);
        }
        let list = space.list_units();
        assert!(list > 1, "{list} units");
        let (vfs, dir) = (SimVfs::new(1), Path::new("/store"));
        vfs.create_dir_all(dir).unwrap();
        let path = dir.join("pages");
        let file = vfs.open(&path, Open::New).unwrap();
        let is_short = |missing: u64| {
            let needed = space.units() + list + RESERVE_UNITS;
            vfs.set_capacity((needed - missing) * UNIT as u64);
            let mut reservation = Reservation::default();
            reservation.note(&space);
            reservation.reserve(&*file, &path, 0, true).unwrap();
            reservation.is_short()
        };
        assert!(is_short(1));
        assert!(!is_short(0));
    }
}
