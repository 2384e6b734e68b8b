//! Automatic compaction (`--auto-compaction-mode`): which revision to compact at, and when. Plain
//! values: the shell calls `turn`, proposes the result, and reports success with `done`.

use std::collections::VecDeque;
use std::time::Duration;

use crate::basics::clock::Now;
use crate::config::AutoCompaction;

/// Time between two looks of `revision` mode.
const REVISION_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// `periodic` mode compacts once per period, but at least this often.
const PERIODIC_INTERVAL_MAX: Duration = Duration::from_secs(60 * 60);
/// Number of times that `periodic` mode notes the revision between two compactions.
const SAMPLES_PER_INTERVAL: u32 = 10;

pub(crate) struct Compactor {
    mode: AutoCompaction,
    next: Now,
    /// Noted revisions, oldest first. They span the period.
    samples: VecDeque<i64>,
    compacted_at: Now,
    /// The last revision that is `done`.
    compacted: i64,
}

impl Compactor {
    /// Returns `None` if automatic compaction is off.
    pub(crate) fn new(mode: AutoCompaction, now: Now) -> Option<Compactor> {
        if mode == AutoCompaction::Off {
            return None;
        }
        let samples = VecDeque::new();
        Some(Compactor {
            mode,
            next: now,
            samples,
            compacted_at: now,
            compacted: 0,
        })
    }

    /// The time of the next turn.
    pub(crate) fn next(&self) -> Now {
        self.next
    }

    /// The revision to compact at, if a compaction is due. `current` is the store's revision. As in
    /// etcd, a compaction that fails, or that this member does not lead, is due again next time.
    pub(crate) fn turn(&mut self, now: Now, current: i64) -> Option<i64> {
        if now < self.next {
            return None;
        }
        let revision = match self.mode {
            AutoCompaction::Off => return None,
            AutoCompaction::Revision(kept) => {
                self.next = now + REVISION_INTERVAL;
                current - kept
            }
            AutoCompaction::Periodic(period) => {
                let interval = period.min(PERIODIC_INTERVAL_MAX);
                let between = interval / SAMPLES_PER_INTERVAL;
                self.next = now + between;
                self.samples.push_back(current);
                // With this many samples the oldest is one period old.
                let kept = (period.as_nanos() / between.as_nanos().max(1)) as usize + 1;
                if self.samples.len() <= kept {
                    return None;
                }
                let oldest = self.samples.pop_front()?;
                if now - self.compacted_at < interval {
                    return None;
                }
                oldest
            }
        };
        if revision <= 0 || revision == self.compacted {
            return None;
        }
        Some(revision)
    }

    /// The store is compacted at this revision that `turn` returned.
    pub(crate) fn done(&mut self, now: Now, revision: i64) {
        self.compacted_at = now;
        self.compacted = revision;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn revision_mode_keeps_so_many_revisions() {
        let mut compactor = Compactor::new(AutoCompaction::Revision(100), Now::ZERO).unwrap();
        assert_eq!(compactor.turn(Now::ZERO, 90), None);
        assert_eq!(
            compactor.turn(4 * MINUTE, 1_000),
            None,
            "looks every five minutes"
        );
        assert_eq!(compactor.turn(5 * MINUTE, 1_000), Some(900));
        assert_eq!(
            compactor.turn(10 * MINUTE, 1_000),
            Some(900),
            "the first time it failed"
        );
        compactor.done(10 * MINUTE, 900);
        assert_eq!(
            compactor.turn(15 * MINUTE, 1_000),
            None,
            "nothing new to drop"
        );
    }

    #[test]
    fn periodic_mode_keeps_the_history_of_its_period() {
        let period = 10 * MINUTE;
        let mut compactor = Compactor::new(AutoCompaction::Periodic(period), Now::ZERO).unwrap();
        let mut compactions = Vec::new();
        for minute in 0..40u32 {
            // One revision a minute, so that revisions and minutes compare easily.
            if let Some(revision) = compactor.turn(minute * MINUTE, i64::from(minute) + 1) {
                assert!(
                    revision <= i64::from(minute) + 1 - 10,
                    "younger than the period"
                );
                compactor.done(minute * MINUTE, revision);
                compactions.push(revision);
            }
        }
        assert_eq!(compactions.len(), 3, "once per period: {compactions:?}");
    }

    #[test]
    fn periodic_mode_tries_again_soon_what_failed() {
        let mut compactor =
            Compactor::new(AutoCompaction::Periodic(10 * MINUTE), Now::ZERO).unwrap();
        let mut turn = |minute: u32, is_done| {
            let revision = compactor.turn(minute * MINUTE, i64::from(minute) + 1);
            if let Some(revision) = revision.filter(|_| is_done) {
                compactor.done(minute * MINUTE, revision);
            }
            revision
        };
        assert!((0..11).all(|minute| turn(minute, false).is_none()));
        // Another member leads, or there is no majority.
        assert_eq!(turn(11, false), Some(1));
        assert_eq!(turn(12, true), Some(2));
        assert!((13..22).all(|minute| turn(minute, true).is_none()));
        assert_eq!(turn(22, true), Some(12));
    }
}
