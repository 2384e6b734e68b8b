//! When background work of the store starts, and in what portions: bounds, and one rule of cost.
//! Works on figures; does not touch the store.

use std::time::Duration;

use storage::encryption::DECRYPTED_BYTES;
use storage::mvcc::{ENTRY_BYTES_IN_MEMORY, KEY_BYTES_DIRECT, Stats, Store};
use storage::wal;

use crate::config::Config;

/// See [`BackgroundLimits::keys_deleted_at_once`].
pub(crate) const KEYS_DELETED_AT_ONCE: u64 = 16 << 10;

/// The budget of memory for which the other bounds were chosen.
const MEMORY_BUDGET: u64 = 160 << 20;

/// The changed pages that start a checkpoint, in hundredths of those at which entries wait for it.
const PERCENT_TO_CHECKPOINT: u64 = 60;

/// A checkpoint that no bound forces writes at most one byte for this many bytes that it gains.
const WORTH: u64 = 4;

/// While rows are removed, a checkpoint starts when one part in this many of the bytes in use is
/// dirty, but not below [`DIRTY_BYTES_WHEN_REMOVING`]. The next checkpoints reuse the pages that it
/// freed, so the file grows little.
const PARTS_WHEN_REMOVING: u64 = 4;
const DIRTY_BYTES_WHEN_REMOVING: u64 = 32 << 20;

/// While there are delta trees, places that wait for a checkpoint count as its gain only beyond one
/// part in this many of the bytes in use. A merge gives up every leaf of the key tree: it would have
/// a checkpoint made for each few leaves that it passes, and each would write the open delta tree.
const PARTS_WAITING_WITH_DELTAS: u64 = 8;

/// While space on the disk is low, this many bytes of log or of changed pages start a checkpoint.
/// Each one frees log files, and fits into the space that the store has reserved. Each one also
/// writes which space is free: where that is long, [`WORTH`] times its length starts one.
const BYTES_TO_CHECKPOINT_WHEN_LOW: u64 = 1 << 20;

/// What the log has beyond the last checkpoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unsaved {
    pub entries: u64,
    /// Of their data.
    pub bytes: u64,
    /// About how long a start would need to apply them; zero without a clock for that.
    pub replay: Duration,
}

impl Unsaved {
    /// Counts the processor's time that entries took to be applied, and the part of it that merges
    /// took. A start merges nothing, and needs less for the rest: it applies many entries at once,
    /// with several threads. Measured for puts: two fifths.
    pub(super) fn worked(&mut self, work: Duration, merges: Duration) {
        self.replay += work.saturating_sub(merges) * 2 / 5;
    }
}

/// Log since the last checkpoint that starts another. Bounds the replay at a start.
#[derive(Clone, Copy, Debug)]
pub struct LogBounds {
    pub bytes: u64,
    /// For entries that are so short that their bytes do not: a replay takes its time for each.
    pub entries: u64,
    /// Time to apply them at a start. A start has other work, too, of 50 to 100 ms, and applies what
    /// came while the checkpoint was written. Transactions reach this before the bounds above, and
    /// so do puts on a slow machine; without delta trees on most.
    pub replay: Duration,
}

impl LogBounds {
    /// While all changes of keys go into the key tree.
    pub const DIRECT: LogBounds = LogBounds {
        bytes: 128 << 20,
        entries: 400_000,
        replay: Duration::from_millis(250),
    };
    /// While changes of keys wait in delta trees: then most puts change a page of the page file that
    /// no put before them did, and a start must find and read it to apply them, some four
    /// microseconds for each, and more on a slow machine. A delta tree is written several times for it,
    /// which costs about 150 B a put.
    pub const WITH_DELTAS: LogBounds = LogBounds {
        bytes: 64 << 20,
        entries: 75_000,
        replay: Duration::from_millis(350),
    };
}

// What a checkpoint drops becomes spare files, beside the one that the log rolls over to.
const _: () = assert!(LogBounds::DIRECT.bytes < wal::SPARES_MAX as u64 * wal::SEGMENT_BYTES);

