//! The rate at which a snapshot is sent to another member.
//!
//! A voter gets it at full speed: until it is back, the cluster is one failure closer to standing
//! still. A learner can wait. While clients write, it gets its snapshot slowly, so that clients hardly
//! notice the load on both members and on a disk that they may share. But the log grows meanwhile,
//! and the learner needs all of that afterwards. So the rate is always well above that of the writes,
//! and it grows with the time that the transfer takes.

use std::time::Duration;

use tokio::time::Instant;

/// Bytes per second at first, if clients write less than that.
const FIRST: u64 = 4 << 20;
/// The least rate doubles after each such period.
const DOUBLED_EVERY: Duration = Duration::from_secs(15);
/// The rate is at least this many halves of the rate at which clients write.
const HALVES_OF_WRITES: u64 = 3;
/// The rate of writes is measured over so long a time.
const MEASURED_OVER: Duration = Duration::from_millis(500);
/// Timers are not finer than this. Shorter waits are added up.
const SHORTEST: Duration = Duration::from_millis(1);
/// Time lost while the peer took nothing is made up for, up to this much.
const DEBT_MAX: Duration = Duration::from_millis(100);
/// Clients count as idle after this time without a write.
const QUIET_AFTER: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Pace {
    /// For a learner.
    is_slow: bool,
    began: Instant,
    /// When the next piece may leave.
    due: Instant,
    writes: Writes,
}

/// How fast clients write, in bytes of log per second.
#[derive(Debug)]
struct Writes {
    /// Written up to here when last looked at, and when that last changed.
    bytes: u64,
    moved: Option<Instant>,
    /// Where the present measurement began.
    from: (Instant, u64),
    rate: u64,
}

impl Pace {
    /// `log_bytes` is what was written to the log so far.
    pub(super) fn begin(now: Instant, log_bytes: u64, is_slow: bool) -> Pace {
        Pace {
            is_slow,
            began: now,
            due: now,
            writes: Writes {
                bytes: log_bytes,
                moved: None,
                from: (now, log_bytes),
                rate: 0,
            },
        }
    }

    /// The wait before the next piece, after one of `piece` bytes has left.
    pub(super) fn next(&mut self, now: Instant, log_bytes: u64, piece: usize) -> Duration {
        self.writes.note(now, log_bytes);
        if !self.is_slow || self.writes.are_over(now) {
            self.due = now;
            return Duration::ZERO;
        }
        let doublings = (now - self.began).as_secs() / DOUBLED_EVERY.as_secs();
        let least = FIRST << doublings.min(u64::from(FIRST.leading_zeros() - 1));
        let rate = least.max(self.writes.rate.saturating_mul(HALVES_OF_WRITES) / 2);
        let takes = Duration::from_secs_f64(piece as f64 / rate as f64);
        let earliest = now.checked_sub(DEBT_MAX).unwrap_or(self.due);
        self.due = self.due.max(earliest) + takes;
        let wait = self.due.saturating_duration_since(now);
        if wait < SHORTEST {
            Duration::ZERO
        } else {
            wait
        }
    }
}

impl Writes {
    fn note(&mut self, now: Instant, bytes: u64) {
        if bytes != self.bytes {
            self.bytes = bytes;
            self.moved = Some(now);
        }
        let (began, before) = self.from;
        let took = now - began;
        if took >= MEASURED_OVER {
            let measured = ((bytes - before) as f64 / took.as_secs_f64()) as u64;
            // After a short lull, clients go on as before.
            self.rate = measured.max(self.rate / 2);
            self.from = (now, bytes);
        }
    }

    fn are_over(&self, now: Instant) -> bool {
        self.moved.is_none_or(|moved| now - moved >= QUIET_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIECE: usize = 32 << 10;
    const MIB: u64 = 1 << 20;

    /// Bytes per second sent between two times, in seconds, while clients write `writes` bytes per
    /// second.
    fn rate(pace: &mut Pace, began: Instant, (from, to): (u64, u64), writes: u64) -> u64 {
        let (mut now, mut sent) = (began + Duration::from_secs(from), 0);
        let end = began + Duration::from_secs(to);
        while now < end {
            let log_bytes = ((now - began).as_secs_f64() * writes as f64) as u64;
            // To send it takes a moment, too.
            now += pace.next(now, log_bytes, PIECE) + Duration::from_micros(20);
            sent += PIECE as u64;
        }
        sent / (to - from)
    }

    #[test]
    fn a_learner_waits_while_clients_write_and_less_and_less() {
        let began = Instant::now();
        let mut pace = Pace::begin(began, 0, true);
        for (second, expected) in [(1, 4), (16, 8), (31, 16), (46, 32)] {
            let rate = rate(&mut pace, began, (second, second + 10), MIB / 10);
            let is_near = rate > expected * MIB * 9 / 10 && rate < expected * MIB * 11 / 10;
            assert!(is_near, "{} KiB/s at {second}", rate >> 10);
        }
        let later = began + Duration::from_secs(100_000_000);
        assert_eq!(pace.next(later, u64::MAX / 2, PIECE), Duration::ZERO);
    }

    #[test]
    fn the_rate_is_always_well_above_that_of_the_writes() {
        for writes in [1, 3, 10, 40, 100] {
            let began = Instant::now();
            let mut pace = Pace::begin(began, 0, true);
            rate(&mut pace, began, (0, 1), writes * MIB);
            let rate = rate(&mut pace, began, (1, 11), writes * MIB);
            let least = (writes * MIB * 3 / 2).max(4 * MIB);
            assert!(rate >= least * 95 / 100, "{} for {writes}", rate / MIB);
            assert!(rate <= least * 105 / 100, "{} for {writes}", rate / MIB);
        }
    }

    #[test]
    fn a_voter_waits_for_nobody() {
        let began = Instant::now();
        let mut pace = Pace::begin(began, 0, false);
        for second in 1..100 {
            let now = began + Duration::from_secs(second);
            assert_eq!(pace.next(now, second * MIB, PIECE), Duration::ZERO);
        }
    }

    #[test]
    fn nobody_waits_for_clients_that_have_stopped_writing() {
        let began = Instant::now();
        let mut pace = Pace::begin(began, 7, true);
        assert_eq!(pace.next(began, 7, PIECE), Duration::ZERO, "nobody writes");
        let first = pace.next(began, 8, PIECE);
        assert!(first > Duration::from_millis(7), "{first:?}");
        let later = |millis| began + Duration::from_millis(millis);
        assert!(pace.next(later(999), 8, 20 * PIECE) > Duration::ZERO);
        assert_eq!(pace.next(later(1000), 8, PIECE), Duration::ZERO);
        assert!(pace.next(later(1001), 9, PIECE) > Duration::ZERO);
    }
}
