//! What slow readers cost. A reader's view keeps pages from reuse that no newer state needs.

use std::ops::ControlFlow;
use std::time::Duration;

use storage::mvcc::Stats;

/// Views hold back much from one part in this many of the file on, and from so many bytes on.
const MUCH_PART: u64 = 16;
const MUCH_BYTES: u64 = 16 << 20;

/// How long the removal of compacted rows waits for readers that hold back much. The hash of a
/// compaction is given up after that.
pub const PATIENCE_WITH_READERS: Duration = Duration::from_secs(60);

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

/// How long a hash may hold space back. It walks over the whole store, and yields to clients.
#[derive(Debug, Default)]
pub struct HashPatience {
    much_since: Option<Duration>,
}

impl HashPatience {
    /// Breaks off if the hash is to be given up. `now`: by a monotonic clock.
    pub fn look(&mut self, now: Duration, held: HeldBack) -> ControlFlow<()> {
        let since = match held {
            HeldBack::Little => {
                self.much_since = None;
                return ControlFlow::Continue(());
            }
            HeldBack::Much => *self.much_since.get_or_insert(now),
            HeldBack::Needed => return ControlFlow::Break(()),
        };
        if now.saturating_sub(since) < PATIENCE_WITH_READERS {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_may_hold_much_back_for_a_minute_and_nothing_that_is_needed() {
        let mut patience = HashPatience::default();
        let mut goes_on = |second, held| {
            let look = patience.look(Duration::from_secs(second), held);
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
