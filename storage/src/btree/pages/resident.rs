//! Reads that must not wait for the disk, for threads that others wait for.

use std::cell::Cell;

thread_local! {
    static READS: Cell<Reads> = const { Cell::new(Reads::All) };
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
/// and its result was an error. A page counts as in memory if it was read since the start, though the
/// system may have dropped it since.
pub fn from_memory<T>(read: impl FnOnce() -> T) -> Option<T> {
    let _allowed_again = Restore(READS.replace(Reads::FromMemory));
    let result = read();
    (READS.get() != Reads::Refused).then_some(result)
}

/// True if the page that `is_resident` describes may not be read now. Then the read fails.
pub(super) fn refuses(is_resident: impl FnOnce() -> bool) -> bool {
    let refuses = READS.get() != Reads::All && !is_resident();
    if refuses {
        READS.set(Reads::Refused);
    }
    refuses
}

struct Restore(Reads);

impl Drop for Restore {
    fn drop(&mut self) {
        READS.set(self.0);
    }
}
