//! Reads that must not wait for the disk, for threads that others wait for.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};

/// While no page is missing, one in so many pages is asked for.
const ASKED_ONE_IN: u32 = 64;
/// Pages that are all asked for after one was missing.
const ASKED_AFTER_A_MISS: u32 = 4096;

thread_local! {
    static READS: Cell<Reads> = const { Cell::new(Reads::All) };
    static SINCE_ASKED: Cell<u32> = const { Cell::new(0) };
}

/// Which reads of this thread are allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    All,
    FromMemory,
    /// Only from memory, and one of another page was refused.
    Refused,
}

/// Runs `read`, which reads nothing from the disk. `None`: it came to a page that is not in memory,
/// and its result was an error. A page that was read since the start counts as in memory until
/// [`Residency`] finds that pages are missing.
pub fn from_memory<T>(read: impl FnOnce() -> T) -> Option<T> {
    let _allowed_again = Restore(READS.replace(Reads::FromMemory));
    let result = read();
    (READS.get() != Reads::Refused).then_some(result)
}

/// False if this thread may read only what is in memory.
#[inline]
pub(super) fn may_wait() -> bool {
    READS.get() == Reads::All
}

/// Tells [`from_memory`] that a page was refused.
pub(super) fn refuse() {
    READS.set(Reads::Refused);
}

/// Whether pages tend to be missing from memory, as they are after a start, and all the time if the
/// file is larger than the memory left for it. To ask for each page costs more than most reads: so
/// few are asked for, until one is missing.
#[derive(Debug, Default)]
pub(super) struct Residency {
    /// Pages still to be asked for, each of them, where the answer changes what is done. Threads may
    /// lose each other's changes.
    to_ask: AtomicU32,
}

impl Residency {
    /// True if one was missing not long ago.
    #[inline]
    pub(super) fn is_doubtful(&self) -> bool {
        self.to_ask.load(Ordering::Relaxed) > 0
    }

    /// True if a page is missing. False if it is in memory, or was not asked for.
    #[inline]
    pub(super) fn seems_missing(&self, is_resident: impl FnOnce() -> bool) -> bool {
        (self.is_doubtful() || is_its_turn()) && self.is_missing(is_resident)
    }

    /// Asks for one page in [`ASKED_ONE_IN`]: if it is missing, others may be missing, too.
    #[inline]
    pub(super) fn sample(&self, is_resident: impl FnOnce() -> bool) {
        if is_its_turn() {
            self.is_missing(is_resident);
        }
    }

    /// True if a page is missing.
    pub(super) fn is_missing(&self, is_resident: impl FnOnce() -> bool) -> bool {
        let is_resident = is_resident();
        let to_ask = if is_resident {
            self.to_ask.load(Ordering::Relaxed).saturating_sub(1)
        } else {
            ASKED_AFTER_A_MISS
        };
        self.to_ask.store(to_ask, Ordering::Relaxed);
        !is_resident
    }
}

fn is_its_turn() -> bool {
    let since = SINCE_ASKED.get() + 1;
    SINCE_ASKED.set(since % ASKED_ONE_IN);
    since == ASKED_ONE_IN
}

struct Restore(Reads);

impl Drop for Restore {
    fn drop(&mut self) {
        READS.set(self.0);
    }
}