/// Bounds for background work. The simulation makes all of them small.
#[derive(Clone, Copy, Debug)]
pub struct BackgroundLimits {
    /// Least gain, in bytes of log and of reusable pages, for which a cheap checkpoint starts.
    pub gain_bytes_to_checkpoint: u64,
    /// Bytes of changed pages in memory that start a checkpoint. Mostly pages of the key tree,
    /// because history is written as it grows. A key tree that changes go into directly is smaller than
    /// this, and the log decides. With more keys this bounds memory.
    pub dirty_bytes_to_checkpoint: u64,
    /// Bytes of changed pages at which entries wait for the running checkpoint.
    pub dirty_bytes_max: u64,
    /// Bytes of changed pages that one entry keeps in memory: it writes them when there are more.
    pub entry_bytes_in_memory: u64,
    /// Keys that an entry deletes at once: the tombstones of a larger range are written in steps,
    /// between other entries.
    pub keys_deleted_at_once: u64,
    /// Keys whose tombstones one such step writes: some milliseconds.
    pub delete_step_keys: usize,
    /// Pause between two such steps; the simulation has other entries come in between.
    pub delete_pause: Duration,
    /// Bytes of log since the last checkpoint at which further deletions are written at once: no
    /// checkpoint begins before those under way are written.
    pub log_bytes_while_deleting: u64,
    /// Bytes of leaves of the key tree beyond which changes are collected in delta trees.
    pub key_bytes_direct: u64,
    /// Bytes of decrypted pages of an encrypted store.
    pub decrypted_bytes_max: u64,
    /// [`LogBounds::DIRECT`].
    pub log: LogBounds,
    /// [`LogBounds::WITH_DELTAS`].
    pub log_with_deltas: LogBounds,
    /// With fewer bytes of log the time of a replay does not count: a checkpoint writes a delta tree
    /// anew, and with more of them a put would write more than a start may gain.
    pub log_bytes_for_replay: u64,
    /// Rows removed in one step of a compaction. Entries are applied between steps.
    pub compact_step_rows: usize,
    /// Pause between two such steps, unless the space is needed.
    pub compact_pause: Duration,
}

impl Default for BackgroundLimits {
    fn default() -> BackgroundLimits {
        BackgroundLimits {
            gain_bytes_to_checkpoint: 16 << 20,
            dirty_bytes_to_checkpoint: MEMORY_BUDGET / 100 * PERCENT_TO_CHECKPOINT,
            dirty_bytes_max: MEMORY_BUDGET,
            entry_bytes_in_memory: ENTRY_BYTES_IN_MEMORY,
            keys_deleted_at_once: KEYS_DELETED_AT_ONCE,
            delete_step_keys: 2048,
            delete_pause: Duration::ZERO,
            log_bytes_while_deleting: 1 << 30,
            key_bytes_direct: KEY_BYTES_DIRECT,
            decrypted_bytes_max: DECRYPTED_BYTES,
            log: LogBounds::DIRECT,
            log_with_deltas: LogBounds::WITH_DELTAS,
            log_bytes_for_replay: 16 << 20,
            compact_step_rows: 256,
            compact_pause: Duration::ZERO,
        }
    }
}

impl BackgroundLimits {
    /// Reads `--memory-budget-bytes`, `--snapshot-count`, `--compaction-batch-limit` and
    /// `--compaction-sleep-interval`.
    pub fn of(config: &Config) -> BackgroundLimits {
        let usual = BackgroundLimits::within(config.memory_budget());
        let log = |usual: LogBounds| LogBounds {
            entries: config.checkpoint_entries.unwrap_or(usual.entries),
            ..usual
        };
        BackgroundLimits {
            log: log(usual.log),
            log_with_deltas: log(usual.log_with_deltas),
            compact_step_rows: config
                .compaction_batch_limit
                .unwrap_or(usual.compact_step_rows),
            compact_pause: config.compaction_sleep_interval.unwrap_or_default(),
            ..usual
        }
    }

    /// For so many bytes of changed pages at most.
    fn within(budget: u64) -> BackgroundLimits {
        let usual = BackgroundLimits::default();
        let part = |usual: u64| {
            (u128::from(usual) * u128::from(budget) / u128::from(MEMORY_BUDGET)) as u64
        };
        BackgroundLimits {
            dirty_bytes_to_checkpoint: part(usual.dirty_bytes_to_checkpoint),
            dirty_bytes_max: budget,
            entry_bytes_in_memory: part(usual.entry_bytes_in_memory),
            key_bytes_direct: part(usual.key_bytes_direct),
            decrypted_bytes_max: part(usual.decrypted_bytes_max),
            ..usual
        }
    }

