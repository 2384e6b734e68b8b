//! The rate at which a snapshot is sent to another member. While clients write, it is sent slowly,
//! so that clients hardly notice the load on both members and on a disk that they may share. But
//! the log is kept for the peer meanwhile, so the rate grows with the time the transfer takes.

use std::time::Duration;

use tokio::time::Instant;

/// Delay between pieces at first: about 4 MB a second.
const FIRST: Duration = Duration::from_millis(8);
/// The delay halves after each such period.
const HALVED_EVERY: Duration = Duration::from_secs(15);
/// Timers are not finer than this. A shorter delay counts as zero.
const SHORTEST: Duration = Duration::from_millis(1);
/// Clients count as idle after this time without a write.
const QUIET_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Pace {
    began: Instant,
    /// Index of the newest entry applied here.
    applied: u64,
    /// When `applied` last changed.
    moved: Option<Instant>,
}

impl Pace {
    pub(super) fn begin(now: Instant, applied: u64) -> Pace {
        Pace {
            began: now,
            applied,
            moved: None,
        }
    }

    /// The delay before the next piece.
    pub(super) fn next(&mut self, now: Instant, applied: u64) -> Duration {
        if applied != self.applied {
            self.applied = applied;
            self.moved = Some(now);
        }
        if self.moved.is_none_or(|moved| now - moved >= QUIET_AFTER) {
            return Duration::ZERO;
        }
        let halvings = (now - self.began).as_secs() / HALVED_EVERY.as_secs();
        let wait = FIRST / (1_u32 << halvings.min(u64::from(u32::BITS - 1)));
        if wait < SHORTEST {
            Duration::ZERO
        } else {
            wait
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_wait_while_clients_write_and_less_and_less() {
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut pace = Pace::begin(began, 7);
        assert_eq!(pace.next(began, 7), Duration::ZERO, "nobody writes");
        let waits = [0, 14, 15, 30, 45, 59, 60, 100_000_000];
        let waits = waits.map(|second| pace.next(at(second), second + 10).as_millis());
        assert_eq!(waits, [8, 8, 4, 2, 1, 1, 0, 0]);
    }

    #[test]
    fn pieces_wait_for_nobody_who_has_stopped_writing() {
        let began = Instant::now();
        let mut pace = Pace::begin(began, 7);
        assert_eq!(pace.next(began, 8), FIRST);
        let later = |millis| began + Duration::from_millis(millis);
        assert_eq!(pace.next(later(999), 8), FIRST);
        assert_eq!(pace.next(later(1000), 8), Duration::ZERO);
        assert_eq!(pace.next(later(1001), 9), FIRST);
    }
}
