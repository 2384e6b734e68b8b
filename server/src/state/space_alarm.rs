//! Guards the space for the data: raises etcd's space alarm before the disk is full, and clears it
//! when there is space again. Plain values in and out; the shell looks at the disks.
//!
//! Each member decides for its own disks and its own quota. The decision goes through the log like
//! any alarm, so all members agree on what is refused.

use storage::vfs::DiskSpace;

/// The alarm is raised when less than this is available. Log, checkpoints and moves of pages use
/// it once the space that the store has reserved is used up.
const MARGIN_BYTES: u64 = 64 << 20;
/// On a small disk the margin is one part in this many of the disk.
const MARGIN_PART: u64 = 16;
/// Margins that must be available before the alarm is cleared.
const MARGINS_TO_CLEAR: u64 = 2;
/// One part in this many of the quota must be free before the alarm is cleared.
const QUOTA_PART_TO_CLEAR: u64 = 10;
/// Looks in a row that must find space before the alarm is cleared.
const LOOKS_TO_CLEAR: u32 = 2;

/// Clients may fill one part in this many of the available space until the next look. A record that
/// does not fit into the rest of a log file wastes that rest, which is smaller than the record.
const ROOM_PART: u64 = 2;
/// Of the space that would be available without it, one part in so many may be used for log that is
/// kept for members that were away.
const KEPT_PART: u64 = 8;
/// The disk is nearly full if fewer margins than this are available.
const MARGINS_WHEN_NEARLY_FULL: u64 = 16;

/// A log file is at most one part in this many of the disk, but not below [`SEGMENT_BYTES_MIN`].
const SEGMENT_PART: u64 = 32;
const SEGMENT_BYTES_MIN: u64 = 1 << 20;

/// What one look found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// `None`: the system does not report it.
    pub(crate) disk: Option<DiskSpace>,
    /// The store could not reserve space for what is only in memory, or the log for its next file.
    pub(crate) is_short: bool,
    pub(crate) in_use_bytes: u64,
    /// Bytes that the largest request refused since the alarm would have taken.
    pub(crate) refused_bytes: u64,
    /// This member's alarm is raised.
    pub(crate) raised: bool,
    /// This member raised the alarm, so it may clear it; a client must clear its own. Assumed after
    /// a restart, because it is not known then.
    pub(crate) is_own: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Requests that need space must be refused.
    pub(crate) is_low: bool,
    pub(crate) alarm: Option<Alarm>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alarm {
    Raise,
    Clear,
}

#[derive(Debug)]
pub(crate) struct Guard {
    /// 0: no quota.
    quota_bytes: u64,
    /// True if the alarm is cleared automatically when there is space.
    clears: bool,
    is_low: bool,
    looks_with_space: u32,
}

impl Guard {
    pub(crate) fn new(quota_bytes: u64, clears: bool) -> Guard {
        Guard {
            quota_bytes,
            clears,
            is_low: false,
            looks_with_space: 0,
        }
    }

    pub(crate) fn look(&mut self, seen: &Reading) -> Verdict {
        if let Some(disk) = seen.disk {
            let margin = margin(disk);
            self.is_low = if self.is_low {
                disk.available < margin.saturating_mul(MARGINS_TO_CLEAR)
            } else {
                disk.available < margin
            };
        }
        let is_low = self.is_low || seen.is_short;
        let alarm = match seen.raised {
            false if is_low => Some(Alarm::Raise),
            false => None,
            true => self.clear(is_low, seen),
        };
        Verdict { is_low, alarm }
    }

    fn clear(&mut self, is_low: bool, seen: &Reading) -> Option<Alarm> {
        let wanted = seen.in_use_bytes.saturating_add(seen.refused_bytes);
        let quota = self.quota_bytes - self.quota_bytes / QUOTA_PART_TO_CLEAR;
        let has_space = !is_low && (self.quota_bytes == 0 || wanted < quota);
        self.looks_with_space = if has_space {
            self.looks_with_space + 1
        } else {
            0
        };
        let clears = self.clears && seen.is_own && self.looks_with_space >= LOOKS_TO_CLEAR;
        clears.then(|| {
            self.looks_with_space = 0;
            Alarm::Clear
        })
    }
}

/// The disk that decides about the alarm: the one with the fewest margins left.
pub(crate) fn fuller(disks: [Option<DiskSpace>; 2]) -> Option<DiskSpace> {
    let margins = |disk: &DiskSpace| disk.available / margin(*disk).max(1);
    let known = disks.into_iter().flatten();
    known.min_by_key(|disk| (margins(disk), disk.available))
}

/// True if there is enough space for another file of the log.
pub(crate) fn has_plenty(disk: DiskSpace) -> bool {
    disk.available >= margin(disk).saturating_mul(MARGINS_TO_CLEAR)
}

/// Bytes that clients may write to the log until the next look.
pub(crate) fn room_for_log(disk: DiskSpace) -> u64 {
    disk.available / ROOM_PART
}

/// How many bytes of log may be kept for members that were away, where `kept` bytes are.
pub(crate) fn room_for_kept(disk: DiskSpace, kept: u64) -> u64 {
    disk.available.saturating_add(kept) / KEPT_PART
}

/// True if fast writers could soon fill the disk.
pub(crate) fn is_nearly_full(disk: DiskSpace) -> bool {
    disk.available < margin(disk).saturating_mul(MARGINS_WHEN_NEARLY_FULL)
}

fn margin(disk: DiskSpace) -> u64 {
    MARGIN_BYTES.min(disk.total / MARGIN_PART)
}