    /// Tells the store its part of the bounds.
    pub(crate) fn bound(&self, store: &mut Store) {
        store.set_entry_bytes_in_memory(self.entry_bytes_in_memory);
        store.set_key_bytes_direct(self.key_bytes_direct);
        store.set_decrypted_bytes_max(self.decrypted_bytes_max);
    }

    /// The bounds while space on the disk is low.
    pub(super) fn when_low(self, stats: &Stats) -> BackgroundLimits {
        let least = (WORTH * stats.list_bytes).max(BYTES_TO_CHECKPOINT_WHEN_LOW);
        let low = |usual: u64| usual.min(least);
        let log = |usual: LogBounds| LogBounds {
            bytes: low(usual.bytes),
            ..usual
        };
        BackgroundLimits {
            dirty_bytes_to_checkpoint: low(self.dirty_bytes_to_checkpoint),
            log: log(self.log),
            log_with_deltas: log(self.log_with_deltas),
            ..self
        }
    }

    /// The bounds while compacted rows are removed.
    pub(super) fn when_removing(self, stats: &Stats) -> BackgroundLimits {
        let part = (stats.in_use_bytes / PARTS_WHEN_REMOVING).max(DIRTY_BYTES_WHEN_REMOVING);
        BackgroundLimits {
            dirty_bytes_to_checkpoint: part.min(self.dirty_bytes_to_checkpoint),
            ..self
        }
    }

