//! What slow readers cost. A reader's view keeps pages from reuse that no newer state needs.

use std::ops::ControlFlow;
use std::time::Duration;

use storage::mvcc::Stats;

/// Views hold back much from one part in this many of the file on, and from so many bytes on.
const MUCH_PART: u64 = 16;
const MUCH_BYTES: u64 = 16 << 20;

/// How long the removal of compacted rows waits for readers that hold back much. The hash of a
/// compaction is given up after that, unless members compare it.
pub const PATIENCE_WITH_READERS: Duration = Duration::from_secs(60);

/// A hash that members compare may hold much back for as long as it takes to read the file at this
/// rate: a tenth of what half of a processor reads from a disk, and half of what it does with small
/// values if each row must be looked up, because too many were superseded to remember them.
const COMPARED_BYTES_PER_SECOND: u64 = 16 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBack {
    Little,
    /// The file is longer because of it.
    Much,
    /// The disk is full, or nearly.
    Needed,
}

impl HeldBack {
    /// Views hold back `held_bytes` of a file of `file_bytes`. `is_short`: the disk is.
    pub fn of(held_bytes: u64, file_bytes: u64, is_short: bool) -> HeldBack {
        if held_bytes > 0 && is_short {
            HeldBack::Needed
        } else if held_bytes >= (file_bytes / MUCH_PART).max(MUCH_BYTES) {
            HeldBack::Much
        } else {
            HeldBack::Little
        }
    }
}

/// Bytes of the file that views hold back.
pub fn held_bytes(stats: &Stats) -> u64 {
    // They are those of the last checkpoint; the views may have gone since.
    if stats.views > 0 {
        stats.viewed_bytes
    } else {
        0
    }
}

/// True if a hash works as on an idle machine: one that members compare must come to its end, and
/// what it holds back grows until then.
pub fn hurries_hash(is_compared: bool, held: HeldBack) -> bool {
    is_compared && held == HeldBack::Much
}

/// How long a hash may hold space back. It walks over the whole store, and yields to clients.
#[derive(Debug)]
pub struct HashPatience {
    is_compared: bool,
    /// Set while much is held back: when it is given up. The file of that time counts, so that one
    /// that becomes longer brings no more time.
    until: Option<Duration>,
}

impl HashPatience {
    /// `is_compared`: members compare the hashes of compactions.
    pub fn new(is_compared: bool) -> HashPatience {
        HashPatience {
            is_compared,
            until: None,
        }
    }

    /// Breaks off if the hash is to be given up. `now`: by a monotonic clock. `file_bytes`: of the
    /// store.
    pub fn look(&mut self, now: Duration, held: HeldBack, file_bytes: u64) -> ControlFlow<()> {
        let longest = self.longest(file_bytes);
        let until = match held {
            HeldBack::Little => {
                self.until = None;
                return ControlFlow::Continue(());
            }
            HeldBack::Much => *self.until.get_or_insert(now + longest),
            HeldBack::Needed => return ControlFlow::Break(()),
        };
        if now < until {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }

    fn longest(&self, file_bytes: u64) -> Duration {
        let whole = Duration::from_secs(file_bytes / COMPARED_BYTES_PER_SECOND);
        if self.is_compared {
            whole.max(PATIENCE_WITH_READERS)
        } else {
            PATIENCE_WITH_READERS
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_may_hold_much_back_for_a_minute_and_nothing_that_is_needed() {
        let mut patience = HashPatience::new(false);
        let mut goes_on = |second, held| {
            let look = patience.look(Duration::from_secs(second), held, u64::MAX);
            look.is_continue()
        };
        assert!(goes_on(1, HeldBack::Much));
        assert!(goes_on(60, HeldBack::Much));
        assert!(goes_on(65, HeldBack::Little));
        assert!(goes_on(70, HeldBack::Much), "it begins anew");
        assert!(goes_on(129, HeldBack::Much));
        assert!(!goes_on(130, HeldBack::Much));
        assert!(!goes_on(131, HeldBack::Needed));
    }

    #[test]
    fn a_hash_that_members_compare_hurries_and_has_time_for_the_file() {
        const HELD: HeldBack = HeldBack::Much;
        assert!(hurries_hash(true, HELD) && !hurries_hash(false, HELD));
        assert!(!hurries_hash(true, HeldBack::Little));
        let goes_on = |patience: &mut HashPatience, second: u64, held: HeldBack, file: u64| {
            let file_bytes = file * COMPARED_BYTES_PER_SECOND;
            let look = patience.look(Duration::from_secs(second), held, file_bytes);
            look.is_continue()
        };
        let mut small = HashPatience::new(true);
        assert!(goes_on(&mut small, 1, HELD, 10));
        assert!(goes_on(&mut small, 60, HELD, 10));
        assert!(!goes_on(&mut small, 61, HELD, 10), "a minute");
        let mut large = HashPatience::new(true);
        assert!(goes_on(&mut large, 1, HELD, 1000));
        assert!(goes_on(&mut large, 1000, HELD, 5000));
        assert!(!goes_on(&mut large, 1001, HELD, 5000), "the file grows");
        let mut short = HashPatience::new(true);
        assert!(!goes_on(&mut short, 1, HeldBack::Needed, 1000));
    }

    #[test]
    fn it_is_measured_by_the_file_and_by_the_need() {
        const MIB: u64 = 1 << 20;
        let of = |held, file, short| HeldBack::of(held * MIB, file * MIB, short);
        assert_eq!(of(49, 800, false), HeldBack::Little);
        assert_eq!(of(50, 800, false), HeldBack::Much);
        assert_eq!(of(15, 20, false), HeldBack::Little);
        assert_eq!(of(16, 20, false), HeldBack::Much);
        assert_eq!(of(1, 800, true), HeldBack::Needed);
        assert_eq!(of(0, 800, true), HeldBack::Little);
    }
}
