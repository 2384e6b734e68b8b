//! When background work of the store begins, and in what portions: bounds, and one rule of cost.
//! Knows figures only, not the store.

use std::time::Duration;

use storage::mvcc::{ENTRY_BYTES_IN_MEMORY, Stats};

use crate::config::Config;

/// See [`Pace::dirty_bytes_to_checkpoint`].
pub(crate) const DIRTY_BYTES_TO_CHECKPOINT: u64 = 96 << 20;

/// A checkpoint that nothing forces writes at most one byte for so many that it brings.
const WORTH: u64 = 4;

/// While rows are removed, a checkpoint writes about one part in so many of what the store holds, and
/// no less than so much: the next ones write where it gave up places, and the file grows by little
/// more.
const PARTS_WHEN_REMOVING: u64 = 4;
const DIRTY_BYTES_WHEN_REMOVING: u64 = 32 << 20;

/// While space on the disk is low, so many bytes of log, or of changed pages, start a checkpoint: each
/// gives files of the log back, and fits into what the store has set aside.
const BYTES_TO_CHECKPOINT_WHEN_LOW: u64 = 1 << 20;

/// A simulation makes all of it small.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Bytes of log and of places in the page file for which a checkpoint is made that costs little
    /// beside them.
    pub gain_bytes_to_checkpoint: u64,
    /// Bytes of changed pages in memory that start a checkpoint: of the key tree, in the main, as
    /// history is written while it grows. Over a million keys all of that tree is less, and the
    /// length of the log decides, which costs some 120 B a put; over more keys this bounds memory.
    pub dirty_bytes_to_checkpoint: u64,
    /// Bytes of changed pages at which entries wait until a checkpoint under way is done.
    pub dirty_bytes_max: u64,
    /// Bytes of changed pages that one entry keeps in memory: it writes them when there are more.
    pub entry_bytes_in_memory: u64,
    /// Bytes of log entries since the last checkpoint that start another: bounds replay at start.
    pub log_bytes_to_checkpoint: u64,
    /// Entries since the last checkpoint that start another. None: bytes alone decide.
    pub entries_to_checkpoint: Option<u64>,
    /// Rows that one step of a compaction removes; entries are applied between steps.
    pub compact_step_rows: usize,
    /// Pause between two steps, unless the space is wanted.
    pub compact_pause: Duration,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            gain_bytes_to_checkpoint: 16 << 20,
            dirty_bytes_to_checkpoint: DIRTY_BYTES_TO_CHECKPOINT,
            dirty_bytes_max: 160 << 20,
            entry_bytes_in_memory: ENTRY_BYTES_IN_MEMORY,
            log_bytes_to_checkpoint: 128 << 20,
            entries_to_checkpoint: None,
            compact_step_rows: 256,
            compact_pause: Duration::ZERO,
        }
    }
}

impl Pace {
    /// As `--snapshot-count`, `--compaction-batch-limit` and `--compaction-sleep-interval` say.
    pub fn of(config: &Config) -> Pace {
        let usual = Pace::default();
        Pace {
            entries_to_checkpoint: config.checkpoint_entries,
            compact_step_rows: config
                .compaction_batch_limit
                .unwrap_or(usual.compact_step_rows),
            compact_pause: config.compaction_sleep_interval.unwrap_or_default(),
            ..usual
        }
    }

    /// As long as space on the disk is low.
    pub(super) fn when_low(self) -> Pace {
        let low = |usual: u64| usual.min(BYTES_TO_CHECKPOINT_WHEN_LOW);
        Pace {
            dirty_bytes_to_checkpoint: low(self.dirty_bytes_to_checkpoint),
            log_bytes_to_checkpoint: low(self.log_bytes_to_checkpoint),
            ..self
        }
    }

    /// As long as compacted rows are removed.
    pub(super) fn when_removing(self, stats: &Stats) -> Pace {
        let part = (stats.in_use_bytes / PARTS_WHEN_REMOVING).max(DIRTY_BYTES_WHEN_REMOVING);
        Pace {
            dirty_bytes_to_checkpoint: part.min(self.dirty_bytes_to_checkpoint),
            ..self
        }
    }

    /// Whether a checkpoint is due. It writes what is dirty, and brings two things: `log_bytes` less to
    /// apply after a crash, and places in the page file that can be written again. So it is made
    /// where it is cheap beside that, and else as late as the bounds allow. What that means for
    /// the length of log and file stands in `docs/engine.md`.
    pub(super) fn checkpoint_is_due(&self, log_bytes: u64, stats: &Stats) -> bool {
        let gain = log_bytes + stats.waiting_bytes;
        let is_worth_it =
            gain >= self.gain_bytes_to_checkpoint && gain / WORTH >= stats.dirty_bytes;
        is_worth_it
            || log_bytes >= self.log_bytes_to_checkpoint
            || stats.dirty_bytes >= self.dirty_bytes_to_checkpoint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn is_due(log: u64, dirty: u64, waiting: u64) -> bool {
        let stats = Stats {
            file_bytes: 1000 * MIB,
            in_use_bytes: 500 * MIB,
            waiting_bytes: waiting * MIB,
            vacant_bytes: 0,
            dirty_bytes: dirty * MIB,
            views: 0,
            viewed_bytes: 0,
            checkpoint: 0,
            oldest_view: 0,
            is_short: false,
        };
        Pace::default().checkpoint_is_due(log * MIB, &stats)
    }

    #[test]
    fn a_checkpoint_is_made_where_it_costs_little_and_else_at_the_bounds() {
        assert!(!is_due(15, 0, 0), "nothing much to bring");
        assert!(is_due(16, 4, 0), "a short log for few pages");
        assert!(!is_due(16, 5, 0), "pages that more puts will fall into");
        assert!(!is_due(127, 60, 0));
        assert!(is_due(128, 60, 0), "the longest log");
        assert!(is_due(0, 96, 0), "the most memory");
        assert!(is_due(1, 20, 80), "places are free after it");
        assert!(!is_due(1, 60, 80), "and would be of what it writes");
    }
}