    /// Whether a checkpoint is due. It writes the dirty pages and which space is free. It gains
    /// what is `unsaved`: so much less to replay after a crash, and pages of the file that can be
    /// reused. It starts when it is cheap compared with that gain, otherwise as late as the bounds
    /// allow. `docs/engine.md` says what this means for the length of log and file.
    pub(super) fn checkpoint_is_due(&self, unsaved: Unsaved, stats: &Stats) -> bool {
        let (bounds, spare) = if stats.has_deltas {
            let spare = stats.in_use_bytes / PARTS_WAITING_WITH_DELTAS;
            (self.log_with_deltas, spare)
        } else {
            (self.log, 0)
        };
        let gain = unsaved.bytes + stats.waiting_bytes.saturating_sub(spare);
        let cost = stats.dirty_bytes + stats.list_bytes;
        let is_worth_it = gain >= self.gain_bytes_to_checkpoint && gain / WORTH >= cost;
        let counts = unsaved.bytes >= self.log_bytes_for_replay;
        let takes_long = counts && unsaved.replay >= bounds.replay;
        is_worth_it
            || unsaved.bytes >= bounds.bytes
            || unsaved.entries >= bounds.entries
            || takes_long
            || stats.dirty_bytes >= self.dirty_bytes_to_checkpoint
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn stats(dirty: u64, waiting: u64) -> Stats {
        Stats {
            file_bytes: 1000 * MIB,
            in_use_bytes: 500 * MIB,
            waiting_bytes: waiting * MIB,
            vacant_bytes: 0,
            dirty_bytes: dirty * MIB,
            list_bytes: 0,
            has_deltas: false,
            views: 0,
            viewed_bytes: 0,
            checkpoint: 0,
            oldest_view: 0,
            is_short: false,
        }
    }

    fn of_log(mib: u64) -> Unsaved {
        Unsaved {
            entries: 1,
            bytes: mib * MIB,
            ..Unsaved::default()
        }
    }

    fn is_due(log: u64, dirty: u64, waiting: u64) -> bool {
        BackgroundLimits::default().checkpoint_is_due(of_log(log), &stats(dirty, waiting))
    }

    #[test]
    fn a_smaller_budget_of_memory_bounds_all_that_changes() {
        let usual = BackgroundLimits::default();
        let same = BackgroundLimits::within(usual.dirty_bytes_max);
        let of = |limits: BackgroundLimits| {
            let by_memory = [limits.dirty_bytes_to_checkpoint, limits.dirty_bytes_max];
            let of_store = [
                limits.entry_bytes_in_memory,
                limits.key_bytes_direct,
                limits.decrypted_bytes_max,
            ];
            [&by_memory[..], &of_store].concat()
        };
        assert_eq!(of(same), of(usual));
        let quarter = BackgroundLimits::within(usual.dirty_bytes_max / 4);
        let quarters: Vec<u64> = of(usual).iter().map(|bytes| bytes / 4).collect();
        assert_eq!(of(quarter), quarters);
        assert!(quarter.checkpoint_is_due(of_log(1), &stats(24, 0)));
        assert!(!usual.checkpoint_is_due(of_log(1), &stats(24, 0)));
    }

    #[test]
    fn a_checkpoint_is_made_sooner_while_there_are_deltas() {
        let limits = BackgroundLimits::default();
        let with_deltas = Stats {
            has_deltas: true,
            ..stats(60, 0)
        };
        assert!(!limits.checkpoint_is_due(of_log(63), &with_deltas));
        assert!(limits.checkpoint_is_due(of_log(64), &with_deltas));
        let low = limits.when_low(&with_deltas);
        assert!(low.checkpoint_is_due(of_log(1), &with_deltas));
    }

    #[test]
    fn a_checkpoint_bounds_the_entries_that_a_start_has_to_apply() {
        let limits = BackgroundLimits::default();
        let short = |entries| Unsaved {
            entries,
            bytes: 1,
            ..Unsaved::default()
        };
        for (has_deltas, most) in [
            (false, limits.log.entries),
            (true, limits.log_with_deltas.entries),
        ] {
            let stats = Stats {
                has_deltas,
                ..stats(60, 0)
            };
            assert!(!limits.checkpoint_is_due(short(most - 1), &stats));
            assert!(limits.checkpoint_is_due(short(most), &stats));
        }
    }

    #[test]
    fn a_checkpoint_bounds_the_time_that_a_start_needs_to_apply_entries() {
        let limits = BackgroundLimits::default();
        let least = limits.log_bytes_for_replay;
        for (has_deltas, most) in [
            (false, limits.log.replay),
            (true, limits.log_with_deltas.replay),
        ] {
            let is_due = |replay, bytes| {
                let unsaved = Unsaved {
                    entries: 1,
                    bytes,
                    replay,
                };
                let stats = Stats {
                    has_deltas,
                    ..stats(60, 0)
                };
                limits.checkpoint_is_due(unsaved, &stats)
            };
            assert!(is_due(most, least));
            assert!(!is_due(most - Duration::from_millis(1), least));
            assert!(
                !is_due(most * 9, least - 1),
                "it would save next to nothing"
            );
        }
    }

    #[test]
    fn a_start_needs_a_part_of_the_time_and_nothing_for_merges() {
        let mut unsaved = Unsaved::default();
        unsaved.worked(Duration::from_secs(1), Duration::ZERO);
        assert_eq!(unsaved.replay, Duration::from_millis(400));
        unsaved.worked(Duration::from_secs(3), Duration::from_secs(2));
        assert_eq!(unsaved.replay, Duration::from_millis(800));
    }

    #[test]
    fn what_a_merge_gives_up_counts_only_where_the_file_would_grow_by_much() {
        let limits = BackgroundLimits::default();
        let merging = |waiting| Stats {
            has_deltas: true,
            ..stats(4, waiting)
        };
        // Of 500 MiB in use, an eighth is 62.
        assert!(!limits.checkpoint_is_due(of_log(1), &merging(60)));
        assert!(limits.checkpoint_is_due(of_log(1), &merging(80)));
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

    #[test]
    fn long_lists_of_free_places_are_written_only_for_several_times_their_length() {
        let limits = BackgroundLimits::default();
        let fragmented = Stats {
            list_bytes: 8 * MIB,
            ..stats(2, 0)
        };
        assert!(!limits.checkpoint_is_due(of_log(39), &fragmented));
        assert!(limits.checkpoint_is_due(of_log(40), &fragmented));
        let low = limits.when_low(&fragmented);
        assert!(!low.checkpoint_is_due(of_log(31), &fragmented));
        assert!(low.checkpoint_is_due(of_log(32), &fragmented));
    }
}