/// The size of a log file. Smaller than `usual` on a small disk, which the files would fill.
pub(crate) fn segment_bytes(disk: DiskSpace, usual: u64) -> u64 {
    usual.min((disk.total / SEGMENT_PART).max(SEGMENT_BYTES_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: u64 = 100 << 20;
    const MIB: u64 = 1 << 20;

    fn seen(available: u64, in_use_bytes: u64, raised: bool) -> Reading {
        Reading {
            disk: Some(DiskSpace {
                total: 10 << 30,
                available,
            }),
            is_short: false,
            in_use_bytes,
            refused_bytes: 0,
            raised,
            is_own: raised,
        }
    }

    fn alarms(guard: &mut Guard, seen: Reading, looks: usize) -> Vec<Option<Alarm>> {
        (0..looks).map(|_| guard.look(&seen).alarm).collect()
    }

    #[test]
    fn a_disk_nearly_full_raises_the_alarm_and_twice_the_margin_clears_it() {
        let mut guard = Guard::new(QUOTA, true);
        assert_eq!(guard.look(&seen(64 * MIB, 0, false)), Verdict::default());
        let low = guard.look(&seen(63 * MIB, 0, false));
        assert_eq!((low.is_low, low.alarm), (true, Some(Alarm::Raise)));
        // Slightly more space is not enough.
        assert_eq!(
            alarms(&mut guard, seen(127 * MIB, 0, true), 3),
            [None, None, None]
        );
        let clear = alarms(&mut guard, seen(128 * MIB, 0, true), 2);
        assert_eq!(clear, [None, Some(Alarm::Clear)]);
    }

    #[test]
    fn a_store_that_cannot_set_space_aside_raises_the_alarm_whatever_the_disk_says() {
        let mut guard = Guard::new(QUOTA, true);
        let short = Reading {
            is_short: true,
            ..seen(1 << 30, 0, false)
        };
        assert_eq!(guard.look(&short).alarm, Some(Alarm::Raise));
        let raised = Reading {
            raised: true,
            is_own: true,
            ..short
        };
        assert_eq!(alarms(&mut guard, raised, 3), [None, None, None]);
    }

    #[test]
    fn under_a_quota_the_alarm_goes_when_what_was_refused_would_fit_with_a_tenth_to_spare() {
        let mut guard = Guard::new(QUOTA, true);
        assert_eq!(guard.look(&seen(1 << 30, 99 * MIB, false)).alarm, None);
        let still = seen(1 << 30, 90 * MIB, true);
        assert_eq!(alarms(&mut guard, still, 3), [None, None, None]);
        let large = Reading {
            refused_bytes: 20 * MIB,
            ..seen(1 << 30, 80 * MIB, true)
        };
        assert_eq!(alarms(&mut guard, large, 3), [None, None, None]);
        let fits = seen(1 << 30, 80 * MIB, true);
        assert_eq!(alarms(&mut guard, fits, 2), [None, Some(Alarm::Clear)]);
    }

    #[test]
    fn an_alarm_stays_that_a_client_raised_or_when_told_so() {
        let free = seen(1 << 30, 0, false);
        let raised = Reading {
            is_own: false,
            ..seen(1 << 30, 0, true)
        };
        let mut guard = Guard::new(QUOTA, true);
        guard.look(&free);
        assert_eq!(alarms(&mut guard, raised, 3), [None, None, None]);
        let mut told = Guard::new(QUOTA, false);
        told.look(&free);
        let own = seen(1 << 30, 0, true);
        assert_eq!(alarms(&mut told, own, 3), [None, None, None]);
    }

    #[test]
    fn without_a_quota_only_the_disk_counts() {
        let mut guard = Guard::new(0, true);
        let clear = alarms(&mut guard, seen(1 << 30, 9 << 30, true), 2);
        assert_eq!(clear, [None, Some(Alarm::Clear)]);
    }

    #[test]
    fn the_alarm_goes_by_the_disk_that_is_nearer_to_its_end() {
        let disk = |total, available| Some(DiskSpace { total, available });
        let (large, small) = (disk(1 << 40, 100 * MIB), disk(48 * MIB, 40 * MIB));
        assert_eq!(fuller([large, small]), large);
        assert_eq!(fuller([small, large]), large);
        let full = disk(48 * MIB, 2 * MIB);
        assert_eq!(fuller([large, full]), full);
        assert_eq!(fuller([None, small]), small);
        assert_eq!(fuller([None, None]), None);
    }

    #[test]
    fn what_is_kept_of_the_log_gives_way_before_the_alarm() {
        let disk = |available| DiskSpace {
            total: 100 << 30,
            available,
        };
        assert_eq!(room_for_kept(disk(8 << 30), 0), 1 << 30);
        // Keeping it does not change how much may be kept.
        assert_eq!(room_for_kept(disk(7 << 30), 1 << 30), 1 << 30);
        let low = disk(MARGIN_BYTES);
        assert!(room_for_kept(low, 0) <= MARGIN_BYTES / KEPT_PART);
        assert!(room_for_kept(low, 1 << 30) < 1 << 30);
    }

    #[test]
    fn small_disks_get_small_margins_and_small_log_files() {
        let small = DiskSpace {
            total: 48 * MIB,
            available: 4 * MIB,
        };
        assert_eq!(margin(small), 3 * MIB);
        assert_eq!(segment_bytes(small, 64 * MIB), 3 * MIB / 2);
        let large = DiskSpace {
            total: 1 << 40,
            ..small
        };
        assert_eq!(margin(large), MARGIN_BYTES);
        assert_eq!(segment_bytes(large, 64 * MIB), 64 * MIB);
    }
}
