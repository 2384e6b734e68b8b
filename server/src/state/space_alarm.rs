//! Watches over the space that the data has: raises etcd's space alarm before the disk is full, and
//! takes it back once there is space again. Plain values in and out; the shell looks at the disk.
//!
//! Each member speaks for its own disk and its own quota. What it decides goes through the log like
//! any alarm, so all members agree on what is refused.

use storage::vfs::DiskSpace;

/// The alarm is raised when less than this is available: log, checkpoints and the moving of pages to
/// the front of the file go on in it, after what the store has set aside for itself is used up.
const MARGIN_BYTES: u64 = 64 << 20;
/// On a small disk the margin is one part in so many.
const MARGIN_PART: u64 = 16;
/// The alarm goes when so many margins are available.
const MARGINS_TO_CLEAR: u64 = 2;
/// The alarm goes when one part in so many of the quota is free.
const QUOTA_PART_TO_CLEAR: u64 = 10;
/// Looks in a row that must find space before the alarm goes.
const LOOKS_TO_CLEAR: u32 = 2;

/// The part of the available space that clients may fill until the next look. A record that does not
/// fit into the rest of a log file wastes that rest, at worst as much as it takes itself.
const ROOM_PART: u64 = 2;
/// Of the space that would be available without it, one part in so many may be used for log that is
/// kept for members that were away.
const KEPT_PART: u64 = 8;
/// With fewer margins than this available, the disk is nearly full.
const MARGINS_WHEN_NEARLY_FULL: u64 = 16;

/// The log's files are no larger than one part in so many of the disk, between these.
const SEGMENT_PART: u64 = 32;
const SEGMENT_BYTES_MIN: u64 = 1 << 20;

/// What is seen at a look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// `None`: the system does not tell.
    pub(crate) disk: Option<DiskSpace>,
    /// The store could not set space aside for what is in memory alone, or the log for its next file.
    pub(crate) is_short: bool,
    pub(crate) in_use_bytes: u64,
    /// What the largest request would have taken that was refused since the alarm.
    pub(crate) refused_bytes: u64,
    /// This member's alarm is raised.
    pub(crate) raised: bool,
    /// By this member, and not by a client, who is to take it back then. After a restart that is not
    /// known, and taken for granted.
    pub(crate) is_own: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// What needs space is to be refused.
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
    /// Take the alarm back when there is space.
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

/// The disk that the alarm goes by: the one with the fewest margins left.
pub(crate) fn fuller(disks: [Option<DiskSpace>; 2]) -> Option<DiskSpace> {
    let margins = |disk: &DiskSpace| disk.available / margin(*disk).max(1);
    let known = disks.into_iter().flatten();
    known.min_by_key(|disk| (margins(disk), disk.available))
}

/// Whether there is room enough for another file of the log.
pub(crate) fn has_plenty(disk: DiskSpace) -> bool {
    disk.available >= margin(disk).saturating_mul(MARGINS_TO_CLEAR)
}

/// How many bytes clients may write into the log until the next look.
pub(crate) fn room_for_log(disk: DiskSpace) -> u64 {
    disk.available / ROOM_PART
}

/// How many bytes of log may be kept for members that were away, where `kept` bytes are.
pub(crate) fn room_for_kept(disk: DiskSpace, kept: u64) -> u64 {
    disk.available.saturating_add(kept) / KEPT_PART
}

/// Whether fast writers could fill the disk before long.
pub(crate) fn is_nearly_full(disk: DiskSpace) -> bool {
    disk.available < margin(disk).saturating_mul(MARGINS_WHEN_NEARLY_FULL)
}

fn margin(disk: DiskSpace) -> u64 {
    MARGIN_BYTES.min(disk.total / MARGIN_PART)
}

/// The size of the log's files on a disk: on a small one they would be all of it.
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
        // A little more is not enough.
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
